#include "model/workspace.h"

#include <algorithm>

namespace {
size_t sets_of(const ModelShape & m, const Adapter * adapter, Keep keep) { return static_cast<size_t>(activation_sets(m, adapter ? &adapter->shape : nullptr, keep)); }
} // namespace

template <class F> void Workspace::each_need(const ModelShape & m, const Adapter * adapter, int64_t tokens, Keep keep, const F & f) {
    const auto t = static_cast<size_t>(tokens);
    const auto d = static_cast<size_t>(m.embedding), ff = static_cast<size_t>(m.feed_forward);
    const auto q = static_cast<size_t>(m.heads * m.head_values), kv = static_cast<size_t>(m.kv_heads * m.head_values);
    const size_t sets = sets_of(m, adapter, keep);
    size_t widest = 1;
    for (size_t i = 0; i < sets; i++) {
        LayerActivations & l = layers[i];
        f(l.x_mid, t * d);
        f(l.q, t * q);
        f(l.k, t * kv);
        f(l.v, t * kv);
        f(l.attended, t * q);
        f(l.lse, t * static_cast<size_t>(m.heads));
        f(l.gate, t * ff);
        f(l.up, t * ff);
        if (m.head_norms) {
            f(l.q_plain, t * q);
            f(l.k_plain, t * kv);
            f(l.q_inv, t * static_cast<size_t>(m.heads));
            f(l.k_inv, t * static_cast<size_t>(m.kv_heads));
        }
        if (m.post_norms) {
            for (Buffer<float> * added : {&l.attn_added, &l.ffn_added}) f(*added, t * d);
            for (Buffer<float> * inv : {&l.attn_added_inv, &l.ffn_added_inv}) f(*inv, t);
        }
        f(l.attn_inv, t);
        f(l.ffn_inv, t);
        for (size_t g = 0; adapter && g < groups_per_layer; g++) {
            const auto width = static_cast<size_t>(adapter->layers.back()[g].width);
            f(l.u[g], t * width);
            widest = std::max(widest, width);
        }
    }
    for (size_t i = 0; i < sets + 1; i++) f(x[i], t * d);
    f(normed, t * d);
    f(product, t * ff);
    if (keep == Keep::nothing) return;
    f(dx, t * d);
    f(dnormed, t * d);
    if (m.post_norms) f(dadded, t * d);
    f(dproduct, t * ff);
    f(dattended, t * q);
    f(dq, t * q);
    f(dk_heads, t * q);
    f(dv_heads, t * q);
    f(dk, t * kv);
    f(dv, t * kv);
    f(du, t * widest);
    if (adapter->shape.dropout > 0) f(dropped, t * std::max({d, ff, q}));
}

bool Workspace::holds(const ModelShape & m, const Adapter * adapter, int64_t tokens, Keep keep) {
    if (layers.size() < sets_of(m, adapter, keep)) return false;
    bool all = true;
    each_need(m, adapter, tokens, keep, [&](const Buffer<float> & buffer, size_t count) { all = all && buffer.capacity() >= count; });
    return all;
}

void Workspace::make(const ModelShape & m, const Adapter * adapter, int64_t tokens, Keep keep) {
    *this = Workspace();
    layers.resize(sets_of(m, adapter, keep));
    x.resize(layers.size() + 1);
    each_need(m, adapter, tokens, keep, [&](Buffer<float> & buffer, size_t count) {
        buffer.ensure(count);
        bytes += static_cast<int64_t>(count * sizeof(float));
    });
}

int64_t Workspace::bytes_per_token(const ModelShape & m, const AdapterShape * adapter, Keep keep) {
    const int64_t d = m.embedding, ff = m.feed_forward, q = m.heads * m.head_values, kv = m.kv_heads * m.head_values;
    const int64_t u = adapter ? adapter->rank * static_cast<int64_t>(adapter->targets.size()) : 0;
    const int64_t head_norms = m.head_norms ? q + kv + m.heads + m.kv_heads : 0, post_norms = m.post_norms ? 2 * d + 2 : 0;
    const int64_t layer = d + 2 * q + 2 * kv + m.heads + 2 * ff + 2 + head_norms + post_norms + u;
    const int64_t shared = d + ff, sets = activation_sets(m, adapter, keep);
    const int64_t dropped = adapter && adapter->dropout > 0 ? std::max({d, ff, q}) : 0;
    const int64_t backward = (m.post_norms ? 3 : 2) * d + ff + 4 * q + 2 * kv + u + dropped;
    const int64_t floats = keep == Keep::activations ? sets * layer + (sets + 1) * d + shared + backward : layer + 2 * d + shared;
    return floats * static_cast<int64_t>(sizeof(float));
}
