// AdamW with bias correction and decoupled weight decay (Loshchilov and Hutter, 2019). All arrays [n].
#pragma once
#include <cmath>
#include <cstdint>

struct AdamW {
    double learning_rate, beta1, beta2, eps, weight_decay;
    double grad_clip_norm; // global norm; 0 = off
};

namespace reference {

/** step counts from 1. */
template <class T> void adamw(const AdamW & o, int64_t step, double grad_scale, int64_t n, T * w, const T * g, T * m, T * v) {
    for (int64_t i = 0; i < n; i++) {
        const T grad = g[i] * static_cast<T>(grad_scale);
        m[i] = static_cast<T>(o.beta1) * m[i] + static_cast<T>(1 - o.beta1) * grad;
        v[i] = static_cast<T>(o.beta2) * v[i] + static_cast<T>(1 - o.beta2) * grad * grad;
        const T mean = m[i] / static_cast<T>(1 - std::pow(o.beta1, step));
        const T square = v[i] / static_cast<T>(1 - std::pow(o.beta2, step));
        w[i] -= static_cast<T>(o.learning_rate) * (mean / (std::sqrt(square) + static_cast<T>(o.eps)) + static_cast<T>(o.weight_decay) * w[i]);
    }
}

} // namespace reference

inline void adamw(const AdamW & o, int64_t step, double grad_scale, int64_t n, float * w, const float * g, float * m, float * v) {
    const auto b1 = static_cast<float>(o.beta1), b2 = static_cast<float>(o.beta2);
    const auto c1 = static_cast<float>(1 - o.beta1), c2 = static_cast<float>(1 - o.beta2);
    const auto m_scale = static_cast<float>(1 / (1 - std::pow(o.beta1, static_cast<double>(step))));
    const auto v_scale = static_cast<float>(1 / (1 - std::pow(o.beta2, static_cast<double>(step))));
    const auto lr = static_cast<float>(o.learning_rate), eps = static_cast<float>(o.eps);
    const auto keep = static_cast<float>(1 - o.learning_rate * o.weight_decay), scale = static_cast<float>(grad_scale);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float grad = g[i] * scale;
        m[i] = b1 * m[i] + c1 * grad;
        v[i] = b2 * v[i] + c2 * grad * grad;
        w[i] = w[i] * keep - lr * (m[i] * m_scale) / (std::sqrt(v[i] * v_scale) + eps);
    }
}
