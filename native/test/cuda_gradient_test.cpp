// Gates 3, 5 and 7 on a GPU, for every tiny model. Usage: cuda_gradient_test <folder of the tiny models> <architecture> [fp32 | bf16]
#include "cuda/cuda_backend.h"
#include "device_gates.h"


int main(int count, char ** arguments) {
    const std::string architecture = arguments[2], only = count > 3 ? arguments[3] : "";
    if (const std::string why = why_no_gpu(); !why.empty()) {
        std::printf("no device, %s: gates 3, 5 and 7 of CUDA were not run for %s\n", why.c_str(), architecture.c_str());
        return 77;
    }
    for (Number precision : {Number::f32, Number::bf16}) {
        const bool narrow = precision == Number::bf16;
        if (!only.empty() && only != (narrow ? "bf16" : "fp32")) continue;
        for (const char * kind : {"f32", "f32-untied", "q4_1", "q4_k", "bf16"}) {
            const std::string path = tiny_model(arguments[1], architecture, kind);
            all_gates(architecture + " " + kind, narrow, 3, [&] { return open_on_gpu(path, 2, precision); }, path);
        }
    }
    return failed_checks == 0 ? 0 : 1;
}
