#include "cuda/driver.h"

#include <dlfcn.h>

std::string cuda_version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

GpuDriver ask_gpu_driver() {
    GpuDriver driver;
    // Opened once and never closed, because the driver cannot be unloaded safely.
    static void * library = nullptr;
    if (!library) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        driver.missing = "there is no NVIDIA driver (libcuda.so.1)";
        return driver;
    }
    // From cuda.h: CUresult and CUdevice are int, 0 is success. The _v2 names are those that its macros have stood for since CUDA 3.2.
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
    const auto get_version = reinterpret_cast<int (*)(int *)>(dlsym(library, "cuDriverGetVersion"));
    const auto get_count = reinterpret_cast<int (*)(int *)>(dlsym(library, "cuDeviceGetCount"));
    const auto get = reinterpret_cast<int (*)(int *, int)>(dlsym(library, "cuDeviceGet"));
    const auto get_name = reinterpret_cast<int (*)(char *, int, int)>(dlsym(library, "cuDeviceGetName"));
    const auto get_memory = reinterpret_cast<int (*)(size_t *, int)>(dlsym(library, "cuDeviceTotalMem_v2"));
    const auto get_attribute = reinterpret_cast<int (*)(int *, int, int)>(dlsym(library, "cuDeviceGetAttribute"));
    if (!init || !get_version || !get_count || !get || !get_name || !get_memory || !get_attribute) {
        driver.missing = "the NVIDIA driver is too old: it lacks functions";
        return driver;
    }
    int count = 0;
    if (const int error = init(0); error != 0 || get_version(&driver.version) != 0 || get_count(&count) != 0) {
        driver.missing = "the NVIDIA driver finds no device it can use (error " + std::to_string(error) + ")";
        return driver;
    }
    constexpr int major_attribute = 75, minor_attribute = 76; // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
    for (int i = 0; i < count; i++) {
        int device = 0, major = 0, minor = 0;
        char name[256] = "";
        size_t memory = 0;
        if (get(&device, i) != 0 || get_name(name, sizeof name, device) != 0 || get_memory(&memory, device) != 0 || get_attribute(&major, major_attribute, device) != 0 ||
            get_attribute(&minor, minor_attribute, device) != 0)
            continue;
        driver.devices.push_back({name, static_cast<int64_t>(memory), major, minor});
    }
    if (driver.devices.empty()) driver.missing = "the NVIDIA driver finds no device";
    return driver;
}
