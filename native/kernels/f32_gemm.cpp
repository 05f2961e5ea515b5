#include "kernels/f32_gemm.h"

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // gcc 12 says it of its own intrinsics (its bug 105593)
#include <immintrin.h>

#include <algorithm>

#include "kernels/processor.h"

namespace {

constexpr int64_t most_rows = 6;

/** C [rows, strip] of one strip. */
using Tile = void (*)(int64_t k, const float * a, int64_t lda, const float * b, bool add, float * c, int64_t ldc);

/** A quarter of the strip at a time: twelve sums. */
template <int rows> void tile(int64_t k, const float * a, int64_t lda, const float * b, bool add, float * c, int64_t ldc) {
    for (int64_t lane = 0; lane < f32::strip; lane += 16) {
        __m256 sums[rows][2];
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < 2; j++) sums[i][j] = add ? _mm256_loadu_ps(c + i * ldc + lane + 8 * j) : _mm256_setzero_ps();
        for (int64_t p = 0; p < k; p++) {
            const __m256 right[2] = {_mm256_load_ps(b + p * f32::strip + lane), _mm256_load_ps(b + p * f32::strip + lane + 8)};
            for (int i = 0; i < rows; i++) {
                const __m256 left = _mm256_broadcast_ss(a + i * lda + p);
                for (int j = 0; j < 2; j++) sums[i][j] = _mm256_fmadd_ps(left, right[j], sums[i][j]);
            }
        }
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < 2; j++) _mm256_storeu_ps(c + i * ldc + lane + 8 * j, sums[i][j]);
    }
}

/** The whole strip at once: 24 sums. */
template <int rows> __attribute__((target("avx512f"))) void wide_tile(int64_t k, const float * a, int64_t lda, const float * b, bool add, float * c, int64_t ldc) {
    __m512 sums[rows][4];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < 4; j++) sums[i][j] = add ? _mm512_loadu_ps(c + i * ldc + 16 * j) : _mm512_setzero_ps();
    for (int64_t p = 0; p < k; p++) {
        __m512 right[4];
        for (int j = 0; j < 4; j++) right[j] = _mm512_load_ps(b + p * f32::strip + 16 * j);
        for (int i = 0; i < rows; i++) {
            const __m512 left = _mm512_set1_ps(a[i * lda + p]);
            for (int j = 0; j < 4; j++) sums[i][j] = _mm512_fmadd_ps(left, right[j], sums[i][j]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < 4; j++) _mm512_storeu_ps(c + i * ldc + 16 * j, sums[i][j]);
}

const bool wide = PROCESSOR_HAS("avx512f");

/** In place: row i of v becomes column i. */
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

void f32::pack_rows(const float * from, int64_t stride, int64_t rows, int64_t k, float * to) {
    int64_t at = 0;
    for (; rows == lanes && at + 8 <= k; at += 8)
        for (int64_t half = 0; half < lanes; half += 8) {
            __m256 v[8];
            for (int64_t r = 0; r < 8; r++) v[r] = _mm256_loadu_ps(from + (half + r) * stride + at);
            transpose(v);
            for (int64_t p = 0; p < 8; p++) _mm256_store_ps(to + (at + p) * strip + half, v[p]);
        }
    for (; at < k; at++)
        for (int64_t r = 0; r < lanes; r++) to[at * strip + r] = r < rows ? from[r * stride + at] : 0;
}

void f32::multiply(int64_t m, int64_t n, int64_t k, const float * a, int64_t lda, const float * b, bool add, float * c, int64_t ldc) {
    static constexpr Tile tiles[2][most_rows + 1] = {{nullptr, tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>},
                                                     {nullptr, wide_tile<1>, wide_tile<2>, wide_tile<3>, wide_tile<4>, wide_tile<5>, wide_tile<6>}};
    for (int64_t row = 0; row < m; row += most_rows) {
        const int64_t rows = std::min(most_rows, m - row);
        const Tile of_rows = tiles[wide][rows];
        if (n == strip) {
            of_rows(k, a + row * lda, lda, b, add, c + row * ldc, ldc);
            continue;
        }
        // Where the strip ends earlier its other columns lead nowhere.
        float whole[most_rows * strip];
        for (int64_t i = 0; add && i < rows; i++) std::copy_n(c + (row + i) * ldc, n, whole + i * strip);
        of_rows(k, a + row * lda, lda, b, add, whole, strip);
        for (int64_t i = 0; i < rows; i++) std::copy_n(whole + i * strip, n, c + (row + i) * ldc);
    }
}
