// The optimizer step of kernels/adamw.h, and partial sums of the global norm.
#pragma once
#include "kernels/cuda/block.h"

namespace gpu {

template <class T> struct AdamwStep {
    float *w, *g, *m, *v; // [count]; g is set to 0
    T * narrow;           // [count]: the weights in the type that products read; null when that is w itself
    int64_t count;
    float b1, b2, c1, c2, m_scale, v_scale, lr, eps, keep, grad_scale;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t i = block.x() * block.threads() + block.thread();
        if (i >= count) return;
        const float grad = g[i] * grad_scale;
        m[i] = b1 * m[i] + c1 * grad;
        v[i] = b2 * v[i] + c2 * grad * grad;
        w[i] = w[i] * keep - lr * (m[i] * m_scale) / (sqrtf(v[i] * v_scale) + eps);
        g[i] = 0;
        if (narrow) put(narrow[i], w[i]);
    }
};

/** partial[block] = Σ value² over the block's chunk. The host adds them in order, so the norm is the same every time. */
struct SquaredNorm {
    static constexpr int64_t chunk = 1 << 14;
    const float * values;
    int64_t count;
    float * partial;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t begin = block.x() * chunk, end = begin + chunk < count ? begin + chunk : count;
        float sum = 0;
        for (int64_t i = begin + block.thread(); i < end; i += block.threads()) sum += values[i] * values[i];
        const float total = block.sum(sum);
        if (block.thread() == 0) partial[block.x()] = total;
    }
};

} // namespace gpu
