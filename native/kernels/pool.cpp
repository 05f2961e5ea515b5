#include "kernels/pool.h"

#include <immintrin.h> // _mm_pause

#include <exception>
#include <string>

#include "base/failure.h"

namespace {

// A step has thousands of short phases: to spin for about 20 µs is cheaper than to sleep and wake up in each. To spin longer would keep the
// core from another thread that needs it.
constexpr int awake_spins = 1000;

// phase_ holds three fields: the number of workers in the run, whether the run is open to more workers, and the run's number.
constexpr uint64_t inside = 0xffff, open = 0x10000, next_run = 0x20000;
uint64_t number_of(uint64_t phase) { return phase / next_run; }

} // namespace

Pool::Pool(int threads) {
    try {
        for (int thread = 1; thread < threads; thread++) workers_.emplace_back([this, thread] { work(thread); });
    } catch (const std::exception & error) {
        const std::string started = std::to_string(this->threads());
        stop(); // a thread that is not joined would end the process
        throw Failure("out_of_memory", "the machine gives " + started + " of " + std::to_string(threads) + " threads: " + error.what(), "Open the model with fewer threads.");
    }
}

Pool::~Pool() { stop(); }

void Pool::stop() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
    }
    wake_.notify_all();
    for (std::thread & worker : workers_) worker.join();
}

void Pool::run(Call call, void * context) {
    // The previous run is closed and no worker is in it, so nobody reads these now.
    call_ = call;
    context_ = context;
    phase_ = (number_of(phase_) + 1) * next_run | open;
    if (asleep_ > 0) {
        { std::lock_guard<std::mutex> lock(mutex_); } // each worker has now seen the new phase, or sleeps and gets the notification
        wake_.notify_all();
    }
    call(context, 0);
    if (((phase_ &= ~open) & inside) == 0) return;
    for (int spins = 0; spins < awake_spins; spins++) {
        if ((phase_ & inside) == 0) return;
        _mm_pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [&] { return (phase_ & inside) == 0; });
}

void Pool::work(int thread) {
    uint64_t seen = 0;
    const auto is_news = [&] { return number_of(phase_) != seen || stop_; };
    for (;;) {
        for (int spins = 0; spins < awake_spins && !is_news(); spins++) _mm_pause();
        if (!is_news()) {
            std::unique_lock<std::mutex> lock(mutex_);
            asleep_++;
            wake_.wait(lock, is_news);
            asleep_--;
        }
        if (stop_) return;
        uint64_t phase = phase_;
        while ((phase & open) != 0 && !phase_.compare_exchange_weak(phase, phase + 1)) {}
        seen = number_of(phase);
        if ((phase & open) == 0) continue;
        call_(context_, thread);
        if ((--phase_ & (inside | open)) != 0) continue;
        { std::lock_guard<std::mutex> lock(mutex_); } // the caller has now seen the phase, or waits and gets the notification
        done_.notify_one();
    }
}
