// A LoRA adapter: for every targeted matrix W [out, in] a pair A [rank, in], B [out, rank] with y += alpha / rank · B (A x).
// Matrices that read the same input form a group whose A's lie one behind the other, so that one product serves them all.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "kernels/adamw.h"
#include "kernels/pool.h"
#include "model/gguf_model.h"

constexpr std::array<const char *, 7> target_names = {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"};
enum Target { attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down };

/** Groups of a layer, in the order the forward pass meets them. */
enum GroupIndex { group_qkv, group_output, group_gate_up, group_down };
constexpr int groups_per_layer = 4;

struct AdapterShape {
    int64_t rank;
    double alpha;
    uint64_t seed;
    std::vector<Target> targets; // ascending, each once
};

struct Site {
    Target target;
    int64_t rows, columns; // of W
    size_t a, b;           // where A [rank, columns] and B [rows, rank] start in the flat arrays
    int64_t u;             // first column of this site in the group's U = X Aᵀ
};

struct Group {
    std::vector<Site> sites;
    int64_t columns = 0; // of the shared input
    int64_t width = 0;   // rank × sites
    size_t a = 0;        // start of the A's, [width, columns]
};

class Adapter {
public:
    Adapter(const ModelShape & model, const AdapterShape & shape);

    AdapterShape shape;
    std::vector<std::array<Group, groups_per_layer>> layers;
    size_t parameters = 0;
    Buffer<float> weights, gradients, first_moments, second_moments; // [parameters] each
    int64_t step = 0;
    int64_t version = 0;
    bool gradients_pending = false;

    float scale() const { return static_cast<float>(shape.alpha / static_cast<double>(shape.rank)); }
    void clear_gradients();

    /** Global norm before clipping and whether it was clipped; nothing when a gradient is not finite: then nothing changes but
     *  that the gradients are cleared. */
    struct Stepped {
        double grad_norm;
        bool clipped;
    };
    std::optional<Stepped> optimise(Pool & pool, const AdamW & options);

    /** Bytes an adapter of this shape takes with gradients and moments. */
    static int64_t bytes(const ModelShape & model, const AdapterShape & shape);

    /** blk.3.attn_q.weight: the tensor a site adapts. */
    static std::string base_name(int64_t layer, Target target);
};
