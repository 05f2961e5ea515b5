// A device emulated on the host. It runs the same kernels that nvcc compiles. Every thread of a block is a coroutine, so that barriers,
// shuffles and matrix fragments behave as on a device. Threads run in order or in reverse: a kernel whose result depends on that has a
// race. A barrier that not all threads reach is reported instead of waited for. The runtime has as much memory as a test gives it, and
// fails at the call and with the error that a test chooses.
#pragma once
#include <setjmp.h> // switches between coroutines without a call of the system, which swapcontext makes
#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "cuda/cublas_lt.h"
#include "cuda/gemm.h"
#include "cuda/gpu_device.h"
#include "kernels/cuda/block.h"

using gpu::Bf16;
using gpu::get;
using gpu::put;

class EmulatedGrid {
public:
    explicit EmulatedGrid(bool reversed) : reversed_(reversed) {}

    /** Runs every block of a grid. f(grid, thread) runs one thread. */
    void run(int64_t x, int64_t y, int threads, size_t shared_bytes, const std::function<void(EmulatedGrid &, int)> & f) {
        f_ = &f;
        threads_ = threads;
        // A block must not use what it finds in its shared memory.
        shared_.assign(shared_bytes + 16, 0xff);
        values_.resize(static_cast<size_t>(threads));
        a_.resize(static_cast<size_t>(threads) * 4);
        b_.resize(static_cast<size_t>(threads) * 2);
        rows_.resize(static_cast<size_t>(threads));
        while (fibres_.size() < static_cast<size_t>(threads)) fibres_.push_back(std::make_unique<Fibre>());
        for (y_ = 0; y_ < y; y_++)
            for (x_ = 0; x_ < x; x_++) run_block();
    }

    int64_t x() const { return x_; }
    int64_t y() const { return y_; }
    int threads() const { return threads_; }
    uint8_t * shared() {
        const auto at = reinterpret_cast<uintptr_t>(shared_.data());
        return shared_.data() + (16 - at % 16) % 16;
    }

    void meet_block() { meet(block_, threads_); }
    void meet_warp(int thread) { meet(warps_[static_cast<size_t>(thread / 32)], std::min(32, threads_ - thread / 32 * 32)); }

    std::vector<float> values_;             // [threads]
    std::vector<uint32_t> a_, b_;           // fragments [threads, 4], [threads, 2]
    std::vector<const uint8_t *> rows_;     // [threads]

private:
    struct Fibre {
        jmp_buf here;
        std::vector<char> stack = std::vector<char>(1 << 17);
        bool begun = false, done = false; // once begun, it runs this thread of one block after the other
    };
    struct Group {
        int arrived = 0;
        uint64_t generation = 0;
    };

    void run_block() {
        block_ = {};
        warps_.assign(static_cast<size_t>((threads_ + 31) / 32), {});
        for (int t = 0; t < threads_; t++) fibres_[static_cast<size_t>(t)]->done = false;
        for (int left = threads_; left > 0;) {
            progress_ = false;
            for (int i = 0; i < threads_; i++) {
                running_ = reversed_ ? threads_ - 1 - i : i;
                Fibre & fibre = *fibres_[static_cast<size_t>(running_)];
                if (fibre.done) continue;
                if (_setjmp(scheduler_) == 0) resume(fibre);
                if (fibre.done) {
                    left--;
                    progress_ = true;
                }
            }
            if (!progress_) {
                fibres_.clear(); // they wait at a point from which nothing can continue
                throw std::logic_error("threads of a block wait for each other: a barrier that not all reach");
            }
        }
    }

    /** Returns by _longjmp to the scheduler. */
    [[noreturn]] void resume(Fibre & fibre) {
        if (fibre.begun) _longjmp(fibre.here, 1);
        fibre.begun = true;
        ucontext_t first;
        getcontext(&first);
        first.uc_stack.ss_sp = fibre.stack.data();
        first.uc_stack.ss_size = fibre.stack.size();
        first.uc_link = nullptr;
        const auto self = reinterpret_cast<uintptr_t>(this);
        makecontext(&first, reinterpret_cast<void (*)()>(enter), 3, static_cast<unsigned>(self >> 32), static_cast<unsigned>(self), static_cast<unsigned>(running_));
        setcontext(&first);
        std::abort();
    }

    static void enter(unsigned high, unsigned low, unsigned thread) {
        auto * self = reinterpret_cast<EmulatedGrid *>(static_cast<uintptr_t>(high) << 32 | low);
        Fibre & fibre = *self->fibres_[thread];
        for (;;) {
            (*self->f_)(*self, static_cast<int>(thread));
            fibre.done = true;
            if (_setjmp(fibre.here) == 0) _longjmp(self->scheduler_, 1);
        }
    }

    void meet(Group & group, int size) {
        if (++group.arrived == size) {
            group.arrived = 0;
            group.generation++;
            progress_ = true;
            return;
        }
        const uint64_t mine = group.generation;
        const int thread = running_;
        while (group.generation == mine)
            if (_setjmp(fibres_[static_cast<size_t>(thread)]->here) == 0) _longjmp(scheduler_, 1);
    }

    bool reversed_;
    const std::function<void(EmulatedGrid &, int)> * f_ = nullptr;
    int threads_ = 0, running_ = 0;
    int64_t x_ = 0, y_ = 0;
    bool progress_ = false;
    Group block_;
    std::vector<Group> warps_;
    std::vector<uint8_t> shared_;
    std::vector<std::unique_ptr<Fibre>> fibres_;
    jmp_buf scheduler_;
};

/** Block as kernels/cuda/block.h describes it, for one emulated thread. */
class EmulatedBlock {
public:
    EmulatedBlock(EmulatedGrid & grid, int thread) : grid_(grid), thread_(thread) {}
    int thread() const { return thread_; }
    int threads() const { return grid_.threads(); }
    int64_t x() const { return grid_.x(); }
    int64_t y() const { return grid_.y(); }
    int lane() const { return thread_ % 32; }
    int warp() const { return thread_ / 32; }
    void sync() const { grid_.meet_block(); }
    template <class T> T * shared(int offset) const { return reinterpret_cast<T *>(grid_.shared() + offset); }

    float sum(float value) const {
        return over_block(value, [](float a, float b) { return a + b; });
    }
    float most(float value) const {
        return over_block(value, [](float a, float b) { return fmaxf(a, b); });
    }
    float shuffle_xor(float value, int mask) const { return shuffle(value, lane() ^ mask); }
    float shuffle(float value, int from) const {
        grid_.values_[static_cast<size_t>(thread_)] = value;
        grid_.meet_warp(thread_);
        const float other = grid_.values_[static_cast<size_t>(thread_ / 32 * 32 + from)];
        grid_.meet_warp(thread_);
        return other;
    }

    /** The target holds NaNs until the thread waits. So a test finds a value that is read, or a place that is overwritten, too early. */
    void copy_16(Bf16 * to, const Bf16 * from, bool real) const {
        if (reinterpret_cast<uintptr_t>(to) % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) throw std::logic_error("a copy that is not aligned to 16 bytes");
        std::memset(to, 0xff, 16);
        copies_.push_back({to, real ? from : nullptr});
    }
    void wait_copies() const {
        for (const auto & [to, from] : copies_) {
            if (from)
                std::memcpy(to, from, 16);
            else
                std::memset(to, 0, 16);
        }
        copies_.clear();
    }

    /**
     * Four matrices of 8 × 8 values of 16 bits. Lane i names row i % 8 of matrix i / 8, and gets values 2 (lane % 4) and + 1 of row lane /
     * 4.
     */
    void load_matrices(uint32_t (&to)[4], const Bf16 * row) const {
        collect(row, [&](int matrix, const uint8_t * const * rows) {
            std::memcpy(&to[matrix], rows[lane() / 4] + lane() % 4 * 4, 4);
        });
    }
    /** The same with each matrix transposed. */
    void load_matrices_transposed(uint32_t (&to)[4], const Bf16 * row) const {
        collect(row, [&](int matrix, const uint8_t * const * rows) {
            uint16_t low, high;
            std::memcpy(&low, rows[lane() % 4 * 2] + lane() / 4 * 2, 2);
            std::memcpy(&high, rows[lane() % 4 * 2 + 1] + lane() / 4 * 2, 2);
            to[matrix] = low | static_cast<uint32_t>(high) << 16;
        });
    }
    /** C [16, 8] += A [16, 16] · B [16, 8]. Each is spread over the warp as the instruction defines it. */
    void multiply(float (&c)[4], const uint32_t * a, const uint32_t * b) const {
        const size_t first = static_cast<size_t>(thread_) / 32 * 32;
        std::memcpy(&grid_.a_[static_cast<size_t>(thread_) * 4], a, 16);
        std::memcpy(&grid_.b_[static_cast<size_t>(thread_) * 2], b, 8);
        grid_.meet_warp(thread_);
        for (int i = 0; i < 4; i++) {
            const int row = lane() / 4 + i / 2 * 8, column = lane() % 4 * 2 + i % 2;
            float total = c[i];
            for (int k = 0; k < 16; k++) {
                const uint32_t left = grid_.a_[(first + static_cast<size_t>(row % 8 * 4 + k % 8 / 2)) * 4 + static_cast<size_t>(row / 8 + k / 8 * 2)];
                const uint32_t right = grid_.b_[(first + static_cast<size_t>(column * 4 + k % 8 / 2)) * 2 + static_cast<size_t>(k / 8)];
                total += half_of(left, k % 2) * half_of(right, k % 2);
            }
            c[i] = total;
        }
        grid_.meet_warp(thread_);
    }
    /** Puts the first value into the low half. */
    uint32_t pack(float low, float high) const {
        Bf16 a, b;
        put(a, low);
        put(b, high);
        return a.bits | static_cast<uint32_t>(b.bits) << 16;
    }

private:
    static float half_of(uint32_t pair, int half) { return get(Bf16{static_cast<uint16_t>(pair >> (16 * half))}); }
    template <class F> float over_block(float value, const F & f) const {
        grid_.values_[static_cast<size_t>(thread_)] = value;
        sync();
        float total = grid_.values_[0];
        for (size_t i = 1; i < grid_.values_.size(); i++) total = f(total, grid_.values_[i]);
        sync();
        return total;
    }
    template <class F> void collect(const Bf16 * row, const F & f) const {
        if (reinterpret_cast<uintptr_t>(row) % 16 != 0) throw std::logic_error("a matrix row that is not aligned to 16 bytes");
        grid_.rows_[static_cast<size_t>(thread_)] = reinterpret_cast<const uint8_t *>(row);
        grid_.meet_warp(thread_);
        for (int matrix = 0; matrix < 4; matrix++) f(matrix, &grid_.rows_[static_cast<size_t>(thread_ / 32 * 32 + matrix * 8)]);
        grid_.meet_warp(thread_);
    }

    EmulatedGrid & grid_;
    int thread_;
    mutable std::vector<std::pair<Bf16 *, const Bf16 *>> copies_; // copies that were begun but not waited for
};

/** What goes wrong on an emulated device, and the calls that it received. */
struct Mishaps {
    int64_t memory_bytes = int64_t{1} << 40;
    int64_t fail_at = 0;                     // number of the call that fails, counted from 1; 0 = none
    int error = 0;                           // the CUDA runtime's error that it fails with
    bool refuse_recordings = false;          // nothing can be recorded, as while another thread records
    bool later = false;                      // launched work only starts; the next call reports its error
    std::vector<bool> issued = {};           // for each call so far, whether it only started work
    int64_t calls = 0, launches = 0, products = 0, recordings = 0, repeats = 0;
    int64_t held_bytes = 0, peak_bytes = 0; // bytes allocated now, and at most
    int64_t left = 0; // once the device is gone: pieces of memory, recordings and graphs that were never released
};

/** The calls of CudaRuntime, with what CUDA promises of each: kernels run when they are launched, recorded work when it is repeated. */
class EmulatedRuntime {
public:
    static constexpr int64_t workspace_bytes = 256, graph_bytes = 1 << 14;
    static constexpr int no_memory = 2, not_while_recording = 900, recording_broken = 901;
    using Work = std::vector<std::function<void()>>;
    struct RecordingOf;
    using Recording = RecordingOf *;
    struct GraphOf;
    using Graph = GraphOf *;
    struct RecordingOf {
        Work work;
    };
    struct GraphOf {
        Work work;
    };

    explicit EmulatedRuntime(bool reversed = false, std::shared_ptr<Mishaps> mishaps = std::make_shared<Mishaps>()) : grid_(reversed), mishaps_(std::move(mishaps)) {}

    int start() { return call(); }
    static std::string kernels() { return "emulated"; }
    int allocate(void ** memory, int64_t bytes) {
        if (const int error = waiting_call(); error != 0) return error;
        if (mishaps_->held_bytes + bytes > mishaps_->memory_bytes) return last_ = no_memory;
        *memory = std::aligned_alloc(256, static_cast<size_t>((bytes + 255) / 256 * 256));
        std::memset(*memory, 0xff, static_cast<size_t>(bytes)); // NaNs show a read of memory that was never written
        held_[*memory] = bytes;
        hold(bytes);
        return 0;
    }
    int release(void * memory) {
        hold(-held_.at(memory));
        held_.erase(memory);
        std::free(memory);
        return broken_;
    }
    int memory(int64_t * free) {
        *free = std::max<int64_t>(0, mishaps_->memory_bytes - mishaps_->held_bytes);
        return call();
    }
    int write(void * to, const void * from, int64_t bytes) { return copy(to, from, bytes); }
    int read(void * to, const void * from, int64_t bytes) { return copy(to, from, bytes); }
    int clear(void * memory, int64_t bytes) {
        return issue([memory, bytes] { std::memset(memory, 0, static_cast<size_t>(bytes)); });
    }
    template <class Kernel> int launch(const Kernel & kernel, int64_t x, int64_t y, int threads, int64_t shared_bytes) {
        mishaps_->launches++;
        issue([this, kernel, x, y, threads, shared_bytes] {
            grid_.run(x, y, threads, static_cast<size_t>(shared_bytes), [&](EmulatedGrid & grid, int thread) { kernel(EmulatedBlock(grid, thread)); });
        });
        return last_error(); // CUDA's launches also report the error that an earlier call left
    }
    void gemm(const Gemm & g, void *) {
        mishaps_->products++;
        if (const int error = issue([g] { multiply(g); }); error != 0) throw blas_failure(error == no_memory ? 3 : 14, "multiplying");
    }

    int begin_recording() {
        mishaps_->recordings++;
        if (const int error = call(); error != 0) return error;
        if (mishaps_->refuse_recordings) return last_ = not_while_recording;
        recording_ = true;
        recording_broken_ = false;
        recorded_.clear();
        return 0;
    }
    int end_recording(Recording * recording) {
        const int error = call();
        recording_ = false;
        if (error != 0) return error;
        if (recording_broken_) return last_ = recording_broken;
        *recording = new RecordingOf{std::move(recorded_)};
        recordings_++;
        return 0;
    }
    int prepare(Recording recording, Graph * graph) {
        if (const int error = call(); error != 0) return error;
        if (mishaps_->held_bytes + graph_bytes > mishaps_->memory_bytes) return last_ = no_memory;
        hold(graph_bytes);
        *graph = new GraphOf{recording->work};
        recordings_++;
        return 0;
    }
    int repeat(Graph graph) {
        mishaps_->repeats++;
        return issue([graph] {
            for (const auto & work : graph->work) work();
        });
    }
    void forget(Recording recording) {
        if (recording) recordings_--;
        delete recording;
    }
    void forget(Graph graph) {
        hold(-graph_bytes);
        recordings_--;
        delete graph;
    }

    int last_error() {
        const int error = last_;
        last_ = broken_;
        return error;
    }
    static std::string text(int error) { return "error " + std::to_string(error); }

    ~EmulatedRuntime() {
        mishaps_->left = static_cast<int64_t>(held_.size()) + recordings_;
        for (const auto & [memory, bytes] : held_) std::free(memory);
    }
    EmulatedRuntime(const EmulatedRuntime &) = delete;
    EmulatedRuntime & operator=(const EmulatedRuntime &) = delete;

private:
    void hold(int64_t bytes) {
        mishaps_->held_bytes += bytes;
        mishaps_->peak_bytes = std::max(mishaps_->peak_bytes, mishaps_->held_bytes);
    }
    /** The errors after which CUDA answers every call of the process with the same error. */
    static bool breaks(int error) { return error == 214 || error == 220 || error == 226 || error == 700 || error == 702 || error == 709 || error == 710 || (error >= 714 && error <= 719) || error == 721 || error == 999; }

    int call() {
        if (broken_ == 0) mishaps_->issued.push_back(issuing_);
        if (broken_ == 0 && ++mishaps_->calls != mishaps_->fail_at) return 0;
        if (broken_ != 0) return last_ = broken_;
        if (breaks(mishaps_->error)) broken_ = mishaps_->error;
        return last_ = mishaps_->error;
    }
    int waiting_call() {
        if (const int error = call(); error != 0) return error;
        if (!recording_) return 0;
        recording_broken_ = true;
        return last_ = not_while_recording;
    }
    int copy(void * to, const void * from, int64_t bytes) {
        if (const int error = waiting_call(); error != 0) return error;
        std::memcpy(to, from, static_cast<size_t>(bytes));
        return 0;
    }
    /** Does work that a call starts without waiting for it. */
    int issue(std::function<void()> work) {
        issuing_ = true;
        const int error = call();
        issuing_ = false;
        if (error != 0) {
            recording_broken_ = true;
            if (!mishaps_->later || broken_ == 0) return error;
            last_ = 0;
            return 0;
        }
        if (recording_)
            recorded_.push_back(std::move(work));
        else
            work();
        return 0;
    }

    static void multiply(const Gemm & g) {
        const auto at = [&](const void * matrix, int64_t i) {
            return g.inputs == Number::f32 ? static_cast<const float *>(matrix)[i] : get(static_cast<const Bf16 *>(matrix)[i]);
        };
        std::vector<float> row(static_cast<size_t>(g.n));
        for (int64_t i = 0; i < g.m; i++) {
            std::fill(row.begin(), row.end(), 0.0f);
            for (int64_t l = 0; l < g.k; l++) {
                const float left = at(g.a, g.a_transposed ? l * g.lda + i : i * g.lda + l);
                for (int64_t j = 0; j < g.n; j++) row[static_cast<size_t>(j)] += left * at(g.b, g.b_transposed ? j * g.ldb + l : l * g.ldb + j);
            }
            for (int64_t j = 0; j < g.n; j++) {
                const int64_t out = i * g.ldc + j;
                float * single = static_cast<float *>(g.c) + out;
                Bf16 * narrow = static_cast<Bf16 *>(g.c) + out;
                const float before = g.beta == 0 ? 0 : g.output == Number::f32 ? *single : get(*narrow);
                const float value = g.alpha * row[static_cast<size_t>(j)] + g.beta * before;
                if (g.output == Number::f32)
                    *single = value;
                else
                    put(*narrow, value);
            }
        }
    }


    EmulatedGrid grid_;
    std::shared_ptr<Mishaps> mishaps_;
    std::map<void *, int64_t> held_;
    int last_ = 0, broken_ = 0;
    bool issuing_ = false, recording_ = false, recording_broken_ = false;
    Work recorded_;
    int recordings_ = 0; // recordings and graphs that are not released yet
};

using EmulatedDevice = GpuDevice<EmulatedRuntime>;
