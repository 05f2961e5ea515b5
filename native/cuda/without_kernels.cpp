#include "base/failure.h"
#include "cuda/cuda_backend.h"

std::string why_no_gpu() { return "this build has no CUDA kernels"; }

std::optional<double> gpu_gemm_rate(Number) { return std::nullopt; }

std::unique_ptr<Backend> open_on_gpu(const ModelSource &, int, Number, Replays) { throw Failure("device_unavailable", why_no_gpu(), "Build with nvcc, or open with device cpu."); }
