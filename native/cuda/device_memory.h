// Memory of a device, released by the destructor.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

template <class Device> class DeviceMemory {
public:
    DeviceMemory() = default;
    DeviceMemory(Device & device, int64_t bytes) : device_(&device), data_(device.allocate(std::max<int64_t>(bytes, 1))), bytes_(bytes) {}
    DeviceMemory(DeviceMemory && other) noexcept { *this = std::move(other); }
    DeviceMemory & operator=(DeviceMemory && other) noexcept {
        std::swap(device_, other.device_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~DeviceMemory() {
        if (data_) device_->release(data_);
    }
    template <class V> V * at(int64_t offset = 0) const { return reinterpret_cast<V *>(static_cast<uint8_t *>(data_) + offset); }
    int64_t bytes() const { return bytes_; }

private:
    Device * device_ = nullptr;
    void * data_ = nullptr;
    int64_t bytes_ = 0;
};
