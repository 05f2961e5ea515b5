// Matrix products in row-major order: on one thread by OpenBLAS, or cut into tiles over the pool by the kernels of f32_gemm.h. The cuts
// depend only on the shapes, so that the sums have the same order with any number of threads.
#pragma once
#include <cblas.h>

#include <cstdint>
#include <vector>

#include "kernels/number.h"
#include "kernels/pool.h"
#include "kernels/tiling.h"

enum class Side { plain, transposed };

/** C[m,n] = alpha · op(A)[m,k] · op(B)[k,n] + beta · C. Leading dimensions are the lengths of the stored rows. */
inline void gemm(Side a_side, Side b_side, int64_t m, int64_t n, int64_t k, float alpha, const float * a, int64_t lda,
                 const float * b, int64_t ldb, float beta, float * c, int64_t ldc) {
    if (m == 0 || n == 0) return;
    const auto side = [](Side s) { return s == Side::plain ? CblasNoTrans : CblasTrans; };
    cblas_sgemm(CblasRowMajor, side(a_side), side(b_side), static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), alpha,
                a, static_cast<int>(lda), b, static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}

/** C [m, n] = alpha · op(A) [m, k] · op(B) [k, n], or += with add. */
struct TiledGemm {
    Side a_side, b_side;
    int64_t m, n, k;
    float alpha;
    const float * a;
    int64_t lda;
    const float * b;
    int64_t ldb;
    bool add;
    float * c;
    int64_t ldc;
};

/** Products in single precision that write to different places. scratch [scratch_floats, at least 64 · 128] takes the packed parts of B. */
void gemms(Pool & pool, const std::vector<TiledGemm> & products, float * scratch, int64_t scratch_floats);

/** Sets OpenBLAS to one thread and returns the name of the kernels it chose for this processor. */
const char * gemm_prepare();

/** Multiplications and additions per second that the pool's threads reach together in products of a model's size. Takes 0.2 s. */
double gemm_rate(Pool & pool, Number inputs);
