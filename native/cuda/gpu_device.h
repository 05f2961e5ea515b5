// One GPU as the passes use it: memory, copies, kernels, products and recorded work, based on a runtime's calls. Runtime is CudaRuntime, or
// the tests' EmulatedRuntime, which refuses any call that a test names. What happens after a failed call is decided in this file alone.
//
// An error is out_of_memory, device_unavailable or internal, and leaves the device as it was. An error that breaks the process's context is
// fatal: the device keeps the message of the first one, and every later call fails with it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "base/failure.h"
#include "cuda/gemm.h"
#include "cuda/gpu_error.h"

template <class Runtime> class GpuDevice {
public:
    /** arguments: those of the runtime's constructor. */
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

    /** When the device has too little memory, `spare` may give some back; then the device is asked once more. */
    void * allocate(int64_t bytes) {
        void * memory = nullptr;
        int error = runtime_.allocate(&memory, bytes);
        if (error != 0 && trouble_of(error) == GpuTrouble::memory && spare_ && spare_()) {
            runtime_.last_error(); // the error is handled, and the next check must not find it
            error = runtime_.allocate(&memory, bytes);
        }
        if (error != 0) fail(error, "allocating " + std::to_string(bytes >> 20) + " MiB");
        try {
            peak_bytes_ = std::max(peak_bytes_, free_at_first_ - free_bytes());
        } catch (...) {
            runtime_.release(memory);
            throw;
        }
        return memory;
    }
    /** spare gives back what it can do without, and returns whether there was anything. It is not called within a pass. */
    void when_short(std::function<bool()> spare) { spare_ = std::move(spare); }
    int64_t free_bytes() {
        int64_t free = 0;
        check(runtime_.memory(&free), "asking for its memory");
        return free;
    }
    /** Names the device, the kernels compiled for it, and the library of products. */
    std::string kernels() { return runtime_.kernels(); }
    /** The most memory in use after any allocation. What other programs take on the device counts too. */
    int64_t peak_bytes() const { return peak_bytes_; }
    void release(void * memory) {
        if (runtime_.release(memory) != 0) runtime_.last_error(); // the caller does not wait for it, and a broken context also fails the next call
    }
    void write(void * to, const void * from, int64_t bytes) { check(runtime_.write(to, from, bytes), "copying to the device"); }
    void read(void * to, const void * from, int64_t bytes) { check(runtime_.read(to, from, bytes), "running kernels"); }
    void clear(void * memory, int64_t bytes) { check(runtime_.clear(memory, bytes), "clearing memory"); }

    template <class Kernel> void launch(const Kernel & kernel, int64_t x, int64_t y, int threads, int64_t shared_bytes = 0) {
        if (x == 0 || y == 0) return;
        if (x > INT32_MAX || y > 65535) throw Failure("internal", "a grid of " + std::to_string(x) + " × " + std::to_string(y) + " blocks", report_bug);
        check(runtime_.launch(kernel, x, y, threads, shared_bytes), "launching a kernel");
    }

    void gemm(const Gemm & g) {
        try {
            runtime_.gemm(g, workspace_);
        } catch (const Failure &) {
            // cuBLASLt only says that it failed. The runtime knows whether the context is broken.
            int64_t free = 0;
            if (const int error = runtime_.memory(&free); error != 0) fail(error, "multiplying");
            runtime_.last_error();
            throw;
        }
    }

    /**
     * Does f's work, which depends only on its key. The second time it is recorded into a graph, and from then on one launch repeats it:
     * small models spend more time launching kernels than running them. When the device cannot record it, or no longer repeat it, f runs
     * directly.
     */
    template <class F> void replay(uint64_t key, const F & f) {
        if (!records_) return f();
        Recorded & recorded = recorded_of(key);
        if (recorded.graph) {
            const int error = runtime_.repeat(recorded.graph);
            if (error == 0) return;
            forget(recorded);
            plain(recorded, error, "launching a graph");
        } else if (recorded.runs++ > 0 && !recorded.plain) {
            if (record(recorded, f)) return;
        }
        f();
    }
    /** From now on all work runs directly, without recording. */
    void record_nothing() { records_ = false; }
    /** Number of keys whose work runs directly because it could not be recorded. */
    int64_t unrecorded() const { return unrecorded_; }
    /** Call this when memory that recorded work uses is released. Returns whether there was any recorded work. */
    bool forget_replays() {
        bool any = false;
        for (auto & [key, recorded] : recorded_) any |= forget(recorded);
        recorded_.clear();
        return any;
    }

private:
    struct Recorded {
        int runs = 0;
        uint64_t used = 0;
        bool plain = false; // it could not be recorded
        typename Runtime::Graph graph{};
    };
    static constexpr size_t most_recorded = 64; // limit, because graphs take memory of the device

    /** The entry of a key. When there are too many, it replaces the entry that was not used for the longest time. */
    Recorded & recorded_of(uint64_t key) {
        if (recorded_.size() >= most_recorded && recorded_.count(key) == 0) {
            const auto oldest = std::min_element(recorded_.begin(), recorded_.end(), [](const auto & a, const auto & b) { return a.second.used < b.second.used; });
            forget(oldest->second);
            recorded_.erase(oldest);
        }
        Recorded & recorded = recorded_[key];
        recorded.used = ++uses_;
        return recorded;
    }
    bool forget(Recorded & recorded) {
        if (!recorded.graph) return false;
        runtime_.forget(recorded.graph);
        recorded.graph = {};
        return true;
    }
    /** From now on the key's work runs directly. Throws when the error broke the context. */
    void plain(Recorded & recorded, int error, const char * what) {
        runtime_.last_error();
        if (trouble_of(error) == GpuTrouble::lost) fail(error, what);
        recorded.plain = true;
        if (unrecorded_++ == 0) std::fprintf(stderr, "CUDA, %s: %s; passes of this size are launched kernel by kernel\n", what, text_of(error).c_str());
    }
    /** Records f and runs it. Returns false when it could not be recorded; then nothing has run. */
    template <class F> bool record(Recorded & recorded, const F & f) {
        const char * what = "recording a graph";
        typename Runtime::Recording recording{};
        int error = runtime_.begin_recording();
        if (error == 0) {
            bool whole = true;
            try {
                f();
            } catch (const Failure & failure) {
                if (failure.fatal) {
                    runtime_.end_recording(&recording);
                    runtime_.forget(recording);
                    throw;
                }
                whole = false; // f fails again when it runs directly, unless only the recording made it fail
            }
            error = runtime_.end_recording(&recording);
            if (error == 0 && !whole) error = Runtime::recording_broken;
        }
        if (error == 0) {
            what = "preparing a graph";
            error = runtime_.prepare(recording, &recorded.graph);
        }
        runtime_.forget(recording);
        if (error == 0) {
            what = "launching a graph";
            error = runtime_.repeat(recorded.graph);
        }
        if (error == 0) return true;
        forget(recorded);
        plain(recorded, error, what);
        return false;
    }

    static std::string text_of(int error) { return Runtime::text(error); }

    void check(int error, const char * what) {
        if (error != 0) fail(error, what);
    }
    [[noreturn]] void fail(int error, const std::string & what) {
        runtime_.last_error();
        if (!lost_.empty()) throw Failure("internal", lost_, lost_hint, true);
        const std::string message = "CUDA, " + what + ": " + text_of(error);
        switch (trouble_of(error)) {
            case GpuTrouble::lost:
                lost_ = message;
                throw Failure("internal", lost_, lost_hint, true);
            case GpuTrouble::memory: {
                int64_t free = 0;
                if (runtime_.memory(&free) != 0) runtime_.last_error();
                throw Failure("out_of_memory", message + "; the device has " + std::to_string(free >> 20) + " MiB free",
                              "Free the device, use shorter rows or a smaller adapter, or open with device cpu.");
            }
            case GpuTrouble::unavailable: throw Failure("device_unavailable", message, "Check the driver's log (dmesg, nvidia-smi), or open with device cpu or auto.");
            case GpuTrouble::other: break;
        }
        throw Failure("internal", message, "Check the driver's log, or open with device cpu.");
    }

    static constexpr const char * lost_hint = "Start the worker again: the device no longer answers this one. If that happens again, open with device cpu.";

    Runtime runtime_;
    void * workspace_ = nullptr;
    int64_t free_at_first_ = 0, peak_bytes_ = 0, unrecorded_ = 0;
    std::string lost_; // message of the first failure that broke the context; empty if there was none
    std::function<bool()> spare_;
    std::map<uint64_t, Recorded> recorded_;
    uint64_t uses_ = 0;
    bool records_ = true;
};
