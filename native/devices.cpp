#include "devices.h"

#include <unistd.h> // sysconf

#include <algorithm>
#include <cstdio>

#include "base/failure.h"
#include "cuda/cuda_backend.h"
#include "cuda/driver.h"
#include "kernels/bf16_gemm.h"
#include "model/random_model.h"
#include "model/transformer.h"

namespace {

OpenedDevice fitting(std::unique_ptr<Backend> backend, int64_t memory_bytes, std::string reason) {
    const int64_t limit = memory_bytes == 0 ? backend->memory() : std::min(memory_bytes, backend->memory());
    const int64_t least = backend->model_bytes() + backend->pass_bytes(nullptr, 1, 1, Keep::nothing, 0);
    if (least > limit) out_of_memory("the model", least, limit, "a smaller model");
    return {std::move(backend), limit, std::move(reason), false};
}

/**
 * Sends one token through every kernel that training launches, as far as the memory limit allows. A device that cannot compute is thus
 * found when the model is opened, not in the middle of a run.
 */
OpenedDevice proven(OpenedDevice opened) {
    Backend & gpu = *opened.backend;
    const int32_t token = 0;
    Batch batch;
    batch.add_row(&token, 1);
    const std::vector<Ask> asks = {{0, 0, {1, 0, 0}, {}}};
    const AdapterShape shape{1, 1, 0, {attn_q}};
    if (gpu.model_bytes() + gpu.adapter_bytes(shape) + gpu.pass_bytes(&shape, 1, 1, Keep::activations, 0) <= opened.memory_limit) {
        Adapter adapter(gpu.shape(), shape);
        gpu.forward_backward(batch, adapter, asks);
        gpu.forget(adapter);
    } else {
        gpu.forward(batch, nullptr, asks, 0);
    }
    gpu.drop_scratch();
    return opened;
}

OpenedDevice on_cpu(const ModelSource & source, int threads, int64_t memory_bytes, const DeviceOptions & options, std::string reason) {
    if (options.precision == Number::bf16 && !bf16::supported())
        throw Failure("bad_request", "precision bf16 needs a GPU or a processor with AVX512-BF16, and this model is opened on a CPU without it: " + reason, "Leave precision out, or ask for fp32.");
    return fitting(std::make_unique<Transformer>(source, threads, options.precision.value_or(cpu_precision())), memory_bytes, std::move(reason));
}

} // namespace

Number cpu_precision() { return bf16::supported() ? Number::bf16 : Number::f32; }

GpuWay this_machines_gpu() {
    return {why_no_gpu, [](const ModelSource & source, int threads, Number precision) { return open_on_gpu(source, threads, precision); }};
}

OpenedDevice open_device(const ModelSource & source, int threads, int64_t memory_bytes, const DeviceOptions & options, const GpuWay & gpu) {
    // Made-up weights are made in the machine's memory first, whichever device they go to.
    const int64_t machine = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE), made = source.path.empty() ? stored_bytes(source.shape, source.type) : 0;
    if (const int64_t allowed = memory_bytes == 0 ? machine : std::min(memory_bytes, machine); made > allowed) out_of_memory("the model", made, allowed, "a smaller model");
    const Number precision = options.precision.value_or(Number::bf16);
    if (options.choice == DeviceChoice::cpu) return on_cpu(source, threads, memory_bytes, options, "asked for");
    if (options.choice == DeviceChoice::cuda) return proven(fitting(gpu.open(source, threads, precision), options.gpu_memory_bytes, "asked for"));
    if (std::string why = gpu.why_none(); !why.empty()) {
        OpenedDevice opened = on_cpu(source, threads, memory_bytes, options, std::move(why));
        opened.gpu_refused = !ask_gpu_driver().devices.empty();
        if (opened.gpu_refused) std::fprintf(stderr, "the GPU is not used: %s\n", opened.reason.c_str());
        return opened;
    }
    try {
        return proven(fitting(gpu.open(source, threads, precision), options.gpu_memory_bytes, "a GPU holds the model"));
    } catch (const Failure & failure) {
        // These codes are faults of the device or of the worker on it. Any other fault lies in the model and would occur on the CPU too.
        if (failure.code != "out_of_memory" && failure.code != "device_unavailable" && failure.code != "internal") throw;
        std::fprintf(stderr, "the GPU is not used: %s\n", failure.what());
        OpenedDevice opened = on_cpu(source, threads, memory_bytes, options, std::string("on the GPU ") + failure.what());
        opened.gpu_refused = true;
        return opened;
    }
}
