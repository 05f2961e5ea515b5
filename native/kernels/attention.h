// Causal attention over packed rows, grouped heads: H query heads share KV key/value heads.
// q, out [T, H·d]; k, v [T, KV·d]; lse [T, H] = log Σ exp(score), which lets the backward pass rebuild the probabilities.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "kernels/pool.h"

struct AttentionShape {
    int64_t heads, kv_heads, d; // d = values of one head
    int64_t q_width() const { return heads * d; }
    int64_t kv_width() const { return kv_heads * d; }
    int64_t group() const { return heads / kv_heads; }
};

/** A row's tokens are [begin, begin + length) of the packed arrays. */
struct RowSpan {
    int64_t begin, length;
};

/** Queries handled at once: scores take query_block × length floats, never length². */
constexpr int64_t query_block = 64;

class AttentionScratch {
public:
    explicit AttentionScratch(int threads) : buffers_(static_cast<size_t>(2 * threads)) {}
    void ensure(int64_t longest_row) {
        for (Buffer<float> & buffer : buffers_) buffer.ensure(static_cast<size_t>(query_block * longest_row));
    }
    float * scores(int thread) { return buffers_[static_cast<size_t>(2 * thread)].data(); }
    float * gradients(int thread) { return buffers_[static_cast<size_t>(2 * thread + 1)].data(); }
    static int64_t floats(int threads, int64_t longest_row) { return 2 * threads * query_block * longest_row; }

private:
    std::vector<Buffer<float>> buffers_;
};

namespace reference {

/** One row on its own, plain loops. probabilities [H, length, length]. */
template <class T>
void attention(const AttentionShape & s, int64_t length, const T * q, const T * k, const T * v, T * out, T * probabilities) {
    for (int64_t h = 0; h < s.heads; h++)
        for (int64_t i = 0; i < length; i++) {
            const int64_t kv = h / s.group() * s.d;
            T * p = probabilities + (h * length + i) * length;
            T sum = 0;
            for (int64_t j = 0; j <= i; j++) {
                T dot = 0;
                for (int64_t c = 0; c < s.d; c++) dot += q[i * s.q_width() + h * s.d + c] * k[j * s.kv_width() + kv + c];
                sum += p[j] = std::exp(dot / std::sqrt(static_cast<T>(s.d)));
            }
            for (int64_t j = 0; j <= i; j++) p[j] /= sum;
            for (int64_t c = 0; c < s.d; c++) {
                T value = 0;
                for (int64_t j = 0; j <= i; j++) value += p[j] * v[j * s.kv_width() + kv + c];
                out[i * s.q_width() + h * s.d + c] = value;
            }
        }
}

/** dq, dk and dv are added to. */
template <class T>
void attention_backward(const AttentionShape & s, int64_t length, const T * q, const T * k, const T * v, const T * probabilities,
                        const T * dout, T * dq, T * dk, T * dv) {
    const T scale = 1 / std::sqrt(static_cast<T>(s.d));
    for (int64_t h = 0; h < s.heads; h++)
        for (int64_t i = 0; i < length; i++) {
            const int64_t kv = h / s.group() * s.d, at = i * s.q_width() + h * s.d;
            const T * p = probabilities + (h * length + i) * length;
            std::vector<T> dp(static_cast<size_t>(i + 1));
            T mean = 0;
            for (int64_t j = 0; j <= i; j++) {
                for (int64_t c = 0; c < s.d; c++) {
                    dp[static_cast<size_t>(j)] += dout[at + c] * v[j * s.kv_width() + kv + c];
                    dv[j * s.kv_width() + kv + c] += p[j] * dout[at + c];
                }
                mean += p[j] * dp[static_cast<size_t>(j)];
            }
            for (int64_t j = 0; j <= i; j++)
                for (int64_t c = 0; c < s.d; c++) {
                    const T ds = p[j] * (dp[static_cast<size_t>(j)] - mean) * scale;
                    dq[at + c] += ds * k[j * s.kv_width() + kv + c];
                    dk[j * s.kv_width() + kv + c] += ds * q[at + c];
                }
        }
}

} // namespace reference

void attention(Pool & pool, AttentionScratch & scratch, const AttentionShape & shape, const std::vector<RowSpan> & rows,
               const float * q, const float * k, const float * v, float * out, float * lse);

/** Writes dq, dk and dv. */
void attention_backward(Pool & pool, AttentionScratch & scratch, const AttentionShape & shape, const std::vector<RowSpan> & rows,
                        const float * q, const float * k, const float * v, const float * out, const float * lse,
                        const float * dout, float * dq, float * dk, float * dv);

/**
 * One new token a row against its cache: q, out [rows, H·d]; row r reads cached[r].length keys and values from position
 * cached[r].begin of keys and values [*, KV·d].
 */
void attention_cached(Pool & pool, AttentionScratch & scratch, const AttentionShape & shape, const std::vector<RowSpan> & cached,
                      const float * q, const float * keys, const float * values, float * out);
