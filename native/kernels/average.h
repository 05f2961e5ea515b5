// One step of an exponential moving average: w becomes decay · w + (1 − decay) · from. All arrays [n].
#pragma once
#include <cstdint>

/**
 * Each form starts from the value with the larger share. So decay 0 copies `from`, decay 1 changes nothing, and equal values stay equal to
 * the bit.
 */
inline void average(double decay, int64_t n, float * w, const float * from) {
    const auto kept = static_cast<float>(decay), taken = static_cast<float>(1 - decay);
    if (decay > 0.5) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) w[i] += taken * (from[i] - w[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) w[i] = from[i] + kept * (w[i] - from[i]);
    }
}
