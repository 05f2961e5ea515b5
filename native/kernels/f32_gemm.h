// Products in single precision whose right input is packed once for all tiles, as in bf16_gemm.h: a tile of the output costs only its
// arithmetic, where sgemm packs both its inputs for each, which took 10 to 20 % of a product cut for 16 threads. Every sum is taken along k in
// order: the bits depend neither on the tile, nor on how k is cut, nor on the processor.
#pragma once
#include <cstdint>

namespace f32 {

/** Columns of C that one strip of B holds. */
constexpr int64_t strip = 64;
/** Columns that lie beside each other: what one call of pack_rows fills. */
constexpr int64_t lanes = 16;

/** Where `lanes` columns of a strip lie: at k · step, and the next ones `group` further on. */
struct Packing {
    int64_t group, step;
    int64_t at(int64_t column, int64_t k) const { return column / lanes * group + k * step; }
};

/** Of a strip that is k long: as this processor's kernel reads it, which is in order of memory. AVX-512 takes a whole strip at a time; AVX2 takes
 *  16 columns, and gains 3 to 20 % where these lie together. */
Packing packing(int64_t k);

/** from [rows, stride], a row along k: rows ≤ lanes of B's columns; `to` is the place of their first k. */
void pack_rows(const float * from, int64_t stride, int64_t rows, int64_t k, float * to, int64_t step);
/**
 * Columns [column, column + count ≤ lanes) of B, times the factor; lanes beyond them become 0. along: from [B's columns, stride] has a row
 * along k; else from [k, stride] has one along B's columns.
 */
void pack(const float * from, int64_t stride, bool along, int64_t column, int64_t count, int64_t k, float factor, float * to, int64_t step);

/** [m, k]: the value of row i at p is from[i · row + p · step]. */
struct Left {
    const float * from;
    int64_t row, step;
};

/** [k, n ≤ strip]: packed, or as it lies: then rows have whole groups of lanes, and are `step` long. */
struct Right {
    const float * from;
    Packing packing;
};

/** C [m, n] = A · B, or += with add; rows of C ldc apart. */
void multiply(int64_t m, int64_t n, int64_t k, const Left & a, const Right & b, bool add, float * c, int64_t ldc);

} // namespace f32
