// A matrix product as the passes ask a device for it. Everything is row-major.
#pragma once
#include <cstdint>

#include "kernels/number.h"

/** C [m, n] = alpha · op(A) [m, k] · op(B) [k, n] + beta · C. Leading dimensions are the lengths of the stored rows; sums are in f32. */
struct Gemm {
    bool a_transposed, b_transposed;
    int64_t m, n, k;
    float alpha;
    const void * a;
    int64_t lda;
    const void * b;
    int64_t ldb;
    float beta;
    void * c;
    int64_t ldc;
    Number inputs, output;
};
