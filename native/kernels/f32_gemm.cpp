#include "kernels/f32_gemm.h"

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // gcc 12 warns about its own intrinsics (gcc bug 105593)
#include <immintrin.h>

#include <algorithm>

#include "kernels/processor.h"

namespace {

constexpr int64_t most_rows = 6;

/** A kernel that computes C [rows, n]. */
using Tile = void (*)(int64_t n, int64_t k, const f32::Left & a, const f32::Right & b, bool add, float * c, int64_t ldc);

/** Computes sixteen columns at a time: up to twelve sums in registers. */
template <int rows> void tile(int64_t n, int64_t k, const f32::Left & a, const f32::Right & b, bool add, float * c, int64_t ldc) {
    const int64_t row = a.row, step = a.step, right_step = b.packing.step;
    for (int64_t lane = 0; lane < n; lane += f32::lanes) {
        // When the columns end within a group, the group is computed in a local array, from which only the existing columns are copied.
        float whole[rows * f32::lanes];
        const int64_t columns = n - lane;
        const bool ends = columns < f32::lanes;
        float * to = ends ? whole : c + lane;
        const int64_t stride = ends ? f32::lanes : ldc;
        for (int i = 0; ends && add && i < rows; i++) std::copy_n(c + i * ldc + lane, columns, whole + i * f32::lanes);
        __m256 sums[rows][2];
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < 2; j++) sums[i][j] = add ? _mm256_loadu_ps(to + i * stride + 8 * j) : _mm256_setzero_ps();
        const float *left_from = a.from, *right_from = b.from + b.packing.at(lane, 0);
        for (int64_t p = 0; p < k; p++, left_from += step, right_from += right_step) {
            const __m256 right[2] = {_mm256_loadu_ps(right_from), _mm256_loadu_ps(right_from + 8)};
            for (int i = 0; i < rows; i++) {
                const __m256 left = _mm256_broadcast_ss(left_from + i * row);
                for (int j = 0; j < 2; j++) sums[i][j] = _mm256_fmadd_ps(left, right[j], sums[i][j]);
            }
        }
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < 2; j++) _mm256_storeu_ps(to + i * stride + 8 * j, sums[i][j]);
        for (int i = 0; ends && i < rows; i++) std::copy_n(whole + i * f32::lanes, columns, c + i * ldc + lane);
    }
}

__attribute__((target("avx512f"))) __mmask16 first(int64_t count) { return count >= 16 ? 0xffff : static_cast<__mmask16>((1u << count) - 1); }

/** Computes all columns at once: up to 24 sums in registers. */
template <int rows, int vectors>
__attribute__((target("avx512f"))) void wide_tile(int64_t n, int64_t k, const f32::Left & a, const f32::Right & b, bool add, float * c, int64_t ldc) {
    const int64_t row = a.row, step = a.step, group = b.packing.group, right_step = b.packing.step;
    __m512 sums[rows][vectors];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++) sums[i][j] = add ? _mm512_maskz_loadu_ps(first(n - 16 * j), c + i * ldc + 16 * j) : _mm512_setzero_ps();
    const float *left_from = a.from, *right_from = b.from;
    for (int64_t p = 0; p < k; p++, left_from += step, right_from += right_step) {
        __m512 right[vectors];
        for (int j = 0; j < vectors; j++) right[j] = _mm512_loadu_ps(right_from + j * group);
        for (int i = 0; i < rows; i++) {
            const __m512 left = _mm512_set1_ps(left_from[i * row]);
            for (int j = 0; j < vectors; j++) sums[i][j] = _mm512_fmadd_ps(left, right[j], sums[i][j]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++) _mm512_mask_storeu_ps(c + i * ldc + 16 * j, first(n - 16 * j), sums[i][j]);
}

template <int vectors> constexpr Tile wide_tiles[] = {wide_tile<1, vectors>, wide_tile<2, vectors>, wide_tile<3, vectors>, wide_tile<4, vectors>, wide_tile<5, vectors>, wide_tile<6, vectors>};

const bool wide = PROCESSOR_HAS("avx512f");

/** The kernel for 1 to most_rows rows and 1 to `strip` columns. */
Tile tile_of(int64_t rows, int64_t n) {
    static constexpr Tile narrow[] = {tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>};
    static constexpr const Tile * by_width[] = {wide_tiles<1>, wide_tiles<2>, wide_tiles<3>, wide_tiles<4>};
    return wide ? by_width[(n - 1) / f32::lanes][rows - 1] : narrow[rows - 1];
}

/** Transposes 8 vectors in place: row i of v becomes column i. */
void transpose(__m256 * v) {
    __m256 t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    __m256 u[8];
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}

} // namespace

f32::Packing f32::packing(int64_t k) { return wide ? Packing{lanes, strip} : Packing{lanes * k, lanes}; }

void f32::pack_rows(const float * from, int64_t stride, int64_t rows, int64_t k, float * to, int64_t step) {
    int64_t at = 0;
    for (; rows == lanes && at + 8 <= k; at += 8)
        for (int64_t half = 0; half < lanes; half += 8) {
            __m256 v[8];
            for (int64_t r = 0; r < 8; r++) v[r] = _mm256_loadu_ps(from + (half + r) * stride + at);
            transpose(v);
            for (int64_t p = 0; p < 8; p++) _mm256_store_ps(to + (at + p) * step + half, v[p]);
        }
    for (; at < k; at++)
        for (int64_t r = 0; r < lanes; r++) to[at * step + r] = r < rows ? from[r * stride + at] : 0;
}

void f32::pack(const float * from, int64_t stride, bool along, int64_t column, int64_t count, int64_t k, float factor, float * to, int64_t step) {
    if (along)
        pack_rows(from + column * stride, stride, count, k, to, step);
    else
        for (int64_t at = 0; at < k; at++) std::fill_n(std::copy_n(from + at * stride + column, count, to + at * step), lanes - count, 0.0f);
    for (int64_t at = 0; factor != 1 && at < k; at++)
        for (int64_t i = 0; i < lanes; i++) to[at * step + i] *= factor;
}

void f32::multiply(int64_t m, int64_t n, int64_t k, const Left & a, const Right & b, bool add, float * c, int64_t ldc) {
    for (int64_t row = 0; row < m; row += most_rows)
        tile_of(std::min(most_rows, m - row), n)(n, k, {a.from + row * a.row, a.row, a.step}, b, add, c + row * ldc, ldc);
}
