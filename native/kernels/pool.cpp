#include "kernels/pool.h"

#include <immintrin.h> // _mm_pause

namespace {
// A step has thousands of short phases: waiting some 20 µs awake is cheaper than a sleep and a wake-up in each.
constexpr int awake_spins = 1000;
} // namespace

Pool::Pool(int threads) {
    for (int thread = 1; thread < threads; thread++) workers_.emplace_back([this, thread] { work(thread); });
}

Pool::~Pool() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
        generation_.fetch_add(1);
    }
    wake_.notify_all();
    for (std::thread & worker : workers_) worker.join();
}

void Pool::start(Call call, const void * context) {
    if (workers_.empty()) return call(context, 0);
    {
        std::lock_guard<std::mutex> lock(mutex_);
        call_ = call;
        context_ = context;
        running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
        generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    call(context, 0);
    for (int spins = 0; spins < awake_spins && running_.load(std::memory_order_acquire) != 0; spins++) _mm_pause();
    if (running_.load(std::memory_order_acquire) == 0) return;
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [&] { return running_.load(std::memory_order_acquire) == 0; });
}

void Pool::work(int thread) {
    uint64_t seen = 0;
    for (;;) {
        for (int spins = 0; spins < awake_spins && generation_.load(std::memory_order_acquire) == seen; spins++) _mm_pause();
        Call call;
        const void * context;
        {
            std::unique_lock<std::mutex> lock(mutex_);
            wake_.wait(lock, [&] { return generation_.load() != seen; });
            seen = generation_.load();
            if (stop_) return;
            call = call_;
            context = context_;
        }
        call(context, thread);
        if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            std::lock_guard<std::mutex> lock(mutex_);
            done_.notify_one();
        }
    }
}
