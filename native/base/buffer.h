// Aligned memory for numbers. It is not cleared, because kernels overwrite it, and it is kept between calls.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

template <class T> class Buffer {
public:
    Buffer() = default;
    explicit Buffer(size_t count) { ensure(count); }
    Buffer(const Buffer &) = delete;
    Buffer & operator=(const Buffer &) = delete;
    Buffer(Buffer && other) noexcept { swap(other); }
    Buffer & operator=(Buffer && other) noexcept {
        swap(other);
        return *this;
    }
    ~Buffer() { std::free(data_); }

    /** Makes room for count values. The contents are lost when it has to grow. */
    T * ensure(size_t count) {
        if (count > capacity_) {
            std::free(data_);
            data_ = nullptr;
            capacity_ = 0;
            void * fresh = nullptr;
            if (posix_memalign(&fresh, 64, count * sizeof(T)) != 0) throw std::bad_alloc();
            data_ = static_cast<T *>(fresh);
            capacity_ = count;
        }
        return data_;
    }
    T * data() { return data_; }
    const T * data() const { return data_; }
    T & operator[](size_t i) { return data_[i]; }
    const T & operator[](size_t i) const { return data_[i]; }
    size_t capacity() const { return capacity_; }

private:
    void swap(Buffer & other) {
        std::swap(data_, other.data_);
        std::swap(capacity_, other.capacity_);
    }
    T * data_ = nullptr;
    size_t capacity_ = 0;
};
