// RMSNorm over rows of width d, one block per row. In the forward pass x is the residual stream in single precision; the backward pass
// reads its copy in T. rows, if given, names the row of x that each block takes; −1 means none.
#pragma once
#include "kernels/cuda/block.h"

namespace gpu {

DEVICE int64_t row_of(const int32_t * rows, int64_t block) { return rows ? rows[block] : block; }

/** y = x · inv · w; kept (may be null) = x; inv [rows]. y of a block without a row becomes zeros. */
template <class T> struct RmsNorm {
    const float * x;
    const int32_t * rows;
    const float * w;
    float eps;
    int64_t d;
    T * y;
    T * kept;
    float * inv;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t out = block.x() * d, row = row_of(rows, block.x());
        if (row < 0) {
            for (int64_t i = block.thread(); i < d; i += block.threads()) put(y[out + i], 0);
            if (block.thread() == 0) inv[block.x()] = 0;
            return;
        }
        const float * in = x + row * d;
        float squares = 0;
        for (int64_t i = block.thread(); i < d; i += block.threads()) squares += in[i] * in[i];
        const float scale = 1.0f / sqrtf(block.sum(squares) / static_cast<float>(d) + eps);
        for (int64_t i = block.thread(); i < d; i += block.threads()) {
            put(y[out + i], in[i] * scale * w[i]);
            if (kept) put(kept[out + i], in[i]);
        }
        if (block.thread() == 0) inv[block.x()] = scale;
    }
};

/** Computes y again from the kept x. */
template <class T> struct RmsNormAgain {
    const T * x;
    const float *w, *inv;
    int64_t d;
    T * y;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t at = block.x() * d;
        for (int64_t i = block.thread(); i < d; i += block.threads()) put(y[at + i], get(x[at + i]) * inv[block.x()] * w[i]);
    }
};

/** dx[row] += the gradient through the norm of x[row]. dy and inv are indexed by block. out (may be null) = dx in T. */
template <class X, class T> struct RmsNormBackward {
    const X * x;
    const int32_t * rows;
    const float *w, *inv, *dy;
    int64_t d;
    float * dx;
    T * out;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t row = row_of(rows, block.x());
        if (row < 0) return;
        const float scale = inv[block.x()];
        const float * dyr = dy + block.x() * d;
        const X * xr = x + row * d;
        float dot = 0;
        for (int64_t i = block.thread(); i < d; i += block.threads()) dot += dyr[i] * w[i] * get(xr[i]);
        const float c = scale * scale * scale * block.sum(dot) / static_cast<float>(d);
        for (int64_t i = block.thread(); i < d; i += block.threads()) {
            const float value = dx[row * d + i] + scale * dyr[i] * w[i] - get(xr[i]) * c;
            dx[row * d + i] = value;
            if (out) put(out[row * d + i], value);
        }
    }
};

/** A norm after a sublayer: x += y · inv · w, where y [rows, d] is the sublayer's output. kept = y in T. */
template <class T> struct PostNorm {
    const float * y;
    const float * w;
    float eps;
    int64_t d;
    T * kept;
    float * inv;
    float * x;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t at = block.x() * d;
        float squares = 0;
        for (int64_t i = block.thread(); i < d; i += block.threads()) squares += y[at + i] * y[at + i];
        const float scale = 1.0f / sqrtf(block.sum(squares) / static_cast<float>(d) + eps);
        for (int64_t i = block.thread(); i < d; i += block.threads()) {
            put(kept[at + i], y[at + i]);
            x[at + i] += y[at + i] * scale * w[i];
        }
        if (block.thread() == 0) inv[block.x()] = scale;
    }
};

/** dy [rows, d] in T = the gradient before a post-norm, computed from dx after it. */
template <class T> struct PostNormBackward {
    const T * y;
    const float *w, *inv, *dx;
    int64_t d;
    T * dy;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t at = block.x() * d;
        const float scale = inv[block.x()];
        float dot = 0;
        for (int64_t i = block.thread(); i < d; i += block.threads()) dot += dx[at + i] * w[i] * get(y[at + i]);
        const float c = scale * scale * scale * block.sum(dot) / static_cast<float>(d);
        for (int64_t i = block.thread(); i < d; i += block.threads()) put(dy[at + i], scale * dx[at + i] * w[i] - get(y[at + i]) * c);
    }
};

/** Norm weights of the heads of q, then of k, which follow each other in a token's row. */
struct HeadWeights {
    const float *q, *k;
    int64_t q_heads;
    DEVICE const float * of(int64_t head) const { return head < q_heads ? q : k; }
};

/** Norms every head of q and k: the block's x is the token, its y the head. from and to may have different strides. */
template <class T> struct HeadNorm {
    const T * from;
    int64_t from_stride;
    HeadWeights weights;
    float eps;
    int64_t d, heads;
    T * to;
    int64_t to_stride;
    float * inv; // [tokens, heads]
    template <class Block> DEVICE void operator()(const Block & block) const {
        const float * w = weights.of(block.y());
        const T * in = from + block.x() * from_stride + block.y() * d;
        T * out = to + block.x() * to_stride + block.y() * d;
        float squares = 0;
        for (int64_t i = block.thread(); i < d; i += block.threads()) squares += get(in[i]) * get(in[i]);
        const float scale = 1.0f / sqrtf(block.sum(squares) / static_cast<float>(d) + eps);
        for (int64_t i = block.thread(); i < d; i += block.threads()) put(out[i], get(in[i]) * scale * w[i]);
        if (block.thread() == 0) inv[block.x() * heads + block.y()] = scale;
    }
};

/** Replaces the gradient after the norm by the one before it. */
template <class T> struct HeadNormBackward {
    const T * x;
    int64_t x_stride;
    HeadWeights weights;
    const float * inv;
    int64_t d, heads;
    T * dy;
    int64_t dy_stride;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const float * w = weights.of(block.y());
        const T * in = x + block.x() * x_stride + block.y() * d;
        T * g = dy + block.x() * dy_stride + block.y() * d;
        const float scale = inv[block.x() * heads + block.y()];
        float dot = 0;
        for (int64_t i = block.thread(); i < d; i += block.threads()) dot += get(g[i]) * w[i] * get(in[i]);
        const float c = scale * scale * scale * block.sum(dot) / static_cast<float>(d);
        for (int64_t i = block.thread(); i < d; i += block.threads()) put(g[i], scale * get(g[i]) * w[i] - get(in[i]) * c);
    }
};

} // namespace gpu
