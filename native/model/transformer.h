// The CPU's backend: one frozen transformer and its passes in single precision. In a training pass the products with frozen weights,
// forward and backward, may be in bf16, with what a LoRA adds to them. Forward and scoring stay in single precision, and so does sampling unless
// the caller asks otherwise, so that they match the served model to the last digits.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/matrix.h"
#include "model/backend.h"
#include "model/workspace.h"

/** Keys and values in the machine's memory, layer by layer. */
struct KvCache : Cache {
    KvCache(const ModelShape & model, int64_t places);
    std::vector<Buffer<float>> keys, values; // per layer [places, KV·d]
};

class Transformer final : public Backend {
public:
    /** training: the precision of the frozen products in forward_backward, and in sampling as trained; bf16 only if bf16::supported(). */
    Transformer(const ModelSource & source, int threads, Number training = Number::f32);

    const ModelShape & shape() const override { return model_.shape; }
    Pool & pool() override { return pool_; }
    std::string device() const override { return "cpu"; }
    int64_t memory() const override;
    int64_t pass_tokens() const override { return limits::cpu_pass_tokens; }
    bool trees() const override { return true; }
    int64_t adapter_bytes(const AdapterShape & adapter) const override { return Adapter::bytes(model_.shape, adapter); }
    int64_t pass_bytes(const AdapterShape * adapter, int64_t tokens, int64_t longest_path, Keep keep, int64_t) const override {
        return pass_bytes(shape(), adapter, pool_.threads(), tokens, longest_path, keep);
    }
    static int64_t pass_bytes(const ModelShape & model, const AdapterShape * adapter, int threads, int64_t tokens, int64_t longest_path, Keep keep);
    int64_t cache_bytes(int64_t places) const override;

    std::vector<TokenLoss> forward(const Batch & batch, const Adapter * adapter, const std::vector<Ask> & asks, int64_t top_k) override;
    std::vector<TokenLoss> forward_backward(const Batch & batch, Adapter & adapter, const std::vector<Ask> & asks) override;
    void watch(const Batch & batch, const Adapter * adapter, const LayerWatch & watch) override;
    Projected project(const Adapter * adapter, int64_t layer, Target target, const std::vector<float> & unit) override;
    std::unique_ptr<Cache> make_cache(int64_t places) override;
    void prefill(const Batch & batch, const Adapter * adapter, CachePlan & plan) override;
    void decode(const Batch & batch, const Adapter * adapter, CachePlan & plan) override;
    void each_logits(const std::vector<int64_t> & positions, const UseLogits & f) override;
    Adapter::Stepped optimise(Adapter & adapter, const AdamW & options) override {
        const Timed timed(profile_, Op::optimizer);
        return adapter.optimise(pool_, options);
    }
    void average(Adapter & adapter, const Adapter & from, double decay) override {
        const Timed timed(profile_, Op::optimizer);
        adapter.average(pool_, from, decay);
    }
    std::string kernels() const override;
    Number precision() const override { return training_; }
    Profile::All profile() const override { return profile_.all(); }
    int64_t scratch_bytes() const override;
    void drop_scratch() override;
    void clear_gradients(Adapter & adapter) override { adapter.clear_gradients(); }
    void fetch(Adapter &) override {}
    void store(Adapter &) override {}
    void forget(Adapter &) override {}

private:
    template <class F> void split(Op op, int64_t count, int64_t grain, const F & f) {
        const Timed timed(profile_, op);
        pool_.split(count, grain, f);
    }
    void prepare(const Batch & batch, const Adapter * adapter, Keep keep);
    void embed(const Batch & batch);
    void layers_forward(const Batch & batch, const Adapter * adapter, Keep keep, CachePlan * plan, bool one_token, const LayerWatch * watch = nullptr);
    AttentionShape attention_shape(int64_t layer) const;
    void place_heads(const Batch & batch, int64_t layer, LayerActivations & l);
    void place_heads_backward(const Batch & batch, int64_t layer, const LayerActivations & l, float * dq, float * dk);
    void add_normed(const std::vector<float> & weights, const float * added, float * inv, float * x);
    float * added_backward(const std::vector<float> & weights, const Buffer<float> & added, const Buffer<float> & inv);
    void attend(int64_t layer, LayerActivations & l, CachePlan * plan, bool one_token);
    void feed_forward(int64_t layer, LayerActivations & l, const Adapter * adapter, float * x_out);
    void layers_backward(const Batch & batch, Adapter & adapter);
    void feed_forward_backward(int64_t layer, Adapter & adapter);
    void attention_part_backward(const Batch & batch, int64_t layer, Adapter & adapter);

    /** The inputs of a group of LoRA sites: one per token of the pass, or one per position whose logits are computed. */
    struct LoraRows {
        int64_t count;
        const int64_t * origins; // [count] if inputs are dropped, else null
        float * dropped;         // [count, group columns]: scratch for the dropped inputs
        float * du;              // [count, group width]: scratch of the backward pass
    };
    LoraRows head_rows(int64_t first, int64_t count);
    LoraRows token_rows() { return {tokens_, origins_, work_.dropped.data(), work_.du.data()}; }
    /** Arithmetic of one product with a group's A's, and of one with its B's. */
    static double flops_of_a(const Group & group, int64_t count);
    static double flops_of_b(const Group & group, int64_t count);
    /** Uses the panel as scratch, which is free between the frozen products. */
    void multiply(const std::vector<TiledGemm> & products) { gemms(pool_, products, panels_.floats(), panel_floats); }
    void lora_inputs(const Adapter & adapter, const Group & group, const LoraRows & rows, const float * x, float * u);
    static LowRank lora_output(const Adapter & adapter, const Group & group, Target target, const float * u);
    static const Group * group_of(const Adapter * adapter, int64_t layer, GroupIndex index);
    void group_forward(const Adapter * adapter, const Group * group, const LoraRows & rows, const std::vector<std::pair<Target, Product>> & products, const float * x, float * u, bool add,
                       Op op = Op::linear);
    LowRank lora_input_gradient(const Adapter & adapter, const Group & group, const LoraRows & rows, const std::vector<const float *> & dys);
    void lora_gradients(Adapter & adapter, const Group & group, const LoraRows & rows, const float * x, const float * u, const std::vector<const float *> & dys, float * dx);
    void group_backward(Adapter & adapter, const Group & group, const LoraRows & rows, const std::vector<std::pair<Target, Product>> & products, const float * x, const float * u, float * dx,
                        Op op = Op::linear);

    void norm_positions(const std::vector<int64_t> & positions);
    float * make_logits(int64_t first, int64_t rows);

    GgufModel model_;
    Pool pool_;
    Number training_;
    Profile profile_;
    Panels panels_;
    AttentionPlan plan_;            // of the current pass
    Workspace work_;
    /** The most that passes in this workspace take, logits and what a pass did not need yet included, and their longest path. */
    int64_t promised_ = 0, longest_ = 0;
    AttentionScratch attention_scratch_;
    std::vector<std::vector<float>> rope_tables_; // for each rope of the model: [positions, d]
    int64_t tokens_ = 0;            // of the current pass
    const int64_t * origins_ = nullptr; // [tokens] if the current pass drops inputs of its adapter, else null
    const Adapter * adapter_ = nullptr; // of the current pass
    float * last_ = nullptr;        // [tokens, embedding]: residual stream after the last layer of the current pass
    Buffer<float> asked_normed_, asked_inv_, asked_gradient_; // [asks, embedding], [asks], [asks, embedding]
    std::vector<int64_t> asked_origins_;                      // [asks] if origins_ is set
    Buffer<float> logits_;
    Buffer<float> head_u_, head_du_, head_dropped_; // [chunk, rank] ×2, [chunk, embedding], for an adapted head
};
