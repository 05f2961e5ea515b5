// What the trainer asks of a device: one frozen transformer and the passes over it, forward, backward into an adapter, and
// decoding with a cache of keys and values. It works on token ids in packed segments; limits and names are the trainer's business.
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

/** Tokens of a pass and the segments they make: see Segment. tokens, positions [T]; a position counts from the row's start. */
struct Batch {
    std::vector<int32_t> tokens;
    std::vector<int32_t> positions;
    std::vector<Segment> segments;
    std::vector<int64_t> origins; // [T] of each token in its optimizer step; empty unless an adapter with dropout trains

    int64_t count() const { return static_cast<int64_t>(tokens.size()); }
    /** A segment of its own: a row that shares nothing, or one further token of a row whose keys a cache holds. */
    void add_row(const int32_t * row, int64_t length, int64_t first_position = 0);
    /** What follows a segment of the same tree (or begins a row, parent −1); returns its index. length ≥ 1. */
    int64_t add_segment(const int32_t * first, int64_t length, int64_t parent);
};

/** Keys and values of tokens where the device wants them, in places that the caller gives out. */
struct Cache {
    virtual ~Cache() = default;
};

/** Where a pass leaves keys and values: segment i's in the places from write[i] on. */
struct CachePlan {
    Cache * cache;
    std::vector<int64_t> write;
    std::vector<Path> read; // decoding only: the places that each row's new token sees, its own last; one span for a row that shares nothing
};

/** One prediction asked of a pass: the hidden state of `position` predicts `target`, and weighs this in the loss. */
struct Ask {
    int64_t position;
    int32_t target;
    LossCoefficients coefficients;
    SoftTargets soft; // its arrays are the caller's
};

/** What a pass has after one layer, all [T, width]: the residual stream, and what the two matrices that write to it have read. */
struct LayerSeen {
    const float * residual;    // [T, embedding] after the layer
    const float * attn_output; // [T, H·d]: the matrix's input
    const float * ffn_down;    // [T, feed_forward]: likewise
};

struct LayerWatch {
    std::vector<int64_t> layers; // ascending
    std::function<void(int64_t layer, const LayerSeen & seen)> see;

    bool wants(int64_t layer) const { return std::binary_search(layers.begin(), layers.end(), layer); }
};

/** Whether a pass keeps every layer's activations for a backward pass, or reuses one set. */
enum class Keep { nothing, activations };

class Backend {
public:
    Backend() = default;
    virtual ~Backend() = default;
    Backend(const Backend &) = delete;
    Backend & operator=(const Backend &) = delete;

    virtual const ModelShape & shape() const = 0;
    /** The machine's threads, for what is computed beside the device. */
    virtual Pool & pool() = 0;
    /** "cpu" or "cuda". */
    virtual std::string device() const = 0;

    /** Bytes the device could give to weights, adapters and passes together. */
    virtual int64_t memory() const = 0;
    /** Tokens whose activations exist at the same time: more gain no speed, they only cost memory. */
    virtual int64_t pass_tokens() const = 0;
    /** Whether segments may have parents; if not, every segment is a row. */
    virtual bool trees() const = 0;
    /** Bytes on the device: of the model, of an adapter with gradients and moments, of a pass besides them, of a cache.
     *  softs: soft targets that each token of the pass may have. */
    virtual int64_t model_bytes() const { return shape().weight_bytes; }
    virtual int64_t adapter_bytes(const AdapterShape & adapter) const = 0;
    virtual int64_t pass_bytes(const AdapterShape * adapter, int64_t tokens, int64_t longest_path, Keep keep, int64_t softs) const = 0;
    virtual int64_t cache_bytes(int64_t places) const = 0;

    /** What each ask's row of logits says, with its top_k most likely tokens. */
    virtual std::vector<TokenLoss> forward(const Batch & batch, const Adapter * adapter, const std::vector<Ask> & asks, int64_t top_k) = 0;

    /** The same without top tokens; adds the gradient of the loss to the adapter's. */
    virtual std::vector<TokenLoss> forward_backward(const Batch & batch, Adapter & adapter, const std::vector<Ask> & asks) = 0;

    /** A forward pass that is looked into after some of its layers, in the machine's memory. */
    virtual void watch(const Batch & batch, const Adapter * adapter, const LayerWatch & watch) = 0;

    /** target: attn_output or ffn_down; unit [embedding] of length 1. */
    virtual Projected project(const Adapter * adapter, int64_t layer, Target target, const std::vector<float> & unit) = 0;

    virtual std::unique_ptr<Cache> make_cache(int64_t places) = 0;
    /** Runs whole segments, or one further token of each row, leaving keys and values in the plan's places. */
    virtual void prefill(const Batch & batch, const Adapter * adapter, CachePlan & plan) = 0;
    virtual void decode(const Batch & batch, const Adapter * adapter, CachePlan & plan) = 0;

    /** f(first, count, logits [count, vocabulary]) over chunks of the asked positions of the last pass; f may change the logits. */
    using UseLogits = std::function<void(int64_t first, int64_t count, float * logits)>;
    virtual void each_logits(const std::vector<int64_t> & positions, const UseLogits & f) = 0;

    /** One step of the optimizer with the gradients so far, as Adapter::optimise. */
    virtual Adapter::Stepped optimise(Adapter & adapter, const AdamW & options) = 0;
    virtual void clear_gradients(Adapter & adapter) = 0;
    /** As Adapter::average. */
    virtual void average(Adapter & adapter, const Adapter & from, double decay) = 0;

    /** What passes left on the device for the next ones, in bytes; 0 on the CPU, whose memory is the process's. drop_scratch gives it back:
     *  the next pass takes it anew. shortages: how often the device had too little until it was given back. */
    virtual int64_t scratch_bytes() const { return 0; }
    virtual void drop_scratch() {}
    virtual int64_t shortages() const { return 0; }

    /** The most that a device with memory of its own has held; 0 on the CPU, whose memory is the process's. */
    virtual int64_t peak_device_bytes() const { return 0; }

    /** Which kernels compute, for people: they decide how fast it is. */
    virtual std::string kernels() const = 0;
    /** What the inputs of training's products with the frozen weights are in. */
    virtual Number precision() const = 0;

    /** Where the time went since the model was opened; all zeros on a device that does not say. */
    virtual Profile::All profile() const { return {}; }

    /** A device with memory of its own keeps adapters there. fetch: weights, gradients and moments into the adapter's own
     *  arrays, before they are saved. store: the adapter's own arrays were written. forget: the adapter is going. */
    virtual void fetch(Adapter & adapter) = 0;
    virtual void store(Adapter & adapter) = 0;
    virtual void forget(Adapter & adapter) = 0;
};
