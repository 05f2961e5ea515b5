// Runs llama_decode on a thread of our own. node-llama-cpp decodes on any free thread of Node's pool, and for every step the library starts
// its other threads anew from that thread. When four pool threads take turns, the new threads are slow to find their cores; from one thread
// that is always the same they are not. This module is loaded before the addon with its symbols global, so the addon finds this
// llama_decode before the library's own. Node's pool can then be as large as file access needs.
#include "llama.h"

#include <dlfcn.h>
#include <link.h>

#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

/** Runs one piece of work at a time, while its caller waits. */
class Worker {
public:
    Worker() {
        std::thread([this] { loop(); }).detach();
    }

    void run(std::function<void()> work) {
        std::unique_lock<std::mutex> lock(mutex_);
        work_ = std::move(work);
        changed_.notify_all();
        changed_.wait(lock, [this] { return !work_; });
    }

private:
    void loop() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return bool(work_); });
            lock.unlock();
            work_();
            lock.lock();
            work_ = nullptr;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> work_;
};

/**
 * Idle workers. There are as many workers as decodes ever ran at once, since several bases decode in parallel. The worker used last is
 * taken first, so that a single base keeps the same one.
 */
class Workers {
public:
    Worker* take() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (idle_.empty()) return new Worker;
        Worker* worker = idle_.back();
        idle_.pop_back();
        return worker;
    }

    void give_back(Worker* worker) {
        std::lock_guard<std::mutex> lock(mutex_);
        idle_.push_back(worker);
    }

private:
    std::mutex mutex_;
    std::vector<Worker*> idle_;
};

/** Never freed, because its threads wait in it until the process ends. */
Workers& workers() {
    static Workers& all = *new Workers;
    return all;
}

using Decode = int32_t (*)(llama_context*, llama_batch);

int note_library(dl_phdr_info* info, size_t, void* path) {
    const char* slash = std::strrchr(info->dlpi_name, '/');
    if (slash == nullptr || std::strncmp(slash, "/libllama.", 10) != 0) return 0;
    *static_cast<std::string*>(path) = info->dlpi_name;
    return 1;
}

/** The library's own llama_decode, from the file that is loaded. Throws std::runtime_error. */
Decode find_decode() {
    std::string path;
    dl_iterate_phdr(note_library, &path);
    void* library = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    void* found = library == nullptr ? nullptr : dlsym(library, "llama_decode");
    if (found == nullptr) throw std::runtime_error("llama_decode is not found in libllama");
    return reinterpret_cast<Decode>(found);
}

} // namespace

extern "C" {

__attribute__((visibility("default"))) int32_t llama_decode(llama_context* context, llama_batch batch) {
    static const Decode decode = find_decode();
    int32_t result = 0;
    std::exception_ptr failure;
    Worker* worker = workers().take();
    worker->run([&] {
        try {
            result = decode(context, batch);
        } catch (...) {
            failure = std::current_exception();
        }
    });
    workers().give_back(worker);
    if (failure) std::rethrow_exception(failure);
    return result;
}

/** Node calls this for a module that it loads. This module offers nothing but its symbols. */
__attribute__((visibility("default"))) void* napi_register_module_v1(void*, void* exports) {
    return exports;
}
}
