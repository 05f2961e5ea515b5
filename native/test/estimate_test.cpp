// Tests the estimates of training's cost: arithmetic against published figures, bytes against what a real run takes.
// Usage: estimate_test <folder of the tiny models>
#include "estimate.h"

#include <sys/resource.h> // getrusage
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "check.h"
#include "model/random_model.h"
#include "model/transformer.h"
#include "trainer.h"

namespace {

const std::vector<Target> all_targets = {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down};

ModelShape shape_of(const char * architecture, int64_t layers, int64_t embedding, int64_t heads, int64_t kv_heads, int64_t head_values, int64_t feed_forward, int64_t vocabulary, bool tied) {
    ModelShape m = plain_shape(architecture, embedding, heads, head_values);
    m.layers = layers;
    m.kv_heads = kv_heads;
    m.feed_forward = feed_forward;
    m.vocabulary = vocabulary;
    m.context = 8192;
    m.tied = tied;
    return m;
}

const ModelShape smollm2 = shape_of("llama", 30, 576, 9, 3, 64, 1536, 49152, true);

/** Rank 16 on all matrices, rows of 2048 tokens. The figures were computed by hand from the models' published configurations. */
void test_flops() {
    struct Known {
        const char * name;
        ModelShape shape;
        double gigaflops;
    };
    const Known known[] = {
        {"SmolLM2-135M", smollm2, 0.780},
        {"SmolLM2-360M", shape_of("llama", 32, 960, 15, 5, 64, 2560, 49152, true), 1.88},
        {"Qwen2.5-0.5B", shape_of("qwen2", 24, 896, 14, 2, 64, 4864, 151936, true), 2.29},
        {"Qwen3-0.6B", shape_of("qwen3", 28, 1024, 16, 8, 128, 3072, 151936, true), 3.15},
        {"Llama-3.2-1B", shape_of("llama", 16, 2048, 32, 8, 64, 8192, 128256, true), 5.41},
        {"Llama-3.2-3B", shape_of("llama", 28, 3072, 24, 8, 128, 8192, 128256, true), 14.1},
        {"Qwen2.5-7B", shape_of("qwen2", 28, 3584, 28, 4, 128, 18944, 152064, false), 29.8},
        {"Llama-3-8B", shape_of("llama", 32, 4096, 32, 8, 128, 14336, 128256, false), 31.9},
        {"Qwen2.5-14B", shape_of("qwen2", 48, 5120, 40, 8, 128, 13824, 152064, false), 59.4},
        {"Llama-3-70B", shape_of("llama", 80, 8192, 64, 8, 128, 28672, 128256, false), 287},
    };
    for (const Known & k : known) {
        const double computed = training_flops_per_token(k.shape, AdapterShape{16, 16, 0, all_targets}, 2048) / 1e9;
        CHECK(std::abs(computed / k.gigaflops - 1) < 0.005, "%s: %.4g gigaflops a token, not %.4g", k.name, computed, k.gigaflops);
    }
}

/** A quantised 8B model: 4.5 bits per weight in Q4_K. */
void test_weights() {
    const ModelShape m = shape_of("llama", 32, 4096, 32, 8, 128, 14336, 128256, false);
    const double parameters = 8.03e9;
    CHECK(std::abs(static_cast<double>(stored_bytes(m, GGML_TYPE_Q4_K)) / (parameters * 4.5 / 8) - 1) < 0.002, "%lld bytes", static_cast<long long>(stored_bytes(m, GGML_TYPE_Q4_K)));
    CHECK(stored_type("q4_k") == GGML_TYPE_Q4_K && !stored_type("q9").has_value(), "types by name");
    CHECK(std::abs(static_cast<double>(stored_bytes(m, GGML_TYPE_F16)) / (parameters * 2) - 1) < 0.002, "%lld bytes", static_cast<long long>(stored_bytes(m, GGML_TYPE_F16)));
    // 576 columns are no multiple of 256, so these rows become Q5_0, at 5.5 bits.
    CHECK(stored_bytes(smollm2, GGML_TYPE_Q4_K) > stored_bytes(smollm2, GGML_TYPE_Q4_1), "%lld bytes", static_cast<long long>(stored_bytes(smollm2, GGML_TYPE_Q4_K)));
}

/**
 * On a GPU in bf16, with rank 16 on all matrices and every token trained on. The expected bytes were counted by hand:
 * - weights: 4.5 bits each, norms, and a rope table of 8192 positions;
 * - adapter: 18 bytes per parameter, and one part of the norm per 16384 parameters (rounded up to 256 bytes);
 * - kept per token in each layer: two streams, q, k, v, attention, gate, up, the seven u's; in f32 two norms and a log-sum per head;
 * - beside that in the head: stream, its gradient and the copy of that, norm and product; the head's weights, asked rows and their
 *   gradient, logits and their gradient.
 * The pass may differ by inputs and sums of a few bytes per token.
 */
void test_gpu() {
    struct Known {
        const char * name;
        ModelShape shape;
        int64_t tokens, weights, adapter, kept_a_token, head;
    };
    const Known known[] = {
        {"Llama-3-8B", shape_of("llama", 32, 4096, 32, 8, 128, 14336, 128256, false), 4096, int64_t{8029995008} * 9 / 16 + 65 * 4096 * 4 + 8192 * 128 * 4, 41943040 * 18 + 2560 * 4,
         32 * ((2 * 4096 + 6144 + 4096 + 28672 + 7 * 16) * 2 + (2 + 32) * 4),
         int64_t{4096} * (4096 * (4 + 2 + 4 + 2) + 14336 * 2) + int64_t{128256} * 4096 * 2 + int64_t{4096} * 4096 * (2 + 4) + int64_t{512} * 128256 * (4 + 2)},
        {"Llama-3.2-1B", shape_of("llama", 16, 2048, 32, 8, 64, 8192, 128256, true), 4096, int64_t{1235746816} * 9 / 16 + 33 * 2048 * 4 + 8192 * 64 * 4, 11272192 * 18 + 11 * 256,
         16 * ((2 * 2048 + 3072 + 2048 + 16384 + 7 * 16) * 2 + (2 + 32) * 4),
         int64_t{4096} * (2048 * (4 + 2 + 4 + 2) + 8192 * 2) + int64_t{128256} * 2048 * 2 + int64_t{4096} * 2048 * (2 + 4) + int64_t{512} * 128256 * (4 + 2)},
    };
    const AdapterShape adapter{16, 32, 0, all_targets};
    for (const Known & k : known) {
        const Estimate e = estimate_gpu(GgufModel({k.shape, GGML_TYPE_Q4_K}, MadeUp::outlined), {adapter, k.tokens, k.tokens, 1}, Number::bf16);
        CHECK(e.weight_bytes == k.weights, "%s: weights %lld, not %lld", k.name, static_cast<long long>(e.weight_bytes), static_cast<long long>(k.weights));
        CHECK(e.adapter_bytes == k.adapter, "%s: adapter %lld, not %lld", k.name, static_cast<long long>(e.adapter_bytes), static_cast<long long>(k.adapter));
        const int64_t pass = k.tokens * k.kept_a_token + k.head;
        const double ratio = static_cast<double>(e.pass_bytes) / static_cast<double>(pass);
        std::printf("%s on a GPU: %.2f GB, of them weights %.2f, adapter %.2f, pass %.2f (counted %.2f)\n", k.name, static_cast<double>(e.total_bytes()) / 1e9,
                    static_cast<double>(e.weight_bytes) / 1e9, static_cast<double>(e.adapter_bytes) / 1e9, static_cast<double>(e.pass_bytes) / 1e9, static_cast<double>(pass) / 1e9);
        CHECK(ratio >= 1 && ratio < 1.01, "%s: pass %lld, not %lld", k.name, static_cast<long long>(e.pass_bytes), static_cast<long long>(pass));
        CHECK(e.total_bytes() == e.weight_bytes + e.adapter_bytes + e.pass_bytes + (int64_t{288} << 20), "%s: in all", k.name);
    }
}

/** One real step of a made-up model: the most memory that the process took so far, and the arithmetic that its ops counted. */
void test_peak(int64_t first_layer) {
    ModelShape m = smollm2;
    m.layers = 6; // takes a sixth of the time; all else is that of a small model
    constexpr int threads = 2;
    const AdapterShape adapter{32, 32, 1, all_targets, 0, first_layer};
    Trainer trainer;
    const ModelShape opened = trainer.open({m, GGML_TYPE_Q4_1}, threads, 0);
    trainer.create_adapter("a", adapter);
    constexpr int64_t length = 128, rows = 3;
    Rows batch;
    LossWeights weights;
    for (int64_t i = 0; i < rows * length; i++) {
        batch.tokens.push_back(static_cast<int32_t>((i * 7919) % m.vocabulary));
        weights.weights.push_back(i % length == 0 ? 0.0f : 0.01f);
    }
    batch.lengths.assign(rows, static_cast<int32_t>(length));
    trainer.forward_backward("a", batch, weights);
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto peak = static_cast<double>(usage.ru_maxrss) * 1024;
    const Estimate estimate = estimate_cpu(opened, {adapter, rows * (length - 1), length, threads});
    std::printf("from layer %lld: estimated %.1f MB, took %.1f MB\n", static_cast<long long>(first_layer), static_cast<double>(estimate.total_bytes()) / 1e6, peak / 1e6);
#ifndef __SANITIZE_ADDRESS__ // the sanitizer takes memory of its own
    CHECK(std::abs(static_cast<double>(estimate.total_bytes()) / peak - 1) < 0.1, "estimated %lld bytes, took %.0f", static_cast<long long>(estimate.total_bytes()), peak);
#endif

    // The formula counts products below the first layer's matrices that need no gradient, and attention to exactly half of each row.
    double flops = 0, seconds = 0;
    for (const Profile::Figures & op : trainer.profile()) {
        flops += op.flops;
        seconds += op.seconds;
    }
    const double expected = training_flops_per_token(opened, adapter, length) * static_cast<double>(rows * (length - 1));
    CHECK(flops < expected && flops > 0.95 * expected, "%.4g flops counted, %.4g by the formula", flops, expected);
    CHECK(seconds > 0, "%g s", seconds);
}

struct Sequences {
    Rows rows;
    LossWeights weights;
};
Sequences sequences(int64_t rows, int64_t length, int64_t vocabulary) {
    Sequences made;
    for (int64_t i = 0; i < rows * length; i++) {
        made.rows.tokens.push_back(static_cast<int32_t>((i * i + i * 7919) % vocabulary));
        made.weights.weights.push_back(i % length == 0 ? 0.0f : 0.01f);
    }
    made.rows.lengths.assign(static_cast<size_t>(rows), static_cast<int32_t>(length));
    return made;
}

/** What a training pass left must give way to the keys and values of prompts, and to a further adapter. The limit is what training takes. */
void test_peak_after_training(bool sampling) {
    ModelShape m = smollm2;
    m.layers = 6;
    m.vocabulary = 4096;
    constexpr int threads = 2;
    constexpr int64_t length = 1024;
    AdapterShape adapter{32, 32, 1, all_targets};
    const ModelShape opened = GgufModel({m, GGML_TYPE_Q4_1}, MadeUp::outlined).shape;
    const Estimate estimate = estimate_cpu(opened, {adapter, length, length, threads});
    const int64_t limit = estimate.total_bytes(), room = (estimate.pass_bytes - Transformer::pass_bytes(opened, &adapter, threads, length, length, Keep::nothing)) * 8 / 10;
    Trainer trainer;
    trainer.open({m, GGML_TYPE_Q4_1}, threads, limit, {DeviceChoice::cpu, Number::f32});
    trainer.create_adapter("a", adapter);
    const Sequences training = sequences(1, length, m.vocabulary);
    trainer.forward_backward("a", training.rows, training.weights);
    if (sampling) {
        const int64_t place = 2 * m.layers * m.kv_heads * m.head_values * static_cast<int64_t>(sizeof(float)), prompt = length - 2;
        trainer.sample(std::string("a"), {}, sequences(room / place / length, prompt, m.vocabulary).rows, {1, {1, 0, 1, 0}, 0, {}});
    } else {
        adapter.rank = adapter.rank * room / estimate.adapter_bytes;
        trainer.create_adapter("b", adapter);
    }
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const int64_t peak = int64_t{usage.ru_maxrss} * 1024;
    std::printf("%s after training: %.1f MB allowed, took %.1f MB\n", sampling ? "sampling" : "an adapter", static_cast<double>(limit) / 1e6, static_cast<double>(peak) / 1e6);
#ifndef __SANITIZE_ADDRESS__ // the sanitizer takes memory of its own
    CHECK(static_cast<double>(peak) <= 1.1 * static_cast<double>(limit), "%lld bytes allowed, took %lld", static_cast<long long>(limit), static_cast<long long>(peak));
#endif
}

/** Runs a test in a process of its own, because the peak is that of the whole process so far. */
template <class F> void apart(const F & test) {
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
        test();
        std::fflush(stdout);
        ::_exit(failed_checks == 0 ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0, "status %d", status);
}

} // namespace

int main() {
    for (bool sampling : {true, false}) apart([&] { test_peak_after_training(sampling); });
    // These run first, and the step that takes less before the other, because the peak is that of the whole process.
    test_peak(3);
    test_peak(0);
    test_flops();
    test_weights();
    test_gpu();
    return failed_checks == 0 ? 0 : 1;
}
