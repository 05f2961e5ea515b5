// Chooses the device that a model is opened on, and says why.
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
    std::optional<Number> precision; // if absent: bf16, or f32 on a CPU that cannot multiply bf16
    int64_t gpu_memory_bytes = 0;    // limit of the GPU's memory, 0 = all it has
};

struct OpenedDevice {
    std::unique_ptr<Backend> backend;
    int64_t memory_limit; // bytes the backend may use
    std::string reason;   // why this device was chosen
    bool gpu_refused;     // the CPU was chosen although the machine has a GPU and the caller did not ask for the CPU
};

/** The precision in which this machine's CPU trains when the request names none. */
Number cpu_precision();

/** How a GPU is opened: as cuda_backend.h does it, or as a test opens an emulated one. */
struct GpuWay {
    std::function<std::string()> why_none; // why no GPU can be used; empty when one can
    std::function<std::unique_ptr<Backend>(const ModelSource & source, int threads, Number precision)> open;
};
GpuWay this_machines_gpu();

/**
 * memory_bytes limits the machine's memory, 0 = all it has. DeviceChoice::automatic takes a GPU if one can be used and has room for the
 * model and a pass of one token, else the CPU. Throws whatever opening the model throws, out_of_memory, device_unavailable, or bad_request
 * for a precision that the device does not compute in.
 */
OpenedDevice open_device(const ModelSource & source, int threads, int64_t memory_bytes, const DeviceOptions & options, const GpuWay & gpu = this_machines_gpu());
