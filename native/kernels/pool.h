// A fixed set of threads that take tasks of one kind from a common counter. No result depends on which thread computes a task or on how
// many threads there are, so every answer is the same to the bit. A run ends when its tasks are done and does not wait for threads that
// have not joined it by then. A thread whose core is used by others thus costs only the work that it does not do, not the time until it is
// scheduled again.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

class Pool {
public:
    explicit Pool(int threads);
    ~Pool();
    Pool(const Pool &) = delete;
    Pool & operator=(const Pool &) = delete;

    int threads() const { return static_cast<int>(workers_.size()) + 1; }

    /**
     * Calls f(task, thread) for every task in [0, count). Free threads take the tasks in order; the caller is thread 0. f must not throw.
     */
    template <class F> void each(int64_t count, const F & f) {
        if (count <= 1 || workers_.empty()) {
            for (int64_t task = 0; task < count; task++) f(task, 0);
            return;
        }
        struct Tasks {
            const F & f;
            int64_t count;
            std::atomic<int64_t> next{0};
        } tasks{f, count};
        run([](void * context, int thread) {
            auto & all = *static_cast<Tasks *>(context);
            for (int64_t task; (task = all.next.fetch_add(1, std::memory_order_relaxed)) < all.count;) all.f(task, thread);
        }, &tasks);
    }

    /** Calls f(begin, end, thread) over [0, count), cut into contiguous parts at multiples of grain. */
    template <class F> void split(int64_t count, int64_t grain, const F & f) {
        constexpr int64_t most_parts = 32;
        const int64_t part = ((count + grain - 1) / grain + most_parts - 1) / most_parts * grain;
        each(count == 0 ? 0 : (count + part - 1) / part, [&](int64_t task, int thread) { f(task * part, std::min(count, (task + 1) * part), thread); });
    }

private:
    using Call = void (*)(void * context, int thread);
    /** Runs call(context, thread) on the caller and on every worker that joins before the caller is through. */
    void run(Call call, void * context);
    void work(int thread);
    /** Ends and joins the threads. */
    void stop();

    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::atomic<uint64_t> phase_{0}; // the run's number, whether it is open, and how many workers are in it: see pool.cpp
    std::atomic<int> asleep_{0};     // number of workers that sleep
    std::atomic<bool> stop_{false};
    Call call_ = nullptr;
    void * context_ = nullptr;
};
