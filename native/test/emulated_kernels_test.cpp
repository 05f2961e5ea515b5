// The CUDA kernels on an emulated device, threads in order and in reverse.
#include "cuda_kernels.h"
#include "emulated_device.h"

int main() {
    for (bool reversed : {false, true}) {
        EmulatedDevice device(reversed);
        const int comparisons = KernelTests<EmulatedDevice>(device).run();
        std::printf("%d comparisons of CUDA kernels with their twins, emulated, threads %s\n", comparisons, reversed ? "reversed" : "in order");
    }
    return failed_checks == 0 ? 0 : 1;
}
