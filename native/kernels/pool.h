// A fixed set of threads that all run the same function. Work is cut by thread number or taken task by task, but no result
// ever depends on which thread computed it: that is what makes every answer the same to the bit.
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

    /** f(thread) once on every thread; the caller is thread 0. f must not throw. */
    template <class F> void run(const F & f) {
        start([](const void * context, int thread) { (*static_cast<const F *>(context))(thread); }, &f);
    }

    /** f(begin, end, thread) over [0, count), cut into one contiguous part a thread, at multiples of grain. */
    template <class F> void split(int64_t count, int64_t grain, const F & f) {
        const int64_t pieces = (count + grain - 1) / grain;
        if (pieces <= 1 || threads() == 1) {
            if (count > 0) f(int64_t{0}, count, 0);
            return;
        }
        run([&](int thread) {
            const int64_t begin = pieces * thread / threads() * grain;
            const int64_t end = std::min(count, pieces * (thread + 1) / threads() * grain);
            if (begin < end) f(begin, end, thread);
        });
    }

    /** f(task, thread) for every task in [0, count), whoever is free: for tasks of unequal size that share no output. */
    template <class F> void each(int64_t count, const F & f) {
        std::atomic<int64_t> next{0};
        run([&](int thread) {
            for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < count;) f(task, thread);
        });
    }

private:
    using Call = void (*)(const void * context, int thread);
    void start(Call call, const void * context);
    void work(int thread);

    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::atomic<uint64_t> generation_{0};
    std::atomic<int> running_{0};
    Call call_ = nullptr;
    const void * context_ = nullptr;
    bool stop_ = false;
};
