// A fake cuBLASLt for the tests. It has the functions that cublas_lt.cpp opens, stores what it was asked, and answers with a status that
// the test sets. It multiplies nothing.
#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" {

struct FakeCublasLt {
    int create_status, matmul_status;
    uint32_t reductions; // the mask that the last product set for its algorithms; ~0 if it set none
    int handles;         // created but not destroyed
} fake_cublas_lt = {0, 0, ~0u, 0};

static int thing;

std::size_t cublasLtGetVersion() { return 130002; }
int cublasLtCreate(void ** handle) {
    if (fake_cublas_lt.create_status != 0) return fake_cublas_lt.create_status;
    fake_cublas_lt.handles++;
    *handle = &thing;
    return 0;
}
int cublasLtDestroy(void *) {
    fake_cublas_lt.handles--;
    return 0;
}
int cublasLtMatmulDescCreate(void ** to, int, int) {
    *to = &thing;
    return 0;
}
int cublasLtMatmulDescDestroy(void *) { return 0; }
int cublasLtMatmulDescSetAttribute(void *, int, const void *, std::size_t) { return 0; }
int cublasLtMatrixLayoutCreate(void ** to, int, uint64_t, uint64_t, int64_t) {
    *to = &thing;
    return 0;
}
int cublasLtMatrixLayoutDestroy(void *) { return 0; }
int cublasLtMatmulPreferenceCreate(void ** to) {
    fake_cublas_lt.reductions = ~0u;
    *to = &thing;
    return 0;
}
int cublasLtMatmulPreferenceDestroy(void *) { return 0; }
int cublasLtMatmulPreferenceSetAttribute(void *, int attribute, const void * value, std::size_t bytes) {
    if (attribute == 3 && bytes == sizeof fake_cublas_lt.reductions) std::memcpy(&fake_cublas_lt.reductions, value, bytes);
    return 0;
}
int cublasLtMatmulAlgoGetHeuristic(void *, void *, void *, void *, void *, void *, void *, int, void * results, int * found) {
    std::memset(results, 0, 96);
    *found = 1;
    return 0;
}
int cublasLtMatmul(void *, void *, const void *, const void *, void *, const void *, void *, const void *, const void *, void *, void *, void *, const void *, void *, std::size_t, void *) {
    return fake_cublas_lt.matmul_status;
}
}
