// Products of bf16 inputs with sums in single precision, for processors that multiply pairs of bf16 (AVX512-BF16), which do twice the
// arithmetic of fp32 in a cycle. Both inputs are packed before: k in pairs, a pair in 32 bits with the even k in the low half; where k is
// odd the last pair ends with 0. Rounding is to the nearest, ties to even; what is denormal is 0. Every sum is taken along k in
// order, whatever the tile it lies in: the bits depend neither on how a product is cut over its outputs nor, since a later part of k
// goes on from the sums of the one before, on how it is cut along k.
#pragma once
#include <cstdint>

namespace bf16 {

/** Whether this processor can run the functions below. */
bool supported();

/** Columns of C that one strip of B holds: 64 sums for each of six rows fill the vector registers. */
constexpr int64_t strip = 64;
/** Of them, what one vector holds, and one call of pack_rows fills. */
constexpr int64_t lanes = 16;

constexpr int64_t pairs_of(int64_t k) { return (k + 1) / 2; }

/** A: from [k] floats → to [pairs_of(k)]. */
void round_row(const float * from, int64_t k, uint32_t * to);

/**
 * B is [strips][pairs][strip]. Both fill some pairs of one strip; `to` is the place of their first pair and lane.
 * pack_rows: from [rows, stride], a row along k: rows ≤ lanes of B's columns, lanes beyond them become 0.
 * pack_pair: two rows along B's columns, of an even k and the k after it (null: 0), for `count` of the strip's columns.
 */
void pack_rows(const float * from, int64_t stride, int64_t rows, int64_t k, uint32_t * to);
void pack_pair(const float * even, const float * odd, int64_t count, uint32_t * to);

/** C [m, n] = A · B, or += with add; A [m, pairs] with rows lda pairs apart, b one strip, n ≤ strip, rows of C ldc floats apart. */
void multiply(int64_t m, int64_t n, int64_t pairs, const uint32_t * a, int64_t lda, const uint32_t * b, bool add, float * c, int64_t ldc);

} // namespace bf16
