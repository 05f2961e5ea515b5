// What the trainer promises. With an architecture: gate 4, splits do not matter; gate 5, results are the same to the bit from run to run
// and after a resume; and samples have the log-probs that scoring gives them. Without one: the rest of gate 4, dropout, averages, limits of
// memory, and refusals that leave the worker as it was.
// Usage: trainer_test <folder of the tiny models> [architecture]
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/durable_file.h"
#include "base/failure.h"
#include "check.h"
#include "gates.h"
#include "reference_model.h"
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

void test_same_to_the_bit(const std::string & model, int threads, const AdapterShape & shape) {
    std::vector<double> first, resumed;
    const std::string folder = scratch_folder() + "/checkpoint";
    {
        Trainer trainer;
        trainer.open(model, threads, 0);
        trainer.create_adapter("a", shape);
        for (uint64_t i = 0; i < 15; i++) {
            if (i == 5) trainer.save("a", folder);
            first.push_back(train_step(trainer, i));
        }
    }
    Trainer trainer;
    trainer.open(model, threads, 0);
    trainer.create_adapter("a", shape);
    for (uint64_t i = 0; i < 5; i++) resumed.push_back(train_step(trainer, i));
    trainer.drop_adapter("a");
    // Another seed, because everything that matters must come from the checkpoint.
    AdapterShape other = shape;
    other.seed = 77;
    trainer.create_adapter("a", other);
    CHECK(trainer.load("a", folder).step == 5, "step");
    for (uint64_t i = 5; i < 15; i++) resumed.push_back(train_step(trainer, i));
    for (size_t i = 0; i < first.size(); i++) CHECK(std::memcmp(&first[i], &resumed[i], sizeof(double)) == 0, "step %zu: %.17g and %.17g", i, first[i], resumed[i]);
    CHECK(first.back() != first.front(), "something must have been learnt");
}

/**
 * One optimizer step as 1 request of 8 rows, as 2 of 4 and as 8 of 1. Loss, norm and every tensor's gradient must agree except for the
 * order of sums; gradients to half of what gate 1 allows.
 * The parameters cannot agree as closely. In its second step Adam, lr · m / (√v + eps), changes with a gradient by at most 1.25 · lr / eps
 * (0.53 of the gradient goes into m, 0.72 into √v, and |m| ≤ √v). With a small eps, the rounding of a gradient near zero would move its
 * parameter by a share of lr. With the eps used here, each parameter may differ by that slope times the difference of its gradients.
 */
void test_splits(const std::string & model, const AdapterShape & shape) {
    const TestBatch batch = test_batch(320, {20, 9, 66, 31, 2, 14, 40, 25}, 21);
    const AdamW step{3e-4, 0.9, 0.95, 1e-3, 0.01, 0};
    constexpr double slope = 1.25 * 3e-4 / 1e-3, rounding = 0x1p-22;
    std::vector<double> norms, losses;
    std::vector<std::vector<float>> gradients, after;
    double worst = 0;
    for (size_t parts : {1, 2, 8}) {
        Trainer trainer;
        trainer.open(model, 2, 0);
        const Adapter & adapter = trainer.create_adapter("a", shape);
        train_step(trainer, 1); // so that B is no longer 0
        double loss = 0;
        for (size_t p = 0; p < parts; p++) {
            const Request request = request_of(batch, p * 8 / parts, (p + 1) * 8 / parts);
            loss += trainer.forward_backward("a", request.rows, request.weights).loss;
        }
        losses.push_back(loss);
        gradients.emplace_back(adapter.gradients.data(), adapter.gradients.data() + adapter.parameters);
        norms.push_back(trainer.optim_step("a", step).stepped.grad_norm);
        after.emplace_back(adapter.weights.data(), adapter.weights.data() + adapter.parameters);
        CHECK(std::abs(losses.back() - losses[0]) <= 1e-6 * std::abs(losses[0]), "%zu parts: %.9g and %.9g", parts, losses.back(), losses[0]);
        CHECK(std::abs(norms.back() - norms[0]) <= 1e-6 * norms[0], "%zu parts: %.9g and %.9g", parts, norms.back(), norms[0]);
        const auto compare = [&](const std::string & name, size_t start, int64_t count) {
            const double error = relative_l2(gradients.back().data() + start, gradients[0].data() + start, static_cast<size_t>(count));
            CHECK(error <= 5e-6, "%zu parts: the gradient of %s differs by %g", parts, name.c_str(), error);
            worst = std::max(worst, error);
        };
        adapter.each_site([&](const std::string & name, const Site & site) {
            compare(name + ".lora_a", site.a, shape.rank * site.columns);
            compare(name + ".lora_b", site.b, shape.rank * site.rows);
        });
        for (size_t p = 0; p < adapter.parameters; p++) {
            const auto apart = [&](const std::vector<std::vector<float>> & values) { return std::abs(static_cast<double>(values.back()[p]) - static_cast<double>(values[0][p])); };
            const double bound = slope * apart(gradients) + rounding * (std::abs(static_cast<double>(after[0][p])) + step.learning_rate);
            CHECK(apart(after) <= bound, "%zu parts: parameter %zu differs by %g, its gradient by %g", parts, p, apart(after), apart(gradients));
        }
    }
    std::printf("split or not: gradients within %.1e\n", worst);
}

/** Gate 4: ten steps, with clipping and a rate that rises and falls, against the whole step in double precision. */
void test_loss_trace(const std::string & model, const AdapterShape & shape, double clip) {
    const ReferenceModel reference(model);
    Trainer trainer;
    trainer.open(model, 2, 0);
    const Adapter & adapter = trainer.create_adapter("a", shape);
    const size_t n = adapter.parameters;
    std::vector<double> w(adapter.weights.data(), adapter.weights.data() + n), m(n), v(n);
    int clipped = 0;
    for (int64_t step = 1; step <= 10; step++) {
        TestBatch batch = test_batch(320, {20, 9, 31, 2, 14}, 50 + static_cast<uint64_t>(step));
        for (std::vector<LossCoefficients> & row : batch.coefficients)
            for (LossCoefficients & c : row) c = {0.02f * c.weight, 0.02f * c.entropy, 0.02f * c.z};
        std::vector<double> gradient(n);
        double loss = 0, squares = 0;
        int64_t origin = 0;
        for (size_t r = 0; r < batch.rows.size(); r++) {
            loss += reference.row(batch.rows[r], batch.coefficients[r], adapter, w, &gradient, origin).loss;
            origin += static_cast<int64_t>(batch.rows[r].size());
        }
        for (double g : gradient) squares += g * g;
        const double norm = std::sqrt(squares), rate = 1e-3 * std::min(static_cast<double>(step) / 4, static_cast<double>(11 - step) / 7);
        const AdamW options{rate, 0.9, 0.95, 1e-8, 0.01, clip};
        reference::adamw(options, step, norm > clip ? clip / norm : 1, static_cast<int64_t>(n), w.data(), gradient.data(), m.data(), v.data());

        const Request request = request_of(batch, 0, batch.rows.size());
        const double seen = trainer.forward_backward("a", request.rows, request.weights).loss;
        const Trainer::Step stepped = trainer.optim_step("a", options);
        CHECK(std::abs(seen - loss) <= 1e-5 * std::abs(loss), "step %lld: %.9g, in double %.9g", static_cast<long long>(step), seen, loss);
        CHECK(std::abs(stepped.stepped.grad_norm - norm) <= 1e-4 * norm, "step %lld: norm %.9g, in double %.9g", static_cast<long long>(step), stepped.stepped.grad_norm, norm);
        CHECK(stepped.stepped.clipped == (norm > clip), "step %lld: clipped", static_cast<long long>(step));
        clipped += stepped.stepped.clipped;
    }
    CHECK(clipped > 0 && clipped < 10, "%d of 10 steps clipped: both ways must be seen", clipped);
    double apart = relative_l2(adapter.weights.data(), w.data(), n);
    CHECK(apart <= 1e-4, "weights after ten steps: %g", apart);
}

/** Dropout changes only training, and on average hardly changes the loss there. */
void test_dropout(const std::string & model) {
    const Request request = request_of(test_batch(320, {20, 66, 14, 40}, 21), 0, 4);
    Trainer trainer;
    trainer.open(model, 2, 0);
    for (const char * name : {"plain", "dropped"}) {
        AdapterShape shape = test_shape;
        if (std::string(name) == "dropped") shape.dropout = 0.2;
        trainer.create_adapter(name, shape);
    }
    // The first step makes B of "plain" differ from 0. An adapter with another dropout must refuse its checkpoint.
    const std::string folder = scratch_folder();
    trainer.forward_backward("plain", request.rows, request.weights);
    trainer.optim_step("plain", test_step);
    trainer.save("plain", folder + "/plain");
    CHECK(code_of([&] { trainer.load("dropped", folder + "/plain"); }) == "checkpoint_mismatch", "another dropout");

    const double fresh = trainer.forward("dropped", request.rows, request.weights).loss;
    CHECK(std::abs(fresh - trainer.forward(std::nullopt, request.rows, request.weights).loss) < 1e-4, "B is 0: nothing to drop");
    const AdamW still{0, 0.9, 0.95, 1e-8, 0, 0}; // the step counts, but the weights stay
    const AdamW moving{0.05, 0.9, 0.95, 1e-8, 0, 0};
    trainer.forward_backward("dropped", request.rows, request.weights);
    trainer.optim_step("dropped", moving);
    const double whole = trainer.forward("dropped", request.rows, request.weights).loss;
    CHECK(trainer.forward("dropped", request.rows, request.weights).loss == whole, "asking drops nothing");
    double sum = 0, squares = 0;
    constexpr int steps = 60;
    for (int i = 0; i < steps; i++) {
        const double loss = trainer.forward_backward("dropped", request.rows, request.weights).loss;
        trainer.optim_step("dropped", still);
        sum += loss - whole;
        squares += (loss - whole) * (loss - whole);
    }
    // The loss is not linear in what is dropped, so its mean lies near the loss without dropout, not at it.
    const double mean = sum / steps, deviation = std::sqrt(squares / steps - mean * mean);
    CHECK(deviation > 1e-3, "every step must drop others: %g", deviation);
    CHECK(std::abs(mean) < 0.05 * std::abs(whole), "%g from %g", mean, whole);
}

void test_head(const std::string & folder) {
    Trainer tied;
    tied.open(folder + "/tiny-f32.gguf", 1, 0);
    AdapterShape shape = test_shape;
    shape.targets = {output_head};
    CHECK(code_of([&] { tied.create_adapter("a", shape); }) == "tied_head", "a tied head");
    Trainer trainer;
    trainer.open(folder + "/tiny-f32-untied.gguf", 2, 0);
    const Adapter & adapter = trainer.create_adapter("a", shape);
    CHECK(adapter.parameters == static_cast<size_t>(4 * (96 + 320)), "%zu", adapter.parameters);
    Request request = request_of(test_batch(320, {20, 66, 14, 40}, 21), 0, 4);
    for (float & weight : request.weights.weights) weight = weight == 0 ? 0.0f : 0.02f;
    request.weights.entropy_weights.clear();
    request.weights.z_weights.clear();
    const double before = trainer.forward("a", request.rows, request.weights).loss;
    for (int i = 0; i < 30; i++) {
        trainer.forward_backward("a", request.rows, request.weights);
        trainer.optim_step("a", test_step);
    }
    const double after = trainer.forward("a", request.rows, request.weights).loss;
    CHECK(after < 0.8 * before, "%g to %g", before, after);
}

/** Compares the parameters of an adapter, rank × Σ (inputs + outputs), with published tables of two models. */
void test_parameter_counts() {
    const auto per_rank = [](const ModelShape & m, const std::vector<Target> & targets) {
        AdapterShape shape{1, 32, 0, targets};
        return Adapter::bytes(m, shape) / static_cast<int64_t>(4 * sizeof(float));
    };
    const std::vector<Target> attention = {attn_q, attn_k, attn_v, attn_output}, feed = {ffn_gate, ffn_up, ffn_down}, head = {output_head};
    ModelShape llama{}, qwen{};
    llama.layers = 32, llama.embedding = 4096, llama.heads = 32, llama.kv_heads = 8, llama.head_values = 128, llama.feed_forward = 14336, llama.vocabulary = 128256;
    qwen.layers = 36, qwen.embedding = 2560, qwen.heads = 32, qwen.kv_heads = 8, qwen.head_values = 128, qwen.feed_forward = 9728, qwen.vocabulary = 151936;
    CHECK(per_rank(llama, feed) == 1769472 && per_rank(llama, attention) == 851968 && per_rank(llama, head) == 132352, "Llama-3.1-8B");
    CHECK(per_rank(qwen, feed) == 1327104 && per_rank(qwen, attention) == 737280 && per_rank(qwen, head) == 154496, "Qwen3-4B");
}

/** Two adapters over one base with interleaved calls: each gives the same bits as alone. */
void test_interleaved(const std::string & model) {
    const auto losses_of = [&](bool with_a, bool with_b) {
        Trainer trainer;
        trainer.open(model, 2, 0);
        AdapterShape b = test_shape;
        b.rank = 7;
        b.targets = {attn_v, ffn_up};
        b.dropout = 0.1;
        if (with_a) trainer.create_adapter("a", test_shape);
        if (with_b) trainer.create_adapter("b", b);
        std::vector<double> a_losses, b_losses;
        for (uint64_t i = 0; i < 4; i++) {
            const Request request = request_of(test_batch(320, {20, 9, 66}, 30 + i), 0, 3);
            if (with_a) a_losses.push_back(trainer.forward_backward("a", request.rows, request.weights).loss);
            if (with_b) b_losses.push_back(trainer.forward_backward("b", request.rows, request.weights).loss);
            if (with_a && with_b) trainer.forward(std::nullopt, request.rows, request.weights);
            if (with_a) trainer.optim_step("a", test_step);
            if (with_b) trainer.optim_step("b", test_step);
        }
        return std::pair{a_losses, b_losses};
    };
    const auto both = losses_of(true, true);
    CHECK(both.first == losses_of(true, false).first && both.second == losses_of(false, true).second, "another adapter must change nothing");
    CHECK(both.first != both.second, "the two adapters must differ");
}

std::vector<float> saved_weights(Trainer & trainer, const std::string & name) {
    const std::string folder = scratch_folder() + "/" + name;
    trainer.save(name, folder);
    const std::vector<uint8_t> bytes = read_whole_file(folder + "/adapter.f32", 1 << 30);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

/** The values are computed by hand. For a trained adapter, the average is compared with that of the checkpoints' values. */
void test_average(const std::string & model) {
    Trainer trainer;
    const ModelShape & shape = trainer.open(model, 2, 0);
    Pool pool(2);
    Adapter moved(shape, test_shape), from(shape, test_shape);
    const size_t last = moved.parameters - 1;
    moved.weights[0] = 1, from.weights[0] = 3;          // a value of A
    moved.weights[last] = -0.5f, from.weights[last] = 1; // a value of B
    moved.average(pool, from, 0.9);
    CHECK(std::abs(moved.weights[0] - 1.2f) < 1e-6f && std::abs(moved.weights[last] + 0.35f) < 1e-6f, "%g and %g", static_cast<double>(moved.weights[0]), static_cast<double>(moved.weights[last]));
    from.weights[0] = 0;
    moved.average(pool, from, 0.9);
    CHECK(std::abs(moved.weights[0] - 1.08f) < 1e-6f && std::abs(moved.weights[last] + 0.215f) < 1e-6f, "%g and %g", static_cast<double>(moved.weights[0]), static_cast<double>(moved.weights[last]));
    moved.average(pool, from, 0.25);
    CHECK(std::abs(moved.weights[0] - 0.27f) < 1e-6f && std::abs(moved.weights[last] - 0.69625f) < 1e-6f, "%g and %g", static_cast<double>(moved.weights[0]), static_cast<double>(moved.weights[last]));
    CHECK(from.weights[0] == 0 && moved.version == 3 && moved.step == 0, "from stays");
    moved.average(pool, from, 1);
    CHECK(std::abs(moved.weights[0] - 0.27f) < 1e-6f, "1 changes nothing");
    moved.average(pool, from, 0);
    CHECK(std::equal(from.weights.data(), from.weights.data() + from.parameters, moved.weights.data()), "0 copies");

    trainer.create_adapter("a", test_shape);
    trainer.create_adapter("ema", test_shape);
    std::vector<std::vector<float>> seen;
    for (uint64_t i = 0; i < 3; i++) {
        train_step(trainer, 70 + i);
        trainer.average_adapter("ema", "a", 0.75);
        seen.push_back(saved_weights(trainer, "a"));
    }
    Trainer fresh;
    fresh.open(model, 2, 0);
    fresh.create_adapter("ema", test_shape);
    const std::vector<float> first = saved_weights(fresh, "ema"), average = saved_weights(trainer, "ema");
    double worst = 0;
    for (size_t i = 0; i < average.size(); i++) {
        const auto at = [&](const std::vector<float> & values) { return static_cast<double>(values[i]); };
        // 0.75³ times the first, plus 0.75², 0.75 and 1 times a quarter of the three.
        const double expected = 0.421875 * at(first) + 0.140625 * at(seen[0]) + 0.1875 * at(seen[1]) + 0.25 * at(seen[2]);
        worst = std::max(worst, std::abs(expected - at(average)));
    }
    CHECK(worst < 1e-6, "the average is %g from what the checkpoints say", worst);

    const Request request = request_of(test_batch(320, {20, 9}, 5), 0, 2);
    const double own = trainer.forward("a", request.rows, request.weights).loss;
    CHECK(trainer.forward("ema", request.rows, request.weights).loss != own, "the two adapters must differ");
    CHECK(trainer.average_adapter("ema", "a", 0).version == 4, "versions count averages");
    CHECK(trainer.forward("ema", request.rows, request.weights).loss == own, "a copy must give the same loss");

    const auto refused = [&](const AdapterShape & other) {
        trainer.create_adapter("other", other);
        const std::string code = code_of([&] { trainer.average_adapter("ema", "other", 0.5); });
        trainer.drop_adapter("other");
        return code == "bad_request";
    };
    AdapterShape rank = test_shape, alpha = test_shape, targets = test_shape;
    rank.rank = 5;
    alpha.alpha = 4;
    targets.targets.pop_back();
    CHECK(refused(rank) && refused(alpha) && refused(targets), "another shape");
    CHECK(code_of([&] { trainer.average_adapter("ema", "none", 0.5); }) == "unknown_adapter", "no such adapter");
    CHECK(trainer.forward("ema", request.rows, request.weights).loss == own, "refusals change nothing");
}

/** A limit that forces several passes may change only the speed. */
void test_memory(const std::string & model) {
    const Request request = request_of(test_batch(320, std::vector<int64_t>(40, 30), 4), 0, 40);
    std::vector<double> losses;
    constexpr int64_t small = int64_t{16} << 20;
    CHECK(Transformer::pass_bytes(GgufModel(model).shape, &test_shape, 2, limits::cpu_pass_tokens, 29, Keep::activations) > small, "the limit must force smaller passes");
    for (int64_t limit : {int64_t{0}, small}) {
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
    bad.weights.soft_targets[7] = -2;
    CHECK(code_of([&] { trainer.forward_backward("a", bad.rows, bad.weights); }) == "token_out_of_range", "soft target below the rest");
    bad.weights.soft_targets[6] = bad.weights.soft_targets[7] = rest_of_vocabulary;
    CHECK(code_of([&] { trainer.forward_backward("a", bad.rows, bad.weights); }) == "bad_request", "the rest of the vocabulary twice");
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
    try {
        trainer.forward_backward("a", bad.rows, bad.weights);
        trainer.optim_step("a", test_step);
        CHECK(false, "an overflowing gradient must be refused");
    } catch (const Failure & failure) {
        CHECK(failure.code == "non_finite" && std::string(failure.what()).find("the gradient of blk.0.attn_q.weight.lora_") == 0, "%s: %s", failure.code.c_str(), failure.what());
    }
    CHECK(trainer.forward("a", fine.rows, fine.weights).loss == before, "refusals must change nothing");
    CHECK(trainer.optim_step("a", test_step).stepped.grad_norm == 0, "refused gradients are cleared");
    trainer.forward_backward("a", fine.rows, fine.weights);
    CHECK(code_of([&] { trainer.save("a", scratch_folder() + "/x"); }) == "bad_request", "pending gradients");
}

/** The folder has one model for each reason to refuse it. */
void test_unsupported(const std::string & folder) {
    size_t seen = 0;
    for (const auto & entry : std::filesystem::directory_iterator(folder)) {
        const std::string name = entry.path().filename();
        if (name.rfind("refused-", 0) != 0) continue;
        const std::string code = code_of([&] { Trainer().open(entry.path().string(), 1, 0); });
        CHECK(code == "unsupported_architecture", "%s: %s", name.c_str(), code.c_str());
        seen++;
    }
    CHECK(seen >= 19, "%zu models to refuse", seen);
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
    const std::string manifest = folder + "/good/manifest.json";
    const std::vector<uint8_t> content = read_whole_file(manifest, 1 << 20);
    const std::string text(content.begin(), content.end()), step = "\"step\": 1";
    CHECK(text.find(step) != std::string::npos, "the manifest has the step");
    for (const char * beyond : {"18446744073709551615", "9223372036854775807", "-1", "1.5"}) {
        std::string changed = text;
        changed.replace(changed.find(step), step.size(), std::string("\"step\": ") + beyond);
        std::ofstream(manifest, std::ios::binary) << changed;
        CHECK(code_of([&] { trainer.load("a", folder + "/good"); }) == "checkpoint_mismatch", "step %s", beyond);
    }
    std::ofstream(manifest, std::ios::binary) << text;
    CHECK(code_of([&] { trainer.load("a", folder + "/good"); }) == "no failure", "whole again");
    trainer.export_gguf("a", folder + "/a.gguf", {{"run", "r"}});
    CHECK(code_of([&] { trainer.export_gguf("a", folder + "/a.gguf", {}); }) == "io_error", "never over another");
}

/** About sixty cuts and 300 flipped bytes of a model file: each is refused or opened, and none crashes. */
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
    // A key without a name makes an assertion of the library's reader fail. The first key starts after magic, version and two counts.
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
    const std::vector<Sampled> drawn = trainer.sample("a", 1, prompts.rows, other).rows;
    CHECK(!std::equal(once.begin(), once.end(), drawn.begin(), [](const Sampled & x, const Sampled & y) { return x.tokens == y.tokens; }), "another seed draws otherwise");
    CHECK(code_of([&] { trainer.sample("a", 0, prompts.rows, options); }) == "stale_version", "old version");
    CHECK(code_of([&] { trainer.sample(std::nullopt, 0, prompts.rows, options); }) == "bad_request", "the base has no version");
}

/**
 * A draw must report the top tokens that forward reports for the same place, whatever the draw leaves out. A sample without reports must
 * draw the same tokens.
 */
void test_reported_tops(const std::string & model) {
    Trainer trainer;
    trainer.open(model, 2, 0);
    trainer.create_adapter("a", test_shape);
    train_step(trainer, 3);
    Rows prompts = request_of(test_batch(320, {5, 1, 70, 12}, 8), 0, 4).rows;
    const std::vector<int32_t> shared(prompts.tokens.begin() + 6, prompts.tokens.begin() + 76); // the long prompt again, which is computed once
    prompts.tokens.insert(prompts.tokens.end(), shared.begin(), shared.end());
    prompts.lengths.push_back(70);
    size_t clear = 0, places = 0;
    for (const std::optional<std::string> & adapter : {std::optional<std::string>("a"), std::optional<std::string>()})
        for (const DrawOptions & filter : {DrawOptions{1, 0, 1, 0}, DrawOptions{0.6, 3, 0.8, 0.1}, DrawOptions{0, 0, 1, 0}}) {
            constexpr size_t k = 6;
            SampleOptions options{20, filter, 5, {2, 7, 9}};
            const std::vector<Sampled> silent = trainer.sample(adapter, std::nullopt, prompts, options).rows;
            options.report_top = k;
            const std::vector<Sampled> told = trainer.sample(adapter, std::nullopt, prompts, options).rows;
            Rows full;
            LossWeights weights;
            auto prompt = prompts.tokens.begin();
            for (size_t r = 0; r < told.size(); r++) {
                CHECK(told[r].tokens == silent[r].tokens && told[r].logprobs == silent[r].logprobs, "row %zu must not depend on what is reported", r);
                CHECK(silent[r].top_tokens.empty() && silent[r].top_logprobs.empty(), "row %zu reports top tokens that were not requested", r);
                CHECK(told[r].top_tokens.size() == k * told[r].tokens.size() && told[r].top_logprobs.size() == k * told[r].tokens.size(), "row %zu reports %zu top tokens", r, told[r].top_tokens.size());
                const auto length = static_cast<size_t>(prompts.lengths[r]);
                full.tokens.insert(full.tokens.end(), prompt, prompt + prompts.lengths[r]);
                prompt += prompts.lengths[r];
                full.tokens.insert(full.tokens.end(), told[r].tokens.begin(), told[r].tokens.end());
                full.lengths.push_back(static_cast<int32_t>(length + told[r].tokens.size()));
                weights.weights.resize(full.tokens.size() - told[r].tokens.size(), 0);
                weights.weights.resize(full.tokens.size(), 1);
            }
            // One more than the sample reports, to see whether the last reported one is clearly apart from the next.
            const Trainer::Losses expected = trainer.forward(adapter, full, weights, k + 1);
            size_t token = 0;
            for (size_t r = 0; r < told.size(); r++) {
                token += static_cast<size_t>(prompts.lengths[r]);
                for (size_t i = 0; i < told[r].tokens.size(); i++, token++) {
                    const float *seen = told[r].top_logprobs.data() + i * k, *logprobs = expected.top_logprobs.data() + token * (k + 1);
                    for (size_t j = 0; j < k; j++) {
                        CHECK(std::abs(seen[j] - logprobs[j]) <= 1e-4f, "row %zu draw %zu place %zu: %g and %g", r, i, j, static_cast<double>(seen[j]), static_cast<double>(logprobs[j]));
                        const bool apart = (j == 0 || logprobs[j - 1] - logprobs[j] > 2e-4f) && logprobs[j] - logprobs[j + 1] > 2e-4f;
                        if (apart) CHECK(told[r].top_tokens[i * k + j] == expected.top_tokens[token * (k + 1) + j], "row %zu draw %zu place %zu: another token", r, i, j);
                        clear += apart;
                        places++;
                    }
                    if (filter.temperature == 0) CHECK(told[r].top_tokens[i * k] == told[r].tokens[i] && seen[0] == told[r].logprobs[i], "row %zu draw %zu: greedy draws the likeliest", r, i);
                }
            }
        }
    CHECK(clear * 10 > places * 9, "only %zu of %zu places are clear", clear, places);

    SampleOptions all{3, {1, 0, 1, 0}, 5, {}, 320};
    const Sampled whole = trainer.sample("a", std::nullopt, prompts, all).rows[2];
    for (size_t i = 0; i < whole.tokens.size(); i++) {
        double sum = 0;
        for (size_t j = i * 320; j < (i + 1) * 320; j++) {
            CHECK(j == i * 320 || whole.top_logprobs[j] <= whole.top_logprobs[j - 1], "draw %zu: in falling order", i);
            sum += std::exp(static_cast<double>(whole.top_logprobs[j]));
        }
        CHECK(std::abs(sum - 1) < 1e-5, "draw %zu: the whole vocabulary sums to %g", i, sum);
    }
    all.report_top = 321;
    CHECK(code_of([&] { trainer.sample("a", std::nullopt, prompts, all); }) == "bad_request", "more top tokens than there are");
}

} // namespace

int main(int, char ** arguments) {
    const std::string folder = arguments[1];
    AdapterShape dropping = test_shape, with_head = test_shape;
    dropping.dropout = 0.3;
    with_head.targets.push_back(output_head);
    with_head.dropout = 0.1;
    if (arguments[2]) {
        const auto model = [&](const char * kind) { return tiny_model(folder, arguments[2], kind); };
        for (int threads : {1, 2}) test_same_to_the_bit(model("q4_1"), threads, test_shape);
        test_same_to_the_bit(model("q4_1"), 2, dropping);
        test_same_to_the_bit(model("f32-untied"), 2, with_head);
        for (const AdapterShape & shape : {test_shape, dropping}) test_splits(model("q4_1"), shape);
        test_splits(model("f32-untied"), with_head);
        for (const char * kind : {"f32", "f32-untied", "q4_1", "q4_k", "bf16"}) test_sampling(model(kind));
        for (const char * kind : {"f32-untied", "q4_1"}) test_reported_tops(model(kind));
        std::printf("%s gate 4, gate 5, sample == score\n", arguments[2]);
    } else {
        const std::string quantised = tiny_model(folder, "llama", "q4_1");
        test_loss_trace(quantised, test_shape, 2);
        test_loss_trace(quantised, dropping, 2.2);
        test_loss_trace(tiny_model(folder, "llama", "f32-untied"), with_head, 2.8);
        test_dropout(quantised);
        test_head(folder);
        test_parameter_counts();
        test_interleaved(quantised);
        test_average(quantised);
        test_memory(quantised);
        test_refusals(folder, quantised);
        test_unsupported(folder);
        test_damaged_checkpoints(quantised);
        test_damaged_models(quantised);
    }
    return failed_checks == 0 ? 0 : 1;
}
