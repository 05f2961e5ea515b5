// Which device a model is opened on, and why.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cuda/gemm.h"
#include "model/backend.h"

enum class DeviceChoice { automatic, cpu, cuda };

struct DeviceOptions {
    DeviceChoice choice = DeviceChoice::cpu;
    std::optional<Number> precision; // where nothing is said bf16, but f32 on a CPU that does not multiply bf16
    int64_t gpu_memory_bytes = 0;    // of a GPU at most, 0 = all it has
};

struct OpenedDevice {
    std::unique_ptr<Backend> backend;
    int64_t memory_limit; // bytes it may fill
    std::string reason;   // why this device and no other
    bool gpu_refused;     // the CPU was taken although the machine has a GPU and nobody asked for the CPU
};

/** What training on this machine's CPU computes in where nothing is said. */
Number cpu_precision();

/** The way to a GPU: that of cuda_backend.h, or a test's to an emulated one. */
struct GpuWay {
    std::function<std::string()> why_none; // empty when one can be used
    std::function<std::unique_ptr<Backend>(const ModelSource & source, int threads, Number precision)> open;
};
GpuWay this_machines_gpu();

/**
 * memory_bytes: of the machine at most, 0 = all it has. Automatic takes a GPU where one can be used and holds the model with a pass of
 * one row, else the CPU. Throws what opening the model throws, out_of_memory, device_unavailable, or bad_request for a precision
 * that the device does not compute in.
 */
OpenedDevice open_device(const ModelSource & source, int threads, int64_t memory_bytes, const DeviceOptions & options, const GpuWay & gpu = this_machines_gpu());
