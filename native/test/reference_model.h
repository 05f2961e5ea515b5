// The whole model in double precision with plain loops, one row at a time: forward, and backward by the chain rule written out. It shares
// only the file reader and the ops' reference functions with the worker's passes.
#pragma once
#include <vector>

#include "kernels/attention.h"
#include "kernels/geglu.h"
#include "kernels/matrix.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "kernels/token_loss.h"
#include "model/adapter.h"
#include "model/gguf_model.h"

class ReferenceModel {
public:
    using Values = std::vector<double>;

    explicit ReferenceModel(const std::string & path) : model_(path) {
        for (const LayerWeights & l : model_.layers)
            layers_.push_back({dense(l.attn_q), dense(l.attn_k), dense(l.attn_v), dense(l.attn_output), dense(l.ffn_gate), dense(l.ffn_up), dense(l.ffn_down)});
        embedding_ = dense(model_.token_embd);
        head_ = dense(model_.head);
    }
    const ModelShape & shape() const { return model_.shape; }

    struct Result {
        double loss = 0;
        Values logprobs, entropies, log_sums; // [T], 0 for tokens whose coefficients are all 0
    };

    /**
     * Computes one row, whose tokens have the given coefficients, with weights w [parameters] in the adapter's layout. Adds to gradient
     * [parameters] unless it is null. origin is that of the first token and keys the dropout; with −1 nothing is dropped.
     */
    Result row(const std::vector<int32_t> & tokens, const std::vector<LossCoefficients> & coefficients, const Adapter & a, const Values & w, Values * gradient, int64_t origin = -1) const {
        origin_ = origin;
        const auto n = static_cast<int64_t>(tokens.size());
        const int64_t d = shape().embedding;
        Values x = embedded(tokens);
        std::vector<Kept> kept(layers_.size());
        for (size_t layer = 0; layer < layers_.size(); layer++) x = forward_layer(layer, x, n, a, w, kept[layer]);

        const Values norm = widened(model_.output_norm);
        Values hidden(x.size()), inv(static_cast<size_t>(n)), dx(x.size());
        for (int64_t t = 0; t < n; t++) inv[static_cast<size_t>(t)] = reference::rmsnorm(&x[static_cast<size_t>(t * d)], norm.data(), static_cast<double>(shape().norm_eps), d, &hidden[static_cast<size_t>(t * d)]);
        Result result{0, Values(tokens.size()), Values(tokens.size()), Values(tokens.size())};
        for (int64_t t = 0; t + 1 < n; t++) {
            const LossCoefficients & c = coefficients[static_cast<size_t>(t + 1)];
            if (c.weight == 0 && c.entropy == 0 && c.z == 0) continue;
            Values logits(static_cast<size_t>(shape().vocabulary)), dhidden(static_cast<size_t>(d));
            const Values h(hidden.begin() + t * d, hidden.begin() + (t + 1) * d);
            reference::linear(head_.data(), shape().vocabulary, d, h.data(), 1, logits.data());
            if (!a.head.sites.empty()) add_lora(a, a.head, a.head.sites[0], h, t, 1, w, logits);
            const TokenLoss loss = reference::token_loss(logits.data(), shape().vocabulary, tokens[static_cast<size_t>(t + 1)], c);
            result.loss += loss.loss(c, {});
            result.logprobs[static_cast<size_t>(t + 1)] = loss.logprob;
            result.entropies[static_cast<size_t>(t + 1)] = loss.entropy;
            result.log_sums[static_cast<size_t>(t + 1)] = loss.log_sum;
            if (!gradient) continue;
            reference::linear_backward(head_.data(), shape().vocabulary, d, logits.data(), 1, dhidden.data());
            if (!a.head.sites.empty()) lora_backward(a, a.head, a.head.sites[0], h, logits, t, 1, w, dhidden, *gradient);
            reference::rmsnorm_backward(&x[static_cast<size_t>(t * d)], norm.data(), inv[static_cast<size_t>(t)], dhidden.data(), d, &dx[static_cast<size_t>(t * d)]);
        }
        if (gradient)
            for (size_t layer = layers_.size(); layer-- > 0;) dx = backward_layer(layer, dx, n, a, w, kept[layer], *gradient);
        return result;
    }

    /** For a layer, [n, width]: the inputs of the two matrices that write to the residual stream, and the stream after the layer. */
    struct Streams {
        Values attn_output, ffn_down, residual;
    };
    std::vector<Streams> streams(const std::vector<int32_t> & tokens, const Adapter & a, const Values & w) const {
        origin_ = -1;
        Values x = embedded(tokens);
        std::vector<Streams> all;
        for (size_t layer = 0; layer < layers_.size(); layer++) {
            Kept kept;
            x = forward_layer(layer, x, static_cast<int64_t>(tokens.size()), a, w, kept);
            all.push_back({kept.attended, kept.product, x});
        }
        return all;
    }

    /** A layer's matrix [rows, columns]. */
    const Values & matrix(size_t layer, Target target) const { return layers_[layer][target]; }

private:
    /** Everything that a layer computed. */
    struct Kept {
        Values x, h1, inv1, q, k, v, probabilities, attended, mid, h2, inv2, gate, up, product;
        Values q_plain, k_plain, q_inv, k_inv;                             // before the norm of each head, and its inverses
        Values attn_added, ffn_added, attn_added_inv, ffn_added_inv; // before the norm of what is added, and its inverses
    };

    Values embedded(const std::vector<int32_t> & tokens) const {
        const int64_t d = shape().embedding;
        Values x(tokens.size() * static_cast<size_t>(d));
        for (size_t t = 0; t < tokens.size(); t++)
            for (int64_t i = 0; i < d; i++) x[t * static_cast<size_t>(d) + static_cast<size_t>(i)] = embedding_[static_cast<size_t>(tokens[t] * d + i)] * static_cast<double>(shape().embedding_scale);
        return x;
    }

    static Values widened(const std::vector<float> & values) { return Values(values.begin(), values.end()); }
    static Values dense(const Matrix & m) {
        std::vector<float> row(static_cast<size_t>(m.columns));
        Values all;
        for (int64_t r = 0; r < m.rows; r++) {
            m.read(r, 0, m.columns, row.data());
            all.insert(all.end(), row.begin(), row.end());
        }
        return all;
    }
    /** Calls f(group, site) for the site that adapts a layer's matrix, if there is one. */
    template <class F> static void with_site(const Adapter & a, size_t layer, Target target, const F & f) {
        for (const Group & group : a.layers[layer])
            for (const Site & site : group.sites)
                if (site.target == target) f(group, site);
    }

    /** The input of A: x for tokens [first, first + n) of the row, with some values dropped. */
    Values dropped(const Adapter & a, const Group & group, const Values & x, int64_t first, int64_t n) const {
        if (origin_ < 0) return x;
        Values y(x.size());
        for (int64_t t = 0; t < n; t++)
            reference::dropout(Dropout(a.shape.dropout), a.dropout_key(group, origin_ + first + t), &x[static_cast<size_t>(t * group.columns)], group.columns, &y[static_cast<size_t>(t * group.columns)]);
        return y;
    }

    /** y += alpha / rank · B (A x). */
    void add_lora(const Adapter & a, const Group & group, const Site & site, const Values & x, int64_t first, int64_t n, const Values & w, Values & y) const {
        const int64_t rank = a.shape.rank;
        Values u(static_cast<size_t>(n * rank)), delta(y.size());
        reference::linear(&w[site.a], rank, site.columns, dropped(a, group, x, first, n).data(), n, u.data());
        reference::linear(&w[site.b], site.rows, rank, u.data(), n, delta.data());
        for (size_t i = 0; i < y.size(); i++) y[i] += a.shape.alpha / static_cast<double>(rank) * delta[i];
    }

    /** Adds the gradient through A and B to dx, and the gradients of A and B to g. */
    void lora_backward(const Adapter & a, const Group & group, const Site & site, const Values & x, const Values & dy, int64_t first, int64_t n, const Values & w, Values & dx, Values & g) const {
        const int64_t rank = a.shape.rank;
        const double scale = a.shape.alpha / static_cast<double>(rank);
        const Values inputs = dropped(a, group, x, first, n);
        Values u(static_cast<size_t>(n * rank)), du(u.size()), dinputs(x.size());
        reference::linear(&w[site.a], rank, site.columns, inputs.data(), n, u.data());
        reference::linear_backward(&w[site.b], site.rows, rank, dy.data(), n, du.data());
        for (double & value : du) value *= scale;
        reference::linear_backward(&w[site.a], rank, site.columns, du.data(), n, dinputs.data());
        // Dropout is its own transpose.
        dinputs = dropped(a, group, dinputs, first, n);
        for (size_t i = 0; i < dx.size(); i++) dx[i] += dinputs[i];
        for (int64_t t = 0; t < n; t++)
            for (int64_t r = 0; r < rank; r++) {
                for (int64_t c = 0; c < site.columns; c++) g[site.a + static_cast<size_t>(r * site.columns + c)] += du[static_cast<size_t>(t * rank + r)] * inputs[static_cast<size_t>(t * site.columns + c)];
                for (int64_t o = 0; o < site.rows; o++) g[site.b + static_cast<size_t>(o * rank + r)] += scale * dy[static_cast<size_t>(t * site.rows + o)] * u[static_cast<size_t>(t * rank + r)];
            }
    }

    /** y = W x + alpha / rank · B (A x). */
    Values project(size_t layer, Target target, const Values & x, int64_t n, int64_t rows, int64_t columns, const Adapter & a, const Values & w) const {
        Values y(static_cast<size_t>(n * rows));
        reference::linear(layers_[layer][target].data(), rows, columns, x.data(), n, y.data());
        with_site(a, layer, target, [&](const Group & group, const Site & site) { add_lora(a, group, site, x, 0, n, w, y); });
        return y;
    }

    /** Adds the gradient through W and the adapter to dx, and the adapter's own gradients to g. */
    void project_backward(size_t layer, Target target, const Values & x, const Values & dy, int64_t n, int64_t rows, int64_t columns, const Adapter & a,
                          const Values & w, Values & dx, Values & g) const {
        reference::linear_backward(layers_[layer][target].data(), rows, columns, dy.data(), n, dx.data());
        with_site(a, layer, target, [&](const Group & group, const Site & site) { lora_backward(a, group, site, x, dy, 0, n, w, dx, g); });
    }

    void rotate(size_t layer, Values & x, int64_t n, int64_t heads, int direction) const {
        for (int64_t t = 0; t < n; t++)
            for (int64_t h = 0; h < heads; h++)
                reference::rope(&x[static_cast<size_t>((t * heads + h) * shape().head_values)], shape().head_values, t, direction, shape().rope_pairs, model_.ropes[model_.layers[layer].rope]);
    }

    AttentionShape attention_shape(size_t layer) const {
        const ModelShape & m = shape();
        return {m.heads, m.kv_heads, m.head_values, m.attention_scale, model_.layers[layer].window};
    }

    static void add_bias(Values & y, const std::vector<float> & bias) {
        for (size_t i = 0; !bias.empty() && i < y.size(); i++) y[i] += static_cast<double>(bias[i % bias.size()]);
    }

    /** The gradient before the norm of n vectors as long as the norm's weights. */
    static Values norm_backward(const Values & x, const std::vector<float> & weights, const Values & inv, const Values & dy) {
        const Values w = widened(weights);
        Values dx(x.size());
        for (size_t t = 0; t < inv.size(); t++)
            reference::rmsnorm_backward(&x[t * w.size()], w.data(), inv[t], &dy[t * w.size()], static_cast<int64_t>(w.size()), &dx[t * w.size()]);
        return dx;
    }

    /** Norms n vectors as long as the norm's weights. */
    Values normed(const Values & x, const std::vector<float> & weights, int64_t n, Values & inv) const {
        const auto d = static_cast<int64_t>(weights.size());
        const Values w = widened(weights);
        Values y(x.size());
        inv.resize(static_cast<size_t>(n));
        for (int64_t t = 0; t < n; t++) inv[static_cast<size_t>(t)] = reference::rmsnorm(&x[static_cast<size_t>(t * d)], w.data(), static_cast<double>(shape().norm_eps), d, &y[static_cast<size_t>(t * d)]);
        return y;
    }

    Values forward_layer(size_t layer, const Values & x, int64_t n, const Adapter & a, const Values & w, Kept & k) const {
        const ModelShape & m = shape();
        const LayerWeights & weights = model_.layers[layer];
        const AttentionShape s = attention_shape(layer);
        const int64_t d = m.embedding, ff = m.feed_forward;
        k.x = x;
        k.h1 = normed(x, weights.attn_norm, n, k.inv1);
        k.q = project(layer, attn_q, k.h1, n, s.q_width(), d, a, w);
        k.k = project(layer, attn_k, k.h1, n, s.kv_width(), d, a, w);
        k.v = project(layer, attn_v, k.h1, n, s.kv_width(), d, a, w);
        add_bias(k.q, weights.q_bias);
        add_bias(k.k, weights.k_bias);
        add_bias(k.v, weights.v_bias);
        if (m.head_norms) {
            k.q_plain = k.q;
            k.k_plain = k.k;
            k.q = normed(k.q_plain, weights.q_norm, n * m.heads, k.q_inv);
            k.k = normed(k.k_plain, weights.k_norm, n * m.kv_heads, k.k_inv);
        }
        rotate(layer, k.q, n, m.heads, 1);
        rotate(layer, k.k, n, m.kv_heads, 1);
        k.attended.resize(static_cast<size_t>(n * s.q_width()));
        k.probabilities.resize(static_cast<size_t>(m.heads * n * n));
        reference::attention(s, n, k.q.data(), k.k.data(), k.v.data(), k.attended.data(), k.probabilities.data());
        k.attn_added = project(layer, attn_output, k.attended, n, d, s.q_width(), a, w);
        k.mid = m.post_norms ? normed(k.attn_added, weights.attn_post_norm, n, k.attn_added_inv) : k.attn_added;
        for (size_t i = 0; i < x.size(); i++) k.mid[i] += x[i];
        k.h2 = normed(k.mid, weights.ffn_norm, n, k.inv2);
        k.gate = project(layer, ffn_gate, k.h2, n, ff, d, a, w);
        k.up = project(layer, ffn_up, k.h2, n, ff, d, a, w);
        k.product.resize(k.gate.size());
        (m.activation == Activation::gelu ? reference::geglu<double> : reference::swiglu<double>)(k.gate.data(), k.up.data(), n * ff, k.product.data());
        k.ffn_added = project(layer, ffn_down, k.product, n, d, ff, a, w);
        Values out = m.post_norms ? normed(k.ffn_added, weights.ffn_post_norm, n, k.ffn_added_inv) : k.ffn_added;
        for (size_t i = 0; i < out.size(); i++) out[i] += k.mid[i];
        return out;
    }

    Values backward_layer(size_t layer, Values dx, int64_t n, const Adapter & a, const Values & w, const Kept & k, Values & g) const {
        const ModelShape & m = shape();
        const LayerWeights & weights = model_.layers[layer];
        const AttentionShape s = attention_shape(layer);
        const int64_t d = m.embedding, ff = m.feed_forward;
        Values dproduct(k.product.size()), dgate(k.gate.size()), dup(k.up.size()), dh(dx.size());
        const Values dffn = m.post_norms ? norm_backward(k.ffn_added, weights.ffn_post_norm, k.ffn_added_inv, dx) : dx;
        project_backward(layer, ffn_down, k.product, dffn, n, d, ff, a, w, dproduct, g);
        (m.activation == Activation::gelu ? reference::geglu_backward<double> : reference::swiglu_backward<double>)(k.gate.data(), k.up.data(), dproduct.data(), n * ff, dgate.data(), dup.data());
        project_backward(layer, ffn_gate, k.h2, dgate, n, ff, d, a, w, dh, g);
        project_backward(layer, ffn_up, k.h2, dup, n, ff, d, a, w, dh, g);
        const Values norm2 = widened(weights.ffn_norm), norm1 = widened(weights.attn_norm);
        for (int64_t t = 0; t < n; t++) reference::rmsnorm_backward(&k.mid[static_cast<size_t>(t * d)], norm2.data(), k.inv2[static_cast<size_t>(t)], &dh[static_cast<size_t>(t * d)], d, &dx[static_cast<size_t>(t * d)]);

        Values dattended(k.attended.size()), dq(k.q.size()), dk(k.k.size()), dv(k.v.size()), dh1(dx.size());
        const Values dattn = m.post_norms ? norm_backward(k.attn_added, weights.attn_post_norm, k.attn_added_inv, dx) : dx;
        project_backward(layer, attn_output, k.attended, dattn, n, d, s.q_width(), a, w, dattended, g);
        reference::attention_backward(s, n, k.q.data(), k.k.data(), k.v.data(), k.probabilities.data(), dattended.data(), dq.data(), dk.data(), dv.data());
        rotate(layer, dq, n, m.heads, -1);
        rotate(layer, dk, n, m.kv_heads, -1);
        if (m.head_norms) {
            dq = norm_backward(k.q_plain, weights.q_norm, k.q_inv, dq);
            dk = norm_backward(k.k_plain, weights.k_norm, k.k_inv, dk);
        }
        project_backward(layer, attn_q, k.h1, dq, n, s.q_width(), d, a, w, dh1, g);
        project_backward(layer, attn_k, k.h1, dk, n, s.kv_width(), d, a, w, dh1, g);
        project_backward(layer, attn_v, k.h1, dv, n, s.kv_width(), d, a, w, dh1, g);
        for (int64_t t = 0; t < n; t++) reference::rmsnorm_backward(&k.x[static_cast<size_t>(t * d)], norm1.data(), k.inv1[static_cast<size_t>(t)], &dh1[static_cast<size_t>(t * d)], d, &dx[static_cast<size_t>(t * d)]);
        return dx;
    }

    GgufModel model_;
    std::vector<std::array<Values, 7>> layers_; // indexed by Target
    Values embedding_, head_;
    mutable int64_t origin_ = -1; // of the first token of the current row
};
