#include <unistd.h> // sysconf

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/fault.h"
#include "kernels/geglu.h"
#include "kernels/gemm.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "model/transformer.h"

namespace {

/** Limit for the bytes of logits that exist at the same time. */
constexpr int64_t logits_bytes = int64_t{64} << 20;

int64_t logits_rows(int64_t vocabulary) { return std::max<int64_t>(16, logits_bytes / (vocabulary * static_cast<int64_t>(sizeof(float))) / 16 * 16); }

} // namespace

void Batch::add_row(const int32_t * row, int64_t length, int64_t first_position) {
    segments.push_back(Segment{count(), length, -1});
    tokens.insert(tokens.end(), row, row + length);
    for (int64_t i = 0; i < length; i++) positions.push_back(static_cast<int32_t>(first_position + i));
}

int64_t Batch::add_segment(const int32_t * first, int64_t length, int64_t parent) {
    int64_t position = 0;
    if (parent >= 0) {
        const Segment & before = segments[static_cast<size_t>(parent)];
        position = positions[static_cast<size_t>(before.begin + before.length - 1)] + 1;
    }
    add_row(first, length, position);
    segments.back().parent = parent;
    return static_cast<int64_t>(segments.size()) - 1;
}

KvCache::KvCache(const ModelShape & m, int64_t places) {
    const auto width = static_cast<size_t>(m.kv_heads * m.head_values);
    for (int64_t layer = 0; layer < m.layers; layer++) {
        keys.emplace_back(static_cast<size_t>(places) * width);
        values.emplace_back(static_cast<size_t>(places) * width);
    }
}

Transformer::Transformer(const ModelSource & source, int threads, Number training)
    : model_(source), pool_(threads), training_(training), panels_(profile_), attention_scratch_(threads), rope_tables_(model_.ropes.size()) {
    gemm_prepare();
}

int64_t Transformer::memory() const { return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE); }

std::string Transformer::kernels() const { return std::string("OpenBLAS ") + gemm_prepare() + (training_ == Number::bf16 ? ", training in bf16" : ""); }

int64_t Transformer::pass_bytes(const ModelShape & m, const AdapterShape * adapter, int threads, int64_t tokens, int64_t longest_path, Keep keep) {
    // In bf16, rounded inputs: those of products with weights, and those of products with an adapter's A or with its B's (three at most).
    const int64_t rank = adapter ? adapter->rank : 0, d = m.embedding, q = m.heads * m.head_values, kv = m.kv_heads * m.head_values, ff = m.feed_forward;
    int64_t pairs = std::max({rounded_pairs(d), rounded_pairs(q), rounded_pairs(ff)});
    if (keep == Keep::activations)
        pairs = std::max({pairs, rounded_pairs_backward(q + 2 * kv, d, rank), rounded_pairs_backward(d, q, rank), rounded_pairs_backward(2 * ff, d, rank), rounded_pairs_backward(d, ff, rank),
                          rounded_pairs_backward(m.vocabulary, d, rank)});
    const int64_t rounded = tokens * (pairs + (adapter ? 3 * (rank + 1) / 2 : 0));
    const int64_t floats = panel_floats + rounded + std::min(tokens, logits_rows(m.vocabulary)) * m.vocabulary +
                           2 * threads * query_block * longest_path + tokens * (2 * m.embedding + 1);
    return floats * static_cast<int64_t>(sizeof(float)) + tokens * Workspace::bytes_per_token(m, adapter, keep);
}

int64_t Transformer::cache_bytes(int64_t places) const {
    const ModelShape & m = shape();
    return places * 2 * m.layers * m.kv_heads * m.head_values * static_cast<int64_t>(sizeof(float));
}

std::unique_ptr<Cache> Transformer::make_cache(int64_t places) { return std::make_unique<KvCache>(shape(), places); }

int64_t Transformer::scratch_bytes() const {
    size_t values = panels_.rounded.capacity() + panels_.rounded_low.capacity();
    for (const Buffer<float> * buffer : {&asked_normed_, &asked_inv_, &asked_gradient_, &logits_, &head_u_, &head_du_, &head_dropped_}) values += buffer->capacity();
    return std::max(work_.bytes + attention_scratch_.bytes() + static_cast<int64_t>(values * sizeof(float)), promised_);
}

void Transformer::drop_scratch() {
    work_ = {};
    promised_ = longest_ = 0;
    attention_scratch_.drop();
    for (Buffer<uint32_t> * buffer : {&panels_.rounded, &panels_.rounded_low}) *buffer = {};
    for (Buffer<float> * buffer : {&asked_normed_, &asked_inv_, &asked_gradient_, &logits_, &head_u_, &head_du_, &head_dropped_}) *buffer = {};
}

void Transformer::prepare(const Batch & batch, const Adapter * adapter, Keep keep) {
    tokens_ = batch.count();
    plan_ = AttentionPlan(batch.segments);
    const auto bytes = [&](int64_t longest) {
        return pass_bytes(adapter ? &adapter->shape : nullptr, tokens_, longest, keep, 0) - panel_floats * static_cast<int64_t>(sizeof(float));
    };
    // What passes left is freed before more is allocated, so that two passes never take more than the larger of them.
    if (!work_.holds(shape(), adapter, tokens_, keep)) {
        drop_scratch();
        work_.make(shape(), adapter, tokens_, keep);
        promised_ = bytes(longest_ = plan_.longest);
    } else if (plan_.longest > longest_) {
        promised_ += bytes(plan_.longest) - bytes(longest_);
        longest_ = plan_.longest;
    }
    attention_scratch_.ensure(plan_.longest);
    const int64_t positions = 1 + *std::max_element(batch.positions.begin(), batch.positions.end());
    const int64_t d = shape().head_values;
    for (size_t r = 0; r < rope_tables_.size(); r++)
        for (auto at = static_cast<int64_t>(rope_tables_[r].size()) / d; at < positions; at++)
            rope_table_row(at, shape().rope_pairs, model_.ropes[r], rope_tables_[r]);
}

void Transformer::embed(const Batch & batch) {
    const int64_t d = shape().embedding;
    const float scale = shape().embedding_scale;
    float * x = work_.x[0].data();
    split(Op::embed, tokens_, 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++) model_.token_embd.read(batch.tokens[static_cast<size_t>(t)], 0, d, x + t * d);
        if (scale != 1)
            for (int64_t i = begin * d; i < end * d; i++) x[i] *= scale;
    });
}

AttentionShape Transformer::attention_shape(int64_t layer) const {
    const ModelShape & m = shape();
    return {m.heads, m.kv_heads, m.head_values, m.attention_scale, model_.layers[static_cast<size_t>(layer)].window};
}

namespace {

void add_bias(const std::vector<float> & bias, float * y) {
#pragma omp simd
    for (size_t i = 0; i < bias.size(); i++) y[i] += bias[i];
}

} // namespace

/** Turns the outputs of the matrices into q, k and v as attention reads them: adds biases, norms each head, rotates. */
void Transformer::place_heads(const Batch & batch, int64_t layer, LayerActivations & l) {
    const LayerWeights & w = model_.layers[static_cast<size_t>(layer)];
    const AttentionShape s = attention_shape(layer);
    const auto place = [&](int64_t t, int64_t heads, const std::vector<float> & bias, const std::vector<float> & norm, float * plain, float * inv, float * placed) {
        const float * table = rope_tables_[w.rope].data() + batch.positions[static_cast<size_t>(t)] * s.d;
        add_bias(bias, (norm.empty() ? placed : plain) + t * heads * s.d);
        for (int64_t h = t * heads; h < (t + 1) * heads; h++) {
            if (!norm.empty()) inv[h] = rmsnorm(plain + h * s.d, norm.data(), shape().norm_eps, s.d, placed + h * s.d);
            rope(placed + h * s.d, s.d, shape().rope_pairs, table, 1);
        }
    };
    split(Op::rope, tokens_, 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++) {
            place(t, s.heads, w.q_bias, w.q_norm, l.q_plain.data(), l.q_inv.data(), l.q.data());
            place(t, s.kv_heads, w.k_bias, w.k_norm, l.k_plain.data(), l.k_inv.data(), l.k.data());
            add_bias(w.v_bias, l.v.data() + t * s.kv_width());
        }
    });
}

double Transformer::flops_of_a(const Group & group, int64_t count) { return 2.0 * static_cast<double>(group.width * group.columns) * static_cast<double>(count); }

double Transformer::flops_of_b(const Group & group, int64_t count) {
    double parameters = 0;
    for (const Site & site : group.sites) parameters += static_cast<double>(site.rows * (group.width / static_cast<int64_t>(group.sites.size())));
    return 2 * parameters * static_cast<double>(count);
}

/** u [count, group width] = X Aᵀ. With dropout, X is the dropped input. */
void Transformer::lora_inputs(const Adapter & adapter, const Group & group, const LoraRows & rows, const float * x, float * u) {
    if (group.sites.empty()) return;
    const Timed timed(profile_, Op::lora, flops_of_a(group, rows.count));
    const Dropout dropping(adapter.shape.dropout);
    if (rows.origins) {
        pool_.split(rows.count, 4, [&](int64_t begin, int64_t end, int) {
            for (int64_t t = begin; t < end; t++)
                dropout(dropping, adapter.dropout_key(group, rows.origins[t]), x + t * group.columns, group.columns, rows.dropped + t * group.columns);
        });
        x = rows.dropped;
    }
    multiply({{Side::plain, Side::transposed, rows.count, group.width, group.columns, 1, x, group.columns, adapter.weights.data() + group.a, group.columns, false, u, group.width}});
}

/** The adapter's part of a target's product, from its group's u. Nothing when the adapter does not adapt the target. */
LowRank Transformer::lora_output(const Adapter & adapter, const Group & group, Target target, const float * u) {
    for (const Site & site : group.sites)
        if (site.target == target) {
            const float scale = faulty(Fault::scale_alpha_twice) ? adapter.scale() * adapter.scale() : adapter.scale();
            return {adapter.shape.rank, u + site.u, group.width, adapter.weights.data() + site.b, scale};
        }
    return {};
}

const Group * Transformer::group_of(const Adapter * adapter, int64_t layer, GroupIndex index) {
    return adapter ? &adapter->layers[static_cast<size_t>(layer)][index] : nullptr;
}

/**
 * Computes a group of products with one input x, and what an adapter adds to them. Leaves u [count, group width]. Without an adapter, group
 * is null.
 */
void Transformer::group_forward(const Adapter * adapter, const Group * group, const LoraRows & rows, const std::vector<std::pair<Target, Product>> & products, const float * x, float * u, bool add,
                                Op op) {
    if (group) lora_inputs(*adapter, *group, rows, x, u);
    std::vector<Product> whole;
    for (const auto & [target, product] : products) {
        whole.push_back(product);
        if (group) whole.back().low = lora_output(*adapter, *group, target, u);
    }
    linear(pool_, panels_, whole, x, rows.count, add, op);
}

void Transformer::attend(int64_t layer, LayerActivations & l, CachePlan * plan, bool one_token) {
    const AttentionShape s = attention_shape(layer);
    const Timed timed(profile_, Op::attention, one_token ? attention_flops(s, plan->read) : plan_.flops(s));
    if (plan) {
        const int64_t width = s.kv_width();
        auto & cache = static_cast<KvCache &>(*plan->cache);
        float * keys = cache.keys[static_cast<size_t>(layer)].data();
        float * values = cache.values[static_cast<size_t>(layer)].data();
        for (size_t i = 0; i < plan_.segments.size(); i++) {
            const Segment & segment = plan_.segments[i];
            const auto bytes = static_cast<size_t>(segment.length * width) * sizeof(float);
            std::memcpy(keys + plan->write[i] * width, l.k.data() + segment.begin * width, bytes);
            std::memcpy(values + plan->write[i] * width, l.v.data() + segment.begin * width, bytes);
        }
        if (one_token) return attention_cached(pool_, attention_scratch_, s, plan->read, l.q.data(), keys, values, l.attended.data());
    }
    attention(pool_, attention_scratch_, s, plan_, l.q.data(), l.k.data(), l.v.data(), l.attended.data(), l.lse.data());
}

/** x [tokens, embedding] += the norm of what a part of the layer adds. Stores the norm's inverses. */
void Transformer::add_normed(const std::vector<float> & weights, const float * added, float * inv, float * x) {
    const int64_t d = shape().embedding;
    split(Op::norm, tokens_, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++) inv[t] = rmsnorm_add(added + t * d, weights.data(), shape().norm_eps, d, x + t * d);
    });
}

void Transformer::feed_forward(int64_t layer, LayerActivations & l, const Adapter * adapter, float * x_out) {
    const LayerWeights & w = model_.layers[static_cast<size_t>(layer)];
    const int64_t d = shape().embedding, ff = shape().feed_forward;
    float * h = work_.normed.data();
    split(Op::norm, tokens_, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++) l.ffn_inv[static_cast<size_t>(t)] = rmsnorm(l.x_mid.data() + t * d, w.ffn_norm.data(), shape().norm_eps, d, h + t * d);
        std::memcpy(x_out + begin * d, l.x_mid.data() + begin * d, static_cast<size_t>((end - begin) * d) * sizeof(float));
    });
    group_forward(adapter, group_of(adapter, layer, group_gate_up), token_rows(), {{ffn_gate, {&w.ffn_gate, l.gate.data()}}, {ffn_up, {&w.ffn_up, l.up.data()}}}, h, l.u[group_gate_up].data(),
                  false);
    split(Op::activation, tokens_, 4, [&](int64_t begin, int64_t end, int) {
        const auto activate = shape().activation == Activation::gelu ? geglu : swiglu;
        activate(l.gate.data() + begin * ff, l.up.data() + begin * ff, (end - begin) * ff, work_.product.data() + begin * ff);
    });
    float * added = w.ffn_post_norm.empty() ? x_out : l.ffn_added.data();
    group_forward(adapter, group_of(adapter, layer, group_down), token_rows(), {{ffn_down, {&w.ffn_down, added}}}, work_.product.data(), l.u[group_down].data(), added == x_out);
    if (added != x_out) add_normed(w.ffn_post_norm, added, l.ffn_added_inv.data(), x_out);
}

void Transformer::layers_forward(const Batch & batch, const Adapter * adapter, Keep keep, CachePlan * plan, bool one_token, const LayerWatch * watch) {
    const Timed timed(profile_, Op::other);
    prepare(batch, adapter, keep);
    panels_.number = keep == Keep::activations || (plan && plan->as_trained) ? training_ : Number::f32;
    if (one_token)
        for (const Path & path : plan->read) attention_scratch_.ensure(path.length / query_block + 1);
    adapter_ = adapter;
    // Dropout is for training only: forward, scoring and sampling compute the adapter as it is served.
    origins_ = keep == Keep::activations && adapter->shape.dropout > 0 ? batch.origins.data() : nullptr;
    embed(batch);
    const int64_t d = shape().embedding;
    for (int64_t layer = 0; layer < shape().layers; layer++) {
        const LayerWeights & w = model_.layers[static_cast<size_t>(layer)];
        const int64_t first = adapter ? adapter->shape.first_layer : 0;
        const auto set = static_cast<size_t>(activation_set(layer, first, keep)), next = static_cast<size_t>(activation_set(layer + 1, first, keep));
        LayerActivations & l = work_.layers[set];
        const float * x = work_.x[set].data();
        float * x_out = work_.x[next].data();
        float * h = work_.normed.data();
        split(Op::norm, tokens_, 4, [&](int64_t begin, int64_t end, int) {
            for (int64_t t = begin; t < end; t++) l.attn_inv[static_cast<size_t>(t)] = rmsnorm(x + t * d, w.attn_norm.data(), shape().norm_eps, d, h + t * d);
            std::memcpy(l.x_mid.data() + begin * d, x + begin * d, static_cast<size_t>((end - begin) * d) * sizeof(float));
        });
        float * q = shape().head_norms ? l.q_plain.data() : l.q.data();
        float * k = shape().head_norms ? l.k_plain.data() : l.k.data();
        group_forward(adapter, group_of(adapter, layer, group_qkv), token_rows(), {{attn_q, {&w.attn_q, q}}, {attn_k, {&w.attn_k, k}}, {attn_v, {&w.attn_v, l.v.data()}}}, h, l.u[group_qkv].data(),
                      false);
        place_heads(batch, layer, l);
        attend(layer, l, plan, one_token);
        float * added = w.attn_post_norm.empty() ? l.x_mid.data() : l.attn_added.data();
        group_forward(adapter, group_of(adapter, layer, group_output), token_rows(), {{attn_output, {&w.attn_output, added}}}, l.attended.data(), l.u[group_output].data(),
                      added == l.x_mid.data());
        if (added != l.x_mid.data()) add_normed(w.attn_post_norm, added, l.attn_added_inv.data(), l.x_mid.data());
        feed_forward(layer, l, adapter, x_out);
        last_ = x_out;
        if (watch && watch->wants(layer)) watch->see(layer, {x_out, l.attended.data(), work_.product.data()});
    }
}

void Transformer::norm_positions(const std::vector<int64_t> & positions) {
    const int64_t d = shape().embedding;
    asked_normed_.ensure(positions.size() * static_cast<size_t>(d));
    asked_inv_.ensure(positions.size());
    asked_origins_.clear();
    if (origins_)
        for (int64_t position : positions) asked_origins_.push_back(origins_[position]);
    split(Op::norm, static_cast<int64_t>(positions.size()), 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; i++)
            asked_inv_[static_cast<size_t>(i)] =
                rmsnorm(last_ + positions[static_cast<size_t>(i)] * d, model_.output_norm.data(), shape().norm_eps, d, asked_normed_.data() + i * d);
    });
}

float * Transformer::make_logits(int64_t first, int64_t rows) {
    float * logits = logits_.ensure(static_cast<size_t>(rows * shape().vocabulary));
    const float * hidden = asked_normed_.data() + first * shape().embedding;
    const LoraRows of_head = head_rows(first, rows);
    group_forward(adapter_, adapter_ ? &adapter_->head : nullptr, of_head, {{output_head, {&model_.head, logits}}}, hidden, head_u_.data(), false, Op::head);
    return logits;
}

Transformer::LoraRows Transformer::head_rows(int64_t first, int64_t count) {
    if (!adapter_ || adapter_->head.sites.empty()) return {count, nullptr, nullptr, nullptr};
    const auto n = static_cast<size_t>(count), width = static_cast<size_t>(adapter_->head.width);
    head_u_.ensure(n * width);
    head_du_.ensure(n * width);
    if (origins_) head_dropped_.ensure(n * static_cast<size_t>(shape().embedding));
    return {count, origins_ ? asked_origins_.data() + first : nullptr, head_dropped_.data(), head_du_.data()};
}

void Transformer::each_logits(const std::vector<int64_t> & positions, const UseLogits & f) {
    norm_positions(positions);
    const auto count = static_cast<int64_t>(positions.size());
    const int64_t step = logits_rows(shape().vocabulary);
    for (int64_t first = 0; first < count; first += step) {
        const int64_t rows = std::min(step, count - first);
        float * logits = make_logits(first, rows);
        const Timed timed(profile_, Op::loss);
        f(first, rows, logits);
    }
}

std::vector<TokenLoss> Transformer::forward(const Batch & batch, const Adapter * adapter, const std::vector<Ask> & asks, int64_t top_k) {
    layers_forward(batch, adapter, Keep::nothing, nullptr, false);
    std::vector<int64_t> positions;
    for (const Ask & ask : asks) positions.push_back(ask.position);
    std::vector<TokenLoss> losses(asks.size());
    each_logits(positions, [&](int64_t first, int64_t count, float * logits) {
        pool_.split(count, 1, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; i++) {
                const Ask & ask = asks[static_cast<size_t>(first + i)];
                float * row = logits + i * shape().vocabulary;
                TokenLoss & loss = losses[static_cast<size_t>(first + i)];
                loss = token_loss(row, shape().vocabulary, ask.target, ask.soft);
                if (top_k > 0) loss.top = top_tokens(row, shape().vocabulary, loss.log_sum, top_k);
            }
        });
    });
    return losses;
}

void Transformer::watch(const Batch & batch, const Adapter * adapter, const LayerWatch & watch) { layers_forward(batch, adapter, Keep::nothing, nullptr, false, &watch); }

Projected Transformer::project(const Adapter * adapter, int64_t layer, Target target, const std::vector<float> & unit) {
    panels_.number = Number::f32;
    return ::project(pool_, panels_, model_, adapter, layer, target, unit);
}

void Transformer::prefill(const Batch & batch, const Adapter * adapter, CachePlan & plan) { layers_forward(batch, adapter, Keep::nothing, &plan, false); }

void Transformer::decode(const Batch & batch, const Adapter * adapter, CachePlan & plan) {
    layers_forward(batch, adapter, Keep::nothing, &plan, true);
}
