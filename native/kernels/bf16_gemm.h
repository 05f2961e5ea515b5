// Products of bf16 inputs with sums in single precision, for processors that multiply pairs of bf16 (AVX512-BF16). They do twice the
// arithmetic of fp32 per cycle. Both inputs are packed first: k goes in pairs, each pair in 32 bits with the even k in the low half. If k
// is odd, the last pair ends with 0. Rounding is to the nearest, ties to even; denormals become 0. Every sum runs along k in order,
// whatever tile it belongs to, and a later part of k continues the sums of the part before. So the result has the same bits however a
// product is cut over its outputs or along k.
#pragma once
#include <cstdint>

namespace bf16 {

/** Whether this processor can run the functions below. */
bool supported();

/** Columns of C that one strip of B holds: the 64 sums of each of six rows fill the vector registers. */
constexpr int64_t strip = 64;
/** Columns that one vector holds, and that one call of pack_rows fills. */
constexpr int64_t lanes = 16;

constexpr int64_t pairs_of(int64_t k) { return (k + 1) / 2; }

/** Rounds a row of A: from [k] floats, to [pairs_of(k)]. */
void round_row(const float * from, int64_t k, uint32_t * to);

/**
 * The layout of B is [strips][pairs][strip]. Both functions fill some pairs of one strip; `to` is the place of the first pair and lane.
 * pack_rows: from [rows, stride] has its rows along k. The rows, at most `lanes`, are columns of B; the other lanes become 0.
 * pack_pair: two rows along B's columns, of an even k and of the next k (null: 0), for `count` of the strip's columns.
 */
void pack_rows(const float * from, int64_t stride, int64_t rows, int64_t k, uint32_t * to);
void pack_pair(const float * even, const float * odd, int64_t count, uint32_t * to);

/** C [m, n] = A · B, or += with add. A [m, pairs] has rows lda pairs apart, b is one strip, n ≤ strip, rows of C are ldc floats apart. */
void multiply(int64_t m, int64_t n, int64_t pairs, const uint32_t * a, int64_t lda, const uint32_t * b, bool add, float * c, int64_t ldc);

} // namespace bf16
