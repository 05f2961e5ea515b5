// What a pass over the layers writes: activations that are kept for the backward pass, and scratch that every layer reuses.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "model/backend.h"

/** What the backward pass needs of one layer, for T tokens. It computes norms and the gated product again from these. */
struct LayerActivations {
    Buffer<float> x_mid;                          // [T, embedding] after attention
    Buffer<float> q, k, v;                        // [T, H·d], [T, KV·d] ×2, after rotation
    Buffer<float> q_plain, k_plain;               // q and k before their norm, if they have one
    Buffer<float> q_inv, k_inv;                   // [T, H], [T, KV]: inverses of those norms
    Buffer<float> attended;                       // [T, H·d]
    Buffer<float> lse;                            // [T, H]
    Buffer<float> gate, up;                       // [T, feed_forward]
    Buffer<float> attn_inv, ffn_inv;              // [T]: inverses of the two norms
    Buffer<float> attn_added, ffn_added;          // [T, embedding]: what is normed before it is added, if the model norms it
    Buffer<float> attn_added_inv, ffn_added_inv;  // [T]: inverses of those norms
    std::array<Buffer<float>, groups_per_layer> u; // [T, group width] = X Aᵀ
};

struct Workspace {
    std::vector<Buffer<float>> x;         // residual stream [T, embedding]: before each layer, and after the last one
    std::vector<LayerActivations> layers;
    Buffer<float> normed;                 // [T, embedding]
    Buffer<float> product;                // [T, feed_forward] = activation(gate) · up
    Buffer<float> dx, dnormed, dadded;    // [T, embedding]
    Buffer<float> dproduct;               // [T, feed_forward]
    Buffer<float> dattended, dq;          // [T, H·d]
    Buffer<float> dk_heads, dv_heads;     // [T, H·d]
    Buffer<float> dk, dv;                 // [T, KV·d]
    Buffer<float> du;                     // [T, widest group]
    Buffer<float> dropped;                // [T, widest input], if the adapter has dropout

    /** Whether there is room for a pass. */
    bool holds(const ModelShape & model, const Adapter * adapter, int64_t tokens, Keep keep);
    /** Makes room for a pass in place of all room that there was. */
    void make(const ModelShape & model, const Adapter * adapter, int64_t tokens, Keep keep);
    int64_t bytes = 0;

    /** Bytes that make() takes for one token. */
    static int64_t bytes_per_token(const ModelShape & model, const AdapterShape * adapter, Keep keep);

private:
    /** Calls f(buffer, count) for every buffer that a pass needs. The layers must exist. */
    template <class F> void each_need(const ModelShape & model, const Adapter * adapter, int64_t tokens, Keep keep, const F & f);
};
