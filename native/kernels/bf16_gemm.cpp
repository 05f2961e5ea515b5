#include "kernels/bf16_gemm.h"

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // gcc 12 warns about its own intrinsics (gcc bug 105593)
#include <immintrin.h>

#include <algorithm>

#include "kernels/processor.h"

bool bf16::supported() {
    return PROCESSOR_HAS("avx512f") && PROCESSOR_HAS("avx512bw") && PROCESSOR_HAS("avx512vl") && PROCESSOR_HAS("avx512dq") &&
           PROCESSOR_HAS("avx512bf16");
}

// The pragma stands after the includes, because the functions of those headers must run on every processor.
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

namespace {

constexpr int most_rows = 6, vectors = bf16::strip / bf16::lanes;

__mmask16 first(int64_t count) { return count >= 16 ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1u << count) - 1); }

/** Rounds 32 floats, or as many as there are, to 16 pairs. */
__m512i round_pairs(const float * from, int64_t count) {
    const __m512 low = _mm512_maskz_loadu_ps(first(count), from), high = count > 16 ? _mm512_maskz_loadu_ps(first(count - 16), from + 16) : _mm512_setzero_ps();
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

/** Transposes 16 vectors in place: row i of v becomes column i. */
void transpose(__m512i * v) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 4) {
        const __m512i a = _mm512_unpacklo_epi32(v[i], v[i + 1]), b = _mm512_unpackhi_epi32(v[i], v[i + 1]);
        const __m512i c = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]), d = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);
        t[i] = _mm512_unpacklo_epi64(a, c);
        t[i + 1] = _mm512_unpackhi_epi64(a, c);
        t[i + 2] = _mm512_unpacklo_epi64(b, d);
        t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    for (int i = 0; i < 4; i++) {
        const __m512i a = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xdd);
        const __m512i c = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0x88), d = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0xdd);
        v[i] = _mm512_shuffle_i32x4(a, c, 0x88);
        v[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
        v[i + 8] = _mm512_shuffle_i32x4(a, c, 0xdd);
        v[i + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
}

/** Computes C [rows, n] of one strip with all sums in registers. */
template <int rows> void tile(int64_t n, int64_t pairs, const uint32_t * a, int64_t lda, const uint32_t * b, bool add, float * c, int64_t ldc) {
    __m512 sums[rows][vectors];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++) sums[i][j] = add ? _mm512_maskz_loadu_ps(first(n - 16 * j), c + i * ldc + 16 * j) : _mm512_setzero_ps();
    for (int64_t p = 0; p < pairs; p++) {
        __m512bh right[vectors];
        for (int j = 0; j < vectors; j++) right[j] = reinterpret_cast<__m512bh>(_mm512_load_si512(b + p * bf16::strip + 16 * j));
        for (int i = 0; i < rows; i++) {
            const __m512bh left = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[i * lda + p])));
            for (int j = 0; j < vectors; j++) sums[i][j] = _mm512_dpbf16_ps(sums[i][j], left, right[j]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++) _mm512_mask_storeu_ps(c + i * ldc + 16 * j, first(n - 16 * j), sums[i][j]);
}

} // namespace

void bf16::round_row(const float * from, int64_t k, uint32_t * to) {
    for (int64_t at = 0; at < k; at += 32) _mm512_mask_storeu_epi32(to + at / 2, first(pairs_of(k - at)), round_pairs(from + at, k - at));
}

void bf16::pack_rows(const float * from, int64_t stride, int64_t rows, int64_t k, uint32_t * to) {
    for (int64_t at = 0; at < k; at += 32) {
        __m512i v[16];
        for (int64_t r = 0; r < 16; r++) v[r] = r < rows ? round_pairs(from + r * stride + at, k - at) : _mm512_setzero_si512();
        transpose(v);
        const int64_t pairs = std::min<int64_t>(16, pairs_of(k - at));
        for (int64_t p = 0; p < pairs; p++) _mm512_store_si512(to + (at / 2 + p) * strip, v[p]);
    }
}

void bf16::pack_pair(const float * even, const float * odd, int64_t count, uint32_t * to) {
    for (int64_t at = 0; at < count; at += 16) {
        const __mmask16 there = first(count - at);
        const auto widened = [&](const float * from) __attribute__((always_inline)) { return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(there, from + at)))); };
        const __m512i high = odd ? _mm512_slli_epi32(widened(odd), 16) : _mm512_setzero_si512();
        _mm512_store_si512(to + at, _mm512_or_si512(widened(even), high));
    }
}

void bf16::multiply(int64_t m, int64_t n, int64_t pairs, const uint32_t * a, int64_t lda, const uint32_t * b, bool add, float * c, int64_t ldc) {
    using Tile = void (*)(int64_t, int64_t, const uint32_t *, int64_t, const uint32_t *, bool, float *, int64_t);
    static constexpr Tile tiles[most_rows + 1] = {nullptr, tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>};
    for (int64_t row = 0; row < m; row += most_rows) tiles[std::min<int64_t>(most_rows, m - row)](n, pairs, a + row * lda, lda, b, add, c + row * ldc, ldc);
}
