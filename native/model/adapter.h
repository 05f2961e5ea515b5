// A LoRA adapter: for every targeted matrix W [out, in] a pair A [rank, in], B [out, rank] with y += alpha / rank · B (A x). Matrices that
// read the same input form a group. Its A's lie one after the other, so that one product serves them all. With dropout, the matrices of a
// group read the same dropped input.
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
/** All but the last are matrices of a layer. The last is the head, if it is not the token embedding. */
enum Target { attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down, output_head };

/** Groups of a layer, in the order of the forward pass. */
enum GroupIndex { group_qkv, group_output, group_gate_up, group_down };
constexpr int groups_per_layer = 4;

struct AdapterShape {
    int64_t rank;
    double alpha;
    uint64_t seed;
    std::vector<Target> targets; // ascending, each once
    double dropout = 0;          // share of the inputs of every A that is dropped in training, in [0, 1)
    int64_t first_layer = 0;     // layers before it have no adapter, and the backward pass ends at it

    /** Throws tied_head when the head is a target but is the token embedding, and bad_request when no layer is left. */
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
    int64_t index = 0;   // layer × groups_per_layer + group; the head's is the last. It is part of the dropout key
    int64_t columns = 0; // of the shared input
    int64_t width = 0;   // rank × sites
    size_t a = 0;        // start of the A's, [width, columns]
};

class Adapter {
public:
    Adapter(const ModelShape & model, const AdapterShape & shape);

    AdapterShape shape;
    std::vector<std::array<Group, groups_per_layer>> layers; // those before first_layer have no sites
    Group head; // has no sites unless it is a target
    size_t parameters = 0;
    Buffer<float> weights, gradients, first_moments, second_moments; // [parameters] each
    int64_t step = 0;
    int64_t version = 0;
    bool gradients_pending = false;
    int64_t step_tokens = 0; // tokens of the requests whose gradients are pending

    float scale() const { return static_cast<float>(shape.alpha / static_cast<double>(shape.rank)); }
    void clear_gradients();

    /** Key of the dropout of one group's input at one token. The token counts over the requests of the current optimizer step. */
    uint64_t dropout_key(const Group & group, int64_t token) const;
    /** The part of the key that all tokens of a group share: a token's key is random_key(this, token). */
    uint64_t dropout_key(const Group & group) const;

    /** Calls f(name of the base tensor, site) for every adapted matrix, in the order of the flat arrays. */
    template <class F> void each_site(const F & f) const {
        for (size_t layer = 0; layer < layers.size(); layer++)
            for (const Group & group : layers[layer])
                for (const Site & site : group.sites) f(base_name(static_cast<int64_t>(layer), site.target), site);
        for (const Site & site : head.sites) f(base_name(0, site.target), site);
    }

    /**
     * The global norm before clipping, and whether it was clipped. optimise() throws non_finite, naming the tensor, when a gradient is not
     * finite; it then clears the gradients and changes nothing else.
     */
    struct Stepped {
        double grad_norm;
        bool clipped;
    };
    Stepped optimise(Pool & pool, const AdamW & options);

    /**
     * One step of a moving average of another adapter of the same rank, alpha and targets. The factors A and B are averaged, value by
     * value. The average of the products B A would have no factors of this rank. The two differ by how A and B moved together within the
     * average's memory, a term of second order in the optimizer's changes there.
     */
    void average(Pool & pool, const Adapter & from, double decay);

    /** Bytes that an adapter of this shape takes, with gradients and moments. */
    static int64_t bytes(const ModelShape & model, const AdapterShape & shape);

    /** Name of the tensor that a site adapts: blk.3.attn_q.weight, output.weight. */
    static std::string base_name(int64_t layer, Target target);

private:
    size_t lay_out(const ModelShape & model, Group & group, size_t at);
};
