// Training in bf16 on the CPU. Where the processor does not multiply bf16 it says what was not run, and counts as skipped.
// Usage: bf16_test products | gates <folder of the tiny models> <architecture> | steps <model>
#include <unistd.h> // access

#include <cstring>

#include "base/random.h"
#include "device_gates.h"
#include "kernels/bf16_gemm.h"
#include "trainer.h"

Fault planted_fault = Fault::none;

namespace {

std::vector<float> random_values(size_t count, uint64_t key) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; i++) values[i] = static_cast<float>(2 * random_uniform(key, i) - 1);
    return values;
}

/** To the nearest bf16, ties to even. */
float rounded(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    std::memcpy(&value, &bits, sizeof bits);
    return value;
}

std::vector<double> rounded_and_widened(const std::vector<float> & values) {
    std::vector<double> wide;
    for (float value : values) wide.push_back(static_cast<double>(rounded(value)));
    return wide;
}

struct Weight {
    std::vector<uint8_t> bytes;
    Matrix matrix;
    std::vector<double> values; // [rows, columns] as they are multiplied
};

Weight random_weight(ggml_type type, int64_t rows, int64_t columns, uint64_t key) {
    const std::vector<float> floats = random_values(static_cast<size_t>(rows * columns), key);
    Weight w{std::vector<uint8_t>(ggml_row_size(type, columns) * static_cast<size_t>(rows)), {nullptr, type, rows, columns}, {}};
    if (type == GGML_TYPE_F32)
        std::memcpy(w.bytes.data(), floats.data(), w.bytes.size());
    else
        ggml_quantize_chunk(type, floats.data(), w.bytes.data(), 0, rows, columns, nullptr);
    w.matrix.data = w.bytes.data();
    std::vector<float> dense(floats.size());
    for (int64_t r = 0; r < rows; r++) w.matrix.read(r, 0, columns, dense.data() + r * columns);
    w.values = rounded_and_widened(dense);
    return w;
}

/** Several weights that share an input: both products against double precision, and the same bits whatever the number of threads. */
void check_products(ggml_type type, const std::vector<int64_t> & rows, int64_t columns, int64_t tokens) {
    const std::string name = std::string(ggml_type_name(type)) + " " + std::to_string(tokens) + " × " + std::to_string(rows[0]) + " × " + std::to_string(columns);
    std::vector<Weight> weights;
    for (size_t i = 0; i < rows.size(); i++) weights.push_back(random_weight(type, rows[i], columns, 10 + i));
    const std::vector<float> x = random_values(static_cast<size_t>(tokens * columns), 1), before = random_values(static_cast<size_t>(tokens * columns), 2);
    std::vector<std::vector<float>> dys;
    for (size_t i = 0; i < rows.size(); i++) dys.push_back(random_values(static_cast<size_t>(tokens * rows[i]), 30 + i));

    for (const bool add : {false, true}) {
        std::vector<std::vector<double>> forward;
        std::vector<double> backward(add ? std::vector<double>(before.begin(), before.end()) : std::vector<double>(before.size()));
        for (size_t i = 0; i < rows.size(); i++) {
            forward.emplace_back(add ? std::vector<double>(dys[i].begin(), dys[i].end()) : std::vector<double>(dys[i].size()));
            reference::linear(weights[i].values.data(), rows[i], columns, rounded_and_widened(x).data(), tokens, forward[i].data());
            reference::linear_backward(weights[i].values.data(), rows[i], columns, rounded_and_widened(dys[i]).data(), tokens, backward.data());
        }
        std::vector<std::vector<float>> first;
        for (const int threads : {1, 2, 4, 16}) {
            Pool pool(threads);
            Profile profile;
            Panels panels(threads, profile);
            panels.number = Number::bf16;
            std::vector<std::vector<float>> seen = dys; // what is added to, or overwritten
            std::vector<Product> products, gradients;
            for (size_t i = 0; i < rows.size(); i++) {
                products.push_back({&weights[i].matrix, seen[i].data()});
                gradients.push_back({&weights[i].matrix, dys[i].data()});
            }
            std::vector<float> dx = before;
            linear(pool, panels, products, x.data(), tokens, add);
            linear_backward(pool, panels, gradients, dx.data(), tokens, add);
            seen.push_back(dx);
            if (threads > 1) {
                CHECK(seen == first, "%s: %d threads give other bits", name.c_str(), threads);
                continue;
            }
            first = seen;
            for (size_t i = 0; i < rows.size(); i++) {
                const double error = relative_l2(seen[i].data(), forward[i].data(), seen[i].size());
                CHECK(error < 2e-6, "%s, product %zu: %g", name.c_str(), i, error);
            }
            const double error = relative_l2(dx.data(), backward.data(), dx.size());
            CHECK(error < 2e-6, "%s backward: %g", name.c_str(), error);
        }
    }
}

void test_products() {
    const ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,   GGML_TYPE_Q5_1,  GGML_TYPE_Q8_0,
                               GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS};
    for (const ggml_type type : types) {
        const int64_t block = ggml_blck_size(type);
        check_products(type, {65, 33, 1}, 5 * block, 7);
        check_products(type, {192}, block == 1 ? 300 : 9 * block, 64);
    }
    // One of each, and one more or less than what a vector, a strip, six rows or a part of the sum holds.
    for (const int64_t tokens : {1, 5, 6, 13})
        for (const int64_t rows : {1, 15, 63, 64, 66})
            for (const int64_t columns : {1, 2, 31, 257}) check_products(GGML_TYPE_F32, {rows, 3}, columns, tokens);
    check_products(GGML_TYPE_F32, {30}, bf16_depth + 1, 9);
    check_products(GGML_TYPE_F32, {bf16_depth + 2, 35}, 70, 9);
    check_products(GGML_TYPE_Q4_K, {100}, bf16_depth + 256, 20);
    // More than the panel of one thread holds: in parts there, at once with several.
    check_products(GGML_TYPE_Q8_0, {2048, 100}, 2048, 3);
}

void test_gates(const std::string & folder, const std::string & architecture) {
    for (const char * kind : {"f32", "f32-untied", "q4_1", "q4_k", "bf16"}) {
        const std::string path = tiny_model(folder, architecture, kind), name = architecture + " " + kind;
        Transformer narrow(path, 2, Number::bf16);
        const std::vector<Target> targets = targets_of(narrow.shape());
        const Asked asked = asked_of(test_batch(narrow.shape().vocabulary, {7, 1, 70}, 11), false);
        const DeviceParity parity = parity_with_cpu(narrow, path, asked, targets);
        gate_3(name, true, parity);
        CHECK(parity.gradients > 1e-5, "%s: gradients of fp32", name.c_str());
        gate_3(name + " with dropout", true, parity_with_cpu(narrow, path, asked, targets, 0.25));
        gate_5(name, narrow, path, asked, 2, 0.1);
        // What is sampled and scored is single precision.
        check_decoding(name, narrow, path, 1e-5);
        Transformer single(path, 2);
        CHECK(numbers_of(narrow.forward(asked.batch, nullptr, asked.asks, 0)) == numbers_of(single.forward(asked.batch, nullptr, asked.asks, 0)), "%s: forward is not single precision", name.c_str());
    }
}

/** Thirty steps of one adapter on the same rows in both precisions. */
void test_steps(const std::string & model) {
    constexpr int64_t rows = 3, length = 24;
    constexpr int steps = 30;
    Rows batch;
    LossWeights weights;
    for (int64_t i = 0; i < rows * length; i++) {
        // A small vocabulary, which thirty steps learn.
        batch.tokens.push_back(1000 + static_cast<int32_t>(random_uniform(5, static_cast<uint64_t>(i)) * 40));
        weights.weights.push_back(i % length == 0 ? 0.0f : 1.0f / (rows * (length - 1)));
    }
    batch.lengths.assign(rows, length);
    std::vector<double> losses[2];
    for (const Number precision : {Number::f32, Number::bf16}) {
        Trainer trainer;
        trainer.open(model, 2, 0, {DeviceChoice::cpu, precision});
        CHECK(trainer.precision() == precision, "what was asked for");
        trainer.create_adapter("a", {32, 32, 1, {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down}});
        for (int step = 0; step < steps; step++) {
            losses[precision == Number::bf16].push_back(trainer.forward_backward("a", batch, weights).loss);
            trainer.optim_step("a", {1e-3, 0.9, 0.95, 1e-8, 0, 1});
        }
    }
    double sums[2] = {0, 0}, apart = 0;
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < 2; i++) sums[i] += losses[i][static_cast<size_t>(step)];
        apart = std::max(apart, std::abs(losses[1][static_cast<size_t>(step)] - losses[0][static_cast<size_t>(step)]));
    }
    std::printf("loss %.4f → %.4f in fp32, %.4f → %.4f in bf16; means %.5f and %.5f, at most %.1e apart in a step\n", losses[0].front(), losses[0].back(), losses[1].front(),
                losses[1].back(), sums[0] / steps, sums[1] / steps, apart);
    CHECK(losses[0].back() < 0.5 * losses[0].front(), "nothing was learnt: %g → %g", losses[0].front(), losses[0].back());
    CHECK(losses[0].front() != losses[1].front(), "both are fp32");
    CHECK(std::abs(sums[1] / sums[0] - 1) < 0.01, "means %g and %g", sums[0] / steps, sums[1] / steps);
}

} // namespace

int main(int, char ** arguments) {
    const std::string part = arguments[1];
    if (!bf16::supported()) {
        std::printf("this processor has no AVX512-BF16: training in bf16 was not tested (%s)\n", part.c_str());
        return 77;
    }
    if (part == "products") test_products();
    if (part == "gates") test_gates(arguments[2], arguments[3]);
    if (part == "steps") {
        if (::access(arguments[2], R_OK) != 0) {
            std::printf("%s is not there: no steps in bf16 were compared with fp32\n", arguments[2]);
            return 77;
        }
        test_steps(arguments[2]);
    }
    return failed_checks == 0 ? 0 : 1;
}
