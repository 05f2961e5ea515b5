// y = silu(gate) · up, elementwise over n values.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/exp.h"
#include "kernels/processor.h"

namespace reference {

template <class T> void swiglu(const T * gate, const T * up, int64_t n, T * y) {
    for (int64_t i = 0; i < n; i++) y[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
}

template <class T> void swiglu_backward(const T * gate, const T * up, const T * dy, int64_t n, T * dgate, T * dup) {
    for (int64_t i = 0; i < n; i++) {
        const T s = 1 / (1 + std::exp(-gate[i]));
        dup[i] = dy[i] * gate[i] * s;
        dgate[i] = dy[i] * up[i] * s * (1 + gate[i] * (1 - s));
    }
}

} // namespace reference

PER_PROCESSOR inline void swiglu(const float * gate, const float * up, int64_t n, float * y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = gate[i] / (1.0f + fast_exp(-gate[i])) * up[i];
}

/** dgate and dup may be the same memory as gate and up. */
PER_PROCESSOR inline void swiglu_backward(const float * gate, const float * up, const float * dy, int64_t n, float * dgate, float * dup) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float g = gate[i], u = up[i];
        const float s = 1.0f / (1.0f + fast_exp(-g));
        dup[i] = dy[i] * g * s;
        dgate[i] = dy[i] * u * s * (1.0f + g * (1.0f - s));
    }
}
