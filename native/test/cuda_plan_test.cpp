// Tests what the host computes before it asks a GPU for anything: where a pass lies in memory, how much memory that is, and which device is
// chosen. Usage: cuda_plan_test <folder of the tiny models>
#include <algorithm>
#include <set>

#include "base/limits.h"
#include "base/random.h"
#include "check.h"
#include "cuda/cuda_backend.h"
#include "cuda/driver.h"
#include "cuda/plan.h"
#include "devices.h"
#include "kernels/bf16_gemm.h"

namespace {

/** The most bytes that are alive at the same time. No plan can be smaller. */
int64_t most_alive(const std::vector<Need> & needs) {
    int64_t most = 0;
    for (Phase phase : {Phase::forward, Phase::head, Phase::backward}) {
        int64_t alive = 0;
        for (const Need & need : needs)
            if (need.first <= phase && phase <= need.last) alive += need.bytes;
        most = std::max(most, alive);
    }
    return most;
}

void test_placing() {
    for (uint64_t seed = 0; seed < 200; seed++) {
        std::vector<Need> needs;
        const auto draw = [&](int64_t below) { return static_cast<int64_t>(random_uniform(random_key(seed, needs.size()), static_cast<uint64_t>(below)) * static_cast<double>(below)); };
        for (int i = 0; i < 40; i++) {
            const int64_t first = draw(3), last = first + draw(3 - static_cast<int64_t>(first) + 1) % (3 - first);
            needs.push_back({draw(i % 3 == 0 ? 1000000 : 3000), static_cast<Phase>(first), static_cast<Phase>(last)});
        }
        const int64_t total = place(needs);
        for (size_t i = 0; i < needs.size(); i++) {
            CHECK(needs[i].offset % device_alignment == 0 && needs[i].offset >= 0 && needs[i].offset + needs[i].bytes <= total, "need %zu at %lld", i, static_cast<long long>(needs[i].offset));
            for (size_t j = 0; j < i; j++) {
                const bool together = needs[i].first <= needs[j].last && needs[j].first <= needs[i].last;
                const bool apart = needs[i].offset + needs[i].bytes <= needs[j].offset || needs[j].offset + needs[j].bytes <= needs[i].offset;
                CHECK(!together || apart, "seed %llu: needs %zu and %zu overlap", static_cast<unsigned long long>(seed), i, j);
            }
        }
        CHECK(static_cast<double>(total) <= 1.25 * static_cast<double>(most_alive(needs)) + 40.0 * device_alignment, "seed %llu: %lld for %lld", static_cast<unsigned long long>(seed),
              static_cast<long long>(total), static_cast<long long>(most_alive(needs)));
    }
}

ModelShape shape_of(int64_t layers, int64_t embedding, int64_t heads, int64_t kv_heads, int64_t head_values, int64_t feed_forward, int64_t vocabulary) {
    ModelShape m{};
    m.layers = layers;
    m.embedding = embedding;
    m.heads = heads;
    m.kv_heads = kv_heads;
    m.head_values = head_values;
    m.feed_forward = feed_forward;
    m.vocabulary = vocabulary;
    return m;
}

/** Bytes per token in bf16, as the shapes alone give them: stream, qkv, attention, stream, gate and up of every layer. */
void test_bytes() {
    const AdapterShape adapter{16, 32, 0, {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down}};
    struct Known {
        const char * name;
        ModelShape shape;
        double kept_megabytes; // per token: the models' published sizes times what is kept
    };
    const Known models[] = {{"SmolLM2-135M", shape_of(30, 576, 9, 3, 64, 1536, 49152), 0.35},
                            {"Llama-3.2-1B", shape_of(16, 2048, 32, 8, 64, 8192, 128256), 0.82},
                            {"Llama-3-8B", shape_of(32, 4096, 32, 8, 128, 14336, 128256), 3.01}};
    for (const Known & m : models) {
        const int64_t small = device_pass_bytes(m.shape, &adapter, 4096, Keep::activations, Number::bf16), large = device_pass_bytes(m.shape, &adapter, 8192, Keep::activations, Number::bf16);
        const double per_token = static_cast<double>(large - small) / 4096 / 1e6;
        std::printf("%s: %.2f MB a token, %.0f MB for 8192\n", m.name, per_token, static_cast<double>(large) / 1e6);
        CHECK(per_token >= m.kept_megabytes * 0.99 && per_token <= m.kept_megabytes * 1.25, "%s: %g", m.name, per_token);
        CHECK(device_pass_bytes(m.shape, &adapter, 8192, Keep::nothing, Number::bf16) < large / 3, "%s without a backward pass", m.name);
        const double twice = static_cast<double>(device_pass_bytes(m.shape, &adapter, 8192, Keep::activations, Number::f32)) / static_cast<double>(large);
        CHECK(twice > 1.7 && twice < 2.0, "%s in single precision: %g times", m.name, twice);
    }
    // Sizes are rounded up, so that passes of similar sizes share a plan and what was recorded for it.
    CHECK(PassSize::of(1000, 20, 700, 0, Keep::activations).tokens == PassSize::of(1010, 20, 701, 0, Keep::activations).tokens, "tokens");
    CHECK(PassSize::of(1024, 1, 1, 0, Keep::activations).tokens == 1024, "a full pass is not padded");
    std::set<int64_t> tokens, asks;
    for (int64_t count = 129; count <= 16384; count++) {
        const PassSize size = PassSize::of(count, 1, count, 0, Keep::activations);
        tokens.insert(size.tokens);
        asks.insert(size.asks);
        const auto padded = [&](int64_t to, double most) { return to >= count && static_cast<double>(to - count) < std::max(128.0, most * static_cast<double>(count)); };
        CHECK(padded(size.tokens, 1.0 / 32) && padded(size.asks, 1.0 / 16), "%lld: %lld tokens, %lld asks", static_cast<long long>(count), static_cast<long long>(size.tokens), static_cast<long long>(size.asks));
    }
    CHECK(tokens.size() <= 100 && asks.size() <= 90, "%zu sizes of tokens, %zu of asks", tokens.size(), asks.size());
}

/** Padding begins at position 0 and must end within the ropes' tables, also those of a model with a short context. */
void test_padding() {
    ModelShape m{};
    m.context = 128;
    for (int64_t tokens = 1; tokens <= limits::gpu_pass_tokens; tokens++) {
        const int64_t padding = PassSize::of(tokens, 1, 1, 0, Keep::nothing).tokens - tokens;
        CHECK(padding <= device_rope_positions(m), "%lld tokens are padded by %lld", static_cast<long long>(tokens), static_cast<long long>(padding));
    }
    // A pass has more tokens only if one row does, and then the context is as long.
    for (m.context = limits::gpu_pass_tokens + 1; m.context <= limits::max_row_tokens; m.context++) {
        const int64_t padding = PassSize::of(m.context, 1, 1, 0, Keep::nothing).tokens - m.context;
        CHECK(padding <= device_rope_positions(m), "a row of %lld tokens is padded by %lld", static_cast<long long>(m.context), static_cast<long long>(padding));
    }
}

/** The bytes by which a batch is cut are enough for any pass of that size, with many short rows and with many soft targets. */
void test_pass_bytes() {
    const ModelShape m = shape_of(2, 576, 9, 3, 64, 1536, 49152);
    const AdapterShape adapter{16, 32, 0, {attn_q}};
    for (int64_t tokens : {1, 16, 300, 4096})
        for (int64_t softs : {0, 1, 64})
            for (int64_t rows : {int64_t{1}, tokens}) {
                const int64_t taken = plan_pass(m, &adapter, PassSize::of(tokens, rows, tokens, tokens * softs, Keep::activations), Number::bf16).total;
                const int64_t foretold = device_pass_bytes(m, &adapter, tokens, Keep::activations, Number::bf16, softs);
                CHECK(taken <= foretold, "%lld rows of %lld tokens with %lld soft targets: %lld, estimated %lld", static_cast<long long>(rows), static_cast<long long>(tokens),
                      static_cast<long long>(softs), static_cast<long long>(taken), static_cast<long long>(foretold));
            }
}

/** Types that kernels cannot read are kept in the precision of the passes. Sizes are rounded up to the alignment of device memory. */
void test_matrices() {
    CHECK(device_matrix_bytes({nullptr, GGML_TYPE_Q4_K, 10, 256}, Number::bf16) == 1536, "ten rows of 144 bytes, rounded up");
    CHECK(device_matrix_bytes({nullptr, GGML_TYPE_IQ4_NL, 10, 256}, Number::bf16) == 10 * 256 * 2, "in bf16");
    CHECK(device_matrix_bytes({nullptr, GGML_TYPE_IQ4_NL, 10, 256}, Number::f32) == 10 * 256 * 4, "in single precision");
}

/** Without a driver, kernels or cuBLASLt there is a reason instead of a crash, and the choice of a device reports it. */
void test_choice(const std::string & model) {
    const std::string why = why_no_gpu();
    std::printf("GPU: %s\n", why.empty() ? "usable" : why.c_str());
    CHECK(!why.empty() || !ask_gpu_driver().devices.empty(), "a GPU that the driver does not know");
    const auto opening = [&](const DeviceOptions & options) { return code_of([&] { open_device(model, 1, 0, options); }); };
    CHECK(opening({DeviceChoice::cuda, {}}) == (why.empty() ? "no failure" : "device_unavailable"), "cuda");
    CHECK(opening({DeviceChoice::cpu, Number::bf16}) == (bf16::supported() ? "no failure" : "bad_request"), "bf16 on the CPU");
    CHECK(opening({DeviceChoice::cpu, Number::f32}) == "no failure", "fp32 on the CPU");
    const OpenedDevice opened = open_device(model, 1, 0, {DeviceChoice::automatic, {}});
    CHECK(opened.backend->device() == (why.empty() ? "cuda" : "cpu"), "%s", opened.backend->device().c_str());
    CHECK(why.empty() || opened.reason == why, "%s", opened.reason.c_str());
}

} // namespace

int main(int, char ** arguments) {
    test_placing();
    test_bytes();
    test_padding();
    test_pass_bytes();
    test_matrices();
    test_choice(std::string(arguments[1]) + "/tiny-f32.gguf");
    CHECK(cuda_version_text(13000) == "13.0" && cuda_version_text(12080) == "12.8", "versions");
    return failed_checks == 0 ? 0 : 1;
}
