// Products in single precision of inputs laid out as those in bf16 are (bf16_gemm.h): a tile of the output costs only its arithmetic,
// where sgemm packs both its inputs for each, which took 10 to 20 % of a product cut for 16 threads. Every sum is taken along k in
// order: the bits depend neither on the tile, nor on how k is cut, nor on the processor.
#pragma once
#include <cstdint>

namespace f32 {

/** Columns of C that one strip of B holds. */
constexpr int64_t strip = 64;
/** Of them, what one call of pack_rows fills. */
constexpr int64_t lanes = 16;

/** B is [strips][k][strip]; from [rows, stride], a row along k: rows ≤ lanes of B's columns; `to` is the place of their first k and lane. */
void pack_rows(const float * from, int64_t stride, int64_t rows, int64_t k, float * to);

/** C [m, n] = A · B, or += with add; A [m, k] with rows lda apart, b one strip, n ≤ strip, rows of C ldc apart. */
void multiply(int64_t m, int64_t n, int64_t k, const float * a, int64_t lda, const float * b, bool add, float * c, int64_t ldc);

} // namespace f32
