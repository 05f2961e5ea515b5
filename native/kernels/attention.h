// Causal attention over packed rows, with grouped heads: H query heads share KV key/value heads.
// q, out [T, H·d]; k, v [T, KV·d]; lse [T, H] = log Σ exp(score), from which the backward pass rebuilds the probabilities.
//
// Rows with a common beginning share it: the packed tokens are the nodes of a forest of segments. A query sees the tokens of its segment's
// ancestors, and those of its own segment up to itself. It never sees a sibling's tokens.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "kernels/pool.h"

/** A window that hides nothing. */
constexpr int64_t no_window = INT64_MAX;

struct AttentionShape {
    int64_t heads, kv_heads, d;                           // d = values of one head
    double scale = 1 / std::sqrt(static_cast<double>(d)); // factor of query · key
    int64_t window = no_window;                           // the most keys that a query sees: its own and those before it
    int64_t q_width() const { return heads * d; }
    int64_t kv_width() const { return kv_heads * d; }
    int64_t group() const { return heads / kv_heads; }
};

/** Tokens [begin, begin + length) of packed arrays. */
struct Span {
    int64_t begin, length;
};

/**
 * A run of tokens that belongs to one or more rows. It continues its parent, which is another segment of the same pass, or it begins a row
 * (parent −1). A row consists of the tokens of its last segment's ancestors, oldest first, and of that segment. Segments cover [0, T) in
 * order. A parent stands before its children, and the descendants of a root follow it without a gap, so that they form a tree. Rows that
 * share nothing are roots without children.
 */
struct Segment {
    int64_t begin, length;
    int64_t parent;
};

/** The keys of a segment in order of position: its ancestors' tokens, then its own. Adjacent spans are merged. */
struct Path {
    std::vector<Span> spans;
    int64_t length = 0; // sum of the spans' lengths
    void add(Span span);
};

/** Queries handled at once. The scores take query_block × path length floats, never the square of a row's length. */
constexpr int64_t query_block = 64;

/** How attention goes through the segments of a pass. It is the same for every layer. */
struct AttentionPlan {
    struct Block {
        int64_t segment, first, count; // queries [first, first + count) of the segment
    };
    struct Tree {
        Span blocks; // of all its segments
        Span tokens;
    };
    std::vector<Segment> segments;
    std::vector<Path> paths;   // per segment
    std::vector<Block> blocks; // in the order of the segments
    std::vector<Tree> trees;   // the largest first, so that no thread is left with a large one at the end
    int64_t longest = 1;       // length of the longest path

    AttentionPlan() = default;
    explicit AttentionPlan(const std::vector<Segment> & segments);

    /** Multiplications and additions of scores and values in the forward pass. Only pairs that a query really sees count. */
    double flops(const AttentionShape & shape) const;
};

class AttentionScratch {
public:
    explicit AttentionScratch(int threads) : buffers_(static_cast<size_t>(2 * threads)) {}
    void ensure(int64_t longest_path) {
        for (Buffer<float> & buffer : buffers_) buffer.ensure(static_cast<size_t>(query_block * longest_path));
    }
    int64_t bytes() const {
        size_t floats = 0;
        for (const Buffer<float> & buffer : buffers_) floats += buffer.capacity();
        return static_cast<int64_t>(floats * sizeof(float));
    }
    void drop() {
        for (Buffer<float> & buffer : buffers_) buffer = {};
    }
    float * scores(int thread) { return buffers_[static_cast<size_t>(2 * thread)].data(); }
    float * gradients(int thread) { return buffers_[static_cast<size_t>(2 * thread + 1)].data(); }

private:
    std::vector<Buffer<float>> buffers_;
};

namespace reference {

/** One row on its own, in plain loops. probabilities [H, length, length]. */
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
                sum += p[j] = i - j < s.window ? std::exp(dot * static_cast<T>(s.scale)) : 0;
            }
            for (int64_t j = 0; j <= i; j++) p[j] /= sum;
            for (int64_t c = 0; c < s.d; c++) {
                T value = 0;
                for (int64_t j = 0; j <= i; j++) value += p[j] * v[j * s.kv_width() + kv + c];
                out[i * s.q_width() + h * s.d + c] = value;
            }
        }
}

/** Adds to dq, dk and dv. */
template <class T>
void attention_backward(const AttentionShape & s, int64_t length, const T * q, const T * k, const T * v, const T * probabilities,
                        const T * dout, T * dq, T * dk, T * dv) {
    const T scale = static_cast<T>(s.scale);
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

/** Like AttentionPlan::flops, for one new token at the end of each path. */
double attention_flops(const AttentionShape & shape, const std::vector<Path> & paths);

void attention(Pool & pool, AttentionScratch & scratch, const AttentionShape & shape, const AttentionPlan & plan,
               const float * q, const float * k, const float * v, float * out, float * lse);

/** Writes dq, dk and dv. dk_heads and dv_heads [T, H·d] are scratch for the part of each query head in its key/value head. */
void attention_backward(Pool & pool, AttentionScratch & scratch, const AttentionShape & shape, const AttentionPlan & plan,
                        const float * q, const float * k, const float * v, const float * out, const float * lse,
                        const float * dout, float * dq, float * dk_heads, float * dv_heads, float * dk, float * dv);

/** One new token per row against the cache: q, out [rows, H·d]; row r sees the places paths[r] of keys and values [*, KV·d]. */
void attention_cached(Pool & pool, AttentionScratch & scratch, const AttentionShape & shape, const std::vector<Path> & paths,
                      const float * q, const float * keys, const float * values, float * out);
