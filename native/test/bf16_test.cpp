// Tests training in bf16 on the CPU. On a processor that does not multiply bf16, it says what was not run and counts as skipped.
// Usage: bf16_test gates <folder of the tiny models> <architecture> | steps <model>
#include <unistd.h> // access

#include "base/random.h"
#include "device_gates.h"
#include "kernels/bf16_gemm.h"
#include "trainer.h"


namespace {

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
        // Decoding and forward stay in single precision.
        check_decoding(name, narrow, path, 1e-5);
        Transformer single(path, 2);
        CHECK(numbers_of(narrow.forward(asked.batch, nullptr, asked.asks, 0)) == numbers_of(single.forward(asked.batch, nullptr, asked.asks, 0)), "%s: forward is not single precision", name.c_str());
    }
}

/** Trains one adapter for thirty steps on the same rows, in each precision. */
void test_steps(const std::string & model) {
    constexpr int64_t rows = 3, length = 24;
    constexpr int steps = 30;
    Rows batch;
    LossWeights weights;
    for (int64_t i = 0; i < rows * length; i++) {
        // The vocabulary is small enough to be learnt in thirty steps.
        batch.tokens.push_back(1000 + static_cast<int32_t>(random_uniform(5, static_cast<uint64_t>(i)) * 40));
        weights.weights.push_back(i % length == 0 ? 0.0f : 1.0f / (rows * (length - 1)));
    }
    batch.lengths.assign(rows, length);
    std::vector<double> losses[2];
    for (const Number precision : {Number::f32, Number::bf16}) {
        Trainer trainer;
        trainer.open(model, 2, 0, {DeviceChoice::cpu, precision});
        CHECK(trainer.precision() == precision, "the precision is not the requested one");
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
    CHECK(losses[0].front() != losses[1].front(), "both precisions give the same loss, so both are fp32");
    CHECK(std::abs(sums[1] / sums[0] - 1) < 0.01, "means %g and %g", sums[0] / steps, sums[1] / steps);
}

/**
 * Samples as training computes. Where training is in fp32, that changes nothing. Where it is in bf16, log-probs differ from score's, which are
 * in fp32, by the rounding alone.
 */
void test_sampling_as_trained(const std::string & model) {
    const Rows prompts{{1, 1000, 1001, 1002, 1003, 1, 1004, 1005}, {5, 3}};
    for (const Number precision : {Number::f32, Number::bf16}) {
        Trainer trainer;
        trainer.open(model, 2, 0, {DeviceChoice::cpu, precision});
        trainer.create_adapter("a", {8, 8, 1, {attn_q, attn_v, ffn_down}});
        SampleOptions options{12, {1, 0, 1, 0}, 5, {}, 3};
        options.as_trained = true;
        const std::vector<Sampled> said = trainer.sample("a", 0, prompts, options).rows;
        Rows rows;
        std::vector<int32_t> prompt_lengths;
        size_t at = 0;
        for (size_t r = 0; r < said.size(); r++) {
            const auto length = static_cast<size_t>(prompts.lengths[r]);
            for (size_t i = 0; i < length; i++) rows.tokens.push_back(prompts.tokens[at + i]);
            rows.tokens.insert(rows.tokens.end(), said[r].tokens.begin(), said[r].tokens.end());
            rows.lengths.push_back(static_cast<int32_t>(length + said[r].tokens.size()));
            prompt_lengths.push_back(prompts.lengths[r]);
            at += length;
        }
        const std::vector<float> scored = trainer.score("a", rows, prompt_lengths).logprobs;
        float apart = 0;
        size_t token = 0;
        for (size_t r = 0; r < said.size(); r++) {
            token += static_cast<size_t>(prompts.lengths[r]);
            for (const float logprob : said[r].logprobs) apart = std::max(apart, std::abs(logprob - scored[token++]));
        }
        const bool narrow = precision == Number::bf16;
        std::printf("sampled as trained in %s: log-probs differ from score's by %.1e\n", narrow ? "bf16" : "fp32", static_cast<double>(apart));
        CHECK(narrow ? apart > 1e-3f && apart <= 0.1f : apart <= 1e-4f, "log-probs differ from score's by %g", static_cast<double>(apart));
    }
}

} // namespace

int main(int count, char ** arguments) {
    const std::string part = count > 1 ? arguments[1] : "";
    if ((part != "gates" || count != 4) && (part != "steps" || count != 3)) {
        std::printf("usage: bf16_test gates <folder of the tiny models> <architecture> | steps <model>\n");
        return 2;
    }
    if (!bf16::supported()) {
        std::printf("this processor has no AVX512-BF16: training in bf16 was not tested (%s)\n", part.c_str());
        return 77;
    }
    if (part == "gates") test_gates(arguments[2], arguments[3]);
    if (part == "steps") {
        if (::access(arguments[2], R_OK) != 0) {
            std::printf("%s is not there: no steps in bf16 were compared with fp32\n", arguments[2]);
            return 77;
        }
        test_steps(arguments[2]);
        test_sampling_as_trained(arguments[2]);
    }
    return failed_checks == 0 ? 0 : 1;
}
