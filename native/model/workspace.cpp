#include "model/workspace.h"

#include <algorithm>

void Workspace::ensure(const ModelShape & m, const Adapter * adapter, int64_t tokens, Keep keep) {
    const auto t = static_cast<size_t>(tokens);
    const auto d = static_cast<size_t>(m.embedding), ff = static_cast<size_t>(m.feed_forward);
    const auto q = static_cast<size_t>(m.heads * m.head_values), kv = static_cast<size_t>(m.kv_heads * m.head_values);
    const auto sets = static_cast<size_t>(activation_sets(m, adapter ? &adapter->shape : nullptr, keep));
    if (layers.size() < sets) {
        layers.resize(sets);
        x.resize(sets + 1);
    }
    size_t widest = 1;
    for (size_t i = 0; i < sets; i++) {
        LayerActivations & l = layers[i];
        l.x_mid.ensure(t * d);
        l.q.ensure(t * q);
        l.k.ensure(t * kv);
        l.v.ensure(t * kv);
        l.attended.ensure(t * q);
        l.lse.ensure(t * static_cast<size_t>(m.heads));
        l.gate.ensure(t * ff);
        l.up.ensure(t * ff);
        if (m.head_norms) {
            l.q_plain.ensure(t * q);
            l.k_plain.ensure(t * kv);
            l.q_inv.ensure(t * static_cast<size_t>(m.heads));
            l.k_inv.ensure(t * static_cast<size_t>(m.kv_heads));
        }
        if (m.post_norms) {
            for (Buffer<float> * added : {&l.attn_added, &l.ffn_added}) added->ensure(t * d);
            for (Buffer<float> * inv : {&l.attn_added_inv, &l.ffn_added_inv}) inv->ensure(t);
        }
        l.attn_inv.ensure(t);
        l.ffn_inv.ensure(t);
        for (size_t g = 0; adapter && g < groups_per_layer; g++) {
            const auto width = static_cast<size_t>(adapter->layers.back()[g].width);
            l.u[g].ensure(t * width);
            widest = std::max(widest, width);
        }
    }
    for (size_t i = 0; i < sets + 1; i++) x[i].ensure(t * d);
    normed.ensure(t * d);
    product.ensure(t * ff);
    if (keep == Keep::nothing) return;
    dx.ensure(t * d);
    dnormed.ensure(t * d);
    if (m.post_norms) dadded.ensure(t * d);
    dproduct.ensure(t * ff);
    dattended.ensure(t * q);
    dq.ensure(t * q);
    dk_heads.ensure(t * q);
    dv_heads.ensure(t * q);
    dk.ensure(t * kv);
    dv.ensure(t * kv);
    du.ensure(t * widest);
    if (adapter->shape.dropout > 0) dropped.ensure(t * std::max({d, ff, q}));
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
