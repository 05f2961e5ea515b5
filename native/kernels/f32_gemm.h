// Products in single precision. The right input is packed once for all tiles, as in bf16_gemm.h, so that a tile of the output costs only
// its arithmetic. sgemm packs both inputs for each tile, which took 10 to 20 % of a product cut for 16 threads. Every sum runs along k in
// order: the bits depend neither on the tile, nor on how k is cut, nor on the processor.
#pragma once
#include <cstdint>

namespace f32 {

/** Columns of C that one strip of B holds. */
constexpr int64_t strip = 64;
/** Columns that lie next to each other, and that one call of pack_rows fills. */
constexpr int64_t lanes = 16;

/** Where the columns of a strip lie: `lanes` of them at k · step, and the next ones `group` further on. */
struct Packing {
    int64_t group, step;
    int64_t at(int64_t column, int64_t k) const { return column / lanes * group + k * step; }
};

/**
 * The packing of a strip with k steps that this processor's kernel reads in the order of memory. AVX-512 takes a whole strip at a time.
 * AVX2 takes 16 columns at a time, and is 3 to 20 % faster when these lie together.
 */
Packing packing(int64_t k);

/** from [rows, stride] has its rows along k; they are columns of B, at most `lanes`. `to` is the place of their first k. */
void pack_rows(const float * from, int64_t stride, int64_t rows, int64_t k, float * to, int64_t step);
/**
 * Packs columns [column, column + count ≤ lanes) of B, times the factor; the other lanes become 0. With `along`, from [B's columns, stride]
 * has its rows along k. Without it, from [k, stride] has its rows along B's columns.
 */
void pack(const float * from, int64_t stride, bool along, int64_t column, int64_t count, int64_t k, float factor, float * to, int64_t step);

/** A [m, k]: the value of row i at p is from[i · row + p · step]. */
struct Left {
    const float * from;
    int64_t row, step;
};

/** B [k, n ≤ strip], packed or as stored. As stored, its rows consist of whole groups of lanes and are `step` long. */
struct Right {
    const float * from;
    Packing packing;
};

/** C [m, n] = A · B, or += with add. Rows of C are ldc apart. */
void multiply(int64_t m, int64_t n, int64_t k, const Left & a, const Right & b, bool add, float * c, int64_t ldc);

} // namespace f32
