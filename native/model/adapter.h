// A LoRA adapter: for every targeted matrix W [out, in] a pair A [rank, in], B [out, rank] with y += alpha / rank · B (A x).
// Matrices that read the same input form a group whose A's lie one behind the other, so that one product serves them all; with
// dropout they read the same dropped input.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "kernels/adamw.h"
#include "kernels/average.h"
#include "kernels/dropout.h"
#include "kernels/pool.h"
#include "model/gguf_model.h"

constexpr std::array<const char *, 8> target_names = {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "output"};
/** All but the last are matrices of every layer; the last is the head, where it is not the token embedding. */
enum Target { attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down, output_head };

/** Groups of a layer, in the order the forward pass meets them. */
enum GroupIndex { group_qkv, group_output, group_gate_up, group_down };
constexpr int groups_per_layer = 4;

struct AdapterShape {
    int64_t rank;
    double alpha;
    uint64_t seed;
    std::vector<Target> targets; // ascending, each once
    double dropout = 0;          // of the inputs of every A while training, in [0, 1)

    /** Throws tied_head where the model's head cannot be a target. */
    void check(const ModelShape & model) const;

    bool has(Target target) const { return std::find(targets.begin(), targets.end(), target) != targets.end(); }
};

struct Site {
    Target target;
    int64_t rows, columns; // of W
    size_t a, b;           // where A [rank, columns] and B [rows, rank] start in the flat arrays
    int64_t u;             // first column of this site in the group's U = X Aᵀ
};

struct Group {
    std::vector<Site> sites;
    int64_t index = 0;   // layer × groups_per_layer + group; the head's is the last: keys its dropout
    int64_t columns = 0; // of the shared input
    int64_t width = 0;   // rank × sites
    size_t a = 0;        // start of the A's, [width, columns]
};

class Adapter {
public:
    Adapter(const ModelShape & model, const AdapterShape & shape);

    AdapterShape shape;
    std::vector<std::array<Group, groups_per_layer>> layers;
    Group head; // without sites unless targeted
    size_t parameters = 0;
    Buffer<float> weights, gradients, first_moments, second_moments; // [parameters] each
    int64_t step = 0;
    int64_t version = 0;
    bool gradients_pending = false;
    int64_t step_tokens = 0; // of the requests whose gradients are pending

    float scale() const { return static_cast<float>(shape.alpha / static_cast<double>(shape.rank)); }
    void clear_gradients();

    /** Of the dropout of one group's input at one token, counted over the requests of the optimizer step under way. */
    uint64_t dropout_key(const Group & group, int64_t token) const;
    /** What the keys of a group's tokens are made of: random_key(this, token). */
    uint64_t dropout_key(const Group & group) const;

    /** f(base tensor's name, site) for every adapted matrix, in the order of the flat arrays. */
    template <class F> void each_site(const F & f) const {
        for (size_t layer = 0; layer < layers.size(); layer++)
            for (const Group & group : layers[layer])
                for (const Site & site : group.sites) f(base_name(static_cast<int64_t>(layer), site.target), site);
        for (const Site & site : head.sites) f(base_name(0, site.target), site);
    }

    /** Global norm before clipping and whether it was clipped. Throws non_finite naming the tensor when a gradient is not finite: then
     *  nothing changes but that the gradients are cleared. */
    struct Stepped {
        double grad_norm;
        bool clipped;
    };
    Stepped optimise(Pool & pool, const AdamW & options);

    /**
     * A step of a moving average of another adapter of the same rank, alpha and targets. The factors A and B are averaged, each value for
     * itself, not the product B A: that average has no factors of this rank. The two differ by how A and B moved together within the
     * average's memory, a term of second order in what the optimizer moved there.
     */
    void average(Pool & pool, const Adapter & from, double decay);

    /** Bytes an adapter of this shape takes with gradients and moments. */
    static int64_t bytes(const ModelShape & model, const AdapterShape & shape);

    /** blk.3.attn_q.weight, output.weight: the tensor a site adapts. */
    static std::string base_name(int64_t layer, Target target);

private:
    size_t lay_out(const ModelShape & model, Group & group, size_t at);
};
