// The backward pass on a device. What the forward pass did not keep is computed again from what it kept.
#pragma once
#include "cuda/device_transformer.h"

template <class Device, class T>
std::vector<TokenLoss> DeviceTransformer<Device, T>::forward_backward(const Batch & batch, Adapter & adapter, const std::vector<Ask> & asks) {
    // A pass adds to the gradients. So a pass that ran in part can run again only if the gradients were clear before it.
    const bool clear = !adapters_.touched(adapter);
    try {
        return train(batch, adapter, asks);
    } catch (const Failure & failure) {
        if (failure.code != "out_of_memory" || !clear || !give_back()) throw;
    }
    adapters_.clear_copy(adapter);
    return train(batch, adapter, asks);
}

template <class Device, class T>
std::vector<TokenLoss> DeviceTransformer<Device, T>::train(const Batch & batch, Adapter & adapter, const std::vector<Ask> & asks) {
    begin(batch, &adapter, asks, nullptr, Keep::activations);
    copy_->touched = true;
    // From here on the device's work depends only on what step_key() holds, so it can be recorded once and repeated.
    device_->replay(step_key(), [&] {
        forward_layers(&adapter, nullptr, false);
        head(true);
        backward_layers(adapter);
    });
    return losses(asks);
}

template <class Device, class T>
const T * DeviceTransformer<Device, T>::added_back(const float * post_norm, int64_t added, int64_t inv) {
    if (!post_norm) return dstream();
    device_->launch(gpu::PostNormBackward<T>{at<T>(added), post_norm, at<float>(inv), at<float>(plan_.dstream), shape().embedding, at<T>(plan_.dadded)}, tokens(), 1, wide);
    return at<T>(plan_.dadded);
}

template <class Device, class T>
void DeviceTransformer<Device, T>::norm_again(const float * w, int64_t x, int64_t inv) {
    device_->launch(gpu::RmsNormAgain<T>{at<T>(x), w, at<float>(inv), shape().embedding, at<T>(plan_.normed)}, tokens(), 1, wide);
}

template <class Device, class T>
void DeviceTransformer<Device, T>::norm_back(const float * w, int64_t x, int64_t inv) {
    device_->launch(gpu::RmsNormBackward<T, T>{at<T>(x), nullptr, w, at<float>(inv), at<float>(plan_.dnormed), shape().embedding, at<float>(plan_.dstream), dstream_copy()}, tokens(), 1, wide);
}

template <class Device, class T>
void DeviceTransformer<Device, T>::backward_layers(const Adapter & adapter) {
    const int64_t d = shape().embedding;
    float * dx = at<float>(plan_.dstream);
    device_->clear(dx, tokens() * d * 4);
    device_->launch(gpu::RmsNormBackward<float, T>{at<float>(plan_.stream), at<int32_t>(plan_.ask_rows), weights_.output_norm, at<float>(plan_.asked_inv), at<float>(plan_.dasked), d, dx, nullptr},
                    plan_.size.asks, 1, wide);
    if (number == Number::bf16)
        gpu::with_chunk<T>(tokens() * d, [&](auto n) { device_->launch(gpu::Cast<T, decltype(n)::value>{dx, tokens() * d, dstream()}, blocks(tokens() * d, n * wide), 1, wide); });
    for (size_t layer = weights_.layers.size(); layer-- > static_cast<size_t>(adapter.shape.first_layer);) {
        feed_forward_back(adapter, layer);
        attention_back(adapter, layer);
    }
}

template <class Device, class T>
void DeviceTransformer<Device, T>::feed_forward_back(const Adapter & adapter, size_t layer) {
    const DeviceLayer & w = weights_.layers[layer];
    const LayerOffsets & l = offsets(layer);
    const auto & groups = adapter.layers[layer];
    const int64_t d = shape().embedding, ff = shape().feed_forward;
    T *gate_up = at<T>(l.gate_up), *made = at<T>(plan_.product), *dmade = at<T>(plan_.dproduct), *du = at<T>(plan_.du);
    const T * dadded = added_back(w.ffn_post_norm, l.ffn_added, l.ffn_added_inv);
    glu(gate_up, made);
    product_back(dadded, d, tokens(), dense({&w.ffn_down}), d, ff, dmade, number);
    lora_back(adapter, groups[group_down], made, tokens(), at<T>(l.u[group_down]), du, {{ffn_down, const_cast<T *>(dadded), d, number}}, dmade, number, plan_.origins);
    gpu::with_chunk<T>(ff, [&](auto n) { device_->launch(gpu::GluBackward<T, decltype(n)::value>{gate_up, dmade, ff, activation()}, blocks(ff, n * wide), tokens(), wide); });
    norm_again(w.ffn_norm, l.x_mid, l.ffn_inv);
    float * dh = at<float>(plan_.dnormed);
    product_back(gate_up, 2 * ff, tokens(), dense({&w.ffn_gate, &w.ffn_up}), 2 * ff, d, dh, Number::f32);
    lora_back(adapter, groups[group_gate_up], at<T>(plan_.normed), tokens(), at<T>(l.u[group_gate_up]), du, gate_up_sides(gate_up), dh, Number::f32, plan_.origins);
    norm_back(w.ffn_norm, l.x_mid, l.ffn_inv);
}

template <class Device, class T>
void DeviceTransformer<Device, T>::attention_back(const Adapter & adapter, size_t layer) {
    const DeviceLayer & w = weights_.layers[layer];
    const LayerOffsets & l = offsets(layer);
    const auto & groups = adapter.layers[layer];
    const int64_t d = shape().embedding, q = q_width(), kv = kv_width();
    const bool lowest = layer == static_cast<size_t>(adapter.shape.first_layer);
    if (lowest && groups[group_qkv].sites.empty() && groups[group_output].sites.empty()) return;
    T *dattended = at<T>(plan_.dattended), *dqkv = at<T>(plan_.dqkv), *du = at<T>(plan_.du);
    const T * dadded = added_back(w.attn_post_norm, l.attn_added, l.attn_added_inv);
    product_back(dadded, d, tokens(), dense({&w.attn_output}), d, q, dattended, number);
    lora_back(adapter, groups[group_output], at<T>(l.attended), tokens(), at<T>(l.u[group_output]), du, {{attn_output, const_cast<T *>(dadded), d, number}}, dattended, number, plan_.origins);
    if (lowest && groups[group_qkv].sites.empty()) return;
    float * delta = at<float>(plan_.delta);
    attention_backward(*device_, inputs(w, heads(l)), spans(), at<T>(l.attended), delta,
                       gpu::AttentionGradients<T>{dattended, at<float>(l.lse), delta, dqkv, dqkv + q, dqkv + q + kv, qkv_width(), qkv_width(), qkv_width()});
    rotate(w, dqkv, qkv_width(), -1);
    if (shape().head_norms) {
        const int64_t both = shape().heads + shape().kv_heads;
        device_->launch(gpu::HeadNormBackward<T>{at<T>(l.qkv), qkv_width(), {w.q_norm, w.k_norm, shape().heads}, at<float>(l.head_inv), shape().head_values, both, dqkv, qkv_width()}, tokens(), both, 32);
    }
    norm_again(w.attn_norm, l.x, l.attn_inv);
    float * dh = at<float>(plan_.dnormed);
    if (!lowest) product_back(dqkv, qkv_width(), tokens(), dense({&w.attn_q, &w.attn_k, &w.attn_v}), qkv_width(), d, dh, Number::f32);
    lora_back(adapter, groups[group_qkv], at<T>(plan_.normed), tokens(), at<T>(l.u[group_qkv]), du, qkv_sides(dqkv), lowest ? nullptr : dh, Number::f32, plan_.origins);
    if (!lowest) norm_back(w.attn_norm, l.x, l.attn_inv);
}
