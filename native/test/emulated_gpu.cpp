#include "emulated_gpu.h"

#include "cuda/device_transformer.h"
#include "emulated_device.h"

GpuWay emulated_gpu(const std::shared_ptr<Mishaps> & mishaps) {
    return {[] { return std::string(); },
            [mishaps](const ModelSource & source, int threads, Number precision) {
                return open_on_device(source, threads, std::make_unique<EmulatedDevice>(false, mishaps), "cuda", precision);
            }};
}
