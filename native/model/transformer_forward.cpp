#include <unistd.h> // sysconf

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/fault.h"
#include "kernels/gemm.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "model/transformer.h"

namespace {

/** Bytes of logits that exist at the same time. */
constexpr int64_t logits_bytes = int64_t{64} << 20;

/** Rows of logits that exist at the same time. */
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

Transformer::Transformer(const std::string & path, int threads)
    : model_(path), pool_(threads), panels_(threads, profile_), attention_{model_.shape.heads, model_.shape.kv_heads, model_.shape.head_values},
      attention_scratch_(threads) {
    gemm_prepare();
}

int64_t Transformer::memory() const { return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE); }

int64_t Transformer::pass_bytes(const AdapterShape * adapter, int64_t tokens, int64_t longest_path, Keep keep) const {
    const ModelShape & m = shape();
    const int64_t floats = pool_.threads() * panel_floats + std::min(tokens, logits_rows(m.vocabulary)) * m.vocabulary +
                           2 * pool_.threads() * query_block * longest_path + tokens * (2 * m.embedding + 1);
    return floats * static_cast<int64_t>(sizeof(float)) + tokens * Workspace::bytes_per_token(m, adapter, keep);
}

int64_t Transformer::cache_bytes(int64_t places) const {
    const ModelShape & m = shape();
    return places * 2 * m.layers * m.kv_heads * m.head_values * static_cast<int64_t>(sizeof(float));
}

std::unique_ptr<Cache> Transformer::make_cache(int64_t places) { return std::make_unique<KvCache>(shape(), places); }

void Transformer::prepare(const Batch & batch, const Adapter * adapter, Keep keep) {
    tokens_ = batch.count();
    work_.ensure(shape(), adapter, tokens_, keep);
    plan_ = AttentionPlan(batch.segments);
    attention_scratch_.ensure(plan_.longest);
    const int64_t positions = 1 + *std::max_element(batch.positions.begin(), batch.positions.end());
    const int64_t d = shape().head_values;
    for (auto at = static_cast<int64_t>(rope_table_.size()) / d; at < positions; at++)
        for (int64_t pair = 0; pair < d / 2; pair++) {
            const double angle = rope_angle(at, pair, d, shape().rope_base, shape().rope_scale, shape().rope_factors);
            rope_table_.push_back(static_cast<float>(std::cos(angle)));
            rope_table_.push_back(static_cast<float>(std::sin(angle)));
        }
}

void Transformer::embed(const Batch & batch) {
    const int64_t d = shape().embedding;
    float * x = work_.x[0].data();
    pool_.split(tokens_, 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++) model_.token_embd.read(batch.tokens[static_cast<size_t>(t)], 0, d, x + t * d);
    });
}

void Transformer::rotate(const Batch & batch, float * q, float * k, float direction) {
    const int64_t d = attention_.d;
    pool_.split(tokens_, 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++) {
            const float * table = rope_table_.data() + batch.positions[static_cast<size_t>(t)] * d;
            for (int64_t h = 0; h < attention_.heads; h++) rope(q + t * attention_.q_width() + h * d, d, table, direction);
            for (int64_t h = 0; h < attention_.kv_heads; h++) rope(k + t * attention_.kv_width() + h * d, d, table, direction);
        }
    });
}

void Transformer::lora(const Adapter & adapter, const Group & group, const LoraRows & rows, const float * x, float * u, const std::vector<float *> & ys) {
    if (group.sites.empty()) return;
    const float * w = adapter.weights.data();
    const float scale = faulty(Fault::scale_alpha_twice) ? adapter.scale() * adapter.scale() : adapter.scale();
    const Dropout dropping(adapter.shape.dropout);
    pool_.split(rows.count, 16, [&](int64_t begin, int64_t end, int) {
        const int64_t n = end - begin;
        float * part = u + begin * group.width;
        const float * inputs = x + begin * group.columns;
        if (rows.origins) {
            for (int64_t t = begin; t < end; t++)
                dropout<false>(dropping, adapter.dropout_key(group, rows.origins[t]), x + t * group.columns, group.columns, rows.dropped + t * group.columns);
            inputs = rows.dropped + begin * group.columns;
        }
        gemm(Side::plain, Side::transposed, n, group.width, group.columns, 1, inputs, group.columns, w + group.a, group.columns, 0, part, group.width);
        for (size_t i = 0; i < group.sites.size(); i++) {
            const Site & site = group.sites[i];
            gemm(Side::plain, Side::transposed, n, site.rows, adapter.shape.rank, scale, part + site.u, group.width, w + site.b,
                 adapter.shape.rank, 1, ys[i] + begin * site.rows, site.rows);
        }
    });
}

namespace {

/** The outputs of the sites an adapter really has in a group, of all that the group could have. */
template <class T> std::vector<T *> outputs_of(const Group & group, const std::vector<std::pair<Target, T *>> & all) {
    std::vector<T *> chosen;
    for (const Site & site : group.sites)
        for (const auto & [target, output] : all)
            if (target == site.target) chosen.push_back(output);
    return chosen;
}

} // namespace

void Transformer::attend(int64_t layer, LayerActivations & l, CachePlan * plan, bool one_token) {
    if (plan) {
        const int64_t width = attention_.kv_width();
        auto & cache = static_cast<KvCache &>(*plan->cache);
        float * keys = cache.keys[static_cast<size_t>(layer)].data();
        float * values = cache.values[static_cast<size_t>(layer)].data();
        for (size_t i = 0; i < plan_.segments.size(); i++) {
            const Segment & segment = plan_.segments[i];
            const auto bytes = static_cast<size_t>(segment.length * width) * sizeof(float);
            std::memcpy(keys + plan->write[i] * width, l.k.data() + segment.begin * width, bytes);
            std::memcpy(values + plan->write[i] * width, l.v.data() + segment.begin * width, bytes);
        }
        if (one_token) return attention_cached(pool_, attention_scratch_, attention_, plan->read, l.q.data(), keys, values, l.attended.data());
    }
    attention(pool_, attention_scratch_, attention_, plan_, l.q.data(), l.k.data(), l.v.data(), l.attended.data(), l.lse.data());
}

void Transformer::feed_forward(int64_t layer, LayerActivations & l, const Adapter * adapter, float * x_out) {
    const LayerWeights & w = model_.layers[static_cast<size_t>(layer)];
    const int64_t d = shape().embedding, ff = shape().feed_forward;
    float * h = work_.normed.data();
    pool_.split(tokens_, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++) l.ffn_inv[static_cast<size_t>(t)] = rmsnorm(l.x_mid.data() + t * d, w.ffn_norm.data(), shape().norm_eps, d, h + t * d);
        std::memcpy(x_out + begin * d, l.x_mid.data() + begin * d, static_cast<size_t>((end - begin) * d) * sizeof(float));
    });
    linear(pool_, panels_, {{&w.ffn_gate, l.gate.data()}, {&w.ffn_up, l.up.data()}}, h, tokens_, 0);
    if (adapter) {
        const Group & group = adapter->layers[static_cast<size_t>(layer)][group_gate_up];
        lora(*adapter, group, token_rows(), h, l.u[group_gate_up].data(), outputs_of<float>(group, {{ffn_gate, l.gate.data()}, {ffn_up, l.up.data()}}));
    }
    pool_.split(tokens_, 4, [&](int64_t begin, int64_t end, int) {
        swiglu(l.gate.data() + begin * ff, l.up.data() + begin * ff, (end - begin) * ff, work_.product.data() + begin * ff);
    });
    linear(pool_, panels_, {{&w.ffn_down, x_out}}, work_.product.data(), tokens_, 1);
    if (adapter) lora(*adapter, adapter->layers[static_cast<size_t>(layer)][group_down], token_rows(), work_.product.data(), l.u[group_down].data(), {x_out});
}

void Transformer::layers_forward(const Batch & batch, const Adapter * adapter, Keep keep, CachePlan * plan, bool one_token) {
    prepare(batch, adapter, keep);
    adapter_ = adapter;
    // Only training drops: what is sampled, scored or asked forward is the adapter as it is served.
    origins_ = keep == Keep::activations && adapter->shape.dropout > 0 ? batch.origins.data() : nullptr;
    embed(batch);
    const int64_t d = shape().embedding;
    for (int64_t layer = 0; layer < shape().layers; layer++) {
        const LayerWeights & w = model_.layers[static_cast<size_t>(layer)];
        LayerActivations & l = work_.layers[keep == Keep::activations ? static_cast<size_t>(layer) : 0];
        const float * x = work_.x[keep == Keep::activations ? static_cast<size_t>(layer) : 0].data();
        float * x_out = work_.x[keep == Keep::activations ? static_cast<size_t>(layer) + 1 : 0].data();
        float * h = work_.normed.data();
        pool_.split(tokens_, 4, [&](int64_t begin, int64_t end, int) {
            for (int64_t t = begin; t < end; t++) l.attn_inv[static_cast<size_t>(t)] = rmsnorm(x + t * d, w.attn_norm.data(), shape().norm_eps, d, h + t * d);
            std::memcpy(l.x_mid.data() + begin * d, x + begin * d, static_cast<size_t>((end - begin) * d) * sizeof(float));
        });
        linear(pool_, panels_, {{&w.attn_q, l.q.data()}, {&w.attn_k, l.k.data()}, {&w.attn_v, l.v.data()}}, h, tokens_, 0);
        if (adapter) {
            const Group & group = adapter->layers[static_cast<size_t>(layer)][group_qkv];
            lora(*adapter, group, token_rows(), h, l.u[group_qkv].data(), outputs_of<float>(group, {{attn_q, l.q.data()}, {attn_k, l.k.data()}, {attn_v, l.v.data()}}));
        }
        rotate(batch, l.q.data(), l.k.data(), 1);
        attend(layer, l, plan, one_token);
        linear(pool_, panels_, {{&w.attn_output, l.x_mid.data()}}, l.attended.data(), tokens_, 1);
        if (adapter) lora(*adapter, adapter->layers[static_cast<size_t>(layer)][group_output], token_rows(), l.attended.data(), l.u[group_output].data(), {l.x_mid.data()});
        feed_forward(layer, l, adapter, x_out);
        last_ = x_out;
    }
}

void Transformer::norm_positions(const std::vector<int64_t> & positions) {
    const int64_t d = shape().embedding;
    asked_normed_.ensure(positions.size() * static_cast<size_t>(d));
    asked_inv_.ensure(positions.size());
    asked_origins_.clear();
    if (origins_)
        for (int64_t position : positions) asked_origins_.push_back(origins_[position]);
    pool_.split(static_cast<int64_t>(positions.size()), 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; i++)
            asked_inv_[static_cast<size_t>(i)] =
                rmsnorm(last_ + positions[static_cast<size_t>(i)] * d, model_.output_norm.data(), shape().norm_eps, d, asked_normed_.data() + i * d);
    });
}

float * Transformer::make_logits(int64_t first, int64_t rows) {
    float * logits = logits_.ensure(static_cast<size_t>(rows * shape().vocabulary));
    const float * hidden = asked_normed_.data() + first * shape().embedding;
    linear(pool_, panels_, {{&model_.head, logits}}, hidden, rows, 0);
    if (adapter_ && !adapter_->head.sites.empty()) {
        const LoraRows of_head = head_rows(first, rows);
        lora(*adapter_, adapter_->head, of_head, hidden, head_u_.data(), {logits});
    }
    return logits;
}

Transformer::LoraRows Transformer::head_rows(int64_t first, int64_t count) {
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
        f(first, rows, make_logits(first, rows));
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

void Transformer::prefill(const Batch & batch, const Adapter * adapter, CachePlan & plan) { layers_forward(batch, adapter, Keep::nothing, &plan, false); }

void Transformer::decode(const Batch & batch, const Adapter * adapter, CachePlan & plan) {
    int64_t longest = 1;
    for (const Path & path : plan.read) longest = std::max(longest, path.length);
    attention_scratch_.ensure(longest / query_block + 1);
    layers_forward(batch, adapter, Keep::nothing, &plan, true);
}
