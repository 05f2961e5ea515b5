// Whole passes of the GPU's transformer on an emulated device: the very kernels and the very order of launches.
// Usage: emulated_gradient_test <folder of the tiny models> <architecture>
#include "cuda/device_transformer.h"
#include "device_gates.h"
#include "emulated_device.h"

Fault planted_fault = Fault::none;

namespace {

template <class T> std::unique_ptr<Backend> emulated(const std::string & path) {
    return std::make_unique<DeviceTransformer<EmulatedDevice, T>>(std::make_unique<GgufModel>(path), 1, std::make_unique<EmulatedDevice>(), "emulated", int64_t{1} << 30);
}

} // namespace

int main(int, char ** arguments) {
    const std::string architecture = arguments[2];
    const auto open = [](bool narrow, const std::string & path) { return narrow ? emulated<gpu::Bf16>(path) : emulated<float>(path); };
    for (const bool narrow : {false, true}) {
        const std::string path = tiny_model(arguments[1], architecture, "f32");
        all_gates(architecture + " f32", narrow, 1, [&] { return open(narrow, path); }, path);
        // An adapted head, and heads of sizes that the matrix units take: gate 3 alone, for the time it takes.
        for (const char * kind : {"f32-untied", "q4_k"}) {
            const std::string other = tiny_model(arguments[1], architecture, kind);
            const std::unique_ptr<Backend> device = open(narrow, other);
            const Asked asked = asked_of(test_batch(device->shape().vocabulary, {7, 66}, 11), !narrow);
            gate_3(architecture + " " + kind, narrow, parity_with_cpu(*device, other, asked, targets_of(device->shape())));
        }
    }
    return failed_checks == 0 ? 0 : 1;
}
