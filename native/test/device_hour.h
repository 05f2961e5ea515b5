// What a GPU must show beyond single kernels and the gates: passes of a real model's size that agree with the CPU, the same bits from
// process to process whether or not work is recorded, the products of every rank, memory that others take, and many sizes of passes.
// cuda_hour_test runs these checks at a real scale. emulated_hour_test runs all of them at a small scale, without a GPU.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "device_gates.h"
#include "model/random_model.h"
#include "trainer.h"

struct Hour {
    GpuWay gpu;
    Number precision;
    ModelShape shape;   // of the large pass and of the steps
    ggml_type type;
    int64_t odd_vocabulary; // of the model whose products are tested
    int64_t rows, length;   // of the large pass
    std::vector<int64_t> ranks;
    int steps;
    Allowed allowed, of_large; // limits for gradients; the large pass sums over a real vocabulary, which costs single precision the most
};

inline int hour_threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

/** Random rows of the given lengths. Every token but the first of a row has a weight, and `softs` soft targets. */
struct HourRequest {
    Rows rows;
    LossWeights weights;
};
inline HourRequest hour_request(int64_t vocabulary, const std::vector<int32_t> & lengths, int64_t softs, uint64_t seed) {
    HourRequest r{{{}, lengths}, {}};
    uint64_t at = 0;
    int64_t weighed = 0;
    for (int32_t length : lengths) weighed += length - 1;
    const auto token = [&] { return static_cast<int32_t>(random_uniform(seed, at++) * static_cast<double>(vocabulary)); };
    for (int32_t length : lengths)
        for (int32_t i = 0; i < length; i++) {
            r.rows.tokens.push_back(token());
            r.weights.weights.push_back(i == 0 ? 0.0f : 1.0f / static_cast<float>(weighed));
            for (int64_t k = 0; k < softs; k++) {
                // The second soft target is the target itself, and the third repeats the second.
                r.weights.soft_targets.push_back(k == 1 ? r.rows.tokens.back() : k == 2 ? r.weights.soft_targets.back() : token());
                r.weights.soft_weights.push_back(i == 0 ? 0.0f : 0.5f / static_cast<float>(weighed * softs));
            }
        }
    return r;
}

inline AdapterShape hour_adapter(const ModelShape & shape, int64_t rank, double dropout) { return {rank, 2.0 * static_cast<double>(rank), 5, targets_of(shape), dropout}; }

/** Compares one pass over rows × length tokens with the CPU, in each precision. */
inline void hour_large(const Hour & h, const std::vector<Number> & precisions) {
    const ModelSource source(h.shape, h.type);
    const std::vector<int64_t> lengths(static_cast<size_t>(h.rows), h.length);
    const Asked asked = asked_of(test_batch(h.shape.vocabulary, lengths, 11), false);
    const Expected expected = expected_of(source, asked, targets_of(h.shape), 0, hour_threads());
    for (Number precision : precisions)
        gate_3("a large pass", precision == Number::bf16, parity_with(expected, *h.gpu.open(source, hour_threads(), precision), asked), h.of_large);
}

/** A run's losses and its adapter's hashes as text, which is equal only if every bit is. */
inline std::string hour_steps(const Hour & h, int64_t softs) {
    Trainer trainer(h.gpu);
    trainer.open({h.shape, h.type}, hour_threads(), 0, {DeviceChoice::cuda, h.precision});
    trainer.create_adapter("a", hour_adapter(h.shape, 16, 0.1));
    std::string told;
    for (int step = 0; step < h.steps; step++) {
        // Two sizes alternate. Each is recorded, and then repeated.
        const HourRequest r = hour_request(h.shape.vocabulary, step % 2 == 0 ? std::vector<int32_t>{40, 23} : std::vector<int32_t>{61}, softs, static_cast<uint64_t>(step));
        const double loss = trainer.forward_backward("a", r.rows, r.weights).loss;
        trainer.optim_step("a", {1e-3, 0.9, 0.95, 1e-8, 0.01, 1});
        uint64_t bits;
        std::memcpy(&bits, &loss, sizeof bits);
        CHECK(std::isfinite(loss), "step %d: %g", step, loss);
        told += std::to_string(bits) + " ";
    }
    char folder[] = "/tmp/plumbline-test-XXXXXX";
    if (!mkdtemp(folder)) std::abort();
    for (const SavedFile & file : trainer.save("a", std::string(folder) + "/checkpoint"))
        if (file.name != "manifest.json") told += file.sha256 + " ";
    std::filesystem::remove_all(folder);
    return told;
}

/** Every product of a pass at each rank, with an odd vocabulary, for a row of two tokens and for a longer one. */
inline void hour_products(const Hour & h) {
    ModelShape shape = h.shape;
    shape.vocabulary = h.odd_vocabulary;
    shape.tied = false;
    const ModelSource source(shape, h.type);
    const std::unique_ptr<Backend> device = h.gpu.open(source, hour_threads(), h.precision);
    const bool narrow = h.precision == Number::bf16;
    for (int64_t rank : h.ranks)
        for (int64_t length : {2, 77}) {
            const Asked asked = asked_of(test_batch(shape.vocabulary, {length, 3}, 7), !narrow);
            if (asked.asks.empty()) continue;
            gate_3("rank " + std::to_string(rank) + ", " + std::to_string(length) + " tokens", narrow, parity_with_cpu(*device, source, asked, targets_of(shape), 0, hour_threads(), rank), h.allowed);
        }
}

/** What a large pass left behind is given up for a sample's cache and for another adapter. */
inline void hour_memory(const Hour & h) {
    const AdapterShape adapter = hour_adapter(h.shape, 16, 0);
    const std::vector<int32_t> lengths(static_cast<size_t>(h.rows), static_cast<int32_t>(h.length));
    const HourRequest large = hour_request(h.shape.vocabulary, lengths, 0, 3);
    const ModelSource source(h.shape, h.type);
    int64_t limit;
    {
        const std::unique_ptr<Backend> model = h.gpu.open(source, 1, h.precision);
        limit = model->model_bytes() + 2 * model->adapter_bytes(adapter) + model->pass_bytes(&adapter, h.rows * h.length, h.length, Keep::activations, 0);
    }
    Trainer trainer(h.gpu);
    trainer.open(source, hour_threads(), 0, {DeviceChoice::cuda, h.precision, limit});
    trainer.create_adapter("a", adapter);
    trainer.forward_backward("a", large.rows, large.weights);
    trainer.optim_step("a", {1e-3, 0.9, 0.95, 1e-8, 0.01, 1});
    const auto drawn = static_cast<int64_t>(std::min<int64_t>(h.length / 2, 32));
    const Trainer::Samples samples = trainer.sample("a", 1, {{large.rows.tokens.begin(), large.rows.tokens.begin() + 16}, {8, 8}}, {drawn, {1, 0, 1, 0}, 1, {}});
    CHECK(samples.rows.size() == 2 && static_cast<int64_t>(samples.rows[1].tokens.size()) == drawn, "a sample after a large pass");
    trainer.create_adapter("b", adapter);
    const HourRequest small = hour_request(h.shape.vocabulary, {9}, 0, 4);
    CHECK(std::isfinite(trainer.forward_backward("b", small.rows, small.weights).loss), "another adapter after a large pass");
    CHECK(trainer.shortages() == 0, "the device ran short %lld times within the limit", static_cast<long long>(trainer.shortages()));
}

/** Seventy sizes of passes, twice each. The same request gives the same bits before and after them. */
inline void hour_sizes(const Hour & h) {
    Trainer trainer(h.gpu);
    trainer.open({h.shape, h.type}, hour_threads(), 0, {DeviceChoice::cuda, h.precision});
    trainer.create_adapter("a", hour_adapter(h.shape, 4, 0));
    const auto loss_of = [&](int32_t length, uint64_t seed) {
        const HourRequest r = hour_request(h.shape.vocabulary, {length}, 0, seed);
        const double loss = trainer.forward_backward("a", r.rows, r.weights).loss;
        trainer.optim_step("a", {0, 0.9, 0.95, 1e-8, 0, 0}); // the weights do not change
        return loss;
    };
    const double before = loss_of(20, 1);
    const auto most = static_cast<int32_t>(std::min<int64_t>(h.shape.context, h.length * h.rows));
    for (int round = 0; round < 2; round++)
        for (int32_t size = 1; size <= 70; size++) CHECK(std::isfinite(loss_of(2 + (most - 2) * size / 70, 2)), "size %d", size);
    CHECK(loss_of(20, 1) == before, "a loss has changed after seventy sizes of passes");
}

/** On a full GPU, "cuda" is refused as out_of_memory, and "auto" takes the CPU and reports that it refused the GPU. */
inline void hour_full(const Hour & h) {
    const ModelSource source(h.shape, h.type);
    try {
        Trainer strict(h.gpu);
        strict.open(source, 1, 0, {DeviceChoice::cuda, h.precision});
        CHECK(false, "a full GPU takes a model");
    } catch (const Failure & failure) {
        CHECK(failure.code == "out_of_memory", "%s: %s", failure.code.c_str(), failure.what());
    }
    Trainer lenient(h.gpu);
    lenient.open(source, 1, 0, {DeviceChoice::automatic, {}});
    std::printf("a full GPU: %s, %s\n", lenient.device().c_str(), lenient.device_reason().c_str());
    CHECK(lenient.device() == "cpu" && lenient.gpu_refused(), "%s", lenient.device().c_str());
}
