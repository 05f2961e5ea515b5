#include <algorithm>
#include <cstring>

#include "kernels/fault.h"
#include "kernels/geglu.h"
#include "kernels/gemm.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "model/transformer.h"

/**
 * Computes rows.du [count, group width], the gradient of u. Returns the LoRA's part of the gradient of the group's input, which is computed
 * together with that of the frozen products. Returns nothing when the input was dropped: lora_gradients then adds that part.
 */
LowRank Transformer::lora_input_gradient(const Adapter & adapter, const Group & group, const LoraRows & rows, const std::vector<const float *> & dys) {
    if (group.sites.empty()) return {};
    const Timed timed(profile_, Op::lora, flops_of_b(group, rows.count));
    std::vector<TiledGemm> products;
    for (size_t i = 0; i < group.sites.size(); i++) {
        const Site & site = group.sites[i];
        products.push_back({Side::plain, Side::plain, rows.count, adapter.shape.rank, site.rows, adapter.scale(), dys[i], site.rows, adapter.weights.data() + site.b, adapter.shape.rank,
                            false, rows.du + site.u, group.width});
    }
    multiply(products);
    if (rows.origins) return {};
    return {group.width, rows.du, group.width, adapter.weights.data() + group.a, 1};
}

/**
 * Adds to the gradients of A and B. When the input was dropped, it also adds to dx what goes through the dropped input, unless dx is null.
 * Call it after lora_input_gradient.
 */
void Transformer::lora_gradients(Adapter & adapter, const Group & group, const LoraRows & rows, const float * x, const float * u, const std::vector<const float *> & dys, float * dx) {
    if (group.sites.empty()) return;
    const double of_a = flops_of_a(group, rows.count);
    const Timed timed(profile_, Op::lora, flops_of_b(group, rows.count) + (rows.origins && dx ? 2 : 1) * of_a);
    float * g = adapter.gradients.data();
    const int64_t rank = adapter.shape.rank, columns = group.columns, count = rows.count;
    std::vector<TiledGemm> products;
    for (size_t i = 0; i < group.sites.size(); i++) {
        const Site & site = group.sites[i];
        products.push_back({Side::transposed, Side::plain, site.rows, rank, count, adapter.scale(), dys[i], site.rows, u + site.u, group.width, true, g + site.b, rank});
    }
    const TiledGemm gradient_of_a{Side::transposed, Side::plain, group.width, columns, count, 1, rows.du, group.width, rows.origins ? rows.dropped : x, columns, true, g + group.a, columns};
    if (!rows.origins) {
        products.push_back(gradient_of_a);
        return multiply(products);
    }
    if (dx) products.push_back({Side::plain, Side::plain, count, columns, group.width, 1, rows.du, group.width, adapter.weights.data() + group.a, columns, false, rows.dropped, columns});
    multiply(products);
    // So far rows.dropped holds the gradient of the dropped input. Now it gets the dropped input itself.
    const Dropout dropping(adapter.shape.dropout);
    pool_.split(count, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++) {
            const uint64_t key = adapter.dropout_key(group, rows.origins[t]);
            float * dropped = rows.dropped + t * columns;
            if (dx)
                dropout_backward(dropping, key, x + t * columns, columns, dropped, dx + t * columns);
            else
                dropout(dropping, key, x + t * columns, columns, dropped);
        }
    });
    multiply({gradient_of_a});
}

namespace {

/** The output gradients of the sites that an adapter has in a group, out of all that the group could have. */
std::vector<const float *> gradients_of(const Group & group, const std::vector<std::pair<Target, Product>> & all) {
    std::vector<const float *> chosen;
    for (const Site & site : group.sites)
        for (const auto & [target, product] : all)
            if (target == site.target) chosen.push_back(product.y);
    return chosen;
}

} // namespace

/**
 * Runs a group of products with one input x backward: writes dx [tokens, columns], unless it is null, and adds to the adapter's gradients.
 */
void Transformer::group_backward(Adapter & adapter, const Group & group, const LoraRows & rows, const std::vector<std::pair<Target, Product>> & products, const float * x, const float * u,
                                 float * dx, Op op) {
    std::vector<Product> frozen;
    for (const auto & [target, product] : products) frozen.push_back(product);
    const std::vector<const float *> dys = gradients_of(group, products);
    const LowRank low = lora_input_gradient(adapter, group, rows, dys);
    if (dx) linear_backward(pool_, panels_, frozen, low, dx, rows.count, false, op);
    lora_gradients(adapter, group, rows, x, u, dys, dx);
}

/**
 * The gradient of what a part of the layer added to the stream, from the stream's gradient work_.dx. It goes through the norm between them,
 * if there is one.
 */
float * Transformer::added_backward(const std::vector<float> & weights, const Buffer<float> & added, const Buffer<float> & inv) {
    if (weights.empty()) return work_.dx.data();
    const int64_t d = shape().embedding;
    split(Op::norm, tokens_, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++)
            rmsnorm_backward_only(added.data() + t * d, weights.data(), inv.data()[t], work_.dx.data() + t * d, d, work_.dadded.data() + t * d);
    });
    return work_.dadded.data();
}

/** Turns dq and dk from gradients of what attention reads into gradients of the matrices' outputs. */
void Transformer::place_heads_backward(const Batch & batch, int64_t layer, const LayerActivations & l, float * dq, float * dk) {
    const LayerWeights & w = model_.layers[static_cast<size_t>(layer)];
    const int64_t d = shape().head_values;
    const auto back = [&](int64_t t, int64_t heads, const std::vector<float> & norm, const float * plain, const float * inv, float * gradient) {
        const float * table = rope_tables_[w.rope].data() + batch.positions[static_cast<size_t>(t)] * d;
        for (int64_t h = t * heads; h < (t + 1) * heads; h++) {
            rope(gradient + h * d, d, shape().rope_pairs, table, -1);
            if (!norm.empty() && !faulty(Fault::skip_head_norm_backward))
                rmsnorm_backward_only(plain + h * d, norm.data(), inv[h], gradient + h * d, d, gradient + h * d);
        }
    };
    split(Op::rope, tokens_, 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++) {
            back(t, shape().heads, w.q_norm, l.q_plain.data(), l.q_inv.data(), dq);
            back(t, shape().kv_heads, w.k_norm, l.k_plain.data(), l.k_inv.data(), dk);
        }
    });
}

/** Turns work_.dx from the gradient after the layer into the gradient after attention. Overwrites the layer's gate and up. */
void Transformer::feed_forward_backward(int64_t layer, Adapter & adapter) {
    const LayerWeights & w = model_.layers[static_cast<size_t>(layer)];
    LayerActivations & l = work_.layers[static_cast<size_t>(layer - adapter.shape.first_layer)];
    const auto & groups = adapter.layers[static_cast<size_t>(layer)];
    const int64_t d = shape().embedding, ff = shape().feed_forward;
    float *gate = l.gate.data(), *up = l.up.data(), *dx = work_.dx.data(), *dh = work_.dnormed.data();

    const bool gelu = shape().activation == Activation::gelu;
    float * dadded = added_backward(w.ffn_post_norm, l.ffn_added, l.ffn_added_inv);
    split(Op::activation, tokens_, 4, [&](int64_t begin, int64_t end, int) {
        (gelu ? geglu : swiglu)(gate + begin * ff, up + begin * ff, (end - begin) * ff, work_.product.data() + begin * ff);
        for (int64_t t = begin; t < end; t++)
            rmsnorm_again(l.x_mid.data() + t * d, w.ffn_norm.data(), l.ffn_inv[static_cast<size_t>(t)], d, work_.normed.data() + t * d);
    });
    group_backward(adapter, groups[group_down], token_rows(), {{ffn_down, {&w.ffn_down, dadded}}}, work_.product.data(), l.u[group_down].data(), work_.dproduct.data());
    split(Op::activation, tokens_, 4, [&](int64_t begin, int64_t end, int) {
        const int64_t at = begin * ff;
        (gelu ? geglu_backward : swiglu_backward)(gate + at, up + at, work_.dproduct.data() + at, (end - begin) * ff, gate + at, up + at);
    });
    group_backward(adapter, groups[group_gate_up], token_rows(), {{ffn_gate, {&w.ffn_gate, gate}}, {ffn_up, {&w.ffn_up, up}}}, work_.normed.data(), l.u[group_gate_up].data(), dh);
    split(Op::norm, tokens_, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++)
            rmsnorm_backward(l.x_mid.data() + t * d, w.ffn_norm.data(), l.ffn_inv[static_cast<size_t>(t)], dh + t * d, d, dx + t * d);
    });
}

/**
 * Turns work_.dx from the gradient after attention into the gradient before the layer. For the lowest layer nothing needs that, so it is
 * not computed.
 */
void Transformer::attention_part_backward(const Batch & batch, int64_t layer, Adapter & adapter) {
    const LayerWeights & w = model_.layers[static_cast<size_t>(layer)];
    LayerActivations & l = work_.layers[static_cast<size_t>(layer - adapter.shape.first_layer)];
    const auto & groups = adapter.layers[static_cast<size_t>(layer)];
    const int64_t d = shape().embedding;
    const bool lowest = layer == adapter.shape.first_layer;
    if (lowest && groups[group_qkv].sites.empty() && groups[group_output].sites.empty()) return;
    const float * x = work_.x[static_cast<size_t>(layer - adapter.shape.first_layer)].data();
    float *dx = work_.dx.data(), *dh = work_.dnormed.data();

    float * dadded = added_backward(w.attn_post_norm, l.attn_added, l.attn_added_inv);
    group_backward(adapter, groups[group_output], token_rows(), {{attn_output, {&w.attn_output, dadded}}}, l.attended.data(), l.u[group_output].data(), work_.dattended.data());
    if (lowest && groups[group_qkv].sites.empty()) return;
    float *dq = work_.dq.data(), *dk = work_.dk.data(), *dv = work_.dv.data();
    {
        const AttentionShape s = attention_shape(layer);
        const Timed timed(profile_, Op::attention, 2 * plan_.flops(s));
        attention_backward(pool_, attention_scratch_, s, plan_, l.q.data(), l.k.data(), l.v.data(), l.attended.data(), l.lse.data(),
                           work_.dattended.data(), dq, work_.dk_heads.data(), work_.dv_heads.data(), dk, dv);
    }
    place_heads_backward(batch, layer, l, dq, dk);
    split(Op::norm, tokens_, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++)
            rmsnorm_again(x + t * d, w.attn_norm.data(), l.attn_inv[static_cast<size_t>(t)], d, work_.normed.data() + t * d);
    });
    group_backward(adapter, groups[group_qkv], token_rows(), {{attn_q, {&w.attn_q, dq}}, {attn_k, {&w.attn_k, dk}}, {attn_v, {&w.attn_v, dv}}}, work_.normed.data(), l.u[group_qkv].data(),
                   lowest ? nullptr : dh);
    if (lowest) return;
    split(Op::norm, tokens_, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++)
            rmsnorm_backward(x + t * d, w.attn_norm.data(), l.attn_inv[static_cast<size_t>(t)], dh + t * d, d, dx + t * d);
    });
}

void Transformer::layers_backward(const Batch & batch, Adapter & adapter) {
    if (adapter.shape.targets == std::vector<Target>{output_head}) return;
    const Timed timed(profile_, Op::other);
    for (int64_t layer = shape().layers - 1; layer >= adapter.shape.first_layer; layer--) {
        feed_forward_backward(layer, adapter);
        attention_part_backward(batch, layer, adapter);
    }
}

std::vector<TokenLoss> Transformer::forward_backward(const Batch & batch, Adapter & adapter, const std::vector<Ask> & asks) {
    layers_forward(batch, &adapter, Keep::activations, nullptr, false);
    const int64_t d = shape().embedding, vocabulary = shape().vocabulary;
    std::vector<int64_t> positions;
    for (const Ask & ask : asks) positions.push_back(ask.position);
    std::vector<TokenLoss> losses(asks.size());
    float * gradient = asked_gradient_.ensure(asks.size() * static_cast<size_t>(d)); // [asks, embedding]: gradient of the normed state
    each_logits(positions, [&](int64_t first, int64_t count, float * logits) {
        pool_.split(count, 1, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; i++) {
                const Ask & ask = asks[static_cast<size_t>(first + i)];
                losses[static_cast<size_t>(first + i)] = token_loss_backward(logits + i * vocabulary, vocabulary, ask.target, ask.coefficients, ask.soft);
            }
        });
        // head_u_ still belongs to this chunk.
        group_backward(adapter, adapter.head, head_rows(first, count), {{output_head, {&model_.head, logits}}}, asked_normed_.data() + first * d, head_u_.data(), gradient + first * d, Op::head);
    });
    const Timed timed(profile_, Op::norm);
    std::memset(work_.dx.data(), 0, static_cast<size_t>(tokens_ * d) * sizeof(float));
    for (size_t i = 0; i < asks.size(); i++) {
        const int64_t at = asks[i].position * d;
        rmsnorm_backward(last_ + at, model_.output_norm.data(), asked_inv_[i], gradient + static_cast<int64_t>(i) * d, d, work_.dx.data() + at);
    }
    layers_backward(batch, adapter);
    return losses;
}
