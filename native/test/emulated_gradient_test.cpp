// Whole passes of the GPU's transformer on an emulated device, with the same kernels and the same order of launches.
// Usage: emulated_gradient_test <folder of the tiny models> <architecture>
#include "cuda/device_transformer.h"
#include "device_gates.h"
#include "emulated_device.h"
#include "estimate.h"


namespace {

template <class T> std::unique_ptr<Backend> emulated(const std::string & path) {
    return std::make_unique<DeviceTransformer<EmulatedDevice, T>>(std::make_unique<GgufModel>(path), 1, std::make_unique<EmulatedDevice>(), "emulated", int64_t{1} << 30);
}

/** The estimate equals what the device held, except that it counts attention tiles for as many rows as the tokens could form. */
void test_estimate(Backend & device, const std::string & path, Number precision) {
    constexpr int64_t tokens = 64;
    const ModelShape & shape = device.shape();
    Adapter adapter = device_test_adapter(shape, targets_of(shape), 0.1);
    const TestBatch test = test_batch(shape.vocabulary, {tokens}, 3);
    Asked asked;
    asked.batch.add_row(test.rows[0].data(), tokens);
    asked.batch.origins.assign(tokens, 0);
    for (int64_t i = 0; i < tokens; i++) asked.asks.push_back({i, 5, {0.1f, 0, 0}, {}});
    device.forward_backward(asked.batch, adapter, asked.asks);
    device.optimise(adapter, {0.01, 0.9, 0.95, 1e-8, 0, 1});
    const Estimate e = estimate_gpu(GgufModel(path), {adapter.shape, tokens, tokens, 1}, precision);
    const int64_t expected = e.weight_bytes + e.adapter_bytes + e.pass_bytes + EmulatedRuntime::workspace_bytes;
    CHECK(device.peak_device_bytes() <= expected && device.peak_device_bytes() > expected - 12 * 2 * tokens - 512, "%s: %lld bytes were held, %lld estimated", path.c_str(), static_cast<long long>(device.peak_device_bytes()), static_cast<long long>(expected));
    device.forget(adapter);
}

} // namespace

int main(int, char ** arguments) {
    const std::string architecture = arguments[2];
    const auto open = [](bool narrow, const std::string & path) { return narrow ? emulated<gpu::Bf16>(path) : emulated<float>(path); };
    for (const bool narrow : {false, true}) {
        const std::string path = tiny_model(arguments[1], architecture, "f32");
        all_gates(architecture + " f32", narrow, 1, [&] { return open(narrow, path); }, path);
        // An adapted head, and heads of sizes that the matrix units take. To save time, only the estimate, the activations and gate 3 are
        // tested.
        for (const char * kind : {"f32-untied", "q4_k"}) {
            const std::string other = tiny_model(arguments[1], architecture, kind);
            const std::unique_ptr<Backend> device = open(narrow, other);
            test_estimate(*device, other, narrow ? Number::bf16 : Number::f32);
            const Asked asked = asked_of(test_batch(device->shape().vocabulary, {7, 66}, 11), !narrow);
            const double watched = watch_parity(*device, other, asked.batch);
            std::printf("%s %s, %s: activations differ from the CPU's by %.1e\n", architecture.c_str(), kind, narrow ? "bf16" : "fp32", watched);
            CHECK(watched <= (narrow ? 4e-2 : 1e-5), "%g", watched);
            gate_3(architecture + " " + kind, narrow, parity_with_cpu(*device, other, asked, targets_of(device->shape())));
        }
    }
    return failed_checks == 0 ? 0 : 1;
}
