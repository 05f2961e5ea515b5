// Adapters on a device: weights, gradients and moments in single precision, the weights once more as products read them, and the
// optimizer over them. A copy is made when its adapter is first used.
#pragma once
#include <cmath>
#include <map>
#include <vector>

#include "cuda/device_memory.h"
#include "cuda/plan.h"
#include "kernels/cuda/adamw.h"
#include "kernels/cuda/elementwise.h"

template <class Device, class T> class DeviceAdapters {
public:
    struct Copy {
        DeviceMemory<Device> memory;
        float *weights, *gradients, *first_moments, *second_moments, *partial;
        T * narrow; // the weights as products read them
        uint64_t number; // no two copies have the same
    };

    explicit DeviceAdapters(Device & device) : device_(device) {}

    Copy & of(const Adapter & adapter) {
        const auto found = copies_.find(&adapter);
        if (found != copies_.end()) return found->second;
        const auto count = static_cast<int64_t>(adapter.parameters);
        const AdapterPlan plan = plan_adapter(count, number);
        DeviceMemory<Device> memory(device_, plan.total);
        const auto array = [&](int64_t offset) { return memory.template at<float>(offset); };
        Copy copy{{}, array(plan.weights), array(plan.gradients), array(plan.first_moments), array(plan.second_moments), array(plan.partial), memory.template at<T>(plan.narrow), ++made_};
        copy.memory = std::move(memory);
        Copy & kept = copies_.emplace(&adapter, std::move(copy)).first->second;
        device_.clear(kept.gradients, count * 4);
        write(adapter, kept);
        return kept;
    }

    void clear_gradients(Adapter & adapter) {
        device_.clear(of(adapter).gradients, static_cast<int64_t>(adapter.parameters) * 4);
        adapter.clear_gradients();
    }
    void fetch(Adapter & adapter) {
        const Copy & copy = of(adapter);
        const auto bytes = static_cast<int64_t>(adapter.parameters) * 4;
        device_.read(adapter.weights.data(), copy.weights, bytes);
        device_.read(adapter.gradients.data(), copy.gradients, bytes);
        device_.read(adapter.first_moments.data(), copy.first_moments, bytes);
        device_.read(adapter.second_moments.data(), copy.second_moments, bytes);
    }
    void store(const Adapter & adapter) { write(adapter, of(adapter)); }
    void forget(const Adapter & adapter) { copies_.erase(&adapter); }

    /** As Adapter::optimise; pool: the machine's, for a step that it has to look at. */
    Adapter::Stepped optimise(Adapter & adapter, const AdamW & o, Pool & pool) {
        const Copy & copy = of(adapter);
        const auto count = static_cast<int64_t>(adapter.parameters);
        const double norm = gradient_norm(copy, count);
        if (!std::isfinite(norm)) {
            // The machine says which tensor it is and refuses the step, or takes it: its sums of squares reach further.
            fetch(adapter);
            device_.clear(copy.gradients, count * 4);
            const Adapter::Stepped stepped = adapter.optimise(pool, o);
            store(adapter);
            return stepped;
        }
        const bool clipped = o.grad_clip_norm > 0 && norm > o.grad_clip_norm;
        adapter.step++;
        adapter.version++;
        const auto f = [](double value) { return static_cast<float>(value); };
        const auto step = static_cast<double>(adapter.step);
        device_.launch(gpu::AdamwStep{copy.weights, copy.gradients, copy.first_moments, copy.second_moments, count, f(o.beta1), f(o.beta2), f(1 - o.beta1), f(1 - o.beta2),
                                      f(1 / (1 - std::pow(o.beta1, step))), f(1 / (1 - std::pow(o.beta2, step))), f(o.learning_rate), f(o.eps),
                                      f(1 - o.learning_rate * o.weight_decay), f(clipped ? o.grad_clip_norm / norm : 1)},
                       blocks(count, threads), 1, threads);
        narrow(copy, count);
        adapter.clear_gradients();
        return {norm, clipped};
    }

private:
    static constexpr Number number = sizeof(T) == 2 ? Number::bf16 : Number::f32;
    static constexpr int threads = 256; // of a block
    static int64_t blocks(int64_t count, int64_t each) { return (count + each - 1) / each; }

    double gradient_norm(const Copy & copy, int64_t count) {
        const int64_t chunks = blocks(count, gpu::SquaredNorm::chunk);
        device_.launch(gpu::SquaredNorm{copy.gradients, count, copy.partial}, chunks, 1, threads);
        std::vector<float> partial(static_cast<size_t>(chunks));
        device_.read(partial.data(), copy.partial, chunks * 4);
        double squares = 0;
        for (float part : partial) squares += static_cast<double>(part);
        return std::sqrt(squares);
    }

    void write(const Adapter & adapter, const Copy & copy) {
        const auto count = static_cast<int64_t>(adapter.parameters);
        device_.write(copy.weights, adapter.weights.data(), count * 4);
        device_.write(copy.first_moments, adapter.first_moments.data(), count * 4);
        device_.write(copy.second_moments, adapter.second_moments.data(), count * 4);
        narrow(copy, count);
    }
    void narrow(const Copy & copy, int64_t count) {
        if (number == Number::bf16) device_.launch(gpu::Cast<T>{copy.weights, count, copy.narrow}, blocks(count, threads), 1, threads);
    }

    Device & device_;
    std::map<const Adapter *, Copy> copies_;
    uint64_t made_ = 0;
};
