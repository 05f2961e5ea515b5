// Tests how cuBLASLt is opened and called, with a fake library in its place. Usage: cublas_lt_test <the fake library>
#include "cuda/cublas_lt.h"

#include <dlfcn.h>

#include <cstdlib>

#include "check.h"

/** Must match fake_cublas_lt.cpp. */
struct FakeCublasLt {
    int create_status, matmul_status;
    uint32_t reductions;
    int handles;
};

int main(int, char ** arguments) {
    // A file that is named but missing: no other file is opened in its place.
    ::setenv("PLUMBLINE_CUBLASLT", "/nowhere/libcublasLt.so.13", 1);
    const std::string missing = failure_of([] { CublasLt(); });
    CHECK(begins(missing, "device_unavailable: ") && missing.find("/nowhere/libcublasLt.so.13") != std::string::npos && missing.find("libcublasLt.so.12") == std::string::npos, "%s", missing.c_str());

    ::setenv("PLUMBLINE_CUBLASLT", arguments[1], 1);
    CHECK(failure_of([] { CublasLt(); }) == "no failure", "the library that is named");
    // The library stays open for good, and all users share it.
    void * library = dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD);
    CHECK(library != nullptr, "it was closed again");
    if (!library) return 1;
    auto & fake = *static_cast<FakeCublasLt *>(dlsym(library, "fake_cublas_lt"));
    const float numbers[4] = {1, 2, 3, 4};
    float result[4];
    const Gemm product{false, false, 2, 2, 2, 1, numbers, 2, numbers, 2, 0, result, 2, Number::f32, Number::f32};
    {
        CublasLt blas;
        CHECK(blas.version() == "13.0.2", "%s", blas.version().c_str());
        CHECK(failure_of([&] { blas.gemm(product, nullptr, 0, nullptr); }) == "no failure", "a product");
        CHECK(fake.reductions == 2, "parts of sums are reduced by schemes %x, only in the type of the computation is wanted", fake.reductions);
        fake.matmul_status = 3;
        CHECK(begins(failure_of([&] { blas.gemm(product, nullptr, 0, nullptr); }), "out_of_memory: "), "no memory");
        fake.matmul_status = 13;
        CHECK(begins(failure_of([&] { blas.gemm(product, nullptr, 0, nullptr); }), "internal: "), "a failed product");
        fake.matmul_status = 0;
        CHECK(failure_of([&] { blas.gemm(product, nullptr, 0, nullptr); }) == "no failure", "after a failure");
        CHECK(fake.handles == 1, "%d handles", fake.handles);
    }
    CHECK(fake.handles == 0, "%d handles are left", fake.handles);
    CublasLt blas;
    fake.create_status = 3;
    CHECK(begins(failure_of([&] { blas.gemm(product, nullptr, 0, nullptr); }), "out_of_memory: "), "no memory for a handle");
    fake.create_status = 1;
    CHECK(begins(failure_of([&] { blas.gemm(product, nullptr, 0, nullptr); }), "device_unavailable: "), "a library that cannot start");
    return failed_checks == 0 ? 0 : 1;
}
