// The CUDA kernels on an emulated device, with threads in order and in reverse.
#include "cuda_kernels.h"
#include "emulated_device.h"

namespace {

/** Gradients of rows whose target is likely and is also a soft target. If a second thread wrote there, the last bits would differ. */
template <class T> std::vector<T> gradients_of_shared_targets(bool reversed) {
    constexpr int64_t rows = 48, vocabulary = 40, softs = 4;
    std::vector<float> logits, coefficients, soft_weights;
    std::vector<int32_t> targets, soft_begin = {0}, soft_tokens;
    for (int64_t r = 0; r < rows; r++) {
        const auto target = static_cast<int32_t>(r % vocabulary);
        for (int64_t i = 0; i < vocabulary; i++) logits.push_back(static_cast<float>(4 * random_uniform(31, static_cast<uint64_t>(r * vocabulary + i)) + (i == target ? 3 : 0)));
        targets.push_back(target);
        coefficients.insert(coefficients.end(), {0.3f, 0.1f, 0.01f});
        soft_tokens.insert(soft_tokens.end(), {(target + 1) % 40, target, target, (target + 1) % 40});
        soft_weights.insert(soft_weights.end(), {0.2f, 0.1f, 0.05f, 0.02f});
        soft_begin.push_back(static_cast<int32_t>(soft_tokens.size()));
    }
    EmulatedDevice device(reversed);
    const auto up = [&](const auto & values) {
        using V = typename std::decay_t<decltype(values)>::value_type;
        auto * to = static_cast<V *>(device.allocate(static_cast<int64_t>(values.size() * sizeof(V))));
        device.write(to, values.data(), static_cast<int64_t>(values.size() * sizeof(V)));
        return to;
    };
    std::vector<T> gradient(static_cast<size_t>(rows * vocabulary));
    auto * losses = static_cast<RowLoss *>(device.allocate(rows * static_cast<int64_t>(sizeof(RowLoss))));
    auto * soft_logprobs = static_cast<float *>(device.allocate(rows * softs * 4));
    T * to = up(gradient);
    device.launch(TokenLossRows<T>{up(logits), vocabulary, up(targets), up(coefficients), up(soft_begin), up(soft_tokens), up(soft_weights), losses, soft_logprobs, to}, rows, 1, 128);
    device.read(gradient.data(), to, static_cast<int64_t>(gradient.size() * sizeof(T)));
    return gradient;
}

template <class T> void test_shared_targets(const char * type) {
    const std::vector<T> in_order = gradients_of_shared_targets<T>(false), reversed = gradients_of_shared_targets<T>(true);
    CHECK(std::memcmp(in_order.data(), reversed.data(), in_order.size() * sizeof(T)) == 0, "%s: the gradient at a target that is a soft target too depends on the order of threads", type);
}

} // namespace

int main() {
    for (bool reversed : {false, true}) {
        EmulatedDevice device(reversed);
        const int comparisons = KernelTests<EmulatedDevice>(device).run();
        std::printf("%d comparisons of CUDA kernels with their twins, emulated, threads %s\n", comparisons, reversed ? "reversed" : "in order");
    }
    test_shared_targets<float>("f32");
    test_shared_targets<Bf16>("bf16");
    return failed_checks == 0 ? 0 : 1;
}
