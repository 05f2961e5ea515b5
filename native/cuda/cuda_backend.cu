#include "cuda/cuda_backend.h"

#include <chrono>
#include <cstdio>

#include "cuda/cuda_device.cuh"
#include "cuda/device_transformer.h"
#include "cuda/driver.h"

extern template void attention_forward(CudaDevice &, const gpu::AttentionInputs<gpu::Bf16> &, const AttentionSpans &, gpu::Bf16 *, float *);
extern template void attention_backward(CudaDevice &, const gpu::AttentionInputs<gpu::Bf16> &, const AttentionSpans &, const gpu::Bf16 *, float *, const gpu::AttentionGradients<gpu::Bf16> &);

namespace {

constexpr int least_major = 8; // the kernels need the bf16 instructions of Ampere

double measured_rate(Number precision) {
    using Clock = std::chrono::steady_clock;
    constexpr int64_t size = 4096, at_once = 8;
    CudaDevice device(0);
    // The values are random, because a device computes with zeros at a higher clock.
    std::vector<float> values(size * size);
    for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(2 * random_uniform(1, i) - 1);
    std::vector<ggml_bf16_t> narrow(values.size());
    ggml_fp32_to_bf16_row(values.data(), narrow.data(), size * size);
    const int64_t bytes = size * size * bytes_of(precision);
    const DeviceMemory<CudaDevice> a(device, bytes), b(device, bytes), c(device, bytes);
    for (const auto * matrix : {&a, &b}) device.write(matrix->at<void>(), precision == Number::bf16 ? static_cast<const void *>(narrow.data()) : values.data(), bytes);
    double best = 0;
    const auto start = Clock::now();
    while (Clock::now() - start < std::chrono::milliseconds(200)) {
        const auto begin = Clock::now();
        for (int64_t i = 0; i < at_once; i++) device.gemm({false, true, size, size, size, 1, a.at<void>(), size, b.at<void>(), size, 0, c.at<void>(), size, precision, precision});
        uint32_t waited_for;
        device.read(&waited_for, c.at<void>(), sizeof waited_for);
        best = std::max(best, 2.0 * size * size * size * at_once / std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return best;
}

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

std::optional<double> gpu_gemm_rate(Number precision) {
    if (!why_no_gpu().empty()) return std::nullopt;
    try {
        return measured_rate(precision);
    } catch (const Failure & failure) {
        // A GPU that others fill or hold has no rate now. `estimate` can answer without it.
        if (failure.code != "out_of_memory" && failure.code != "device_unavailable") throw;
        std::fprintf(stderr, "the GPU's speed was not measured: %s\n", failure.what());
        return std::nullopt;
    }
}

std::unique_ptr<Backend> open_on_gpu(const ModelSource & source, int threads, Number precision, Replays replays) {
    if (const std::string why = why_no_gpu(); !why.empty()) throw Failure("device_unavailable", why, "Open with device cpu or auto.");
    auto device = std::make_unique<CudaDevice>(0);
    if (replays == Replays::none) device->record_nothing();
    return open_on_device(source, threads, std::move(device), "cuda", precision);
}
