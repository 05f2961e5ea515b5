// Gates 1 and 2 of one architecture: the worker against double precision, and double precision against central differences.
// Usage: gradient_test <folder of the tiny models> <architecture>
#include "check.h"
#include "gates.h"

namespace {

const std::vector<Target> all_targets = {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down};

const std::vector<Target> with_head = {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down, output_head};

struct Case {
    std::string folder, architecture;

    void gate_1(const char * kind, const std::vector<Target> & targets, int threads, bool packed, double dropout = 0, int64_t first_layer = 0) const {
        const Parity p = parity_with_reference(tiny_model(folder, architecture, kind), targets, threads, packed, dropout, first_layer);
        std::printf("%s %s gate 1, %zu targets, %d threads, %s, dropout %g, from layer %lld: logprobs %.1e entropies %.1e gradients %.1e (%s)\n", architecture.c_str(), kind, targets.size(), threads,
                    packed ? "packed" : "unpacked", dropout, static_cast<long long>(first_layer), p.logprobs, p.entropies, p.gradients, p.worst.c_str());
        CHECK(p.logprobs <= 1e-5, "%g in %s %s", p.logprobs, architecture.c_str(), kind);
        CHECK(p.entropies <= 1e-5, "%g in %s %s", p.entropies, architecture.c_str(), kind);
        CHECK(p.log_sums <= 1e-5, "%g in %s %s", p.log_sums, architecture.c_str(), kind);
        CHECK(p.gradients <= 1e-5, "%g at %s in %s %s", p.gradients, p.worst.c_str(), architecture.c_str(), kind);
    }

    void gate_2(const char * kind, const std::vector<Target> & targets, double dropout = 0) const {
        const double error = worst_directional_error(tiny_model(folder, architecture, kind), targets, dropout);
        std::printf("%s %s gate 2, %zu targets, dropout %g: worst directional error %.1e\n", architecture.c_str(), kind, targets.size(), dropout, error);
        CHECK(error <= 1e-6, "%g in %s %s", error, architecture.c_str(), kind);
    }
};

} // namespace

int main(int, char ** arguments) {
    const Case test{arguments[1], arguments[2]};
    for (const char * kind : {"f32", "f32-untied", "q4_1", "q4_k", "bf16"}) test.gate_1(kind, all_targets, 2, true);
    for (int threads : {1, 3}) test.gate_1("f32", all_targets, threads, true);
    test.gate_1("f32-untied", all_targets, 2, false);
    for (const std::vector<Target> & targets : std::vector<std::vector<Target>>{{attn_q, attn_v}, {attn_k}, {attn_output}, {ffn_down}, {ffn_up}, {attn_v, ffn_gate}})
        test.gate_1("f32", targets, 2, true);
    for (const bool packed : {true, false}) test.gate_1("f32-untied", with_head, 2, packed, 0.3);
    for (const char * kind : {"f32-untied", "q4_k"}) test.gate_1(kind, with_head, 2, true);
    test.gate_1("f32-untied", {output_head}, 2, true, 0.1);
    test.gate_1("f32", all_targets, 3, true, 0.5);
    for (const std::vector<Target> & targets : {all_targets, {attn_output}, {ffn_down}}) test.gate_1("f32", targets, 2, true, 0, 1);
    test.gate_1("f32-untied", with_head, 2, true, 0.3, 1);
#ifndef __SANITIZE_ADDRESS__ // gate 2 runs only the reference, so it has none of the worker's code to check, and it takes minutes
    for (const double dropout : {0.0, 0.3}) test.gate_2("f32-untied", with_head, dropout);
    for (const char * kind : {"f32", "f32-untied"}) test.gate_2(kind, all_targets);
#endif
    return failed_checks == 0 ? 0 : 1;
}
