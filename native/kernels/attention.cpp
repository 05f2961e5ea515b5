#include "kernels/attention.h"

#include <cstring>

#include "kernels/exp.h"
#include "kernels/fault.h"
#include "kernels/gemm.h"
#include "kernels/processor.h"

void Path::add(Span span) {
    if (span.length == 0) return;
    length += span.length;
    if (!spans.empty() && spans.back().begin + spans.back().length == span.begin)
        spans.back().length += span.length;
    else
        spans.push_back(span);
}

AttentionPlan::AttentionPlan(const std::vector<Segment> & all) : segments(all) {
    for (size_t i = 0; i < segments.size(); i++) {
        const Segment & s = segments[i];
        const auto first_block = static_cast<int64_t>(blocks.size());
        for (int64_t first = 0; first < s.length; first += query_block)
            blocks.push_back(Block{static_cast<int64_t>(i), first, std::min(query_block, s.length - first)});
        const int64_t added = static_cast<int64_t>(blocks.size()) - first_block;
        if (s.parent < 0) {
            paths.emplace_back();
            trees.push_back(Tree{{first_block, added}, {s.begin, s.length}});
        } else {
            paths.push_back(paths[static_cast<size_t>(s.parent)]);
            // The planted fault: a segment sees everything before it in its tree, siblings too.
            if (faulty(Fault::see_a_sibling)) paths.back() = Path{{{trees.back().tokens.begin, s.begin - trees.back().tokens.begin}}, s.begin - trees.back().tokens.begin};
            trees.back().blocks.length += added;
            trees.back().tokens.length += s.length;
        }
        paths.back().add(Span{s.begin, s.length});
        longest = std::max(longest, paths.back().length);
    }
    std::stable_sort(trees.begin(), trees.end(), [](const Tree & a, const Tree & b) { return a.tokens.length > b.tokens.length; });
}

double AttentionPlan::flops(const AttentionShape & s) const {
    int64_t pairs = 0;
    for (size_t i = 0; i < segments.size(); i++)
        for (int64_t position = paths[i].length - segments[i].length; position < paths[i].length; position++) pairs += std::min(position + 1, s.window);
    return 4.0 * static_cast<double>(s.q_width()) * static_cast<double>(pairs);
}

double attention_flops(const AttentionShape & s, const std::vector<Path> & paths) {
    int64_t pairs = 0;
    for (const Path & path : paths) pairs += std::min(path.length, s.window);
    return 4.0 * static_cast<double>(s.q_width()) * static_cast<double>(pairs);
}

namespace {

/** The first position that a query at a position sees. */
int64_t first_visible(const AttentionShape & s, int64_t position) {
    return position < s.window || faulty(Fault::ignore_window) ? 0 : position - s.window + 1;
}

/** Turns scores [n] into probabilities. Returns log Σ exp. */
PER_PROCESSOR float softmax_row(float * scores, int64_t n) {
    float most = scores[0], sum = 0;
#pragma omp simd reduction(max : most)
    for (int64_t j = 0; j < n; j++) most = scores[j] > most ? scores[j] : most;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) sum += scores[j] = fast_exp(scores[j] - most);
    const float scale = 1.0f / sum;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) scores[j] *= scale;
    return most + std::log(sum);
}

/** p [n]: scores become probabilities. d [n]: the gradient of the probabilities becomes that of the products of queries and keys. */
PER_PROCESSOR void score_gradients(float * p, float * d, int64_t n, float log_sum, float mean, float scale) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        p[j] = fast_exp(p[j] - log_sum);
        d[j] = p[j] * (d[j] - mean) * scale;
    }
}

float dot_of(const float * a, const float * b, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/** Calls f(token, count, offset) for the spans that hold positions [from, to) of a path; offset counts from `from`. */
template <class F> void each_span(const Path & path, int64_t from, int64_t to, const F & f) {
    int64_t position = 0;
    for (const Span & span : path.spans) {
        const int64_t begin = std::max(from, position), end = std::min(to, position + span.length);
        if (begin < end) f(span.begin + begin - position, end - begin, begin - from);
        position += span.length;
    }
}

/** A block of queries, and the positions [from, to) of its path that at least one of them sees. */
struct Scores {
    const AttentionShape & shape;
    const Path & path;
    int64_t first_position, count, from, to;

    Scores(const AttentionShape & s, const AttentionPlan & plan, const AttentionPlan::Block & block)
        : shape(s), path(plan.paths[static_cast<size_t>(block.segment)]),
          first_position(path.length - plan.segments[static_cast<size_t>(block.segment)].length + block.first), count(block.count),
          from(first_visible(s, first_position)), to(end_of(block.count - 1)) {}

    int64_t keys() const { return to - from; }
    /** Query i sees columns [begin_of(i), end_of(i) − from) of the scores. */
    int64_t begin_of(int64_t i) const { return first_visible(shape, first_position + i) - from; }
    int64_t end_of(int64_t i) const { return faulty(Fault::see_the_future) ? path.length : first_position + i + 1; }

    /** scores [count, keys] = scale · x · keysᵀ; x [count] of stride x_width, keys [T] of stride kv_width. */
    void against(const float * x, float scale, const float * keys_or_values, float * scores) const {
        each_span(path, from, to, [&](int64_t token, int64_t n, int64_t offset) {
            gemm(Side::plain, Side::transposed, count, n, shape.d, scale, x, shape.q_width(), keys_or_values + token * shape.kv_width(),
                 shape.kv_width(), 0, scores + offset, keys());
        });
    }
    /** y [count] = scores · keys or values, from every span. */
    void times(const float * scores, const float * keys_or_values, float * y) const {
        each_span(path, from, to, [&](int64_t token, int64_t n, int64_t offset) {
            gemm(Side::plain, Side::plain, count, shape.d, n, 1, scores + offset, keys(), keys_or_values + token * shape.kv_width(),
                 shape.kv_width(), offset == 0 ? 0 : 1, y, shape.q_width());
        });
    }
    /** Adds scoresᵀ · x to the gradient of keys or values, whose tokens have the given stride. */
    void add_transposed(const float * scores, const float * x, float * gradient, int64_t stride) const {
        each_span(path, from, to, [&](int64_t token, int64_t n, int64_t offset) {
            gemm(Side::transposed, Side::plain, n, shape.d, count, 1, scores + offset, keys(), x, shape.q_width(), 1, gradient + token * stride, stride);
        });
    }
    void mask(float * scores, int64_t i) const {
        float * row = scores + i * keys();
        std::fill(row, row + begin_of(i), 0.0f);
        std::fill(row + end_of(i) - from, row + keys(), 0.0f);
    }
};

} // namespace

void attention(Pool & pool, AttentionScratch & scratch, const AttentionShape & s, const AttentionPlan & plan,
               const float * q, const float * k, const float * v, float * out, float * lse) {
    const auto scale = static_cast<float>(s.scale);
    pool.each(static_cast<int64_t>(plan.blocks.size()) * s.heads, [&](int64_t task, int thread) {
        const AttentionPlan::Block & block = plan.blocks[static_cast<size_t>(task / s.heads)];
        const int64_t head = task % s.heads, kv = head / s.group() * s.d;
        const int64_t token = plan.segments[static_cast<size_t>(block.segment)].begin + block.first;
        const Scores scores(s, plan, block);
        float * p = scratch.scores(thread);
        scores.against(q + token * s.q_width() + head * s.d, scale, k + kv, p);
        for (int64_t i = 0; i < block.count; i++) {
            const int64_t begin = scores.begin_of(i);
            lse[(token + i) * s.heads + head] = softmax_row(p + i * scores.keys() + begin, scores.end_of(i) - scores.from - begin);
            scores.mask(p, i);
        }
        scores.times(p, v + kv, out + token * s.q_width() + head * s.d);
    });
}

namespace {

/** Each pointer is at the head's first value: q, out, dout, dq, dk and dv have stride H·d, k and v have stride KV·d, lse has stride H. */
struct HeadGradient {
    const float *q, *k, *v, *out, *lse, *dout;
    float *dq, *dk, *dv;
};

/** p and ds [count, keys] are scratch. */
void block_backward(const AttentionShape & s, const AttentionPlan & plan, const AttentionPlan::Block & block, const HeadGradient & g, float * p, float * ds) {
    const auto scale = static_cast<float>(s.scale);
    const int64_t width = s.q_width(), token = plan.segments[static_cast<size_t>(block.segment)].begin + block.first;
    const Scores scores(s, plan, block);
    const float * q = g.q + token * width;
    const float * dout = g.dout + token * width;
    scores.against(q, scale, g.k, p);
    scores.against(dout, 1, g.v, ds);
    for (int64_t i = 0; i < block.count; i++) {
        const float log_sum = g.lse[(token + i) * s.heads];
        const float mean = dot_of(dout + i * width, g.out + (token + i) * width, s.d);
        float * pi = p + i * scores.keys();
        float * di = ds + i * scores.keys();
        const int64_t begin = scores.begin_of(i), end = scores.end_of(i) - scores.from;
        score_gradients(pi + begin, di + begin, end - begin, log_sum, mean, scale);
        scores.mask(p, i);
        scores.mask(ds, i);
    }
    scores.add_transposed(p, dout, g.dv, width);
    scores.times(ds, g.k, g.dq + token * width);
    if (!faulty(Fault::zero_key_gradient)) scores.add_transposed(ds, q, g.dk, width);
}

/** y [T, KV·d] = sum of the query heads [T, H·d] that share each key/value head, in their order. */
void sum_groups(Pool & pool, const AttentionShape & s, int64_t tokens, const float * heads, float * y) {
    pool.split(tokens, 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; t++)
            for (int64_t kv = 0; kv < s.kv_heads; kv++) {
                float * sum = y + t * s.kv_width() + kv * s.d;
                const float * part = heads + t * s.q_width() + kv * s.group() * s.d;
                std::memcpy(sum, part, static_cast<size_t>(s.d) * sizeof(float));
                for (int64_t g = 1; g < s.group(); g++)
#pragma omp simd
                    for (int64_t c = 0; c < s.d; c++) sum[c] += part[g * s.d + c];
            }
    });
}

} // namespace

void attention_backward(Pool & pool, AttentionScratch & scratch, const AttentionShape & s, const AttentionPlan & plan,
                        const float * q, const float * k, const float * v, const float * out, const float * lse,
                        const float * dout, float * dq, float * dk_heads, float * dv_heads, float * dk, float * dv) {
    // One task computes one query head of a tree. So each sum into a key or a value, over all descendants, has a fixed order.
    pool.each(static_cast<int64_t>(plan.trees.size()) * s.heads, [&](int64_t task, int thread) {
        const AttentionPlan::Tree & tree = plan.trees[static_cast<size_t>(task / s.heads)];
        const int64_t head = task % s.heads, at = head * s.d, kv = head / s.group() * s.d;
        for (int64_t t = tree.tokens.begin; t < tree.tokens.begin + tree.tokens.length; t++) {
            std::memset(dk_heads + t * s.q_width() + at, 0, static_cast<size_t>(s.d) * sizeof(float));
            std::memset(dv_heads + t * s.q_width() + at, 0, static_cast<size_t>(s.d) * sizeof(float));
        }
        const HeadGradient g{q + at, k + kv, v + kv, out + at, lse + head, dout + at, dq + at, dk_heads + at, dv_heads + at};
        for (int64_t block = tree.blocks.begin; block < tree.blocks.begin + tree.blocks.length; block++)
            block_backward(s, plan, plan.blocks[static_cast<size_t>(block)], g, scratch.scores(thread), scratch.gradients(thread));
    });
    const int64_t tokens = plan.segments.back().begin + plan.segments.back().length;
    sum_groups(pool, s, tokens, dk_heads, dk);
    sum_groups(pool, s, tokens, dv_heads, dv);
}

void attention_cached(Pool & pool, AttentionScratch & scratch, const AttentionShape & s, const std::vector<Path> & paths,
                      const float * q, const float * keys, const float * values, float * out) {
    const auto scale = static_cast<float>(s.scale);
    pool.each(static_cast<int64_t>(paths.size()) * s.heads, [&](int64_t task, int thread) {
        const int64_t row = task / s.heads, head = task % s.heads, at = head / s.group() * s.d;
        const Path & path = paths[static_cast<size_t>(row)];
        const int64_t from = first_visible(s, path.length - 1);
        const float * query = q + row * s.q_width() + head * s.d;
        float * p = scratch.scores(thread);
        float * result = out + row * s.q_width() + head * s.d;
        each_span(path, from, path.length, [&](int64_t place, int64_t n, int64_t offset) {
            for (int64_t j = 0; j < n; j++) p[offset + j] = scale * dot_of(query, keys + (place + j) * s.kv_width() + at, s.d);
        });
        softmax_row(p, path.length - from);
        std::fill(result, result + s.d, 0.0f);
        each_span(path, from, path.length, [&](int64_t place, int64_t n, int64_t offset) {
            for (int64_t j = 0; j < n; j++) {
                const float * value = values + (place + j) * s.kv_width() + at;
#pragma omp simd
                for (int64_t c = 0; c < s.d; c++) result[c] += p[offset + j] * value[c];
            }
        });
    });
}
