// Plans where everything that a pass writes lies in one piece of device memory, before anything is allocated. What is never alive together
// shares its place.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "cuda/gemm.h"
#include "model/adapter.h"
#include "model/backend.h"
#include "model/gguf_model.h"

/** The parts of a pass, in their order. */
enum class Phase { forward, head, backward };

/** Something that needs room from one phase to another, both included. */
struct Need {
    int64_t bytes;
    Phase first, last;
    int64_t offset = 0;
};

constexpr int64_t device_alignment = 256;
inline int64_t device_aligned(int64_t bytes) { return (bytes + device_alignment - 1) / device_alignment * device_alignment; }

constexpr int64_t device_workspace_bytes = int64_t{32} << 20; // scratch of the products, as large as NVIDIA recommends for Hopper
constexpr int64_t device_reserve_bytes = int64_t{256} << 20;  // left to the driver, to graphs and to other programs on the device

/**
 * Gives every need an offset, a multiple of device_alignment, so that needs which are alive together do not overlap. Returns the total
 * bytes.
 */
int64_t place(std::vector<Need> & needs);

/** The sizes of a pass. They are rounded up, so that passes of similar sizes have the same layout. */
struct PassSize {
    int64_t tokens;
    int64_t asks;  // rows of logits
    int64_t softs; // soft targets of all asks
    int64_t tiles; // tiles of attention
    Keep keep;

    static PassSize of(int64_t tokens, int64_t segments, int64_t asks, int64_t softs, Keep keep);
};

/** Offsets of what the backward pass needs of one layer, for T tokens. Values are in the pass's precision, except those marked f32. */
struct LayerOffsets {
    int64_t x, x_mid;               // [T, embedding] residual stream before the layer, and after attention
    int64_t attn_inv, ffn_inv;      // [T] f32
    int64_t qkv;                    // [T, (H + 2 KV)·d]: q, k and v side by side
    int64_t placed;                 // [T, (H + KV)·d]: q and k normed and rotated; heads without a norm are rotated in qkv
    int64_t head_inv;               // [T, H + KV] f32
    int64_t attended;               // [T, H·d]
    int64_t lse;                    // [T, H] f32
    int64_t gate_up;                // [T, 2·feed_forward]: gate and up side by side
    int64_t attn_added, ffn_added;  // [T, embedding] before a post-norm
    int64_t attn_added_inv, ffn_added_inv; // [T] f32
    std::array<int64_t, groups_per_layer> u; // [T, group width] = X Aᵀ
};

struct PassPlan {
    PassSize size;
    std::vector<LayerOffsets> layers; // of the layers from first_layer on; only one when nothing is kept
    int64_t first_layer;
    // Inputs.
    int64_t tokens, positions, first, last, row_end, places, tiles, origins; // i32 [T] up to places, then tiles, then i64 [T]
    int64_t ask_rows, targets, coefficients, soft_begin, soft_tokens, soft_weights, dropout_keys, ask_origins;
    // Forward.
    int64_t stream;  // [T, embedding] f32: the residual stream
    int64_t normed, product, added, weights, dropped;
    // Head.
    int64_t asked, asked_inv, logits, dlogits, dasked, losses, soft_logprobs, head_u, head_du;
    int64_t logits_rows; // rows of logits that exist at the same time
    // Backward.
    int64_t dstream, dstream_narrow, dnormed, dadded, dproduct, dattended, dqkv, delta, du, through;
    int64_t total;
};

PassPlan plan_pass(const ModelShape & model, const AdapterShape * adapter, const PassSize & size, Number precision);

/** Whether kernels read the type as it is stored. Matrices of other types are kept in the precision of the passes. */
bool device_reads(ggml_type type);
int64_t device_matrix_bytes(const Matrix & matrix, Number precision);
/** Number of positions in the tables of a device's ropes. Padding uses the first ones, up to 256. */
int64_t device_rope_positions(const ModelShape & model);

/** Bytes that an open model keeps on a device: weights, norms, biases and the ropes' tables. */
int64_t device_model_bytes(const GgufModel & model, Number precision);
/** The biases of q, k and v side by side, as in their common product; empty when there are none. */
std::vector<float> qkv_bias_of(const ModelShape & shape, const LayerWeights & l);

/** Where an adapter's arrays lie in its memory. All but partial have `parameters` values. When passes compute in f32, narrow is weights. */
struct AdapterPlan {
    int64_t weights, gradients, first_moments, second_moments; // f32
    int64_t narrow;  // bf16: the weights in the type that products read
    int64_t partial; // f32: parts of the gradients' norm
    int64_t total;
};
AdapterPlan plan_adapter(int64_t parameters, Number precision);
int64_t device_adapter_bytes(const ModelShape & model, const AdapterShape & adapter, Number precision);
int64_t device_cache_bytes(const ModelShape & model, int64_t places, Number precision);
/**
 * The most bytes of a pass over `tokens` tokens, however many rows they form, when every token is asked and has `softs` soft targets. The
 * model and the adapters are not included.
 */
int64_t device_pass_bytes(const ModelShape & model, const AdapterShape * adapter, int64_t tokens, Keep keep, Number precision, int64_t softs = 0);
