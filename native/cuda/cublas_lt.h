// Matrix products by cuBLASLt, which is opened at run time: the worker is built and starts without it.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "cuda/gemm.h"

class CublasLt {
public:
    /** Opens the library and nothing else; throws device_unavailable, saying which files were looked for. */
    CublasLt();
    ~CublasLt();
    CublasLt(const CublasLt &) = delete;
    CublasLt & operator=(const CublasLt &) = delete;

    /** workspace: device memory; stream: of the CUDA runtime. The same product is computed by the same algorithm every time. */
    void gemm(const Gemm & g, void * workspace, int64_t workspace_bytes, void * stream);

private:
    struct Api;
    struct Prepared;
    const Prepared & prepared(const Gemm & g, int64_t workspace_bytes);

    std::unique_ptr<Api> api_;
    void * handle_ = nullptr;
    std::map<std::vector<int64_t>, std::unique_ptr<Prepared>> prepared_;
};
