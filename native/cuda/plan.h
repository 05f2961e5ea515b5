// Where everything that a pass writes lies in one piece of device memory, computed before anything is allocated. Things that are
// never alive together share their place.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "cuda/gemm.h"
#include "model/backend.h"

/** The parts of a pass, in order. */
enum class Phase { forward, head, backward };

/** Something that must have room from one phase to another, both included. */
struct Need {
    int64_t bytes;
    Phase first, last;
    int64_t offset = 0;
};

constexpr int64_t device_alignment = 256;

/** Gives every need an offset, a multiple of device_alignment, so that no two which are alive together overlap; returns the bytes in all. */
int64_t place(std::vector<Need> & needs);

/** What a pass computes. Sizes are rounded up, so that passes of like sizes are laid out alike. */
struct PassSize {
    int64_t tokens;
    int64_t asks;  // rows of logits
    int64_t softs; // soft targets of all asks
    int64_t tiles; // of attention
    Keep keep;

    static PassSize of(int64_t tokens, int64_t segments, int64_t asks, int64_t softs, Keep keep);
};

/** Offsets of what the backward pass needs of a layer; T tokens, all in the pass's precision but for the f32 marked so. */
struct LayerOffsets {
    int64_t x, x_mid;               // [T, embedding] residual stream before the layer, and after attention
    int64_t attn_inv, ffn_inv;      // [T] f32
    int64_t qkv;                    // [T, (H + 2 KV)·d] side by side
    int64_t placed;                 // [T, (H + KV)·d] q and k normed and rotated; where heads have no norm, they are rotated in qkv
    int64_t q_inv, k_inv;           // [T, H], [T, KV] f32
    int64_t attended;               // [T, H·d]
    int64_t lse;                    // [T, H] f32
    int64_t gate_up;                // [T, 2·feed_forward] side by side
    int64_t attn_added, ffn_added;  // [T, embedding] before a post-norm
    int64_t attn_added_inv, ffn_added_inv; // [T] f32
    std::array<int64_t, groups_per_layer> u; // [T, group width] = X Aᵀ
};

struct PassPlan {
    PassSize size;
    std::vector<LayerOffsets> layers; // one where nothing is kept
    // Inputs.
    int64_t tokens, positions, first, last, row_end, places, tiles, origins; // i32 [T], tiles, i64 [T]
    int64_t ask_rows, targets, coefficients, soft_begin, soft_tokens, soft_weights, dropout_keys, ask_origins;
    // Forward.
    int64_t stream;  // [T, embedding] f32: the residual stream
    int64_t normed, product, added, weights, dropped;
    // Head.
    int64_t asked, asked_inv, logits, dlogits, dasked, losses, soft_logprobs, head_u, head_du;
    int64_t logits_rows; // at the same time
    // Backward.
    int64_t dstream, dstream_narrow, dnormed, dadded, dproduct, dattended, dqkv, delta, du, through;
    int64_t total;
};

PassPlan plan_pass(const ModelShape & model, const AdapterShape * adapter, const PassSize & size, Number precision);

/** Bytes on a device that weights, an adapter with gradients and moments, and a cache take. */
int64_t device_adapter_bytes(int64_t parameters, Number precision);
int64_t device_cache_bytes(const ModelShape & model, int64_t places, Number precision);
/** Of a pass over `tokens` tokens all of which are asked, besides the model and the adapters. */
int64_t device_pass_bytes(const ModelShape & model, const AdapterShape * adapter, int64_t tokens, Keep keep, Number precision);
