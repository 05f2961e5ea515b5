// The transformer on a device with its own memory. It does what model/transformer_*.cpp does on the CPU, as launches of kernels and
// products. T is the type of weights, activations and inputs of products, Bf16 or float. The residual stream, its gradient, sums, and the
// adapter's weights, gradients and moments are in single precision. Weights stay quantised. A layer's weights are dequantised next to each
// other when they are used, so that q, k and v are one product, and gate and up are one.
//
// Device is CudaDevice, or the tests' EmulatedDevice. It provides memory, copies, launches, products and replays. The passes are in
// device_pass.h (memory, inputs and products), device_forward.h, device_backward.h and device_decoding.h.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/limits.h"
#include "base/random.h"
#include "cuda/attention.h"
#include "cuda/device_adapters.h"
#include "cuda/device_memory.h"
#include "cuda/device_model.h"
#include "cuda/plan.h"
#include "kernels/cuda/dequantise.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/rmsnorm.h"
#include "kernels/cuda/token_loss.h"
#include "model/backend.h"

template <class Device, class T> class DeviceTransformer final : public Backend {
public:
    static constexpr Number number = sizeof(T) == 2 ? Number::bf16 : Number::f32;

    /**
     * memory: bytes that the device has for weights, adapters and passes. Throws out_of_memory, with both figures, when the model does not
     * fit.
     */
    DeviceTransformer(std::unique_ptr<GgufModel> model, int threads, std::unique_ptr<Device> device, std::string name, int64_t memory)
        : model_(std::move(model)), pool_(threads), device_(std::move(device)), name_(std::move(name)), memory_(memory), weights_(*device_, *model_, memory), adapters_(*device_) {
        device_->when_short([this] { return give_back(); });
    }

    const ModelShape & shape() const override { return model_->shape; }
    Pool & pool() override { return pool_; }
    std::string device() const override { return name_; }
    int64_t memory() const override { return memory_; }
    int64_t pass_tokens() const override { return limits::gpu_pass_tokens; }
    bool trees() const override { return false; }
    int64_t model_bytes() const override { return device_model_bytes(*model_, number); }
    int64_t adapter_bytes(const AdapterShape & adapter) const override { return device_adapter_bytes(shape(), adapter, number); }
    int64_t pass_bytes(const AdapterShape * adapter, int64_t tokens, int64_t, Keep keep, int64_t softs) const override {
        return device_pass_bytes(shape(), adapter, tokens, keep, number, softs);
    }
    int64_t cache_bytes(int64_t places) const override { return device_cache_bytes(shape(), places, number); }
    int64_t peak_device_bytes() const override { return device_->peak_bytes(); }
    std::string kernels() const override { return device_->kernels(); }
    Number precision() const override { return number; }
    int64_t scratch_bytes() const override { return arena_.bytes(); }
    void drop_scratch() override { release_scratch(); }
    int64_t shortages() const override { return shortages_; }

    std::vector<TokenLoss> forward(const Batch & batch, const Adapter * adapter, const std::vector<Ask> & asks, int64_t top_k) override;
    std::vector<TokenLoss> forward_backward(const Batch & batch, Adapter & adapter, const std::vector<Ask> & asks) override;
    void watch(const Batch & batch, const Adapter * adapter, const LayerWatch & watch) override;
    Projected project(const Adapter * adapter, int64_t layer, Target target, const std::vector<float> & unit) override {
        Profile unread;
        Panels panels(unread);
        return ::project(pool_, panels, *model_, adapter, layer, target, unit);
    }
    std::unique_ptr<Cache> make_cache(int64_t places) override { return std::make_unique<PlaceCache>(*device_, cache_bytes(places), places); }
    void prefill(const Batch & batch, const Adapter * adapter, CachePlan & plan) override;
    void decode(const Batch & batch, const Adapter * adapter, CachePlan & plan) override;
    void each_logits(const std::vector<int64_t> & positions, const UseLogits & f) override;

    Adapter::Stepped optimise(Adapter & adapter, const AdamW & options) override { return adapters_.optimise(adapter, options, pool_); }
    void average(Adapter & adapter, const Adapter & from, double decay) override { adapters_.average(adapter, from, decay); }
    void clear_gradients(Adapter & adapter) override { adapters_.clear_gradients(adapter); }
    void fetch(Adapter & adapter) override { adapters_.fetch(adapter); }
    void store(Adapter & adapter) override { adapters_.forget(adapter); }
    void forget(Adapter & adapter) override { adapters_.forget(adapter); }

private:
    static constexpr int wide = 256; // threads of a block by default

    struct PlaceCache : Cache {
        PlaceCache(Device & device, int64_t bytes, int64_t places_) : memory(device, bytes), places(places_) {}
        DeviceMemory<Device> memory; // per layer the keys [places, width = KV·d], then the values
        int64_t places;
        T * keys(size_t layer, int64_t width) const { return memory.template at<T>() + static_cast<int64_t>(layer) * 2 * places * width; }
        T * values(size_t layer, int64_t width) const { return keys(layer, width) + places * width; }
    };
    /** The output of an adapted matrix, or its gradient. */
    struct Side {
        Target target;
        void * data;
        int64_t stride;
        Number kind;
    };
    /** Queries, keys and values as attention reads them. They lie in qkv, except that normed queries and keys lie in l.placed. */
    struct Heads {
        T *q, *k, *v;
        int64_t q_stride, k_stride, v_stride;
    };

    static int64_t blocks(int64_t count, int64_t each) { return (count + each - 1) / each; }
    template <class F> static bool with_type(ggml_type type, const F & f) { return gpu::with_type(type, f); }

    int64_t tokens() const { return plan_.size.tokens; }
    int64_t q_width() const { return shape().heads * shape().head_values; }
    int64_t kv_width() const { return shape().kv_heads * shape().head_values; }
    int64_t qkv_width() const { return q_width() + 2 * kv_width(); }
    gpu::Activation activation() const { return shape().activation == ::Activation::gelu ? gpu::Activation::gelu_tanh : gpu::Activation::silu; }
    template <class V> V * at(int64_t offset) const { return arena_.template at<V>(offset); }
    const LayerOffsets & offsets(size_t layer) const {
        return plan_.layers[static_cast<size_t>(activation_set(static_cast<int64_t>(layer), plan_.first_layer, plan_.size.keep))];
    }

    // device_pass.h
    /** Frees what passes left for the next ones. Returns whether there was any. Do not call it within a pass. */
    bool release_scratch() {
        const bool recorded = device_->forget_replays(), any = arena_.bytes() > 0 || recorded;
        arena_ = DeviceMemory<Device>();
        return any;
    }
    /** The same for a device that ran out of memory. Returns whether it is worth asking again. */
    bool give_back() {
        if (!release_scratch()) return false;
        shortages_++;
        std::fprintf(stderr, "the GPU ran out of memory: what earlier passes left there is released, and the GPU is asked again\n");
        return true;
    }
    /**
     * Runs f. If the device runs out of memory in it and something can be given back, f runs once more from its beginning. f must be a pass
     * that may run twice.
     */
    template <class F> auto twice_when_short(const F & f) {
        try {
            return f();
        } catch (const Failure & failure) {
            if (failure.code != "out_of_memory" || !give_back()) throw;
        }
        return f();
    }
    template <class V> void upload(int64_t offset, const std::vector<V> & values) {
        device_->write(at<V>(offset), values.data(), static_cast<int64_t>(values.size() * sizeof(V)));
    }
    void begin(const Batch & batch, const Adapter * adapter, const std::vector<Ask> & asks, const CachePlan * cache, Keep keep);
    void upload_tokens(const Batch & batch, const CachePlan * cache);
    void upload_asks(const std::vector<Ask> & asks);
    void upload_dropout(const Batch & batch, const Adapter & adapter, const std::vector<Ask> & asks);
    std::vector<TokenLoss> losses(const std::vector<Ask> & asks);
    /** Dequantises the matrices one after the other, as the rows of a single matrix. */
    T * dense(std::initializer_list<const DeviceMatrix *> matrices);
    /** y [tokens, rows] = x · Wᵀ + beta · y. */
    void product(const T * x, int64_t rows_of_x, const T * w, int64_t rows, int64_t columns, float beta, void * y, int64_t stride, Number kind) {
        device_->gemm({false, true, rows_of_x, rows, columns, 1, x, columns, w, columns, beta, y, stride, number, kind});
    }
    /** dx [tokens, columns] = dy · W. */
    void product_back(const T * dy, int64_t stride, int64_t rows_of_dy, const T * w, int64_t rows, int64_t columns, void * dx, Number kind) {
        device_->gemm({false, false, rows_of_dy, columns, rows, 1, dy, stride, w, columns, 0, dx, columns, number, kind});
    }
    const T * dropped(const Adapter & adapter, const Group & group, const T * x, int64_t tokens, int64_t origins);
    void lora(const Adapter & adapter, const Group & group, const T * x, int64_t tokens, T * u, const std::vector<Side> & outputs, int64_t origins);
    /** dx may be null when nothing below needs it. */
    void lora_back(const Adapter & adapter, const Group & group, const T * x, int64_t tokens, const T * u, T * du, const std::vector<Side> & dys, void * dx, Number kind, int64_t origins);
    /** dx += mask · (dU · A). */
    void drop_back(const Adapter & adapter, const Group & group, int64_t tokens, const T * du, void * dx, Number kind, int64_t origins);

    // device_forward.h
    Heads heads(const LayerOffsets & l) const {
        T * qkv = at<T>(l.qkv);
        const int64_t q = q_width(), kv = kv_width();
        if (!shape().head_norms) return {qkv, qkv + q, qkv + q + kv, qkv_width(), qkv_width(), qkv_width()};
        return {at<T>(l.placed), at<T>(l.placed) + q, qkv + q + kv, q + kv, q + kv, qkv_width()};
    }
    gpu::AttentionInputs<T> inputs(const DeviceLayer & w, const Heads & h) const {
        const ModelShape & m = shape();
        return {h.q, h.k, h.v, h.q_stride, h.k_stride, h.v_stride, m.heads, m.heads / m.kv_heads, m.head_values, static_cast<float>(m.attention_scale), w.window};
    }
    AttentionSpans spans() const {
        return {tokens(), plan_.size.tiles, at<int32_t>(plan_.first), at<int32_t>(plan_.last), at<int32_t>(plan_.row_end), at<gpu::Tile>(plan_.tiles)};
    }
    std::vector<Side> qkv_sides(T * qkv) const {
        return {{attn_q, qkv, qkv_width(), number}, {attn_k, qkv + q_width(), qkv_width(), number}, {attn_v, qkv + q_width() + kv_width(), qkv_width(), number}};
    }
    std::vector<Side> gate_up_sides(T * gate_up) const {
        const int64_t ff = shape().feed_forward;
        return {{ffn_gate, gate_up, 2 * ff, number}, {ffn_up, gate_up + ff, 2 * ff, number}};
    }
    /** Rotates the heads of q, and those of k after them. */
    void rotate(const DeviceLayer & w, T * x, int64_t stride, float direction);
    void glu(const T * gate_up, T * made);
    /** Turns the outputs of the matrices into q, k and v as attention reads them: adds biases, norms each head, rotates. */
    void place_heads(const DeviceLayer & w, const LayerOffsets & l);
    void attend(const DeviceLayer & w, const LayerOffsets & l, size_t layer, PlaceCache * cache, bool one_token);
    void forward_layers(const Adapter * adapter, PlaceCache * cache, bool one_token, const LayerWatch * watch = nullptr);
    void show(int64_t layer, const LayerOffsets & l, const LayerWatch & watch);
    /** Adds W · input and the adapter's part to the stream, through a norm if there is one. */
    void add(const Adapter * adapter, const Group * group, Target target, const DeviceMatrix & matrix, const T * input, T * u, const float * post_norm, int64_t added, int64_t inv);
    void feed_forward(const Adapter * adapter, const std::array<Group, groups_per_layer> * groups, const DeviceLayer & w, const LayerOffsets & l);
    /** Norms the asked positions, and returns the head's weights. */
    T * ask();
    /** Computes the logits of `rows` asked rows from `first` on, in single precision. */
    float * make_logits(const T * w, int64_t first, int64_t rows);
    void head(bool training);
    std::vector<TokenLoss> most_likely(const std::vector<Ask> & asks, int64_t top_k);
    template <class F> void each_chunk_of_logits(int64_t count, const F & f);

    // device_backward.h
    std::vector<TokenLoss> train(const Batch & batch, Adapter & adapter, const std::vector<Ask> & asks);
    /** The stream's gradient in the type that products read. */
    T * dstream() const { return number == Number::bf16 ? at<T>(plan_.dstream_narrow) : at<T>(plan_.dstream); }
    /** Where kernels that change the stream's gradient write a copy in T. Null in single precision, which needs no copy. */
    T * dstream_copy() const { return number == Number::bf16 ? at<T>(plan_.dstream_narrow) : nullptr; }
    /** Passes with the same key launch the same work on the same memory. */
    uint64_t step_key() const {
        uint64_t key = copy_->number;
        for (int64_t part : {plan_.size.tokens, plan_.size.asks, plan_.size.softs, plan_.size.tiles}) key = random_key(key, static_cast<uint64_t>(part));
        return key;
    }
    /** The gradient of what a part of the layer added to the stream. It goes through the norm between them, if there is one. */
    const T * added_back(const float * post_norm, int64_t added, int64_t inv);
    void norm_again(const float * w, int64_t x, int64_t inv);
    /** Adds the gradient through the norm of x to the stream's gradient. */
    void norm_back(const float * w, int64_t x, int64_t inv);
    void backward_layers(const Adapter & adapter);
    void feed_forward_back(const Adapter & adapter, size_t layer);
    /** Does not compute what nothing below the first layer's adapters needs. */
    void attention_back(const Adapter & adapter, size_t layer);

    // device_decoding.h
    void keep_in_cache(const LayerOffsets & l, size_t layer, PlaceCache & cache);
    void attend_to_cache(const DeviceLayer & w, const LayerOffsets & l, size_t layer, const PlaceCache & cache);

    std::unique_ptr<GgufModel> model_;
    Pool pool_;
    std::unique_ptr<Device> device_; // declared before everything that lies on it, so that it is destroyed last
    std::string name_;
    int64_t memory_;
    DeviceModel<Device, T> weights_;
    DeviceAdapters<Device, T> adapters_;
    DeviceMemory<Device> arena_; // memory of a pass, laid out by plan_
    PassPlan plan_{};
    const Adapter * adapter_ = nullptr; // of the current pass
    typename DeviceAdapters<Device, T>::Copy * copy_ = nullptr;
    bool dropping_ = false;
    int64_t shortages_ = 0;
};

/** Opens a model on a device in the given precision. It may fill the device's free memory except for a reserve. */
template <class Device>
std::unique_ptr<Backend> open_on_device(const ModelSource & source, int threads, std::unique_ptr<Device> device, const std::string & name, Number precision) {
    const int64_t memory = std::max<int64_t>(0, device->free_bytes() - device_reserve_bytes);
    auto model = std::make_unique<GgufModel>(source);
    if (precision == Number::f32) return std::make_unique<DeviceTransformer<Device, float>>(std::move(model), threads, std::move(device), name, memory);
    return std::make_unique<DeviceTransformer<Device, gpu::Bf16>>(std::move(model), threads, std::move(device), name, memory);
}

#include "cuda/device_backward.h"
#include "cuda/device_decoding.h"
#include "cuda/device_forward.h"
#include "cuda/device_pass.h"
