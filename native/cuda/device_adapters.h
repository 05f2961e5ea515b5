// Adapters on a device: weights, gradients and moments in single precision, the weights again in the type that products read, and the
// optimizer. A copy is made when its adapter is used; until then the adapter's own arrays are the valid ones. Work that a failed call left
// undone is done at the next use, so that no failure leaves half a change.
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
        T * narrow; // the weights in the type that products read
        uint64_t number; // different for every copy
        bool clear_due = true, narrow_due = true; // to be done before the next use
        bool touched = false;                     // a pass may have added to the gradients
    };

    explicit DeviceAdapters(Device & device) : device_(device) {}

    Copy & of(const Adapter & adapter) {
        auto found = copies_.find(&adapter);
        if (found == copies_.end()) found = copies_.emplace(&adapter, made(adapter)).first;
        Copy & copy = found->second;
        const auto count = static_cast<int64_t>(adapter.parameters);
        if (copy.clear_due) {
            device_.clear(copy.gradients, count * 4);
            copy.clear_due = copy.touched = false;
        }
        if (copy.narrow_due && number == Number::bf16)
            gpu::with_chunk<T>(count, [&](auto n) { device_.launch(gpu::Cast<T, decltype(n)::value>{copy.weights, count, copy.narrow}, blocks(count, n * threads), 1, threads); });
        copy.narrow_due = false;
        return copy;
    }

    void clear_gradients(Adapter & adapter) {
        clear_copy(adapter);
        adapter.clear_gradients();
    }
    /** Clears the gradients on the device only. */
    void clear_copy(const Adapter & adapter) {
        if (const auto found = copies_.find(&adapter); found != copies_.end()) found->second.clear_due = true;
    }
    /** Whether a pass may have added to the gradients since they were last cleared. */
    bool touched(const Adapter & adapter) const {
        const auto found = copies_.find(&adapter);
        return found != copies_.end() && found->second.touched && !found->second.clear_due;
    }
    void fetch(Adapter & adapter) {
        if (copies_.count(&adapter) == 0) return;
        const Copy & copy = of(adapter);
        const auto bytes = static_cast<int64_t>(adapter.parameters) * 4;
        device_.read(adapter.weights.data(), copy.weights, bytes);
        device_.read(adapter.gradients.data(), copy.gradients, bytes);
        device_.read(adapter.first_moments.data(), copy.first_moments, bytes);
        device_.read(adapter.second_moments.data(), copy.second_moments, bytes);
    }
    /** Drops the copy: from now on the adapter's own arrays are the valid ones. */
    void forget(const Adapter & adapter) { copies_.erase(&adapter); }

    /** See Adapter::optimise. pool: the machine's threads, for a step that the CPU must look at. */
    Adapter::Stepped optimise(Adapter & adapter, const AdamW & o, Pool & pool) {
        Copy & copy = of(adapter);
        const auto count = static_cast<int64_t>(adapter.parameters);
        const double norm = gradient_norm(copy, count);
        if (!std::isfinite(norm)) {
            // The CPU either finds the tensor and refuses the step, or takes the step: its sums of squares have a wider range.
            fetch(adapter);
            copy.clear_due = true;
            const Adapter::Stepped stepped = adapter.optimise(pool, o);
            forget(adapter);
            return stepped;
        }
        const bool clipped = o.grad_clip_norm > 0 && norm > o.grad_clip_norm;
        const auto f = [](double value) { return static_cast<float>(value); };
        const auto step = static_cast<double>(adapter.step + 1);
        T * narrow = number == Number::bf16 ? copy.narrow : nullptr;
        device_.launch(gpu::AdamwStep<T>{copy.weights, copy.gradients, copy.first_moments, copy.second_moments, narrow, count, f(o.beta1), f(o.beta2), f(1 - o.beta1), f(1 - o.beta2),
                                         f(1 / (1 - std::pow(o.beta1, step))), f(1 / (1 - std::pow(o.beta2, step))), f(o.learning_rate), f(o.eps),
                                         f(1 - o.learning_rate * o.weight_decay), f(clipped ? o.grad_clip_norm / norm : 1)},
                       blocks(count, threads), 1, threads);
        copy.touched = false;
        adapter.step++;
        adapter.version++;
        adapter.clear_gradients();
        return {norm, clipped};
    }

    /** See Adapter::average. */
    void average(Adapter & adapter, const Adapter & from, double decay) {
        const Copy & towards = of(from);
        Copy & copy = of(adapter);
        const auto count = static_cast<int64_t>(adapter.parameters);
        device_.launch(gpu::Average{copy.weights, towards.weights, count, static_cast<float>(decay), static_cast<float>(1 - decay)}, blocks(count, threads), 1, threads);
        copy.narrow_due = true;
        adapter.version++;
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

    Copy made(const Adapter & adapter) {
        const auto count = static_cast<int64_t>(adapter.parameters);
        const AdapterPlan plan = plan_adapter(count, number);
        DeviceMemory<Device> memory(device_, plan.total);
        const auto array = [&](int64_t offset) { return memory.template at<float>(offset); };
        Copy copy{{}, array(plan.weights), array(plan.gradients), array(plan.first_moments), array(plan.second_moments), array(plan.partial), memory.template at<T>(plan.narrow), ++made_};
        device_.write(copy.weights, adapter.weights.data(), count * 4);
        device_.write(copy.first_moments, adapter.first_moments.data(), count * 4);
        device_.write(copy.second_moments, adapter.second_moments.data(), count * 4);
        copy.memory = std::move(memory);
        return copy;
    }

    Device & device_;
    std::map<const Adapter *, Copy> copies_;
    uint64_t made_ = 0;
};
