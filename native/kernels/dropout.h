// Inverted dropout. The mask is a function of a key and the column alone, so the backward pass computes it again instead of storing it.
// Neither threads, nor the cut into passes, nor a resumed run can change it.
#pragma once
#include <cmath>
#include <cstdint>

#include "base/random.h"

/** Four columns share one 64-bit draw, so the rate is rounded to a multiple of 2⁻¹⁶. The scale belongs to the rounded rate. */
struct Dropout {
    uint32_t below = 0; // columns whose 16 bits lie below this are dropped
    float scale = 1;    // of the columns that stay: 1 / (1 − rate)

    explicit Dropout(double rate) : below(static_cast<uint32_t>(std::lround(rate * 65536))), scale(65536.0f / static_cast<float>(65536 - below)) {}

    float factor(uint64_t key, int64_t column) const {
        const uint64_t bits = mix64(key + (static_cast<uint64_t>(column / 4) + 1) * 0x9e3779b97f4a7c15ull);
        return (bits >> (16 * (column % 4)) & 0xffff) < below ? 0.0f : scale;
    }
};

namespace reference {

/** y = mask ⊙ x / (1 − rate), value by value. */
template <class T> void dropout(const Dropout & d, uint64_t key, const T * x, int64_t n, T * y) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * static_cast<T>(d.factor(key, i));
}

} // namespace reference

/** Calls f(column, factor) for every column. Factors are selected without a branch, because the processor would mispredict it. */
template <class F> inline void each_column(const Dropout & d, uint64_t key, int64_t n, const F & f) {
    const int64_t whole = n / 4 * 4;
    for (int64_t i = 0; i < whole; i += 4) {
        const uint64_t bits = mix64(key + (static_cast<uint64_t>(i / 4) + 1) * 0x9e3779b97f4a7c15ull);
        float factors[4];
        for (int lane = 0; lane < 4; lane++) factors[lane] = static_cast<uint32_t>(bits >> (16 * lane) & 0xffff) < d.below ? 0.0f : d.scale;
        for (int lane = 0; lane < 4; lane++) f(i + lane, factors[lane]);
    }
    for (int64_t i = whole; i < n; i++) f(i, d.factor(key, i));
}

/** y [n] = mask ⊙ x / (1 − rate). */
inline void dropout(const Dropout & d, uint64_t key, const float * x, int64_t n, float * y) {
    each_column(d, key, n, [=](int64_t i, float factor) { y[i] = x[i] * factor; });
}

/**
 * dx [n] += mask ⊙ y / (1 − rate), then y = mask ⊙ x / (1 − rate). On entry y holds the gradient of the dropped x; on return it holds the
 * dropped x itself.
 */
inline void dropout_backward(const Dropout & d, uint64_t key, const float * x, int64_t n, float * y, float * dx) {
    each_column(d, key, n, [=](int64_t i, float factor) {
        dx[i] += y[i] * factor;
        y[i] = x[i] * factor;
    });
}
