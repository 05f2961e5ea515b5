// What NVIDIA's driver says of the machine, asked at run time: nothing is linked, and no driver is an answer too.
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
    std::string missing; // why there is none to ask; empty when there is
    int version = 0;     // 13000 = CUDA 13.0, the newest it can run
    std::vector<GpuInfo> devices;
};

GpuDriver ask_gpu_driver();

/** "13.0" for 13000. */
std::string cuda_version_text(int version);
