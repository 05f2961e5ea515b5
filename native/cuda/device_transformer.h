// The transformer on a device with its own memory: what model/transformer_*.cpp does on the CPU, as launches of kernels and products.
// T is what weights, activations and inputs of products are in, Bf16 or float; the residual stream, its gradient, sums and
// everything of the adapter are in single precision. Weights stay quantised; a layer's are dequantised side by side when they are
// used, so that q, k and v are one product, as are gate and up.
//
// Device is CudaDevice, or the tests' EmulatedDevice: it gives memory, copies, launches, products and replays.
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/random.h"
#include "cuda/attention.h"
#include "cuda/plan.h"
#include "kernels/cuda/adamw.h"
#include "kernels/cuda/dequantise.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/rmsnorm.h"
#include "kernels/cuda/token_loss.h"
#include "model/backend.h"

/** Memory of a device, given back at the end. */
template <class Device> class DeviceMemory {
public:
    DeviceMemory() = default;
    DeviceMemory(Device & device, int64_t bytes) : device_(&device), data_(device.allocate(std::max<int64_t>(bytes, 1))), bytes_(bytes) {}
    DeviceMemory(DeviceMemory && other) noexcept { *this = std::move(other); }
    DeviceMemory & operator=(DeviceMemory && other) noexcept {
        std::swap(device_, other.device_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~DeviceMemory() {
        if (data_) device_->release(data_);
    }
    template <class V> V * at(int64_t offset = 0) const { return reinterpret_cast<V *>(static_cast<uint8_t *>(data_) + offset); }
    int64_t bytes() const { return bytes_; }

private:
    Device * device_ = nullptr;
    void * data_ = nullptr;
    int64_t bytes_ = 0;
};

template <class Device, class T> class DeviceTransformer final : public Backend {
public:
    static constexpr Number number = sizeof(T) == 2 ? Number::bf16 : Number::f32;

    /** memory: bytes the device has for weights, adapters and passes. */
    DeviceTransformer(std::unique_ptr<GgufModel> model, int threads, std::unique_ptr<Device> device, std::string name, int64_t memory)
        : model_(std::move(model)), pool_(threads), device_(std::move(device)), name_(std::move(name)), memory_(memory) {
        const int64_t needed = device_weight_bytes(*model_);
        if (needed > memory_)
            throw Failure("out_of_memory", "the model needs " + std::to_string(needed >> 20) + " MiB on the device, which has " + std::to_string(memory_ >> 20) + " MiB",
                          "Use a smaller quantisation, free the device, or open with device cpu.");
        load();
    }

    const ModelShape & shape() const override { return model_->shape; }
    Pool & pool() override { return pool_; }
    std::string device() const override { return name_; }
    int64_t memory() const override { return memory_; }
    int64_t pass_tokens() const override { return 16384; }
    bool trees() const override { return false; }
    int64_t adapter_bytes(const AdapterShape & adapter) const override {
        return device_adapter_bytes(Adapter::bytes(shape(), adapter) / static_cast<int64_t>(4 * sizeof(float)), number);
    }
    int64_t pass_bytes(const AdapterShape * adapter, int64_t tokens, int64_t, Keep keep) const override {
        return device_pass_bytes(shape(), adapter, tokens, keep, number);
    }
    int64_t cache_bytes(int64_t places) const override { return device_cache_bytes(shape(), places, number); }

    std::vector<TokenLoss> forward(const Batch & batch, const Adapter * adapter, const std::vector<Ask> & asks, int64_t top_k) override {
        begin(batch, adapter, asks, nullptr, Keep::nothing);
        forward_layers(adapter, nullptr, false);
        if (top_k == 0) {
            head(false);
            return losses(asks);
        }
        // The most likely tokens are picked on the machine.
        std::vector<TokenLoss> result(asks.size());
        each_chunk_of_logits(static_cast<int64_t>(asks.size()), [&](int64_t first, int64_t count, float * logits) {
            pool_.split(count, 1, [&](int64_t from, int64_t end, int) {
                for (int64_t i = from; i < end; i++) {
                    const Ask & ask = asks[static_cast<size_t>(first + i)];
                    float * row = logits + i * shape().vocabulary;
                    TokenLoss & loss = result[static_cast<size_t>(first + i)];
                    loss = token_loss(row, shape().vocabulary, ask.target, ask.soft);
                    loss.top = top_tokens(row, shape().vocabulary, loss.log_sum, top_k);
                }
            });
        });
        return result;
    }

    std::vector<TokenLoss> forward_backward(const Batch & batch, Adapter & adapter, const std::vector<Ask> & asks) override {
        begin(batch, &adapter, asks, nullptr, Keep::activations);
        // Everything the device does from here on depends on sizes alone: it may be recorded once and repeated.
        device_->replay(step_key(adapter), [&] {
            forward_layers(&adapter, nullptr, false);
            head(true);
            backward_layers(adapter);
        });
        return losses(asks);
    }

    std::unique_ptr<Cache> make_cache(int64_t places) override { return std::make_unique<PlaceCache>(*device_, cache_bytes(places), places); }

    void prefill(const Batch & batch, const Adapter * adapter, CachePlan & plan) override {
        begin(batch, adapter, {}, &plan, Keep::nothing);
        forward_layers(adapter, static_cast<PlaceCache *>(plan.cache), false);
    }

    void decode(const Batch & batch, const Adapter * adapter, CachePlan & plan) override {
        begin(batch, adapter, {}, &plan, Keep::nothing);
        forward_layers(adapter, static_cast<PlaceCache *>(plan.cache), true);
    }

    void each_logits(const std::vector<int64_t> & positions, const UseLogits & f) override {
        std::vector<int32_t> rows(static_cast<size_t>(plan_.size.asks), -1);
        std::copy(positions.begin(), positions.end(), rows.begin());
        upload(plan_.ask_rows, rows);
        each_chunk_of_logits(static_cast<int64_t>(positions.size()), f);
    }

    Adapter::Stepped optimise(Adapter & adapter, const AdamW & o) override {
        AdapterCopy & copy = copy_of(adapter);
        const auto count = static_cast<int64_t>(adapter.parameters), chunks = blocks(count, gpu::SquaredNorm::chunk);
        device_->launch(gpu::SquaredNorm{copy.gradients, count, copy.partial}, chunks, 1, wide);
        std::vector<float> partial(static_cast<size_t>(chunks));
        device_->read(partial.data(), copy.partial, chunks * 4);
        double squares = 0;
        for (float part : partial) squares += static_cast<double>(part);
        const double norm = std::sqrt(squares);
        if (!std::isfinite(norm)) {
            // The machine says which tensor it is and refuses the step, or takes it: its sums of squares reach further.
            fetch(adapter);
            device_->clear(copy.gradients, count * 4);
            const Adapter::Stepped stepped = adapter.optimise(pool_, o);
            store(adapter);
            return stepped;
        }
        const bool clipped = o.grad_clip_norm > 0 && norm > o.grad_clip_norm;
        adapter.step++;
        adapter.version++;
        const auto f = [](double value) { return static_cast<float>(value); };
        const auto step = static_cast<double>(adapter.step);
        device_->launch(gpu::AdamwStep{copy.weights, copy.gradients, copy.first_moments, copy.second_moments, count, f(o.beta1), f(o.beta2), f(1 - o.beta1), f(1 - o.beta2),
                                       f(1 / (1 - std::pow(o.beta1, step))), f(1 / (1 - std::pow(o.beta2, step))), f(o.learning_rate), f(o.eps),
                                       f(1 - o.learning_rate * o.weight_decay), f(clipped ? o.grad_clip_norm / norm : 1)},
                        blocks(count, wide), 1, wide);
        narrow(copy, count);
        adapter.clear_gradients();
        return {norm, clipped};
    }

    void clear_gradients(Adapter & adapter) override {
        const AdapterCopy & copy = copy_of(adapter);
        device_->clear(copy.gradients, static_cast<int64_t>(adapter.parameters) * 4);
        adapter.clear_gradients();
    }

    void fetch(Adapter & adapter) override {
        const AdapterCopy & copy = copy_of(adapter);
        const auto bytes = static_cast<int64_t>(adapter.parameters) * 4;
        device_->read(adapter.weights.data(), copy.weights, bytes);
        device_->read(adapter.gradients.data(), copy.gradients, bytes);
        device_->read(adapter.first_moments.data(), copy.first_moments, bytes);
        device_->read(adapter.second_moments.data(), copy.second_moments, bytes);
    }
    void store(Adapter & adapter) override {
        AdapterCopy & copy = copy_of(adapter);
        write(adapter, copy);
    }
    void forget(Adapter & adapter) override { copies_.erase(&adapter); }

    /** Bytes the weights take on a device: types without a kernel are stored as T. */
    static int64_t device_weight_bytes(const GgufModel & model) {
        int64_t bytes = matrix_bytes(model.token_embd) + (model.shape.tied ? 0 : matrix_bytes(model.head));
        for (const LayerWeights & l : model.layers)
            for (const Matrix * m : {&l.attn_q, &l.attn_k, &l.attn_v, &l.attn_output, &l.ffn_gate, &l.ffn_up, &l.ffn_down}) bytes += matrix_bytes(*m);
        return bytes;
    }

private:
    static constexpr int wide = 256; // threads of a block that has no reason for another number

    struct DeviceMatrix {
        const uint8_t * data;
        ggml_type type;
        int64_t rows, columns;
    };
    struct DeviceLayer {
        const float *attn_norm, *ffn_norm, *attn_post_norm, *ffn_post_norm, *q_norm, *k_norm, *q_bias, *k_bias, *v_bias; // null where there is none
        DeviceMatrix attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down;
        int64_t window; // 0 = none
        size_t rope;
    };
    struct AdapterCopy {
        DeviceMemory<Device> memory;
        float *weights, *gradients, *first_moments, *second_moments, *partial;
        T * narrow; // the weights as products read them
        uint64_t number;
    };
    struct PlaceCache : Cache {
        PlaceCache(Device & device, int64_t bytes, int64_t places_) : memory(device, bytes), places(places_) {}
        DeviceMemory<Device> memory; // per layer keys [places, KV·d], then values
        int64_t places;
    };
    /** Where a product of an adapted matrix goes, or its gradient comes from. */
    struct Side {
        Target target;
        void * data;
        int64_t stride;
        Number kind;
    };

    static int64_t blocks(int64_t count, int64_t each) { return (count + each - 1) / each; }
    static bool has_kernel(ggml_type type) {
        return with_type(type, [](auto) {});
    }
    template <class F> static bool with_type(ggml_type type, const F & f) { return gpu::with_type(type, f); }
    static int64_t matrix_bytes(const Matrix & m) {
        const int64_t bytes = has_kernel(m.type) ? m.rows * static_cast<int64_t>(ggml_row_size(m.type, m.columns)) : m.rows * m.columns * bytes_of(number);
        return (bytes + device_alignment - 1) / device_alignment * device_alignment;
    }

    static void narrow_row(const std::vector<float> & row, float * to) { std::copy(row.begin(), row.end(), to); }
    static void narrow_row(const std::vector<float> & row, gpu::Bf16 * to) {
        ggml_fp32_to_bf16_row(row.data(), reinterpret_cast<ggml_bf16_t *>(to), static_cast<int64_t>(row.size()));
    }

    // --- the model on the device

    void load() {
        int64_t vectors = 0;
        const auto count = [&](const std::vector<float> & v) { vectors += (static_cast<int64_t>(v.size()) * 4 + device_alignment - 1) / device_alignment * device_alignment; };
        count(model_->output_norm);
        for (const LayerWeights & l : model_->layers)
            for (const std::vector<float> * v : {&l.attn_norm, &l.ffn_norm, &l.attn_post_norm, &l.ffn_post_norm, &l.q_norm, &l.k_norm, &l.q_bias, &l.k_bias, &l.v_bias}) count(*v);
        weights_ = DeviceMemory<Device>(*device_, device_weight_bytes(*model_) + vectors);
        int64_t at = 0;
        embedding_ = put_matrix(model_->token_embd, at);
        head_ = model_->shape.tied ? embedding_ : put_matrix(model_->head, at);
        output_norm_ = put_vector(model_->output_norm, at);
        for (const LayerWeights & l : model_->layers)
            layers_.push_back({put_vector(l.attn_norm, at), put_vector(l.ffn_norm, at), put_vector(l.attn_post_norm, at), put_vector(l.ffn_post_norm, at), put_vector(l.q_norm, at),
                               put_vector(l.k_norm, at), put_vector(l.q_bias, at), put_vector(l.k_bias, at), put_vector(l.v_bias, at), put_matrix(l.attn_q, at),
                               put_matrix(l.attn_k, at), put_matrix(l.attn_v, at), put_matrix(l.attn_output, at), put_matrix(l.ffn_gate, at), put_matrix(l.ffn_up, at),
                               put_matrix(l.ffn_down, at), l.window == no_window ? 0 : l.window, l.rope});
        rope_positions_ = std::max<int64_t>(128, std::min<int64_t>(shape().context, 32768)); // padding stands on the first 128
        const int64_t half = shape().head_values / 2;
        for (const Rope & rope : model_->ropes) {
            std::vector<float> table;
            for (int64_t p = 0; p < rope_positions_; p++)
                for (int64_t i = 0; i < half; i++) {
                    const double angle = static_cast<double>(p) * rope.frequencies[static_cast<size_t>(i)];
                    table.push_back(static_cast<float>(std::cos(angle) * rope.magnitude));
                    table.push_back(static_cast<float>(std::sin(angle) * rope.magnitude));
                }
            rope_tables_.emplace_back(*device_, static_cast<int64_t>(table.size()) * 4);
            device_->write(rope_tables_.back().template at<float>(), table.data(), static_cast<int64_t>(table.size()) * 4);
        }
    }

    DeviceMatrix put_matrix(const Matrix & m, int64_t & at) {
        auto * to = weights_.template at<uint8_t>(at);
        at += matrix_bytes(m);
        if (has_kernel(m.type)) {
            device_->write(to, m.data, m.rows * static_cast<int64_t>(ggml_row_size(m.type, m.columns)));
            return {to, m.type, m.rows, m.columns};
        }
        std::vector<float> row(static_cast<size_t>(m.columns));
        std::vector<T> narrowed(row.size());
        for (int64_t r = 0; r < m.rows; r++) {
            m.read(r, 0, m.columns, row.data());
            narrow_row(row, narrowed.data());
            device_->write(to + r * m.columns * bytes_of(number), narrowed.data(), m.columns * bytes_of(number));
        }
        return {to, number == Number::bf16 ? GGML_TYPE_BF16 : GGML_TYPE_F32, m.rows, m.columns};
    }

    const float * put_vector(const std::vector<float> & v, int64_t & at) {
        if (v.empty()) return nullptr;
        auto * to = weights_.template at<float>(at);
        device_->write(to, v.data(), static_cast<int64_t>(v.size()) * 4);
        at += (static_cast<int64_t>(v.size()) * 4 + device_alignment - 1) / device_alignment * device_alignment;
        return to;
    }

    // --- adapters

    AdapterCopy & copy_of(const Adapter & adapter) {
        const auto found = copies_.find(&adapter);
        if (found != copies_.end()) return found->second;
        const auto count = static_cast<int64_t>(adapter.parameters), padded = (count + 63) / 64 * 64;
        const int64_t partials = blocks(count, gpu::SquaredNorm::chunk);
        AdapterCopy copy{DeviceMemory<Device>(*device_, padded * (16 + (number == Number::bf16 ? 2 : 0)) + partials * 4), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, ++adapters_made_};
        copy.weights = copy.memory.template at<float>();
        copy.gradients = copy.weights + padded;
        copy.first_moments = copy.gradients + padded;
        copy.second_moments = copy.first_moments + padded;
        copy.narrow = number == Number::bf16 ? reinterpret_cast<T *>(copy.second_moments + padded) : reinterpret_cast<T *>(copy.weights);
        copy.partial = number == Number::bf16 ? reinterpret_cast<float *>(copy.narrow + padded) : copy.second_moments + padded;
        AdapterCopy & kept = copies_.emplace(&adapter, std::move(copy)).first->second;
        device_->clear(kept.gradients, count * 4);
        write(adapter, kept);
        return kept;
    }

    void write(const Adapter & adapter, AdapterCopy & copy) {
        const auto count = static_cast<int64_t>(adapter.parameters);
        device_->write(copy.weights, adapter.weights.data(), count * 4);
        device_->write(copy.first_moments, adapter.first_moments.data(), count * 4);
        device_->write(copy.second_moments, adapter.second_moments.data(), count * 4);
        narrow(copy, count);
    }

    void narrow(AdapterCopy & copy, int64_t count) {
        if (number == Number::bf16) device_->launch(gpu::Cast<T>{copy.weights, count, copy.narrow}, blocks(count, wide), 1, wide);
    }

    // --- a pass: memory and inputs

    template <class V> V * at(int64_t offset) const { return arena_.template at<V>(offset); }
    template <class V> void upload(int64_t offset, const std::vector<V> & values) {
        device_->write(at<V>(offset), values.data(), static_cast<int64_t>(values.size() * sizeof(V)));
    }
    /** The layer's memory: one set where nothing is kept. */
    const LayerOffsets & offsets(size_t layer) const { return plan_.layers[plan_.size.keep == Keep::activations ? layer : 0]; }

    void begin(const Batch & batch, const Adapter * adapter, const std::vector<Ask> & asks, const CachePlan * cache, Keep keep) {
        int64_t softs = 0;
        for (const Ask & ask : asks) softs += ask.soft.count;
        const auto rows = static_cast<int64_t>(batch.segments.size());
        // Without asks, logits may be wanted of the end of every segment.
        const PassSize size = PassSize::of(batch.count(), rows, cache ? rows : static_cast<int64_t>(asks.size()), softs, keep);
        plan_ = plan_pass(shape(), adapter ? &adapter->shape : nullptr, size, number);
        if (plan_.total > arena_.bytes()) {
            arena_ = DeviceMemory<Device>(); // before the new one is asked for
            device_->forget_replays();
            arena_ = DeviceMemory<Device>(*device_, plan_.total);
        }
        adapter_ = adapter;
        copy_ = adapter ? &copy_of(*adapter) : nullptr;
        upload_tokens(batch, cache);
        upload_asks(asks);
        dropping_ = keep == Keep::activations && adapter->shape.dropout > 0;
        if (dropping_) upload_dropout(batch, *adapter, asks);
    }

    void upload_tokens(const Batch & batch, const CachePlan * cache) {
        const auto t = static_cast<size_t>(plan_.size.tokens), real = static_cast<size_t>(batch.count());
        std::vector<int32_t> tokens = batch.tokens, positions = batch.positions, first(t), last(t), row_end(t), places(t, -1);
        tokens.resize(t);
        positions.resize(t);
        std::vector<Segment> rows = batch.segments;
        for (const Segment & row : rows)
            if (row.parent >= 0) throw Failure("internal", "a device that knows no trees was given one");
        // What fills the pass up to its size is a row that nobody asks about.
        if (real < t) {
            rows.push_back({static_cast<int64_t>(real), static_cast<int64_t>(t - real), -1});
            for (size_t i = real; i < t; i++) positions[i] = static_cast<int32_t>(i - real);
        }
        std::vector<gpu::Tile> tiles;
        for (size_t r = 0; r < rows.size(); r++) {
            const auto begin_ = static_cast<int32_t>(rows[r].begin), end = static_cast<int32_t>(rows[r].begin + rows[r].length);
            for (int32_t i = begin_; i < end; i++) {
                first[static_cast<size_t>(i)] = begin_;
                last[static_cast<size_t>(i)] = i;
                row_end[static_cast<size_t>(i)] = end;
                if (cache && r < cache->write.size()) places[static_cast<size_t>(i)] = static_cast<int32_t>(cache->write[r] + i - begin_);
            }
            for (int32_t i = begin_; i < end; i += gpu::flash_rows) tiles.push_back({begin_, i, end});
            if (cache && r < cache->read.size()) {
                if (cache->read[r].spans.size() != 1) throw Failure("internal", "a row's places on a device must be one span");
                first[static_cast<size_t>(begin_)] = static_cast<int32_t>(cache->read[r].spans[0].begin);
                last[static_cast<size_t>(begin_)] = static_cast<int32_t>(cache->read[r].spans[0].begin + cache->read[r].spans[0].length - 1);
            } else if (cache && !cache->read.empty()) {
                // A row of padding beside decoding rows: it looks at one place, whatever is there.
                for (int32_t i = begin_; i < end; i++) first[static_cast<size_t>(i)] = last[static_cast<size_t>(i)] = static_cast<int32_t>(cache->read[0].spans[0].begin);
            }
        }
        tiles.resize(static_cast<size_t>(plan_.size.tiles), {0, 0, 0});
        upload(plan_.tokens, tokens);
        upload(plan_.positions, positions);
        upload(plan_.first, first);
        upload(plan_.last, last);
        upload(plan_.row_end, row_end);
        upload(plan_.places, places);
        upload(plan_.tiles, tiles);
    }

    void upload_asks(const std::vector<Ask> & asks) {
        const auto count = static_cast<size_t>(plan_.size.asks);
        std::vector<int32_t> rows(count, -1), targets(count, -1), soft_begin(count + 1), soft_tokens;
        std::vector<float> coefficients(3 * count), soft_weights;
        for (size_t i = 0; i < count; i++) {
            if (i < asks.size()) {
                const Ask & ask = asks[i];
                rows[i] = static_cast<int32_t>(ask.position);
                targets[i] = ask.target;
                coefficients[3 * i] = ask.coefficients.weight;
                coefficients[3 * i + 1] = ask.coefficients.entropy;
                coefficients[3 * i + 2] = ask.coefficients.z;
                soft_tokens.insert(soft_tokens.end(), ask.soft.tokens, ask.soft.tokens + ask.soft.count);
                soft_weights.insert(soft_weights.end(), ask.soft.weights, ask.soft.weights + ask.soft.count);
            }
            soft_begin[i + 1] = static_cast<int32_t>(soft_tokens.size());
        }
        upload(plan_.ask_rows, rows);
        upload(plan_.targets, targets);
        upload(plan_.coefficients, coefficients);
        upload(plan_.soft_begin, soft_begin);
        if (soft_tokens.empty()) return;
        upload(plan_.soft_tokens, soft_tokens);
        upload(plan_.soft_weights, soft_weights);
    }

    void upload_dropout(const Batch & batch, const Adapter & adapter, const std::vector<Ask> & asks) {
        std::vector<int64_t> origins = batch.origins;
        origins.resize(static_cast<size_t>(plan_.size.tokens));
        upload(plan_.origins, origins);
        std::vector<uint64_t> keys;
        for (const auto & groups : adapter.layers)
            for (const Group & group : groups) keys.push_back(adapter.dropout_key(group));
        keys.push_back(adapter.dropout_key(adapter.head));
        upload(plan_.dropout_keys, keys);
        std::vector<int64_t> of_asks(static_cast<size_t>(plan_.size.asks));
        for (size_t i = 0; i < asks.size(); i++) of_asks[i] = origins[static_cast<size_t>(asks[i].position)];
        upload(plan_.ask_origins, of_asks);
    }

    std::vector<TokenLoss> losses(const std::vector<Ask> & asks) {
        std::vector<gpu::RowLoss> rows(asks.size());
        device_->read(rows.data(), at<gpu::RowLoss>(plan_.losses), static_cast<int64_t>(rows.size() * sizeof(gpu::RowLoss)));
        size_t softs = 0;
        for (const Ask & ask : asks) softs += static_cast<size_t>(ask.soft.count);
        std::vector<float> soft(softs);
        if (softs > 0) device_->read(soft.data(), at<float>(plan_.soft_logprobs), static_cast<int64_t>(softs * 4));
        std::vector<TokenLoss> result(asks.size());
        size_t at_soft = 0;
        for (size_t i = 0; i < asks.size(); i++) {
            result[i].logprob = static_cast<double>(rows[i].logprob);
            result[i].entropy = static_cast<double>(rows[i].entropy);
            result[i].log_sum = static_cast<double>(rows[i].log_sum);
            for (int64_t k = 0; k < asks[i].soft.count; k++) result[i].soft_logprobs.push_back(static_cast<double>(soft[at_soft++]));
        }
        return result;
    }

    /** Passes with one key launch the same work on the same memory. */
    uint64_t step_key(const Adapter & adapter) const {
        uint64_t key = copy_of_number(adapter);
        for (int64_t part : {plan_.size.tokens, plan_.size.asks, plan_.size.softs, plan_.size.tiles}) key = random_key(key, static_cast<uint64_t>(part));
        return key;
    }
    uint64_t copy_of_number(const Adapter & adapter) const { return copies_.at(&adapter).number; }

    // --- products

    /** The matrices dequantised one behind the other, as rows of one. */
    T * dense(std::initializer_list<const DeviceMatrix *> matrices) {
        T * to = at<T>(plan_.weights);
        for (const DeviceMatrix * m : matrices) {
            const int64_t count = m->rows * m->columns;
            with_type(m->type, [&](auto type) { device_->launch(gpu::Dequantise<decltype(type)::value, T>{m->data, count, to}, blocks(count, 2 * wide), 1, wide); });
            to += count;
        }
        return at<T>(plan_.weights);
    }
    /** y [tokens, rows] = x · Wᵀ + beta · y. */
    void product(const T * x, int64_t tokens, const T * w, int64_t rows, int64_t columns, float beta, void * y, int64_t stride, Number kind) {
        device_->gemm({false, true, tokens, rows, columns, 1, x, columns, w, columns, beta, y, stride, number, kind});
    }
    /** dx [tokens, columns] = dy · W. */
    void product_back(const T * dy, int64_t stride, int64_t tokens, const T * w, int64_t rows, int64_t columns, void * dx, Number kind) {
        device_->gemm({false, false, tokens, columns, rows, 1, dy, stride, w, columns, 0, dx, columns, number, kind});
    }

    const T * dropped(const Adapter & adapter, const Group & group, const T * x, int64_t tokens, int64_t origins) {
        if (!dropping_) return x;
        const Dropout d(adapter.shape.dropout);
        device_->launch(gpu::DropoutRows<T, T, false>{x, group.columns, at<uint64_t>(plan_.dropout_keys) + group.index, at<int64_t>(origins), d.below, d.scale, at<T>(plan_.dropped)},
                        blocks(group.columns, wide), tokens, wide);
        return at<T>(plan_.dropped);
    }

    void lora(const Adapter & adapter, const Group & group, const T * x, int64_t tokens, T * u, const std::vector<Side> & outputs, int64_t origins) {
        if (group.sites.empty()) return;
        const T * w = copy_->narrow;
        x = dropped(adapter, group, x, tokens, origins);
        product(x, tokens, w + group.a, group.width, group.columns, 0, u, group.width, number);
        for (const Site & site : group.sites)
            for (const Side & y : outputs)
                if (y.target == site.target)
                    device_->gemm({false, true, tokens, site.rows, adapter.shape.rank, adapter.scale(), u + site.u, group.width, w + site.b, adapter.shape.rank, 1, y.data, y.stride, number, y.kind});
    }

    /** dx may be null: nothing below needs it. */
    void lora_back(const Adapter & adapter, const Group & group, const T * x, int64_t tokens, const T * u, T * du, const std::vector<Side> & dys, void * dx, Number kind, int64_t origins) {
        if (group.sites.empty()) return;
        const T * w = copy_->narrow;
        float * g = copy_->gradients;
        const int64_t rank = adapter.shape.rank;
        for (const Site & site : group.sites)
            for (const Side & dy : dys)
                if (dy.target == site.target) {
                    device_->gemm({false, false, tokens, rank, site.rows, adapter.scale(), dy.data, dy.stride, w + site.b, rank, 0, du + site.u, group.width, number, number});
                    device_->gemm({true, false, site.rows, rank, tokens, adapter.scale(), dy.data, dy.stride, u + site.u, group.width, 1, g + site.b, rank, number, Number::f32});
                }
        if (dx && !dropping_)
            device_->gemm({false, false, tokens, group.columns, group.width, 1, du, group.width, w + group.a, group.columns, 1, dx, group.columns, number, kind});
        else if (dx)
            drop_back(adapter, group, tokens, du, dx, kind, origins);
        x = dropped(adapter, group, x, tokens, origins);
        device_->gemm({true, false, group.width, group.columns, tokens, 1, du, group.width, x, group.columns, 1, g + group.a, group.columns, number, Number::f32});
    }

    /** dx += mask · (dU · A). */
    void drop_back(const Adapter & adapter, const Group & group, int64_t tokens, const T * du, void * dx, Number kind, int64_t origins) {
        T * through = at<T>(plan_.through);
        device_->gemm({false, false, tokens, group.columns, group.width, 1, du, group.width, copy_->narrow + group.a, group.columns, 0, through, group.columns, number, number});
        const Dropout d(adapter.shape.dropout);
        const auto * key = at<uint64_t>(plan_.dropout_keys) + group.index;
        const auto * of = at<int64_t>(origins);
        const int64_t x = blocks(group.columns, wide);
        if (kind == Number::f32)
            device_->launch(gpu::DropoutRows<T, float, true>{through, group.columns, key, of, d.below, d.scale, static_cast<float *>(dx)}, x, tokens, wide);
        else
            device_->launch(gpu::DropoutRows<T, T, true>{through, group.columns, key, of, d.below, d.scale, static_cast<T *>(dx)}, x, tokens, wide);
    }

    // --- forward

    int64_t tokens() const { return plan_.size.tokens; }
    int64_t q_width() const { return shape().heads * shape().head_values; }
    int64_t kv_width() const { return shape().kv_heads * shape().head_values; }
    int64_t qkv_width() const { return q_width() + 2 * kv_width(); }
    gpu::Activation activation() const { return shape().activation == ::Activation::gelu ? gpu::Activation::gelu_tanh : gpu::Activation::silu; }

    /** Queries and keys as attention reads them: in qkv, or beside it where heads are normed. */
    struct Heads {
        T *q, *k, *v;
        int64_t q_stride, k_stride, v_stride;
    };
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
    void rotate(const DeviceLayer & w, T * x, int64_t stride, int64_t count, float direction) {
        device_->launch(gpu::Rope<T>{x, stride, count, shape().head_values, at<int32_t>(plan_.positions), rope_tables_[w.rope].template at<float>(),
                                     shape().rope_pairs == RopePairs::halves, direction},
                        tokens(), 1, 128);
    }

    /** Products of the matrices → q, k and v as attention reads them: biases, norm of each head, rotation. */
    void place_heads(const DeviceLayer & w, const LayerOffsets & l) {
        T * qkv = at<T>(l.qkv);
        const int64_t q = q_width(), kv = kv_width();
        const auto bias = [&](const float * values, int64_t from, int64_t width) {
            if (values) device_->launch(gpu::AddBias<T>{qkv + from, qkv_width(), width, values}, blocks(width, wide), tokens(), wide);
        };
        bias(w.q_bias, 0, q);
        bias(w.k_bias, q, kv);
        bias(w.v_bias, q + kv, kv);
        const Heads h = heads(l);
        if (shape().head_norms) {
            const int64_t d = shape().head_values;
            device_->launch(gpu::HeadNorm<T>{qkv, qkv_width(), w.q_norm, shape().norm_eps, d, shape().heads, h.q, h.q_stride, at<float>(l.q_inv)}, tokens(), shape().heads, 32);
            device_->launch(gpu::HeadNorm<T>{qkv + q, qkv_width(), w.k_norm, shape().norm_eps, d, shape().kv_heads, h.k, h.k_stride, at<float>(l.k_inv)}, tokens(), shape().kv_heads, 32);
        }
        rotate(w, h.q, h.q_stride, shape().heads, 1);
        rotate(w, h.k, h.k_stride, shape().kv_heads, 1);
    }

    void attend(const DeviceLayer & w, const LayerOffsets & l, size_t layer, PlaceCache * cache, bool one_token) {
        const Heads h = heads(l);
        gpu::AttentionInputs<T> in = inputs(w, h);
        if (cache) {
            const int64_t width = kv_width();
            T * keys = cache->memory.template at<T>() + static_cast<int64_t>(layer) * 2 * cache->places * width;
            T * values = keys + cache->places * width;
            device_->launch(gpu::StoreCache<T>{h.k, h.v, h.k_stride, h.v_stride, width, at<int32_t>(plan_.places), keys, values}, blocks(width, wide), tokens(), wide);
            if (one_token) {
                in.k = keys;
                in.v = values;
                in.k_stride = in.v_stride = width;
                return attention_plain(*device_, in, tokens(), at<int32_t>(plan_.first), at<int32_t>(plan_.last), at<T>(l.attended), at<float>(l.lse));
            }
        }
        attention_forward(*device_, in, spans(), at<T>(l.attended), at<float>(l.lse));
    }
    AttentionSpans spans() const {
        return {tokens(), plan_.size.tiles, at<int32_t>(plan_.first), at<int32_t>(plan_.last), at<int32_t>(plan_.row_end), at<gpu::Tile>(plan_.tiles)};
    }

    void forward_layers(const Adapter * adapter, PlaceCache * cache, bool one_token) {
        const int64_t d = shape().embedding;
        float * x = at<float>(plan_.stream);
        with_type(embedding_.type, [&](auto type) {
            device_->launch(gpu::Embed<decltype(type)::value>{embedding_.data, at<int32_t>(plan_.tokens), d, shape().embedding_scale, x}, blocks(d, wide), tokens(), wide);
        });
        for (size_t layer = 0; layer < layers_.size(); layer++) {
            const DeviceLayer & w = layers_[layer];
            const LayerOffsets & l = offsets(layer);
            const std::array<Group, groups_per_layer> * groups = adapter ? &adapter->layers[layer] : nullptr;
            T * h = at<T>(plan_.normed);
            device_->launch(gpu::RmsNorm<float, T>{x, nullptr, w.attn_norm, shape().norm_eps, d, h, at<T>(l.x), at<float>(l.attn_inv)}, tokens(), 1, wide);
            T * qkv = at<T>(l.qkv);
            product(h, tokens(), dense({&w.attn_q, &w.attn_k, &w.attn_v}), qkv_width(), d, 0, qkv, qkv_width(), number);
            if (groups) lora(*adapter, (*groups)[group_qkv], h, tokens(), at<T>(l.u[group_qkv]), qkv_sides(qkv), plan_.origins);
            place_heads(w, l);
            attend(w, l, layer, cache, one_token);
            add(adapter, groups ? &(*groups)[group_output] : nullptr, attn_output, w.attn_output, at<T>(l.attended), at<T>(l.u[group_output]), w.attn_post_norm, l.attn_added, l.attn_added_inv);
            feed_forward(adapter, groups, w, l);
        }
    }

    std::vector<Side> qkv_sides(T * qkv) const {
        return {{attn_q, qkv, qkv_width(), number}, {attn_k, qkv + q_width(), qkv_width(), number}, {attn_v, qkv + q_width() + kv_width(), qkv_width(), number}};
    }
    std::vector<Side> gate_up_sides(T * gate_up) const {
        const int64_t ff = shape().feed_forward;
        return {{ffn_gate, gate_up, 2 * ff, number}, {ffn_up, gate_up + ff, 2 * ff, number}};
    }

    /** The stream += W · input and its adapter, through a norm where there is one. */
    void add(const Adapter * adapter, const Group * group, Target target, const DeviceMatrix & matrix, const T * input, T * u, const float * post_norm, int64_t added, int64_t inv) {
        const int64_t d = shape().embedding;
        float *x = at<float>(plan_.stream), *y = post_norm ? at<float>(plan_.added) : x;
        product(input, tokens(), dense({&matrix}), matrix.rows, matrix.columns, post_norm ? 0 : 1, y, d, Number::f32);
        if (group) lora(*adapter, *group, input, tokens(), u, {{target, y, d, Number::f32}}, plan_.origins);
        if (post_norm) device_->launch(gpu::PostNorm<T>{y, post_norm, shape().norm_eps, d, at<T>(added), at<float>(inv), x}, tokens(), 1, wide);
    }

    void feed_forward(const Adapter * adapter, const std::array<Group, groups_per_layer> * groups, const DeviceLayer & w, const LayerOffsets & l) {
        const int64_t d = shape().embedding, ff = shape().feed_forward;
        T *h = at<T>(plan_.normed), *gate_up = at<T>(l.gate_up), *made = at<T>(plan_.product);
        device_->launch(gpu::RmsNorm<float, T>{at<float>(plan_.stream), nullptr, w.ffn_norm, shape().norm_eps, d, h, at<T>(l.x_mid), at<float>(l.ffn_inv)}, tokens(), 1, wide);
        product(h, tokens(), dense({&w.ffn_gate, &w.ffn_up}), 2 * ff, d, 0, gate_up, 2 * ff, number);
        if (groups) lora(*adapter, (*groups)[group_gate_up], h, tokens(), at<T>(l.u[group_gate_up]), gate_up_sides(gate_up), plan_.origins);
        device_->launch(gpu::Glu<T>{gate_up, ff, activation(), made}, blocks(ff, wide), tokens(), wide);
        add(adapter, groups ? &(*groups)[group_down] : nullptr, ffn_down, w.ffn_down, made, at<T>(l.u[group_down]), w.ffn_post_norm, l.ffn_added, l.ffn_added_inv);
    }

    // --- head

    /** The norms of the asked positions, and the head's weights. */
    T * ask() {
        device_->launch(gpu::RmsNorm<float, T>{at<float>(plan_.stream), at<int32_t>(plan_.ask_rows), output_norm_, shape().norm_eps, shape().embedding, at<T>(plan_.asked), nullptr,
                                               at<float>(plan_.asked_inv)},
                        plan_.size.asks, 1, wide);
        return dense({&head_});
    }
    /** Logits of the asked rows from first on, in single precision. */
    float * make_logits(const T * w, int64_t first, int64_t rows) {
        float * logits = at<float>(plan_.logits);
        const T * asked = at<T>(plan_.asked) + first * shape().embedding;
        product(asked, rows, w, shape().vocabulary, shape().embedding, 0, logits, shape().vocabulary, Number::f32);
        if (adapter_) lora(*adapter_, adapter_->head, asked, rows, at<T>(plan_.head_u), {{output_head, logits, shape().vocabulary, Number::f32}}, plan_.ask_origins + first * 8);
        return logits;
    }

    void head(bool training) {
        const T * w = ask();
        const int64_t d = shape().embedding, v = shape().vocabulary;
        T * dlogits = !training ? nullptr : number == Number::bf16 ? at<T>(plan_.dlogits) : at<T>(plan_.logits);
        for (int64_t first = 0; first < plan_.size.asks; first += plan_.logits_rows) {
            const int64_t rows = std::min(plan_.logits_rows, plan_.size.asks - first);
            const float * logits = make_logits(w, first, rows);
            device_->launch(gpu::TokenLossRows<T>{logits, v, at<int32_t>(plan_.targets) + first, at<float>(plan_.coefficients) + 3 * first, at<int32_t>(plan_.soft_begin) + first,
                                                  at<int32_t>(plan_.soft_tokens), at<float>(plan_.soft_weights), at<gpu::RowLoss>(plan_.losses) + first, at<float>(plan_.soft_logprobs), dlogits},
                            rows, 1, 512);
            if (!training) continue;
            float * dasked = at<float>(plan_.dasked) + first * d;
            product_back(dlogits, v, rows, w, v, d, dasked, Number::f32);
            lora_back(*adapter_, adapter_->head, at<T>(plan_.asked) + first * d, rows, at<T>(plan_.head_u), at<T>(plan_.head_du), {{output_head, dlogits, v, number}}, dasked, Number::f32,
                      plan_.ask_origins + first * 8);
        }
    }

    template <class F> void each_chunk_of_logits(int64_t count, const F & f) {
        const T * w = ask();
        std::vector<float> host;
        for (int64_t first = 0; first < count; first += plan_.logits_rows) {
            const int64_t rows = std::min(plan_.logits_rows, count - first);
            const float * logits = make_logits(w, first, rows);
            host.resize(static_cast<size_t>(rows * shape().vocabulary));
            device_->read(host.data(), logits, rows * shape().vocabulary * 4);
            f(first, rows, host.data());
        }
    }

    // --- backward

    /** The stream's gradient as products read it. */
    T * dstream() const { return number == Number::bf16 ? at<T>(plan_.dstream_narrow) : at<T>(plan_.dstream); }
    /** Where kernels that change the stream's gradient leave its copy; single precision needs none. */
    T * dstream_copy() const { return number == Number::bf16 ? at<T>(plan_.dstream_narrow) : nullptr; }

    /** The gradient of what a part of the layer added to the stream: through the norm between, if any. */
    const T * added_back(const float * post_norm, int64_t added, int64_t inv) {
        if (!post_norm) return dstream();
        device_->launch(gpu::PostNormBackward<T>{at<T>(added), post_norm, at<float>(inv), at<float>(plan_.dstream), shape().embedding, at<T>(plan_.dadded)}, tokens(), 1, wide);
        return at<T>(plan_.dadded);
    }
    void norm_again(const float * w, int64_t x, int64_t inv) {
        device_->launch(gpu::RmsNormAgain<T>{at<T>(x), w, at<float>(inv), shape().embedding, at<T>(plan_.normed)}, tokens(), 1, wide);
    }
    /** The stream's gradient += what came to the norm of x. */
    void norm_back(const float * w, int64_t x, int64_t inv) {
        device_->launch(gpu::RmsNormBackward<T, T>{at<T>(x), nullptr, w, at<float>(inv), at<float>(plan_.dnormed), shape().embedding, at<float>(plan_.dstream), dstream_copy()}, tokens(), 1, wide);
    }

    void backward_layers(const Adapter & adapter) {
        const int64_t d = shape().embedding;
        float * dx = at<float>(plan_.dstream);
        device_->clear(dx, tokens() * d * 4);
        device_->launch(gpu::RmsNormBackward<float, T>{at<float>(plan_.stream), at<int32_t>(plan_.ask_rows), output_norm_, at<float>(plan_.asked_inv), at<float>(plan_.dasked), d, dx, nullptr},
                        plan_.size.asks, 1, wide);
        if (number == Number::bf16) device_->launch(gpu::Cast<T>{dx, tokens() * d, dstream()}, blocks(tokens() * d, wide), 1, wide);
        for (size_t layer = layers_.size(); layer-- > 0;) {
            feed_forward_back(adapter, layer);
            attention_back(adapter, layer);
        }
    }

    void feed_forward_back(const Adapter & adapter, size_t layer) {
        const DeviceLayer & w = layers_[layer];
        const LayerOffsets & l = offsets(layer);
        const auto & groups = adapter.layers[layer];
        const int64_t d = shape().embedding, ff = shape().feed_forward;
        T *gate_up = at<T>(l.gate_up), *made = at<T>(plan_.product), *dmade = at<T>(plan_.dproduct), *du = at<T>(plan_.du);
        const T * dadded = added_back(w.ffn_post_norm, l.ffn_added, l.ffn_added_inv);
        device_->launch(gpu::Glu<T>{gate_up, ff, activation(), made}, blocks(ff, wide), tokens(), wide);
        product_back(dadded, d, tokens(), dense({&w.ffn_down}), d, ff, dmade, number);
        lora_back(adapter, groups[group_down], made, tokens(), at<T>(l.u[group_down]), du, {{ffn_down, const_cast<T *>(dadded), d, number}}, dmade, number, plan_.origins);
        device_->launch(gpu::GluBackward<T>{gate_up, dmade, ff, activation()}, blocks(ff, wide), tokens(), wide);
        norm_again(w.ffn_norm, l.x_mid, l.ffn_inv);
        float * dh = at<float>(plan_.dnormed);
        product_back(gate_up, 2 * ff, tokens(), dense({&w.ffn_gate, &w.ffn_up}), 2 * ff, d, dh, Number::f32);
        lora_back(adapter, groups[group_gate_up], at<T>(plan_.normed), tokens(), at<T>(l.u[group_gate_up]), du, gate_up_sides(gate_up), dh, Number::f32, plan_.origins);
        norm_back(w.ffn_norm, l.x_mid, l.ffn_inv);
    }

    /** What nothing needs below the first layer's adapters is not computed. */
    void attention_back(const Adapter & adapter, size_t layer) {
        const DeviceLayer & w = layers_[layer];
        const LayerOffsets & l = offsets(layer);
        const auto & groups = adapter.layers[layer];
        const int64_t d = shape().embedding, q = q_width(), kv = kv_width(), head = shape().head_values;
        const bool lowest = layer == 0;
        if (lowest && groups[group_qkv].sites.empty() && groups[group_output].sites.empty()) return;
        T *dattended = at<T>(plan_.dattended), *dqkv = at<T>(plan_.dqkv), *du = at<T>(plan_.du);
        const T * dadded = added_back(w.attn_post_norm, l.attn_added, l.attn_added_inv);
        product_back(dadded, d, tokens(), dense({&w.attn_output}), d, q, dattended, number);
        lora_back(adapter, groups[group_output], at<T>(l.attended), tokens(), at<T>(l.u[group_output]), du, {{attn_output, const_cast<T *>(dadded), d, number}}, dattended, number, plan_.origins);
        if (lowest && groups[group_qkv].sites.empty()) return;
        float * delta = at<float>(plan_.delta);
        attention_backward(*device_, inputs(w, heads(l)), spans(), at<T>(l.attended), delta,
                           gpu::AttentionGradients<T>{dattended, at<float>(l.lse), delta, dqkv, dqkv + q, dqkv + q + kv, qkv_width(), qkv_width(), qkv_width()});
        rotate(w, dqkv, qkv_width(), shape().heads, -1);
        rotate(w, dqkv + q, qkv_width(), shape().kv_heads, -1);
        if (shape().head_norms) {
            const T * qkv = at<T>(l.qkv);
            device_->launch(gpu::HeadNormBackward<T>{qkv, qkv_width(), w.q_norm, at<float>(l.q_inv), head, shape().heads, dqkv, qkv_width()}, tokens(), shape().heads, 32);
            device_->launch(gpu::HeadNormBackward<T>{qkv + q, qkv_width(), w.k_norm, at<float>(l.k_inv), head, shape().kv_heads, dqkv + q, qkv_width()}, tokens(), shape().kv_heads, 32);
        }
        norm_again(w.attn_norm, l.x, l.attn_inv);
        float * dh = at<float>(plan_.dnormed);
        if (!lowest) product_back(dqkv, qkv_width(), tokens(), dense({&w.attn_q, &w.attn_k, &w.attn_v}), qkv_width(), d, dh, Number::f32);
        lora_back(adapter, groups[group_qkv], at<T>(plan_.normed), tokens(), at<T>(l.u[group_qkv]), du, qkv_sides(dqkv), lowest ? nullptr : dh, Number::f32, plan_.origins);
        if (!lowest) norm_back(w.attn_norm, l.x, l.attn_inv);
    }

    std::unique_ptr<GgufModel> model_;
    Pool pool_;
    std::unique_ptr<Device> device_; // before all that lies on it
    std::string name_;
    int64_t memory_;
    DeviceMemory<Device> weights_;
    DeviceMatrix embedding_, head_;
    const float * output_norm_ = nullptr;
    std::vector<DeviceLayer> layers_;
    int64_t rope_positions_ = 0;
    std::vector<DeviceMemory<Device>> rope_tables_; // [positions, d/2] of (cos, sin)
    std::map<const Adapter *, AdapterCopy> copies_;
    uint64_t adapters_made_ = 0;
    DeviceMemory<Device> arena_; // of a pass, laid out by plan_
    PassPlan plan_{};
    const Adapter * adapter_ = nullptr; // of the pass under way
    AdapterCopy * copy_ = nullptr;
    bool dropping_ = false;
};
