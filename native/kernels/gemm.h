// Matrix products in row-major order on one thread, and cut over the pool. OpenBLAS runs single-threaded underneath: the cuts
// are ours, so the sums have one order for a given number of threads.
#pragma once
#include <cblas.h>

#include <cstdint>

#include "kernels/number.h"
#include "kernels/pool.h"

enum class Side { plain, transposed };

/** C[m,n] = alpha · op(A)[m,k] · op(B)[k,n] + beta · C. Leading dimensions are row lengths as stored. */
inline void gemm(Side a_side, Side b_side, int64_t m, int64_t n, int64_t k, float alpha, const float * a, int64_t lda,
                 const float * b, int64_t ldb, float beta, float * c, int64_t ldc) {
    if (m == 0 || n == 0) return;
    const auto side = [](Side s) { return s == Side::plain ? CblasNoTrans : CblasTrans; };
    cblas_sgemm(CblasRowMajor, side(a_side), side(b_side), static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), alpha,
                a, static_cast<int>(lda), b, static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}

/** The same, cut by rows of C. */
inline void gemm_by_rows(Pool & pool, Side a_side, Side b_side, int64_t m, int64_t n, int64_t k, float alpha, const float * a,
                         int64_t lda, const float * b, int64_t ldb, float beta, float * c, int64_t ldc) {
    pool.split(m, 16, [&](int64_t begin, int64_t end, int) {
        const float * part = a_side == Side::plain ? a + begin * lda : a + begin;
        gemm(a_side, b_side, end - begin, n, k, alpha, part, lda, b, ldb, beta, c + begin * ldc, ldc);
    });
}

/** The same, cut by columns of C. */
inline void gemm_by_columns(Pool & pool, Side a_side, Side b_side, int64_t m, int64_t n, int64_t k, float alpha,
                            const float * a, int64_t lda, const float * b, int64_t ldb, float beta, float * c, int64_t ldc) {
    pool.split(n, 16, [&](int64_t begin, int64_t end, int) {
        const float * part = b_side == Side::plain ? b + begin : b + begin * ldb;
        gemm(a_side, b_side, m, end - begin, k, alpha, a, lda, part, ldb, beta, c + begin, ldc);
    });
}

/** Sets OpenBLAS to one thread and returns the name of the kernels it chose for this processor. */
const char * gemm_prepare();

/** Multiplications and additions a second that the pool's threads together reach in products of a model's size; takes 0.2 s. */
double gemm_rate(Pool & pool, Number inputs);
