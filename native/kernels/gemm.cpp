#include "kernels/gemm.h"

const char * gemm_prepare() {
    openblas_set_num_threads(1);
    return openblas_get_corename();
}
