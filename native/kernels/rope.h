// Rotary positions: each pair of a head's values is rotated by an angle that grows with the position.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

/** Which values form pair i of a head of d values: (2i, 2i+1), or (i, i + d/2) as in GPT-NeoX. */
enum class RopePairs { neighbours, halves };

/** Pair i is rotated by position · frequencies[i] and scaled by magnitude. */
struct Rope {
    std::vector<double> frequencies; // [d/2], radians per token
    double magnitude = 1;
};

/** scale · base^(−2i/d) / factors[i]; with no factors, all are 1. */
inline std::vector<double> rope_frequencies(int64_t d, double base, double scale, const std::vector<float> & factors) {
    std::vector<double> frequencies;
    for (int64_t i = 0; i < d / 2; i++) {
        const double factor = factors.empty() ? 1 : static_cast<double>(factors[static_cast<size_t>(i)]);
        frequencies.push_back(scale * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(d)) / factor);
    }
    return frequencies;
}

/**
 * YaRN (Peng et al., 2023) with β = 32 and 1. Pairs that turn more than 32 times within the trained context keep their frequency, pairs
 * that turn less than once are slowed by `stretch`, and the others lie between. Every value is scaled by 1 + ln(stretch) / 10.
 */
inline Rope rope_yarn(int64_t d, double base, double stretch, double trained_context) {
    const auto pair_with_turns = [&](double turns) {
        return static_cast<double>(d) * std::log(trained_context / (turns * 2 * 3.14159265358979323846)) / (2 * std::log(base));
    };
    const double low = std::max(0.0, std::floor(pair_with_turns(32))), high = std::min(static_cast<double>(d - 1), std::ceil(pair_with_turns(1)));
    Rope rope{rope_frequencies(d, base, 1, {}), stretch > 1 ? 1 + 0.1 * std::log(stretch) : 1};
    for (size_t i = 0; i < rope.frequencies.size(); i++) {
        const double slowed = std::clamp((static_cast<double>(i) - low) / std::max(0.001, high - low), 0.0, 1.0);
        rope.frequencies[i] *= 1 - slowed + slowed / stretch;
    }
    return rope;
}

namespace reference {

/** Rotates x [d] of one head in place; direction is +1 forward, −1 for the transpose. */
template <class T> void rope(T * x, int64_t d, int64_t position, int direction, RopePairs pairs, const Rope & rope) {
    for (int64_t i = 0; i < d / 2; i++) {
        const double angle = static_cast<double>(position) * rope.frequencies[static_cast<size_t>(i)];
        const T c = static_cast<T>(std::cos(angle) * rope.magnitude), s = static_cast<T>(std::sin(angle) * direction * rope.magnitude);
        T & first = pairs == RopePairs::neighbours ? x[2 * i] : x[i];
        T & second = pairs == RopePairs::neighbours ? x[2 * i + 1] : x[d / 2 + i];
        const T a = first, b = second;
        first = a * c - b * s;
        second = a * s + b * c;
    }
}

} // namespace reference

/** Appends the d values of one position: (cos, sin) of each pair for neighbours, all cos before all sin for halves. */
inline void rope_table_row(int64_t position, RopePairs pairs, const Rope & rope, std::vector<float> & table) {
    const size_t at = table.size(), half = rope.frequencies.size();
    table.resize(at + 2 * half);
    for (size_t i = 0; i < half; i++) {
        const double angle = static_cast<double>(position) * rope.frequencies[i];
        table[at + (pairs == RopePairs::neighbours ? 2 * i : i)] = static_cast<float>(std::cos(angle) * rope.magnitude);
        table[at + (pairs == RopePairs::neighbours ? 2 * i + 1 : half + i)] = static_cast<float>(std::sin(angle) * rope.magnitude);
    }
}

/** table is the position's row of the table. */
inline void rope(float * x, int64_t d, RopePairs pairs, const float * table, float direction) {
    if (pairs == RopePairs::neighbours)
        for (int64_t i = 0; i < d; i += 2) {
            const float c = table[i], s = table[i + 1] * direction;
            const float a = x[i], b = x[i + 1];
            x[i] = a * c - b * s;
            x[i + 1] = a * s + b * c;
        }
    else {
        const int64_t half = d / 2;
#pragma omp simd
        for (int64_t i = 0; i < half; i++) {
            const float c = table[i], s = table[half + i] * direction;
            const float a = x[i], b = x[half + i];
            x[i] = a * c - b * s;
            x[half + i] = a * s + b * c;
        }
    }
}
