// Gates 3, 5 and 7 on a GPU, for every tiny model in both precisions. Usage: cuda_gradient_test <folder of the tiny models> <architecture>
#include "cuda/cuda_backend.h"
#include "device_gates.h"

Fault planted_fault = Fault::none;

int main(int, char ** arguments) {
    const std::string architecture = arguments[2];
    if (const std::string why = why_no_gpu(); !why.empty()) {
        std::printf("no device, %s: gates 3, 5 and 7 of CUDA were not run for %s\n", why.c_str(), architecture.c_str());
        return 77;
    }
    for (const char * kind : {"f32", "f32-untied", "q4_1", "q4_k", "bf16"}) {
        const std::string path = tiny_model(arguments[1], architecture, kind), name = architecture + " " + kind;
        for (Number precision : {Number::f32, Number::bf16}) all_gates(name, precision == Number::bf16, 3, [&] { return open_on_gpu(path, 2, precision); }, path);
    }
    return failed_checks == 0 ? 0 : 1;
}
