// Causal attention with one block per query (or key) and head, in any precision and for any head size. The fast kernels of
// attention_flash.h are compared with it, decoding uses it, and it runs where they do not fit.
// Query t of a pass sees the keys [first[t], last[t]]; with a window w > 0, it sees only the latest w of them.
#pragma once
#include "kernels/cuda/block.h"

namespace gpu {

/** Where queries, keys and values lie: in rows of `stride` values, with a head's d values at head · d. */
template <class T> struct AttentionInputs {
    const T *q, *k, *v;
    int64_t q_stride, k_stride, v_stride;
    int64_t heads, group, d; // group = query heads that share a key/value head
    float scale;             // factor of the scores
    int64_t window;          // 0 = none
};

DEVICE int64_t first_visible(int64_t first, int64_t last, int64_t window) { return window > 0 && last - window + 1 > first ? last - window + 1 : first; }

template <class T> DEVICE float dot_of(const T * a, const float * b, int64_t d) {
    float sum = 0;
    for (int64_t i = 0; i < d; i++) sum += get(a[i]) * b[i];
    return sum;
}

/** out [tokens, heads · d]; lse [tokens, heads] = log Σ exp(score). Shared memory: d + threads + d floats. */
template <class T> struct AttentionPlain {
    AttentionInputs<T> in;
    const int32_t *first, *last; // [tokens]
    T * out;
    float * lse;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t t = block.x(), head = block.y(), kv = head / in.group * in.d, d = in.d;
        float * query = block.template shared<float>(0);
        float * p = query + d;
        float * value = p + block.threads();
        for (int64_t c = block.thread(); c < d; c += block.threads()) {
            query[c] = get(in.q[t * in.q_stride + head * d + c]) * in.scale;
            value[c] = 0;
        }
        block.sync();
        const int64_t end = last[t] + 1;
        float most = -INFINITY, sum = 0;
        for (int64_t chunk = first_visible(first[t], last[t], in.window); chunk < end; chunk += block.threads()) {
            const int64_t j = chunk + block.thread();
            const float score = j < end ? dot_of(in.k + j * in.k_stride + kv, query, d) : -INFINITY;
            const float next = fmaxf(most, block.most(score));
            const float e = j < end ? expf(score - next) : 0, shrink = expf(most - next);
            p[block.thread()] = e;
            sum = sum * shrink + block.sum(e);
            most = next;
            block.sync();
            const int64_t count = end - chunk < block.threads() ? end - chunk : block.threads();
            for (int64_t c = block.thread(); c < d; c += block.threads()) {
                float total = value[c] * shrink;
                for (int64_t i = 0; i < count; i++) total += p[i] * get(in.v[(chunk + i) * in.v_stride + kv + c]);
                value[c] = total;
            }
            block.sync();
        }
        for (int64_t c = block.thread(); c < d; c += block.threads()) put(out[(t * in.heads + head) * d + c], value[c] / sum);
        if (block.thread() == 0) lse[t * in.heads + head] = most + logf(sum);
    }
};

/** delta [tokens, heads] = dout · out, which the gradient of every score subtracts. */
template <class T> struct AttentionDelta {
    const T *dout, *out;
    int64_t heads, d;
    float * delta;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t at = (block.x() * heads + block.y()) * d;
        float sum = 0;
        for (int64_t c = block.thread(); c < d; c += block.threads()) sum += get(dout[at + c]) * get(out[at + c]);
        const float total = block.sum(sum);
        if (block.thread() == 0) delta[block.x() * heads + block.y()] = total;
    }
};

template <class T> struct AttentionGradients {
    const T * dout;           // [tokens, heads · d]
    const float *lse, *delta; // [tokens, heads]
    T *dq, *dk, *dv;
    int64_t dq_stride, dk_stride, dv_stride;
};

/** Computes dq. Shared memory: 3 d + threads floats. */
template <class T> struct AttentionPlainDq {
    AttentionInputs<T> in;
    const int32_t *first, *last;
    AttentionGradients<T> g;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t t = block.x(), head = block.y(), kv = head / in.group * in.d, d = in.d;
        float * query = block.template shared<float>(0);
        float * dout = query + d;
        float * dq = dout + d;
        float * ds = dq + d;
        for (int64_t c = block.thread(); c < d; c += block.threads()) {
            query[c] = get(in.q[t * in.q_stride + head * d + c]) * in.scale;
            dout[c] = get(g.dout[(t * in.heads + head) * d + c]);
            dq[c] = 0;
        }
        block.sync();
        const float lse = g.lse[t * in.heads + head], delta = g.delta[t * in.heads + head];
        const int64_t end = last[t] + 1;
        for (int64_t chunk = first_visible(first[t], last[t], in.window); chunk < end; chunk += block.threads()) {
            const int64_t j = chunk + block.thread();
            if (j < end)
                ds[block.thread()] = expf(dot_of(in.k + j * in.k_stride + kv, query, d) - lse) * (dot_of(in.v + j * in.v_stride + kv, dout, d) - delta) * in.scale;
            block.sync();
            const int64_t count = end - chunk < block.threads() ? end - chunk : block.threads();
            for (int64_t c = block.thread(); c < d; c += block.threads()) {
                float total = dq[c];
                for (int64_t i = 0; i < count; i++) total += ds[i] * get(in.k[(chunk + i) * in.k_stride + kv + c]);
                dq[c] = total;
            }
            block.sync();
        }
        for (int64_t c = block.thread(); c < d; c += block.threads()) put(g.dq[t * g.dq_stride + head * d + c], dq[c]);
    }
};

/**
 * Computes dk and dv of one key and key/value head. The block owns them, so no sum is shared between blocks. The keys are those of the pass
 * itself; row_end[t] is one past the last token of t's row. Shared memory: 4 d + 2 threads floats.
 */
template <class T> struct AttentionPlainDkv {
    AttentionInputs<T> in;
    const int32_t * row_end;
    AttentionGradients<T> g;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t j = block.x(), d = in.d, kv = block.y() * d;
        float * key = block.template shared<float>(0);
        float * value = key + d;
        float * dk = value + d;
        float * dv = dk + d;
        float * p = dv + d;
        float * ds = p + block.threads();
        for (int64_t c = block.thread(); c < d; c += block.threads()) {
            key[c] = get(in.k[j * in.k_stride + kv + c]) * in.scale;
            value[c] = get(in.v[j * in.v_stride + kv + c]);
            dk[c] = dv[c] = 0;
        }
        block.sync();
        const int64_t end = in.window > 0 && j + in.window < row_end[j] ? j + in.window : row_end[j];
        for (int64_t head = block.y() * in.group; head < (block.y() + 1) * in.group; head++)
            for (int64_t chunk = j; chunk < end; chunk += block.threads()) {
                const int64_t i = chunk + block.thread(), at = i * in.heads + head;
                if (i < end) {
                    const float probability = expf(dot_of(in.q + i * in.q_stride + head * d, key, d) - g.lse[at]);
                    p[block.thread()] = probability;
                    ds[block.thread()] = probability * (dot_of(g.dout + at * d, value, d) - g.delta[at]) * in.scale;
                }
                block.sync();
                const int64_t count = end - chunk < block.threads() ? end - chunk : block.threads();
                for (int64_t c = block.thread(); c < d; c += block.threads()) {
                    float sum_k = dk[c], sum_v = dv[c];
                    for (int64_t n = 0; n < count; n++) {
                        sum_v += p[n] * get(g.dout[((chunk + n) * in.heads + head) * d + c]);
                        sum_k += ds[n] * get(in.q[(chunk + n) * in.q_stride + head * d + c]);
                    }
                    dk[c] = sum_k;
                    dv[c] = sum_v;
                }
                block.sync();
            }
        for (int64_t c = block.thread(); c < d; c += block.threads()) {
            put(g.dk[j * g.dk_stride + kv + c], dk[c]);
            put(g.dv[j * g.dv_stride + kv + c], dv[c]);
        }
    }
};

} // namespace gpu
