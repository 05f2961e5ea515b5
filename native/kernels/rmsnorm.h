// y = x · inv · w with inv = 1/√(mean x² + eps), one token at a time. All arrays [d].
#pragma once
#include <cmath>
#include <cstdint>

namespace reference {

template <class T> T rmsnorm(const T * x, const T * w, T eps, int64_t d, T * y) {
    T sum = 0;
    for (int64_t i = 0; i < d; i++) sum += x[i] * x[i];
    const T inv = 1 / std::sqrt(sum / d + eps);
    for (int64_t i = 0; i < d; i++) y[i] = x[i] * inv * w[i];
    return inv;
}

/** dx += the gradient through the norm. */
template <class T> void rmsnorm_backward(const T * x, const T * w, T inv, const T * dy, int64_t d, T * dx) {
    T dot = 0;
    for (int64_t i = 0; i < d; i++) dot += dy[i] * w[i] * x[i];
    for (int64_t i = 0; i < d; i++) dx[i] += inv * dy[i] * w[i] - x[i] * inv * inv * inv * dot / d;
}

} // namespace reference

/** Returns inv, which the backward pass needs. */
inline float rmsnorm(const float * x, const float * w, float eps, int64_t d, float * y) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < d; i++) sum += x[i] * x[i];
    const float inv = 1.0f / std::sqrt(sum / static_cast<float>(d) + eps);
#pragma omp simd
    for (int64_t i = 0; i < d; i++) y[i] = x[i] * inv * w[i];
    return inv;
}

/** y again from a stored inv, cheaper than storing y. */
inline void rmsnorm_again(const float * x, const float * w, float inv, int64_t d, float * y) {
#pragma omp simd
    for (int64_t i = 0; i < d; i++) y[i] = x[i] * inv * w[i];
}

inline void rmsnorm_backward(const float * x, const float * w, float inv, const float * dy, int64_t d, float * dx) {
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < d; i++) dot += dy[i] * w[i] * x[i];
    const float c = inv * inv * inv * dot / static_cast<float>(d);
#pragma omp simd
    for (int64_t i = 0; i < d; i++) dx[i] += inv * dy[i] * w[i] - x[i] * c;
}
