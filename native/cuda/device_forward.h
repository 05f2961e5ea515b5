// The forward pass on a device: the layers, then the head over chunks of the asked rows.
#pragma once
#include "cuda/device_transformer.h"

template <class Device, class T>
std::vector<TokenLoss> DeviceTransformer<Device, T>::forward(const Batch & batch, const Adapter * adapter, const std::vector<Ask> & asks, int64_t top_k) {
    return twice_when_short([&] {
        begin(batch, adapter, asks, nullptr, Keep::nothing);
        forward_layers(adapter, nullptr, false);
        if (top_k > 0) return most_likely(asks, top_k);
        head(false);
        return losses(asks);
    });
}

/** The CPU picks the most likely tokens. */
template <class Device, class T>
std::vector<TokenLoss> DeviceTransformer<Device, T>::most_likely(const std::vector<Ask> & asks, int64_t top_k) {
    std::vector<TokenLoss> result(asks.size());
    each_chunk_of_logits(static_cast<int64_t>(asks.size()), [&](int64_t first, int64_t count, float * logits) {
        pool_.split(count, 1, [&](int64_t from, int64_t end, int) {
            for (int64_t i = from; i < end; i++) {
                const Ask & ask = asks[static_cast<size_t>(first + i)];
                float * row = logits + i * shape().vocabulary;
                TokenLoss & loss = result[static_cast<size_t>(first + i)];
                loss = token_loss(row, shape().vocabulary, ask.target, ask.soft);
                loss.top = top_tokens(row, shape().vocabulary, loss.log_sum, top_k);
            }
        });
    });
    return result;
}

template <class Device, class T>
void DeviceTransformer<Device, T>::rotate(const DeviceLayer & w, T * x, int64_t stride, float direction) {
    const ModelShape & m = shape();
    device_->launch(gpu::Rope<T>{x, stride, static_cast<int32_t>(m.heads + m.kv_heads), static_cast<int32_t>(m.head_values), at<int32_t>(plan_.positions), weights_.ropes[w.rope],
                                 m.rope_pairs == RopePairs::halves, direction},
                    tokens(), 1, 128);
}

template <class Device, class T>
void DeviceTransformer<Device, T>::glu(const T * gate_up, T * made) {
    const int64_t ff = shape().feed_forward;
    gpu::with_chunk<T>(ff, [&](auto n) { device_->launch(gpu::Glu<T, decltype(n)::value>{gate_up, ff, activation(), made}, blocks(ff, n * wide), tokens(), wide); });
}

template <class Device, class T>
void DeviceTransformer<Device, T>::place_heads(const DeviceLayer & w, const LayerOffsets & l) {
    T * qkv = at<T>(l.qkv);
    if (w.qkv_bias) device_->launch(gpu::AddBias<T>{qkv, qkv_width(), qkv_width(), w.qkv_bias}, blocks(qkv_width(), wide), tokens(), wide);
    const Heads h = heads(l); // k's heads follow q's
    if (shape().head_norms) {
        const int64_t both = shape().heads + shape().kv_heads;
        device_->launch(gpu::HeadNorm<T>{qkv, qkv_width(), {w.q_norm, w.k_norm, shape().heads}, shape().norm_eps, shape().head_values, both, h.q, h.q_stride, at<float>(l.head_inv)}, tokens(), both, 32);
    }
    rotate(w, h.q, h.q_stride, 1);
}

template <class Device, class T>
void DeviceTransformer<Device, T>::attend(const DeviceLayer & w, const LayerOffsets & l, size_t layer, PlaceCache * cache, bool one_token) {
    if (cache) keep_in_cache(l, layer, *cache);
    if (one_token) return attend_to_cache(w, l, layer, *cache);
    attention_forward(*device_, inputs(w, heads(l)), spans(), at<T>(l.attended), at<float>(l.lse));
}

template <class Device, class T>
void DeviceTransformer<Device, T>::forward_layers(const Adapter * adapter, PlaceCache * cache, bool one_token, const LayerWatch * watch) {
    const int64_t d = shape().embedding;
    float * x = at<float>(plan_.stream);
    with_type(weights_.embedding.type, [&](auto type) {
        device_->launch(gpu::Embed<decltype(type)::value>{weights_.embedding.data, at<int32_t>(plan_.tokens), d, shape().embedding_scale, x}, blocks(d, wide), tokens(), wide);
    });
    for (size_t layer = 0; layer < weights_.layers.size(); layer++) {
        const DeviceLayer & w = weights_.layers[layer];
        const LayerOffsets & l = offsets(layer);
        const std::array<Group, groups_per_layer> * groups = adapter ? &adapter->layers[layer] : nullptr;
        T * h = at<T>(plan_.normed);
        device_->launch(gpu::RmsNorm<T>{x, nullptr, w.attn_norm, shape().norm_eps, d, h, at<T>(l.x), at<float>(l.attn_inv)}, tokens(), 1, wide);
        T * qkv = at<T>(l.qkv);
        product(h, tokens(), dense({&w.attn_q, &w.attn_k, &w.attn_v}), qkv_width(), d, 0, qkv, qkv_width(), number);
        if (groups) lora(*adapter, (*groups)[group_qkv], h, tokens(), at<T>(l.u[group_qkv]), qkv_sides(qkv), plan_.origins);
        place_heads(w, l);
        attend(w, l, layer, cache, one_token);
        add(adapter, groups ? &(*groups)[group_output] : nullptr, attn_output, w.attn_output, at<T>(l.attended), at<T>(l.u[group_output]), w.attn_post_norm, l.attn_added, l.attn_added_inv);
        feed_forward(adapter, groups, w, l);
        if (watch && watch->wants(static_cast<int64_t>(layer))) show(static_cast<int64_t>(layer), l, *watch);
    }
}

/** Only begin() may run twice: layers that were shown to the caller must not be shown again. */
template <class Device, class T>
void DeviceTransformer<Device, T>::watch(const Batch & batch, const Adapter * adapter, const LayerWatch & watch) {
    twice_when_short([&] { begin(batch, adapter, {}, nullptr, Keep::nothing); });
    forward_layers(adapter, nullptr, false, &watch);
}

template <class Device, class T>
void DeviceTransformer<Device, T>::show(int64_t layer, const LayerOffsets & l, const LayerWatch & watch) {
    const auto read = [&](const auto * from, int64_t width) {
        std::vector<std::decay_t<decltype(*from)>> stored(static_cast<size_t>(tokens() * width));
        device_->read(stored.data(), from, static_cast<int64_t>(stored.size() * sizeof(*from)));
        std::vector<float> values(stored.size());
        for (size_t i = 0; i < stored.size(); i++) values[i] = gpu::get(stored[i]);
        return values;
    };
    const std::vector<float> residual = read(at<float>(plan_.stream), shape().embedding), attended = read(at<T>(l.attended), q_width()), made = read(at<T>(plan_.product), shape().feed_forward);
    watch.see(layer, {residual.data(), attended.data(), made.data()});
}

template <class Device, class T>
void DeviceTransformer<Device, T>::add(const Adapter * adapter, const Group * group, Target target, const DeviceMatrix & matrix, const T * input, T * u, const float * post_norm, int64_t added, int64_t inv) {
    const int64_t d = shape().embedding;
    float *x = at<float>(plan_.stream), *y = post_norm ? at<float>(plan_.added) : x;
    product(input, tokens(), dense({&matrix}), matrix.rows, matrix.columns, post_norm ? 0 : 1, y, d, Number::f32);
    if (group) lora(*adapter, *group, input, tokens(), u, {{target, y, d, Number::f32}}, plan_.origins);
    if (post_norm) device_->launch(gpu::PostNorm<T>{y, post_norm, shape().norm_eps, d, at<T>(added), at<float>(inv), x}, tokens(), 1, wide);
}

template <class Device, class T>
void DeviceTransformer<Device, T>::feed_forward(const Adapter * adapter, const std::array<Group, groups_per_layer> * groups, const DeviceLayer & w, const LayerOffsets & l) {
    const int64_t d = shape().embedding, ff = shape().feed_forward;
    T *h = at<T>(plan_.normed), *gate_up = at<T>(l.gate_up), *made = at<T>(plan_.product);
    device_->launch(gpu::RmsNorm<T>{at<float>(plan_.stream), nullptr, w.ffn_norm, shape().norm_eps, d, h, at<T>(l.x_mid), at<float>(l.ffn_inv)}, tokens(), 1, wide);
    product(h, tokens(), dense({&w.ffn_gate, &w.ffn_up}), 2 * ff, d, 0, gate_up, 2 * ff, number);
    if (groups) lora(*adapter, (*groups)[group_gate_up], h, tokens(), at<T>(l.u[group_gate_up]), gate_up_sides(gate_up), plan_.origins);
    glu(gate_up, made);
    add(adapter, groups ? &(*groups)[group_down] : nullptr, ffn_down, w.ffn_down, made, at<T>(l.u[group_down]), w.ffn_post_norm, l.ffn_added, l.ffn_added_inv);
}

template <class Device, class T>
T * DeviceTransformer<Device, T>::ask() {
    device_->launch(gpu::RmsNorm<T>{at<float>(plan_.stream), at<int32_t>(plan_.ask_rows), weights_.output_norm, shape().norm_eps, shape().embedding, at<T>(plan_.asked), nullptr,
                                    at<float>(plan_.asked_inv)},
                    plan_.size.asks, 1, wide);
    return dense({&weights_.head});
}

template <class Device, class T>
float * DeviceTransformer<Device, T>::make_logits(const T * w, int64_t first, int64_t rows) {
    float * logits = at<float>(plan_.logits);
    const T * asked = at<T>(plan_.asked) + first * shape().embedding;
    product(asked, rows, w, shape().vocabulary, shape().embedding, 0, logits, shape().vocabulary, Number::f32);
    if (adapter_) lora(*adapter_, adapter_->head, asked, rows, at<T>(plan_.head_u), {{output_head, logits, shape().vocabulary, Number::f32}}, plan_.ask_origins + first * 8);
    return logits;
}

template <class Device, class T>
void DeviceTransformer<Device, T>::head(bool training) {
    const T * w = ask();
    const int64_t d = shape().embedding, v = shape().vocabulary;
    T * dlogits = !training ? nullptr : number == Number::bf16 ? at<T>(plan_.dlogits) : at<T>(plan_.logits);
    for (int64_t first = 0; first < plan_.size.asks; first += plan_.logits_rows) {
        const int64_t rows = std::min(plan_.logits_rows, plan_.size.asks - first);
        const float * logits = make_logits(w, first, rows);
        device_->launch(gpu::TokenLossRows<T>{logits, v, at<int32_t>(plan_.targets) + first, at<float>(plan_.coefficients) + 3 * first, at<int32_t>(plan_.soft_begin) + first,
                                              at<int32_t>(plan_.soft_tokens), at<float>(plan_.soft_weights), at<gpu::RowLoss>(plan_.losses) + first, at<float>(plan_.soft_logprobs), dlogits},
                        rows, 1, 512);
        if (!training) continue;
        float * dasked = at<float>(plan_.dasked) + first * d;
        product_back(dlogits, v, rows, w, v, d, dasked, Number::f32);
        lora_back(*adapter_, adapter_->head, at<T>(plan_.asked) + first * d, rows, at<T>(plan_.head_u), at<T>(plan_.head_du), {{output_head, dlogits, v, number}}, dasked, Number::f32,
                  plan_.ask_origins + first * 8);
    }
}

template <class Device, class T>
template <class F>
void DeviceTransformer<Device, T>::each_chunk_of_logits(int64_t count, const F & f) {
    const T * w = ask();
    std::vector<float> host;
    for (int64_t first = 0; first < count; first += plan_.logits_rows) {
        const int64_t rows = std::min(plan_.logits_rows, count - first);
        const float * logits = make_logits(w, first, rows);
        host.resize(static_cast<size_t>(rows * shape().vocabulary));
        device_->read(host.data(), logits, rows * shape().vocabulary * 4);
        f(first, rows, host.data());
    }
}
