// One frozen transformer and the passes over it: forward, backward into an adapter, and decoding with a cache of keys and values.
// It works on token ids in packed rows; limits and names are the trainer's business.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/matrix.h"
#include "kernels/pool.h"
#include "model/adapter.h"
#include "model/gguf_model.h"
#include "model/workspace.h"

/** Rows one behind the other: tokens, positions [T]; rows cover [0, T) in order. */
struct Batch {
    std::vector<int32_t> tokens;
    std::vector<int32_t> positions;
    std::vector<RowSpan> rows;

    int64_t count() const { return static_cast<int64_t>(tokens.size()); }
    void add_row(const int32_t * row, int64_t length, int64_t first_position = 0);
};

/** Keys and values of rows, layer by layer; row r owns the places [begin, begin + length). */
struct KvCache {
    std::vector<Buffer<float>> keys, values; // per layer [places, KV·d]
    void ensure(const ModelShape & model, int64_t places);
    static int64_t bytes_per_place(const ModelShape & model);
};

/** Where a pass leaves keys and values, and what it attends to. places[r]: the row's places in the cache. */
struct CachePlan {
    KvCache * cache;
    std::vector<RowSpan> places;
};

class Transformer {
public:
    Transformer(const std::string & path, int threads);

    const ModelShape & shape() const { return model_.shape; }
    Pool & pool() { return pool_; }

    /** One prediction asked of a pass: the hidden state of `position` predicts `target`, weighing `weight` in the loss. */
    struct Ask {
        int64_t position;
        int32_t target;
        float weight;
    };

    /** Log-prob and entropy per ask. */
    std::vector<TokenLoss> forward(const Batch & batch, const Adapter * adapter, const std::vector<Ask> & asks);

    /** Log-prob and entropy per ask; adds the gradient of −Σ weight · log-prob to the adapter's. */
    std::vector<TokenLoss> forward_backward(const Batch & batch, Adapter & adapter, const std::vector<Ask> & asks);

    /** Runs whole rows, or one further token of each, leaving keys and values in the plan's places. */
    void prefill(const Batch & batch, const Adapter * adapter, CachePlan & plan);
    void decode(const Batch & batch, const Adapter * adapter, CachePlan & plan);

    /** f(first, count, logits [count, vocabulary]) over chunks of the asked positions of the last pass; f may change the logits. */
    template <class F> void each_logits(const std::vector<int64_t> & positions, const F & f) {
        norm_positions(positions);
        const auto count = static_cast<int64_t>(positions.size());
        const int64_t step = logits_rows(shape().vocabulary);
        for (int64_t first = 0; first < count; first += step) {
            const int64_t rows = std::min(step, count - first);
            f(first, rows, make_logits(first, rows));
        }
    }

    /** Rows of logits that exist at the same time. */
    static int64_t logits_rows(int64_t vocabulary);
    /** Bytes a pass needs besides the model: panels, logits, workspace. */
    static int64_t pass_bytes(const ModelShape & model, const AdapterShape * adapter, int threads, int64_t tokens, int64_t longest_row, Keep keep);

private:
    void prepare(const Batch & batch, const Adapter * adapter, Keep keep);
    void embed(const Batch & batch);
    void layers_forward(const Batch & batch, const Adapter * adapter, Keep keep, CachePlan * plan, bool one_token);
    void attend(const Batch & batch, int64_t layer, LayerActivations & l, CachePlan * plan, bool one_token);
    void feed_forward(int64_t layer, LayerActivations & l, const Adapter * adapter, float * x_out);
    void layers_backward(const Batch & batch, Adapter & adapter);
    void feed_forward_backward(int64_t layer, Adapter & adapter);
    void attention_part_backward(const Batch & batch, int64_t layer, Adapter & adapter);
    void rotate(const Batch & batch, float * q, float * k, float direction);

    void lora(const Adapter & adapter, const Group & group, const float * x, float * u, const std::vector<float *> & ys);
    void lora_backward(Adapter & adapter, const Group & group, const float * x, const float * u, const std::vector<const float *> & dys, float * dx);

    void norm_positions(const std::vector<int64_t> & positions);
    float * make_logits(int64_t first, int64_t rows);

    GgufModel model_;
    Pool pool_;
    Panels panels_;
    AttentionShape attention_;
    Workspace work_;
    AttentionScratch attention_scratch_;
    std::vector<float> rope_table_; // [positions, d] as (cos, sin) pairs
    int64_t tokens_ = 0;            // of the current pass
    float * last_ = nullptr;        // [tokens, embedding]: residual stream after the last layer of the current pass
    Buffer<float> asked_normed_, asked_inv_, asked_gradient_; // [asks, embedding], [asks], [asks, embedding]
    Buffer<float> logits_;
};
