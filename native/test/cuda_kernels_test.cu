// Every kernel on a GPU, compared as emulated_kernels_test compares them.
#include "cuda/cuda_backend.h"
#include "cuda/cuda_device.cuh"
#include "cuda_kernels.h"

int main() {
    if (const std::string why = why_no_gpu(); !why.empty()) {
        std::printf("no device, %s: not one of the CUDA kernels was run\n", why.c_str());
        return 77;
    }
    CudaDevice device(0);
    std::printf("%d comparisons of CUDA kernels with their twins, on the device\n", KernelTests<CudaDevice>(device).run());
    return failed_checks == 0 ? 0 : 1;
}
