// Runs every kernel on a GPU, with the comparisons of emulated_kernels_test. Usage:
//     cuda_kernels_test
//     cuda_kernels_test fill <MiB, or n%>   takes all of the GPU's memory but that, prints "filled" and holds it until its input ends
#include <cstdlib>

#include "cuda/cuda_backend.h"
#include "cuda/cuda_device.cuh"
#include "cuda_kernels.h"

static int fill(CudaDevice & device, const std::string & left) {
    const int64_t free = device.free_bytes(), number = std::atoll(left.c_str());
    const int64_t leave = left.back() == '%' ? free / 100 * number : number << 20;
    int64_t piece = int64_t{256} << 20;
    while (device.free_bytes() > leave + (1 << 20) && piece >= 1 << 20) {
        try {
            device.allocate(std::min(piece, device.free_bytes() - leave));
        } catch (const Failure & failure) {
            if (failure.code != "out_of_memory") throw;
            piece /= 2; // the free memory is in pieces too
        }
    }
    std::printf("filled: %lld MiB are free\n", static_cast<long long>(device.free_bytes() >> 20));
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    return 0;
}

int main(int count, char ** arguments) {
    if (const std::string why = why_no_gpu(); !why.empty()) {
        std::printf("no device, %s: no CUDA kernel was run\n", why.c_str());
        return 77;
    }
    CudaDevice device(0);
    if (count > 2 && std::string(arguments[1]) == "fill") return fill(device, arguments[2]);
    std::printf("%d comparisons of CUDA kernels with their twins, on the device\n", KernelTests<CudaDevice>(device).run());
    return failed_checks == 0 ? 0 : 1;
}
