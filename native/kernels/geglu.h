// y = gelu(gate) · up, elementwise over n values, with the tanh form of GELU (Hendrycks and Gimpel, 2016):
// gelu(g) = g / 2 · (1 + tanh z) = g · sigmoid(2z), z = √(2/π) · (g + 0.044715 g³).
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/exp.h"
#include "kernels/processor.h"

namespace reference {

template <class T> T gelu_argument(T g) { return static_cast<T>(0.79788456080286535588) * (g + static_cast<T>(0.044715) * g * g * g); }

template <class T> void geglu(const T * gate, const T * up, int64_t n, T * y) {
    for (int64_t i = 0; i < n; i++) y[i] = gate[i] / 2 * (1 + std::tanh(gelu_argument(gate[i]))) * up[i];
}

template <class T> void geglu_backward(const T * gate, const T * up, const T * dy, int64_t n, T * dgate, T * dup) {
    for (int64_t i = 0; i < n; i++) {
        const T t = std::tanh(gelu_argument(gate[i]));
        const T slope = static_cast<T>(0.79788456080286535588) * (1 + 3 * static_cast<T>(0.044715) * gate[i] * gate[i]);
        dup[i] = dy[i] * gate[i] / 2 * (1 + t);
        dgate[i] = dy[i] * up[i] * ((1 + t) / 2 + gate[i] / 2 * (1 - t * t) * slope);
    }
}

} // namespace reference

constexpr float twice_sqrt_2_over_pi = 1.59576912f;

PER_PROCESSOR inline void geglu(const float * gate, const float * up, int64_t n, float * y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float g = gate[i];
        y[i] = g / (1.0f + fast_exp(-twice_sqrt_2_over_pi * (g + 0.044715f * g * g * g))) * up[i];
    }
}

/** dgate and dup may be the same memory as gate and up. */
PER_PROCESSOR inline void geglu_backward(const float * gate, const float * up, const float * dy, int64_t n, float * dgate, float * dup) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float g = gate[i], u = up[i];
        const float s = 1.0f / (1.0f + fast_exp(-twice_sqrt_2_over_pi * (g + 0.044715f * g * g * g)));
        const float slope = twice_sqrt_2_over_pi * (1.0f + 0.134145f * g * g);
        dup[i] = dy[i] * g * s;
        dgate[i] = dy[i] * u * s * (1.0f + g * (1.0f - s) * slope);
    }
}
