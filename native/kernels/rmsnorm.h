// y = x · inv · w with inv = 1/√(mean x² + eps), one token at a time. All arrays [d].
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/processor.h"

namespace reference {

template <class T> T rmsnorm(const T * x, const T * w, T eps, int64_t d, T * y) {
    T sum = 0;
    for (int64_t i = 0; i < d; i++) sum += x[i] * x[i];
    const T inv = 1 / std::sqrt(sum / d + eps);
    for (int64_t i = 0; i < d; i++) y[i] = x[i] * inv * w[i];
    return inv;
}

/** Adds the gradient through the norm to dx. */
template <class T> void rmsnorm_backward(const T * x, const T * w, T inv, const T * dy, int64_t d, T * dx) {
    T dot = 0;
    for (int64_t i = 0; i < d; i++) dot += dy[i] * w[i] * x[i];
    for (int64_t i = 0; i < d; i++) dx[i] += inv * dy[i] * w[i] - x[i] * inv * inv * inv * dot / d;
}

} // namespace reference

inline float rms_inverse(const float * x, float eps, int64_t d) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < d; i++) sum += x[i] * x[i];
    return 1.0f / std::sqrt(sum / static_cast<float>(d) + eps);
}

/** Computes y again from a stored inv, which is cheaper than storing y. y may be x. */
PER_PROCESSOR inline void rmsnorm_again(const float * x, const float * w, float inv, int64_t d, float * y) {
#pragma omp simd
    for (int64_t i = 0; i < d; i++) y[i] = x[i] * inv * w[i];
}

/** Returns inv, which the backward pass needs. y may be x. */
PER_PROCESSOR inline float rmsnorm(const float * x, const float * w, float eps, int64_t d, float * y) {
    const float inv = rms_inverse(x, eps, d);
    rmsnorm_again(x, w, inv, d, y);
    return inv;
}

/** Adds the norm of x to y. Returns inv. */
PER_PROCESSOR inline float rmsnorm_add(const float * x, const float * w, float eps, int64_t d, float * y) {
    const float inv = rms_inverse(x, eps, d);
#pragma omp simd
    for (int64_t i = 0; i < d; i++) y[i] += x[i] * inv * w[i];
    return inv;
}

/** The factor of x in the gradient through its norm: dx = inv · w ⊙ dy − pull · x. */
inline float rmsnorm_pull(const float * x, const float * w, float inv, const float * dy, int64_t d) {
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < d; i++) dot += dy[i] * w[i] * x[i];
    return inv * inv * inv * dot / static_cast<float>(d);
}

/** Adds the gradient through the norm to dx. */
PER_PROCESSOR inline void rmsnorm_backward(const float * x, const float * w, float inv, const float * dy, int64_t d, float * dx) {
    const float pull = rmsnorm_pull(x, w, inv, dy, d);
#pragma omp simd
    for (int64_t i = 0; i < d; i++) dx[i] += inv * dy[i] * w[i] - x[i] * pull;
}

/** Writes the gradient through the norm to dx; dx may be dy. */
PER_PROCESSOR inline void rmsnorm_backward_only(const float * x, const float * w, float inv, const float * dy, int64_t d, float * dx) {
    const float pull = rmsnorm_pull(x, w, inv, dy, d);
#pragma omp simd
    for (int64_t i = 0; i < d; i++) dx[i] = inv * dy[i] * w[i] - x[i] * pull;
}
