// Matrix products by cuBLASLt. The library is opened at run time, so that the worker is built and starts without it.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "cuda/gemm.h"

/** The meaning of a status other than success: out_of_memory, device_unavailable or internal. */
Failure blas_failure(int status, const std::string & what);

class CublasLt {
public:
    /**
     * Only opens the library, once for the whole process: the file that PLUMBLINE_CUBLASLT names, or else the one that the loader finds.
     * Throws device_unavailable, with the files that were tried.
     */
    CublasLt();
    ~CublasLt();
    CublasLt(const CublasLt &) = delete;
    CublasLt & operator=(const CublasLt &) = delete;

    /** workspace is device memory; stream is one of the CUDA runtime's. The same product is always computed by the same algorithm. */
    void gemm(const Gemm & g, void * workspace, int64_t workspace_bytes, void * stream);
    /** The library's version, such as "13.0.2". */
    std::string version() const;

private:
    struct Api;
    static const Api & library();
    struct Prepared;
    const Prepared & prepared(const Gemm & g, int64_t workspace_bytes);

    const Api & api_;
    void * handle_ = nullptr;
    std::map<std::vector<int64_t>, std::unique_ptr<Prepared>> prepared_;
};
