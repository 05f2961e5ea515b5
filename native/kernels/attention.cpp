#include "kernels/attention.h"

#include <algorithm>
#include <cstring>

#include "kernels/exp.h"
#include "kernels/fault.h"
#include "kernels/gemm.h"

namespace {

/** The keys a query at position i of a row may see. */
int64_t visible(int64_t i, int64_t length) { return faulty(Fault::see_the_future) ? length : i + 1; }

/** scores [n] → probabilities; what lies in [n, width) becomes 0. Returns log Σ exp. */
float softmax_row(float * scores, int64_t n, int64_t width) {
    float most = scores[0], sum = 0;
#pragma omp simd reduction(max : most)
    for (int64_t j = 0; j < n; j++) most = scores[j] > most ? scores[j] : most;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) sum += scores[j] = fast_exp(scores[j] - most);
    const float scale = 1.0f / sum;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) scores[j] *= scale;
    std::fill(scores + n, scores + width, 0.0f);
    return most + std::log(sum);
}

float dot_of(const float * a, const float * b, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

struct Block {
    int64_t first, count, keys; // queries [first, first + count) of a row against its first `keys` keys
};

template <class F> void each_block(int64_t length, const F & f) {
    for (int64_t first = 0; first < length; first += query_block) {
        const int64_t count = std::min(query_block, length - first);
        f(Block{first, count, visible(first + count - 1, length)});
    }
}

} // namespace

void attention(Pool & pool, AttentionScratch & scratch, const AttentionShape & s, const std::vector<RowSpan> & rows,
               const float * q, const float * k, const float * v, float * out, float * lse) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(s.d));
    pool.each(static_cast<int64_t>(rows.size()) * s.heads, [&](int64_t task, int thread) {
        const RowSpan row = rows[static_cast<size_t>(task / s.heads)];
        const int64_t head = task % s.heads;
        const float * keys = k + row.begin * s.kv_width() + head / s.group() * s.d;
        const float * values = v + row.begin * s.kv_width() + head / s.group() * s.d;
        float * p = scratch.scores(thread);
        each_block(row.length, [&](Block b) {
            const int64_t token = row.begin + b.first;
            gemm(Side::plain, Side::transposed, b.count, b.keys, s.d, scale, q + token * s.q_width() + head * s.d, s.q_width(), keys,
                 s.kv_width(), 0, p, b.keys);
            for (int64_t i = 0; i < b.count; i++)
                lse[(token + i) * s.heads + head] = softmax_row(p + i * b.keys, visible(b.first + i, row.length), b.keys);
            gemm(Side::plain, Side::plain, b.count, s.d, b.keys, 1, p, b.keys, values, s.kv_width(), 0,
                 out + token * s.q_width() + head * s.d, s.q_width());
        });
    });
}

namespace {

struct HeadGradient {
    const float *q, *k, *v, *out, *lse, *dout;
    float *dq, *dk, *dv;
};

/** One query block of one head. p and ds [count, keys]. g's pointers stand at the row's first token and the head. */
void block_backward(const AttentionShape & s, int64_t length, Block b, const HeadGradient & g, float * p, float * ds) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(s.d));
    const int64_t qw = s.q_width(), kw = s.kv_width();
    const float * q = g.q + b.first * qw;
    const float * dout = g.dout + b.first * qw;
    gemm(Side::plain, Side::transposed, b.count, b.keys, s.d, scale, q, qw, g.k, kw, 0, p, b.keys);
    gemm(Side::plain, Side::transposed, b.count, b.keys, s.d, 1, dout, qw, g.v, kw, 0, ds, b.keys);
    for (int64_t i = 0; i < b.count; i++) {
        const int64_t n = visible(b.first + i, length);
        const float log_sum = g.lse[(b.first + i) * s.heads];
        const float mean = dot_of(dout + i * qw, g.out + (b.first + i) * qw, s.d);
        float * pi = p + i * b.keys;
        float * di = ds + i * b.keys;
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            pi[j] = fast_exp(pi[j] - log_sum);
            di[j] = pi[j] * (di[j] - mean) * scale;
        }
        std::fill(pi + n, pi + b.keys, 0.0f);
        std::fill(di + n, di + b.keys, 0.0f);
    }
    gemm(Side::transposed, Side::plain, b.keys, s.d, b.count, 1, p, b.keys, dout, qw, 1, g.dv, kw);
    gemm(Side::plain, Side::plain, b.count, s.d, b.keys, 1, ds, b.keys, g.k, kw, 0, g.dq + b.first * qw, qw);
    if (!faulty(Fault::zero_key_gradient))
        gemm(Side::transposed, Side::plain, b.keys, s.d, b.count, 1, ds, b.keys, q, qw, 1, g.dk, kw);
}

} // namespace

void attention_backward(Pool & pool, AttentionScratch & scratch, const AttentionShape & s, const std::vector<RowSpan> & rows,
                        const float * q, const float * k, const float * v, const float * out, const float * lse,
                        const float * dout, float * dq, float * dk, float * dv) {
    // One task owns a key/value head of a row, and so every sum into its dk and dv.
    pool.each(static_cast<int64_t>(rows.size()) * s.kv_heads, [&](int64_t task, int thread) {
        const RowSpan row = rows[static_cast<size_t>(task / s.kv_heads)];
        const int64_t kv_head = task % s.kv_heads;
        const int64_t kv_at = row.begin * s.kv_width() + kv_head * s.d;
        for (int64_t i = 0; i < row.length; i++) {
            std::memset(dk + kv_at + i * s.kv_width(), 0, static_cast<size_t>(s.d) * sizeof(float));
            std::memset(dv + kv_at + i * s.kv_width(), 0, static_cast<size_t>(s.d) * sizeof(float));
        }
        for (int64_t head = kv_head * s.group(); head < (kv_head + 1) * s.group(); head++) {
            const int64_t at = row.begin * s.q_width() + head * s.d;
            const HeadGradient g{q + at,  k + kv_at,    v + kv_at, out + at, lse + row.begin * s.heads + head, dout + at,
                                 dq + at, dk + kv_at, dv + kv_at};
            each_block(row.length, [&](Block b) { block_backward(s, row.length, b, g, scratch.scores(thread), scratch.gradients(thread)); });
        }
    });
}

void attention_cached(Pool & pool, AttentionScratch & scratch, const AttentionShape & s, const std::vector<RowSpan> & cached,
                      const float * q, const float * keys, const float * values, float * out) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(s.d));
    pool.each(static_cast<int64_t>(cached.size()) * s.heads, [&](int64_t task, int thread) {
        const int64_t row = task / s.heads, head = task % s.heads;
        const RowSpan past = cached[static_cast<size_t>(row)];
        const int64_t at = past.begin * s.kv_width() + head / s.group() * s.d;
        const float * query = q + row * s.q_width() + head * s.d;
        float * p = scratch.scores(thread);
        float * result = out + row * s.q_width() + head * s.d;
        for (int64_t j = 0; j < past.length; j++) p[j] = scale * dot_of(query, keys + at + j * s.kv_width(), s.d);
        softmax_row(p, past.length, past.length);
        std::fill(result, result + s.d, 0.0f);
        for (int64_t j = 0; j < past.length; j++) {
            const float * value = values + at + j * s.kv_width();
#pragma omp simd
            for (int64_t c = 0; c < s.d; c++) result[c] += p[j] * value[c];
        }
    });
}
