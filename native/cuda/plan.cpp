#include "cuda/plan.h"

#include <algorithm>
#include <numeric>

#include "base/limits.h"
#include "kernels/cuda/adamw.h"
#include "kernels/cuda/dequantise.h"

namespace {

constexpr int64_t tile_rows = 64;
/** Limit for the bytes of logits that exist at the same time, in single precision. */
constexpr int64_t logits_bytes = int64_t{256} << 20;

int64_t rounded(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

/** Rounds up to one of `steps` sizes per power of two. Sizes are at least `least` apart. */
int64_t bucket(int64_t value, int64_t least, int64_t steps) {
    int64_t octave = least;
    while (octave * 2 <= value) octave *= 2;
    return rounded(value, std::max(least, octave / steps));
}

bool overlap(const Need & a, const Need & b) { return a.first <= b.last && b.first <= a.last; }

} // namespace

int64_t place(std::vector<Need> & needs) {
    // The largest needs are placed first, each at the lowest offset where nothing lies that is alive with it.
    std::vector<size_t> order(needs.size()), placed;
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return needs[a].bytes > needs[b].bytes; });
    int64_t total = 0;
    for (size_t i : order) {
        Need & need = needs[i];
        const int64_t bytes = device_aligned(need.bytes);
        // `placed` is in order of offsets, so this finds the first gap that is wide enough.
        int64_t at = 0;
        for (size_t other : placed) {
            if (!overlap(need, needs[other])) continue;
            if (at + bytes <= needs[other].offset) break;
            at = std::max(at, needs[other].offset + device_aligned(needs[other].bytes));
        }
        need.offset = at;
        total = std::max(total, at + bytes);
        placed.insert(std::upper_bound(placed.begin(), placed.end(), i, [&](size_t a, size_t b) { return needs[a].offset < needs[b].offset; }), i);
    }
    return total;
}

PassSize PassSize::of(int64_t tokens, int64_t segments, int64_t asks, int64_t softs, Keep keep) {
    // The tokens that fill a pass up form a row of their own.
    // There are few sizes, so that they come again. Tokens cost most and are padded by 3 % at most, asks by 6 %; the others cost almost
    // nothing.
    const int64_t padded = tokens > 128 ? bucket(tokens, 128, 32) : rounded(tokens, 16);
    const int64_t padded_asks = asks > 64 ? bucket(asks, 64, 16) : rounded(std::max<int64_t>(asks, 1), 16);
    return {padded, padded_asks, bucket(std::max<int64_t>(softs, 1), 64, 4), bucket(padded / tile_rows + segments + 1, 16, 4), keep};
}

PassPlan plan_pass(const ModelShape & m, const AdapterShape * adapter, const PassSize & size, Number precision) {
    const int64_t t = size.tokens, d = m.embedding, ff = m.feed_forward, h = m.heads, q = m.heads * m.head_values, kv = m.kv_heads * m.head_values;
    const int64_t n = bytes_of(precision), f = 4;
    const bool keep = size.keep == Keep::activations;
    const auto rank_of = [&](std::initializer_list<Target> targets) {
        int64_t width = 0;
        for (Target target : targets)
            if (adapter && adapter->has(target)) width += adapter->rank;
        return width;
    };
    PassPlan plan{};
    plan.size = size;
    std::vector<Need> needs;
    std::vector<int64_t *> slots;
    const auto need = [&](int64_t & slot, int64_t bytes, Phase first, Phase last) {
        needs.push_back({bytes, first, last});
        slots.push_back(&slot);
    };
    constexpr Phase forward = Phase::forward, head = Phase::head, backward = Phase::backward;
    for (int64_t * input : {&plan.tokens, &plan.positions, &plan.first, &plan.last, &plan.row_end, &plan.places}) need(*input, t * 4, forward, backward);
    need(plan.origins, t * 8, forward, backward);
    need(plan.tiles, size.tiles * 12, forward, backward);
    need(plan.ask_rows, size.asks * 4, forward, backward);
    need(plan.targets, size.asks * 4, forward, head);
    need(plan.coefficients, size.asks * 12, forward, head);
    need(plan.soft_begin, (size.asks + 1) * 4, forward, head);
    need(plan.soft_tokens, size.softs * 4, forward, head);
    need(plan.soft_weights, size.softs * 4, forward, head);
    need(plan.ask_origins, size.asks * 8, forward, backward);
    need(plan.dropout_keys, (m.layers * groups_per_layer + 1) * 8, forward, backward);

    const Phase kept = keep ? backward : forward;
    plan.first_layer = keep ? adapter->first_layer : 0;
    plan.layers.resize(static_cast<size_t>(activation_sets(m, adapter, size.keep)));
    int64_t widest = 1;
    for (LayerOffsets & l : plan.layers) {
        for (int64_t * x : {&l.x, &l.x_mid}) need(*x, t * d * n, forward, kept);
        for (int64_t * inv : {&l.attn_inv, &l.ffn_inv}) need(*inv, t * f, forward, kept);
        need(l.qkv, t * (q + 2 * kv) * n, forward, kept);
        if (m.head_norms) {
            need(l.placed, t * (q + kv) * n, forward, kept);
            need(l.head_inv, t * (h + m.kv_heads) * f, forward, kept);
        }
        need(l.attended, t * q * n, forward, kept);
        need(l.lse, t * h * f, forward, kept);
        need(l.gate_up, t * 2 * ff * n, forward, kept);
        if (m.post_norms) {
            for (int64_t * added : {&l.attn_added, &l.ffn_added}) need(*added, t * d * n, forward, kept);
            for (int64_t * inv : {&l.attn_added_inv, &l.ffn_added_inv}) need(*inv, t * f, forward, kept);
        }
        const int64_t widths[] = {rank_of({attn_q, attn_k, attn_v}), rank_of({attn_output}), rank_of({ffn_gate, ffn_up}), rank_of({ffn_down})};
        for (size_t g = 0; g < groups_per_layer; g++) {
            need(l.u[g], t * widths[g] * n, forward, kept);
            widest = std::max(widest, widths[g]);
        }
    }
    const bool dropout = keep && adapter && adapter->dropout > 0;
    const int64_t columns = std::max({d, q, ff}), scratch = std::max({(q + 2 * kv) * d, 2 * ff * d});
    const Phase end = keep ? backward : forward;
    need(plan.stream, t * d * f, forward, keep ? backward : head);
    need(plan.normed, t * d * n, forward, end);
    need(plan.product, t * ff * n, forward, end);
    if (m.post_norms) need(plan.added, t * d * f, forward, forward);
    // Holds the weights of one layer's product at a time; then those of the head.
    need(plan.weights, std::max(scratch, m.vocabulary * d) * n, forward, end == forward ? head : backward);
    if (dropout) {
        need(plan.dropped, std::max(t, size.asks) * columns * n, forward, backward);
        need(plan.through, std::max(t, size.asks) * columns * n, head, backward);
    }

    plan.logits_rows = std::min(size.asks, std::max<int64_t>(16, logits_bytes / (m.vocabulary * f) / 16 * 16));
    need(plan.asked, size.asks * d * n, head, head);
    need(plan.asked_inv, size.asks * f, head, backward);
    need(plan.logits, plan.logits_rows * m.vocabulary * f, head, head);
    need(plan.losses, size.asks * 12, head, backward);
    need(plan.soft_logprobs, size.softs * 4, head, backward);
    need(plan.head_u, plan.logits_rows * rank_of({output_head}) * n, head, head);
    if (keep) {
        if (precision == Number::bf16) need(plan.dlogits, plan.logits_rows * m.vocabulary * n, head, head);
        need(plan.head_du, plan.logits_rows * rank_of({output_head}) * n, head, head);
        need(plan.dasked, size.asks * d * f, head, backward);
        need(plan.dstream, t * d * f, head, backward);
        if (precision == Number::bf16) need(plan.dstream_narrow, t * d * n, head, backward);
        need(plan.dnormed, t * d * f, backward, backward);
        if (m.post_norms) need(plan.dadded, t * d * n, backward, backward);
        need(plan.dproduct, t * ff * n, backward, backward);
        need(plan.dattended, t * q * n, backward, backward);
        need(plan.dqkv, t * (q + 2 * kv) * n, backward, backward);
        need(plan.delta, t * h * f, backward, backward);
        need(plan.du, t * widest * n, backward, backward);
    }
    plan.total = place(needs);
    for (size_t i = 0; i < needs.size(); i++) *slots[i] = needs[i].offset;
    return plan;
}

bool device_reads(ggml_type type) {
    return gpu::with_type(type, [](auto) {});
}

int64_t device_matrix_bytes(const Matrix & m, Number precision) {
    return device_aligned(device_reads(m.type) ? m.rows * static_cast<int64_t>(ggml_row_size(m.type, m.columns)) : m.rows * m.columns * bytes_of(precision));
}

int64_t device_rope_positions(const ModelShape & m) {
    // PassSize::of adds fewer tokens than this to a pass. It adds more only if the pass is one row beyond gpu_pass_tokens, which the context
    // then holds.
    constexpr int64_t most_padding = limits::gpu_pass_tokens / 64;
    return std::clamp(m.context, most_padding, limits::max_row_tokens);
}

std::vector<float> qkv_bias_of(const ModelShape & shape, const LayerWeights & l) {
    const auto q = static_cast<size_t>(shape.heads * shape.head_values), kv = static_cast<size_t>(shape.kv_heads * shape.head_values);
    if (l.q_bias.empty() && l.k_bias.empty() && l.v_bias.empty()) return {};
    std::vector<float> all(q + 2 * kv);
    std::copy(l.q_bias.begin(), l.q_bias.end(), all.begin());
    std::copy(l.k_bias.begin(), l.k_bias.end(), all.begin() + static_cast<int64_t>(q));
    std::copy(l.v_bias.begin(), l.v_bias.end(), all.begin() + static_cast<int64_t>(q + kv));
    return all;
}

int64_t device_model_bytes(const GgufModel & model, Number precision) {
    const ModelShape & shape = model.shape;
    const auto floats = [](int64_t count) { return device_aligned(count * static_cast<int64_t>(sizeof(float))); };
    const int64_t layer_norms = (shape.post_norms ? 4 : 2) * floats(shape.embedding) + (shape.head_norms ? 2 * floats(shape.head_values) : 0);
    int64_t bytes = device_matrix_bytes(model.token_embd, precision) + (shape.tied ? 0 : device_matrix_bytes(model.head, precision)) + floats(shape.embedding);
    for (const LayerWeights & l : model.layers) {
        bytes += layer_norms;
        for (const Matrix * m : {&l.attn_q, &l.attn_k, &l.attn_v, &l.attn_output, &l.ffn_gate, &l.ffn_up, &l.ffn_down}) bytes += device_matrix_bytes(*m, precision);
        bytes += floats(static_cast<int64_t>(qkv_bias_of(shape, l).size()));
    }
    return bytes + static_cast<int64_t>(model.ropes.size()) * floats(device_rope_positions(shape) * shape.head_values);
}

AdapterPlan plan_adapter(int64_t parameters, Number precision) {
    AdapterPlan plan{};
    const auto next = [&](int64_t bytes) {
        const int64_t at = plan.total;
        plan.total += device_aligned(bytes);
        return at;
    };
    for (int64_t * array : {&plan.weights, &plan.gradients, &plan.first_moments, &plan.second_moments}) *array = next(parameters * 4);
    plan.narrow = precision == Number::bf16 ? next(parameters * 2) : plan.weights;
    plan.partial = next((parameters + gpu::SquaredNorm::chunk - 1) / gpu::SquaredNorm::chunk * 4);
    return plan;
}

int64_t device_adapter_bytes(const ModelShape & m, const AdapterShape & adapter, Number precision) {
    return plan_adapter(Adapter::bytes(m, adapter) / static_cast<int64_t>(4 * sizeof(float)), precision).total;
}

int64_t device_cache_bytes(const ModelShape & m, int64_t places, Number precision) { return places * 2 * m.layers * m.kv_heads * m.head_values * bytes_of(precision); }

int64_t device_pass_bytes(const ModelShape & m, const AdapterShape * adapter, int64_t tokens, Keep keep, Number precision, int64_t softs) {
    return plan_pass(m, adapter, PassSize::of(tokens, tokens, tokens, tokens * softs, keep), precision).total;
}
