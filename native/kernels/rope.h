// Rotary positions on interleaved pairs (2i, 2i+1), as llama.cpp rotates models of architecture llama.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

/** Angle of pair i at a position: pos · scale · base^(−2i/d) / factor[i]. */
inline double rope_angle(int64_t position, int64_t pair, int64_t d, double base, double scale, const std::vector<float> & factors) {
    const double factor = factors.empty() ? 1.0 : static_cast<double>(factors[static_cast<size_t>(pair)]);
    return static_cast<double>(position) * scale * std::pow(base, -2.0 * static_cast<double>(pair) / static_cast<double>(d)) / factor;
}

namespace reference {

/** x [d] of one head in place; direction +1 forward, −1 backward (a rotation's transpose is its inverse). */
template <class T>
void rope(T * x, int64_t d, int64_t position, int direction, double base, double scale, const std::vector<float> & factors) {
    for (int64_t i = 0; i < d / 2; i++) {
        const double angle = rope_angle(position, i, d, base, scale, factors);
        const T c = static_cast<T>(std::cos(angle)), s = static_cast<T>(std::sin(angle) * direction);
        const T a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * c - b * s;
        x[2 * i + 1] = a * s + b * c;
    }
}

} // namespace reference

/** table: the position's d/2 pairs (cos, sin) one behind the other. */
inline void rope(float * x, int64_t d, const float * table, float direction) {
    for (int64_t i = 0; i < d; i += 2) {
        const float c = table[i], s = table[i + 1] * direction;
        const float a = x[i], b = x[i + 1];
        x[i] = a * c - b * s;
        x[i + 1] = a * s + b * c;
    }
}
