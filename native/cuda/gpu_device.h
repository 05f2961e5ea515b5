// One GPU as the passes use it: memory, copies, kernels, products and repeated work, over the calls of a runtime. Runtime is
// CudaRuntime, or the tests' EmulatedRuntime, which refuses any call on wish: what happens then is decided here, and here alone.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/failure.h"
#include "cuda/gemm.h"

template <class Runtime> class GpuDevice {
public:
    /** arguments: of the runtime. */
    template <class... Arguments> explicit GpuDevice(Arguments &&... arguments) : runtime_(std::forward<Arguments>(arguments)...) {
        check(runtime_.start(), "choosing the device");
        free_at_first_ = free_bytes();
        workspace_ = allocate(Runtime::workspace_bytes);
    }
    ~GpuDevice() {
        forget_replays();
        runtime_.release(workspace_);
    }
    GpuDevice(const GpuDevice &) = delete;
    GpuDevice & operator=(const GpuDevice &) = delete;

    void * allocate(int64_t bytes) {
        void * memory = nullptr;
        const int error = runtime_.allocate(&memory, bytes);
        if (error == 2) {
            runtime_.last_error(); // it is answered, and must not be found by the next check
            throw Failure("out_of_memory", std::to_string(bytes >> 20) + " MiB are needed on the device, which has " + std::to_string(free_bytes() >> 20) + " MiB free",
                          "Free the device, use shorter rows or a smaller adapter, or open with device cpu.");
        }
        check(error, "allocating memory");
        peak_bytes_ = std::max(peak_bytes_, free_at_first_ - free_bytes());
        return memory;
    }
    int64_t free_bytes() {
        int64_t free = 0;
        check(runtime_.memory(&free), "asking for its memory");
        return free;
    }
    /** The most that was in use after any allocation: what others take on the device meanwhile counts too. */
    int64_t peak_bytes() const { return peak_bytes_; }
    void release(void * memory) { runtime_.release(memory); }
    void write(void * to, const void * from, int64_t bytes) { check(runtime_.write(to, from, bytes), "copying to the device"); }
    void read(void * to, const void * from, int64_t bytes) { check(runtime_.read(to, from, bytes), "running kernels"); }
    void clear(void * memory, int64_t bytes) { check(runtime_.clear(memory, bytes), "clearing memory"); }

    template <class Kernel> void launch(const Kernel & kernel, int64_t x, int64_t y, int threads, int64_t shared_bytes = 0) {
        if (x == 0 || y == 0) return;
        if (x > INT32_MAX || y > 65535) throw Failure("internal", "a grid of " + std::to_string(x) + " × " + std::to_string(y) + " blocks", report_bug);
        check(runtime_.launch(kernel, x, y, threads, shared_bytes), "launching a kernel");
    }

    void gemm(const Gemm & g) { runtime_.gemm(g, workspace_); }

    /**
     * f's work, which depends on its key alone. The second time it is recorded into a graph, and from then on one launch
     * repeats it: small models spend more time launching kernels than running them.
     */
    template <class F> void replay(uint64_t key, const F & f) {
        if (recorded_.size() > most_recorded) forget_replays();
        Recorded & recorded = recorded_[key];
        if (recorded.graph) return check(runtime_.repeat(recorded.graph), "launching a graph");
        if (recorded.runs++ == 0) return f();
        check(runtime_.begin_recording(), "recording a graph");
        typename Runtime::Recording recording{};
        try {
            f();
        } catch (...) {
            runtime_.end_recording(&recording);
            runtime_.forget(recording);
            throw;
        }
        check(runtime_.end_recording(&recording), "recording a graph");
        const int error = runtime_.prepare(recording, &recorded.graph);
        runtime_.forget(recording);
        check(error, "preparing a graph");
        check(runtime_.repeat(recorded.graph), "launching a graph");
    }
    /** To be called when memory that recorded work names is given back. */
    void forget_replays() {
        for (auto & [key, recorded] : recorded_)
            if (recorded.graph) runtime_.forget(recorded.graph);
        recorded_.clear();
    }

private:
    struct Recorded {
        int runs = 0;
        typename Runtime::Graph graph{};
    };
    static constexpr size_t most_recorded = 64; // graphs take memory of the device

    void check(int error, const char * what) {
        if (error != 0) throw Failure("internal", std::string("CUDA, ") + what + ": " + runtime_.text(error), "Look into the driver's log; open with device cpu.");
    }

    Runtime runtime_;
    void * workspace_ = nullptr;
    int64_t free_at_first_ = 0, peak_bytes_ = 0;
    std::map<uint64_t, Recorded> recorded_;
};
