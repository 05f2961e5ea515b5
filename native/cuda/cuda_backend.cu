#include "cuda/cuda_backend.h"

#include "cuda/cuda_device.cuh"
#include "cuda/device_transformer.h"
#include "cuda/driver.h"

extern template void attention_forward(CudaDevice &, const gpu::AttentionInputs<gpu::Bf16> &, const AttentionSpans &, gpu::Bf16 *, float *);
extern template void attention_backward(CudaDevice &, const gpu::AttentionInputs<gpu::Bf16> &, const AttentionSpans &, const gpu::Bf16 *, float *, const gpu::AttentionGradients<gpu::Bf16> &);

namespace {

constexpr int least_major = 8;                              // the kernels need the bf16 instructions of Ampere
constexpr int64_t reserve_bytes = int64_t{256} << 20;       // for the driver, graphs and what else runs on the device

} // namespace

std::string why_no_gpu() {
    const GpuDriver driver = ask_gpu_driver();
    if (!driver.missing.empty()) return driver.missing;
    if (driver.version / 1000 < CUDART_VERSION / 1000)
        return "the driver runs CUDA up to " + cuda_version_text(driver.version) + ", this build needs " + cuda_version_text(CUDART_VERSION / 1000 * 1000);
    const GpuInfo & first = driver.devices[0];
    if (first.major < least_major) return first.name + " has compute capability " + std::to_string(first.major) + "." + std::to_string(first.minor) + ", at least 8.0 is needed";
    int count = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) return std::string("CUDA finds no device: ") + cudaGetErrorString(error);
    try {
        CublasLt();
    } catch (const Failure & failure) {
        return failure.what();
    }
    return "";
}

std::unique_ptr<Backend> open_on_gpu(const ModelSource & source, int threads, Number precision) {
    if (const std::string why = why_no_gpu(); !why.empty()) throw Failure("device_unavailable", why, "Open with device cpu or auto.");
    auto device = std::make_unique<CudaDevice>(0);
    size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) throw Failure("device_unavailable", "the device does not say how much memory is free", "Open with device cpu.");
    const int64_t memory = std::max<int64_t>(0, static_cast<int64_t>(free) - reserve_bytes);
    auto model = std::make_unique<GgufModel>(source);
    if (precision == Number::f32) return std::make_unique<DeviceTransformer<CudaDevice, float>>(std::move(model), threads, std::move(device), "cuda", memory);
    return std::make_unique<DeviceTransformer<CudaDevice, gpu::Bf16>>(std::move(model), threads, std::move(device), "cuda", memory);
}
