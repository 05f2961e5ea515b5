// What the trainer needs of a device: one frozen transformer and its passes, which are forward, backward into an adapter, and decoding with
// a cache of keys and values. A backend works on token ids in packed segments. The trainer checks limits and names.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/number.h"
#include "kernels/pool.h"
#include "kernels/profile.h"
#include "kernels/token_loss.h"
#include "model/adapter.h"
#include "model/gguf_model.h"
#include "model/projection.h"

/** Tokens of a pass and their segments: see Segment. tokens, positions [T]; a position counts from the start of its row. */
struct Batch {
    std::vector<int32_t> tokens;
    std::vector<int32_t> positions;
    std::vector<Segment> segments;
    std::vector<int64_t> origins; // [T] index of each token in its optimizer step; empty unless an adapter with dropout is trained

    int64_t count() const { return static_cast<int64_t>(tokens.size()); }
    /** Adds a root segment: a row that shares nothing, or one further token of a row whose keys are in a cache. */
    void add_row(const int32_t * row, int64_t length, int64_t first_position = 0);
    /** Adds a segment that continues its parent, or begins a row (parent −1). Returns its index. length ≥ 1. */
    int64_t add_segment(const int32_t * first, int64_t length, int64_t parent);
};

/** Keys and values of tokens in the device's memory, in places that the caller assigns. */
struct Cache {
    virtual ~Cache() = default;
};

/** Where a pass leaves keys and values: those of segment i go to the places from write[i] on. */
struct CachePlan {
    Cache * cache;
    std::vector<int64_t> write;
    std::vector<Path> read; // only for decoding: the places that each row's new token sees, its own last; a single span for a row that shares nothing
    bool as_trained = false; // computes the products with frozen weights in the precision of training, where forward would not
};

/** A prediction that a pass evaluates: the hidden state at `position` predicts `target`, with these coefficients in the loss. */
struct Ask {
    int64_t position;
    int32_t target;
    LossCoefficients coefficients;
    SoftTargets soft; // the caller owns its arrays
};

/** What a pass has after one layer: the residual stream, and the inputs of the two matrices that write to it. */
struct LayerSeen {
    const float * residual;    // [T, embedding] after the layer
    const float * attn_output; // [T, H·d]: the matrix's input
    const float * ffn_down;    // [T, feed_forward]: the matrix's input
};

struct LayerWatch {
    std::vector<int64_t> layers; // ascending
    std::function<void(int64_t layer, const LayerSeen & seen)> see;

    bool wants(int64_t layer) const { return std::binary_search(layers.begin(), layers.end(), layer); }
};

/** Whether a pass keeps activations for a backward pass, or reuses one set of them for every layer. */
enum class Keep { nothing, activations };

/** Sets of activations that a pass has: one for each layer that the backward pass reaches. */
inline int64_t activation_sets(const ModelShape & model, const AdapterShape * adapter, Keep keep) {
    return keep == Keep::activations ? model.layers - adapter->first_layer : 1;
}
/** The set that a layer writes. The layers before the adapter's first one share that layer's set, which it writes after them. */
inline int64_t activation_set(int64_t layer, int64_t first_layer, Keep keep) {
    return keep == Keep::activations ? std::max<int64_t>(0, layer - first_layer) : 0;
}

class Backend {
public:
    Backend() = default;
    virtual ~Backend() = default;
    Backend(const Backend &) = delete;
    Backend & operator=(const Backend &) = delete;

    virtual const ModelShape & shape() const = 0;
    /** The machine's threads, for what is computed outside the device. */
    virtual Pool & pool() = 0;
    /** "cpu" or "cuda". */
    virtual std::string device() const = 0;

    /** Bytes that the device can give to weights, adapters and passes together. */
    virtual int64_t memory() const = 0;
    /** The most tokens whose activations exist at the same time. More tokens would cost memory and gain no speed. */
    virtual int64_t pass_tokens() const = 0;
    /** Whether segments may have parents. If not, every segment is a row. */
    virtual bool trees() const = 0;
    /**
     * Bytes on the device: of the model, of an adapter with gradients and moments, of a pass in addition, of a cache. softs: soft targets
     * that each token of the pass may have.
     */
    virtual int64_t model_bytes() const { return shape().weight_bytes; }
    virtual int64_t adapter_bytes(const AdapterShape & adapter) const = 0;
    virtual int64_t pass_bytes(const AdapterShape * adapter, int64_t tokens, int64_t longest_path, Keep keep, int64_t softs) const = 0;
    virtual int64_t cache_bytes(int64_t places) const = 0;

    /** Evaluates every ask. With top_k, each result also has its most likely tokens. */
    virtual std::vector<TokenLoss> forward(const Batch & batch, const Adapter * adapter, const std::vector<Ask> & asks, int64_t top_k) = 0;

    /** The same without top tokens. Adds the gradient of the loss to the adapter's gradients. */
    virtual std::vector<TokenLoss> forward_backward(const Batch & batch, Adapter & adapter, const std::vector<Ask> & asks) = 0;

    /** A forward pass that calls watch.see after the layers it wants, with values in the machine's memory. */
    virtual void watch(const Batch & batch, const Adapter * adapter, const LayerWatch & watch) = 0;

    /** target is attn_output or ffn_down; unit [embedding] has length 1. */
    virtual Projected project(const Adapter * adapter, int64_t layer, Target target, const std::vector<float> & unit) = 0;

    virtual std::unique_ptr<Cache> make_cache(int64_t places) = 0;
    /** prefill runs whole segments, decode one further token of each row. Both leave keys and values in the plan's places. */
    virtual void prefill(const Batch & batch, const Adapter * adapter, CachePlan & plan) = 0;
    virtual void decode(const Batch & batch, const Adapter * adapter, CachePlan & plan) = 0;

    /** Calls f(first, count, logits [count, vocabulary]) over chunks of the given positions of the last pass. f may change the logits. */
    using UseLogits = std::function<void(int64_t first, int64_t count, float * logits)>;
    virtual void each_logits(const std::vector<int64_t> & positions, const UseLogits & f) = 0;

    /** One step of the optimizer with the gradients so far: see Adapter::optimise. */
    virtual Adapter::Stepped optimise(Adapter & adapter, const AdamW & options) = 0;
    virtual void clear_gradients(Adapter & adapter) = 0;
    /** See Adapter::average. */
    virtual void average(Adapter & adapter, const Adapter & from, double decay) = 0;

    /**
     * scratch_bytes: memory that passes left on the device for the next ones, which is never more than one pass needs. drop_scratch gives it
     * back, and the next pass allocates it again. shortages: how often the device ran out of memory until it was given back.
     */
    virtual int64_t scratch_bytes() const = 0;
    virtual void drop_scratch() = 0;
    virtual int64_t shortages() const { return 0; }

    /** The most memory in use so far, on a device that has its own; 0 on the CPU, whose memory is the process's. */
    virtual int64_t peak_device_bytes() const { return 0; }

    /** Names the kernels that compute, for people: the speed depends on them. */
    virtual std::string kernels() const = 0;
    /** The precision of the inputs in training's products with the frozen weights. */
    virtual Number precision() const = 0;

    /** Time by op since the model was opened; all zeros on a device that does not measure it. */
    virtual Profile::All profile() const { return {}; }

    /**
     * A device with memory of its own keeps adapters there. fetch: copies weights, gradients and moments to the adapter's own arrays,
     * before these are read. store: the adapter's own arrays were written. forget: the adapter is about to be deleted.
     */
    virtual void fetch(Adapter & adapter) = 0;
    virtual void store(Adapter & adapter) = 0;
    virtual void forget(Adapter & adapter) = 0;
};
