// What NVIDIA's driver says about the machine, asked at run time. Nothing of it is linked, and a missing driver is an answer too.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

struct GpuInfo {
    std::string name;
    int64_t memory; // bytes
    int major, minor; // compute capability
};

struct GpuDriver {
    std::string missing; // why no driver or device can be used; empty when one can
    int version = 0;     // the newest CUDA that it runs: 13000 = CUDA 13.0
    std::vector<GpuInfo> devices;
};

GpuDriver ask_gpu_driver();

/** "13.0" for 13000. */
std::string cuda_version_text(int version);
