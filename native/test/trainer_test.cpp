// Gate 5 and the trainer's promises: the same to the bit run to run and after resume, splits that do not matter, and refusals
// that leave the worker as it was. Usage: trainer_test <folder of the tiny models>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "base/durable_file.h"
#include "base/failure.h"
#include "check.h"
#include "gates.h"
#include "trainer.h"

namespace {

const AdapterShape test_shape{4, 8, 9, {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down}};
const AdamW test_step{0.01, 0.9, 0.95, 1e-8, 0.01, 1};

struct Request {
    Rows rows;
    LossWeights weights;
};

Request request_of(const TestBatch & batch, size_t first, size_t end) {
    Request request;
    for (size_t r = first; r < end; r++) {
        request.rows.tokens.insert(request.rows.tokens.end(), batch.rows[r].begin(), batch.rows[r].end());
        request.rows.lengths.push_back(static_cast<int32_t>(batch.rows[r].size()));
        for (const LossCoefficients & c : batch.coefficients[r]) {
            request.weights.weights.push_back(c.weight);
            request.weights.entropy_weights.push_back(c.entropy);
            request.weights.z_weights.push_back(c.z);
        }
    }
    return request;
}

double train_step(Trainer & trainer, uint64_t seed) {
    const Request request = request_of(test_batch(320, {20, 9, 66, 31, 2, 14, 40, 25}, seed), 0, 8);
    const double loss = trainer.forward_backward("a", request.rows, request.weights).loss;
    trainer.optim_step("a", test_step);
    return loss;
}

std::string code_of(const std::function<void()> & f) {
    try {
        f();
    } catch (const Failure & failure) {
        return failure.code;
    }
    return "no failure";
}

std::string scratch_folder() {
    char name[] = "/tmp/plumbline-test-XXXXXX";
    return mkdtemp(name);
}

void test_same_to_the_bit(const std::string & model, int threads) {
    std::vector<double> first, resumed;
    const std::string folder = scratch_folder() + "/checkpoint";
    {
        Trainer trainer;
        trainer.open(model, threads, 0);
        trainer.create_adapter("a", test_shape);
        for (uint64_t i = 0; i < 15; i++) {
            if (i == 5) trainer.save("a", folder);
            first.push_back(train_step(trainer, i));
        }
    }
    Trainer trainer;
    trainer.open(model, threads, 0);
    trainer.create_adapter("a", test_shape);
    for (uint64_t i = 0; i < 5; i++) resumed.push_back(train_step(trainer, i));
    trainer.drop_adapter("a");
    // Another seed: everything that matters must come from the checkpoint.
    AdapterShape other = test_shape;
    other.seed = 77;
    trainer.create_adapter("a", other);
    CHECK(trainer.load("a", folder).step == 5, "step");
    for (uint64_t i = 5; i < 15; i++) resumed.push_back(train_step(trainer, i));
    for (size_t i = 0; i < first.size(); i++) CHECK(std::memcmp(&first[i], &resumed[i], sizeof(double)) == 0, "step %zu: %.17g and %.17g", i, first[i], resumed[i]);
    CHECK(first.back() != first.front(), "something must have been learnt");
}

void test_splits(const std::string & model) {
    const TestBatch batch = test_batch(320, {20, 9, 66, 31, 2, 14, 40, 25}, 21);
    std::vector<double> norms, losses;
    for (size_t parts : {1, 2, 8}) {
        Trainer trainer;
        trainer.open(model, 2, 0);
        trainer.create_adapter("a", test_shape);
        train_step(trainer, 1); // B is no longer 0
        double loss = 0;
        for (size_t p = 0; p < parts; p++) {
            const Request request = request_of(batch, p * 8 / parts, (p + 1) * 8 / parts);
            loss += trainer.forward_backward("a", request.rows, request.weights).loss;
        }
        losses.push_back(loss);
        norms.push_back(trainer.optim_step("a", test_step).stepped.grad_norm);
    }
    for (size_t i = 1; i < losses.size(); i++) {
        CHECK(std::abs(losses[i] - losses[0]) <= 1e-5 * std::abs(losses[0]), "%.9g and %.9g", losses[i], losses[0]);
        CHECK(std::abs(norms[i] - norms[0]) <= 1e-5 * norms[0], "%.9g and %.9g", norms[i], norms[0]);
    }
}

/** A limit that forces several passes must change speed only. */
void test_memory(const std::string & model) {
    const Request request = request_of(test_batch(320, std::vector<int64_t>(40, 30), 4), 0, 40);
    std::vector<double> losses;
    for (int64_t limit : {int64_t{0}, int64_t{26} << 20}) {
        Trainer trainer;
        trainer.open(model, 2, limit);
        trainer.create_adapter("a", test_shape);
        losses.push_back(trainer.forward_backward("a", request.rows, request.weights).loss);
    }
    CHECK(std::abs(losses[0] - losses[1]) <= 1e-5 * std::abs(losses[0]), "%.9g and %.9g", losses[0], losses[1]);
    Trainer trainer;
    CHECK(code_of([&] { trainer.open(model, 2, 1 << 20); }) == "out_of_memory", "a limit of 1 MiB");
    trainer.open(model, 2, int64_t{10} << 20);
    AdapterShape huge = test_shape;
    huge.rank = 1024;
    CHECK(code_of([&] { trainer.create_adapter("a", huge); }) == "out_of_memory", "a huge adapter");
    trainer.create_adapter("a", test_shape);
    const Request longest = request_of(test_batch(320, {512}, 4), 0, 1);
    CHECK(code_of([&] { trainer.forward_backward("a", longest.rows, longest.weights); }) == "out_of_memory", "a long row");
}

void test_refusals(const std::string & folder, const std::string & model) {
    Trainer trainer;
    const Request fine = request_of(test_batch(320, {5, 7}, 2), 0, 2);
    CHECK(code_of([&] { trainer.forward(std::nullopt, fine.rows, fine.weights); }) == "not_open", "before open");
    CHECK(code_of([&] { trainer.open(folder + "/missing.gguf", 1, 0); }) == "io_error", "a missing file");
    CHECK(code_of([&] { trainer.open(folder + "/tiny-bias.gguf", 1, 0); }) == "unsupported_architecture", "biases");
    CHECK(code_of([&] { trainer.open(folder + "/tiny-other.gguf", 1, 0); }) == "unsupported_architecture", "another architecture");
    trainer.open(model, 2, 0);
    CHECK(code_of([&] { trainer.open(model, 1, 0); }) == "already_open", "twice");
    trainer.create_adapter("a", test_shape);
    CHECK(code_of([&] { trainer.create_adapter("a", test_shape); }) == "adapter_exists", "twice");
    CHECK(code_of([&] { trainer.drop_adapter("b"); }) == "unknown_adapter", "unknown");
    const double before = trainer.forward("a", fine.rows, fine.weights).loss;

    Request bad = fine;
    bad.rows.tokens[3] = 320;
    CHECK(code_of([&] { trainer.forward_backward("a", bad.rows, bad.weights); }) == "token_out_of_range", "token");
    bad = fine;
    bad.weights.weights[0] = 1;
    CHECK(code_of([&] { trainer.forward_backward("a", bad.rows, bad.weights); }) == "bad_request", "weight on the first token");
    bad = fine;
    bad.weights.z_weights[5] = 1;
    CHECK(code_of([&] { trainer.forward_backward("a", bad.rows, bad.weights); }) == "bad_request", "z on the first token of the second row");
    bad = fine;
    bad.weights.entropy_weights.pop_back();
    CHECK(code_of([&] { trainer.forward_backward("a", bad.rows, bad.weights); }) == "bad_request", "too few entropy weights");
    bad = fine;
    bad.weights.soft_targets.assign(24, 3);
    CHECK(code_of([&] { trainer.forward_backward("a", bad.rows, bad.weights); }) == "bad_request", "soft targets without weights");
    bad.weights.soft_weights.assign(24, 0);
    bad.weights.soft_targets[7] = 320;
    CHECK(code_of([&] { trainer.forward_backward("a", bad.rows, bad.weights); }) == "token_out_of_range", "soft target");
    CHECK(code_of([&] { trainer.forward("a", fine.rows, fine.weights, 321); }) == "bad_request", "more top tokens than there are");
    bad = fine;
    bad.weights.weights[2] = NAN;
    CHECK(code_of([&] { trainer.forward_backward("a", bad.rows, bad.weights); }) == "bad_request", "NaN weight");
    bad = fine;
    bad.rows.lengths[0]++;
    CHECK(code_of([&] { trainer.forward("a", bad.rows, bad.weights); }) == "bad_request", "lengths");
    const Request too_long = request_of(test_batch(320, {513}, 2), 0, 1);
    CHECK(code_of([&] { trainer.forward("a", too_long.rows, too_long.weights); }) == "row_too_long", "row");
    bad = fine;
    for (float & weight : bad.weights.weights)
        if (weight != 0) weight = 3e38f;
    CHECK(code_of([&] {
        trainer.forward_backward("a", bad.rows, bad.weights);
        trainer.optim_step("a", test_step);
    }) == "non_finite", "overflowing gradient");
    CHECK(trainer.forward("a", fine.rows, fine.weights).loss == before, "refusals must change nothing");
    CHECK(trainer.optim_step("a", test_step).stepped.grad_norm == 0, "refused gradients are cleared");
    trainer.forward_backward("a", fine.rows, fine.weights);
    CHECK(code_of([&] { trainer.save("a", scratch_folder() + "/x"); }) == "bad_request", "pending gradients");
}

void test_damaged_checkpoints(const std::string & model) {
    Trainer trainer;
    trainer.open(model, 1, 0);
    trainer.create_adapter("a", test_shape);
    train_step(trainer, 1);
    const std::string folder = scratch_folder();
    trainer.save("a", folder + "/good");
    CHECK(code_of([&] { trainer.save("a", folder + "/good"); }) == "io_error", "never over another");
    AdapterShape other = test_shape;
    other.rank = 5;
    trainer.create_adapter("b", other);
    CHECK(code_of([&] { trainer.load("b", folder + "/good"); }) == "checkpoint_mismatch", "another shape");
    CHECK(code_of([&] { trainer.load("a", folder + "/none"); }) == "io_error", "none");
    for (const char * file : {"adapter.f32", "first_moments.f32", "second_moments.f32"}) {
        const std::string path = folder + "/good/" + file;
        const std::vector<uint8_t> content = read_whole_file(path, 1 << 30);
        for (const bool cut : {false, true}) {
            std::vector<uint8_t> damaged = content;
            if (cut)
                damaged.pop_back();
            else
                damaged[damaged.size() / 2] ^= 1;
            std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(damaged.data()), static_cast<std::streamsize>(damaged.size()));
            CHECK(code_of([&] { trainer.load("a", folder + "/good"); }) == "checkpoint_mismatch", "%s %s", file, cut ? "cut" : "flipped");
        }
        std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(content.data()), static_cast<std::streamsize>(content.size()));
    }
    CHECK(code_of([&] { trainer.load("a", folder + "/good"); }) == "no failure", "whole again");
    trainer.export_gguf("a", folder + "/a.gguf", {{"run", "r"}});
    CHECK(code_of([&] { trainer.export_gguf("a", folder + "/a.gguf", {}); }) == "io_error", "never over another");
}

/** Every cut and many flipped bytes of a model file: refused or opened, never a crash. */
void test_damaged_models(const std::string & model) {
    const std::vector<uint8_t> content = read_whole_file(model, 1 << 30);
    const std::string path = scratch_folder() + "/damaged.gguf";
    const auto open_damaged = [&](const std::vector<uint8_t> & bytes) {
        std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        return code_of([&] { Trainer().open(path, 1, 0); });
    };
    CHECK(open_damaged(content) == "no failure", "whole");
    for (size_t keep = 0; keep < content.size(); keep += content.size() / 60 + 1)
        CHECK(open_damaged({content.begin(), content.begin() + static_cast<std::ptrdiff_t>(keep)}) == "invalid_model", "cut at %zu", keep);
    // A key without a name: the library's own reader asserts. The first key starts behind magic, version and two counts.
    std::vector<uint8_t> nameless = content;
    uint64_t name_bytes;
    std::memcpy(&name_bytes, &content[24], 8);
    std::memset(&nameless[24], 0, 8);
    nameless.erase(nameless.begin() + 32, nameless.begin() + 32 + static_cast<std::ptrdiff_t>(name_bytes));
    CHECK(open_damaged(nameless) == "invalid_model", "a key without a name");
    for (size_t at = 0; at < 12000; at += 37) {
        std::vector<uint8_t> bytes = content;
        bytes[at] ^= 0xff;
        const std::string code = open_damaged(bytes);
        CHECK(code == "no failure" || code == "invalid_model" || code == "unsupported_architecture", "byte %zu: %s", at, code.c_str());
    }
}

void test_sampling(const std::string & model) {
    Trainer trainer;
    trainer.open(model, 2, 0);
    trainer.create_adapter("a", test_shape);
    train_step(trainer, 3);
    const Request prompts = request_of(test_batch(320, {5, 1, 70, 12}, 8), 0, 4);
    const SampleOptions options{30, {1, 0, 1, 0}, 5, {2, 7, 9}};
    const std::vector<Sampled> once = trainer.sample("a", 1, prompts.rows, options).rows, again = trainer.sample("a", 1, prompts.rows, options).rows;
    Rows full;
    std::vector<int32_t> prompt_lengths;
    size_t at = 0;
    for (size_t r = 0; r < once.size(); r++) {
        CHECK(once[r].tokens == again[r].tokens && once[r].logprobs == again[r].logprobs, "row %zu must repeat", r);
        CHECK(once[r].stopped || once[r].tokens.size() == 30, "row %zu has %zu tokens", r, once[r].tokens.size());
        const auto length = static_cast<size_t>(prompts.rows.lengths[r]);
        full.tokens.insert(full.tokens.end(), prompts.rows.tokens.begin() + static_cast<std::ptrdiff_t>(at), prompts.rows.tokens.begin() + static_cast<std::ptrdiff_t>(at + length));
        full.tokens.insert(full.tokens.end(), once[r].tokens.begin(), once[r].tokens.end());
        full.lengths.push_back(static_cast<int32_t>(length + once[r].tokens.size()));
        prompt_lengths.push_back(static_cast<int32_t>(length));
        at += length;
    }
    const std::vector<float> scores = trainer.score("a", full, prompt_lengths).logprobs;
    size_t token = 0;
    for (size_t r = 0; r < once.size(); r++) {
        token += static_cast<size_t>(prompt_lengths[r]);
        for (float logprob : once[r].logprobs) {
            CHECK(std::abs(scores[token] - logprob) <= 1e-4f, "row %zu: %g and %g", r, static_cast<double>(scores[token]), static_cast<double>(logprob));
            token++;
        }
    }
    SampleOptions other = options;
    other.seed = 6;
    CHECK(trainer.sample("a", 1, prompts.rows, other).rows[2].tokens != once[2].tokens, "another seed draws otherwise");
    CHECK(code_of([&] { trainer.sample("a", 0, prompts.rows, options); }) == "stale_version", "old version");
    CHECK(code_of([&] { trainer.sample(std::nullopt, 0, prompts.rows, options); }) == "bad_request", "the base has no version");
}

} // namespace

int main(int, char ** arguments) {
    const std::string folder = arguments[1], quantised = folder + "/tiny-q4_1.gguf";
    for (int threads : {1, 2}) test_same_to_the_bit(quantised, threads);
    test_splits(quantised);
    test_memory(quantised);
    test_refusals(folder, quantised);
    test_damaged_checkpoints(quantised);
    test_damaged_models(quantised);
    test_sampling(quantised);
    return failed_checks == 0 ? 0 : 1;
}
