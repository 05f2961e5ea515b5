// Matrix products by cuBLASLt, which is opened at run time: the worker is built and starts without it.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "cuda/gemm.h"

/** What a status other than success means: out_of_memory, device_unavailable or internal. */
Failure blas_failure(int status, const std::string & what);

class CublasLt {
public:
    /**
     * Opens the library, once for the whole process, and nothing else: PLUMBLINE_CUBLASLT where it names a file, else as the loader finds
     * it. Throws device_unavailable, saying which files were looked for.
     */
    CublasLt();
    ~CublasLt();
    CublasLt(const CublasLt &) = delete;
    CublasLt & operator=(const CublasLt &) = delete;

    /** workspace: device memory; stream: of the CUDA runtime. The same product is computed by the same algorithm every time. */
    void gemm(const Gemm & g, void * workspace, int64_t workspace_bytes, void * stream);
    /** As the library says it: "13.0.2". */
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
