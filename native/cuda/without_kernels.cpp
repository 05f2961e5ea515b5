#include "base/failure.h"
#include "cuda/cuda_backend.h"

std::string why_no_gpu() { return "this build has no CUDA kernels"; }

std::unique_ptr<Backend> open_on_gpu(const ModelSource &, int, Number) { throw Failure("device_unavailable", why_no_gpu(), "Build with nvcc, or open with device cpu."); }
