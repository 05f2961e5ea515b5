// Gates 1 and 2: the worker against double precision, and double precision against central differences.
// Usage: gradient_test <folder of the tiny models>
#include "check.h"
#include "gates.h"

namespace {

const std::vector<Target> all_targets = {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down};

const std::vector<Target> with_head = {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down, output_head};

void gate_1(const std::string & path, const std::vector<Target> & targets, int threads, bool packed, double dropout = 0) {
    const Parity p = parity_with_reference(path, targets, threads, packed, dropout);
    std::printf("%s threads %d %s: logprobs %.1e entropies %.1e gradients %.1e (%s)\n", path.c_str(), threads, packed ? "packed" : "unpacked", p.logprobs, p.entropies,
                p.gradients, p.worst.c_str());
    CHECK(p.logprobs <= 1e-5, "%g", p.logprobs);
    CHECK(p.entropies <= 1e-5, "%g", p.entropies);
    CHECK(p.log_sums <= 1e-5, "%g", p.log_sums);
    CHECK(p.gradients <= 1e-5, "%g at %s", p.gradients, p.worst.c_str());
}

} // namespace

int main(int, char ** arguments) {
    const std::string folder = arguments[1];
    for (const char * name : {"tiny-f32", "tiny-f32-untied", "tiny-q4_1", "tiny-q4_k", "tiny-bf16"}) gate_1(folder + "/" + name + ".gguf", all_targets, 2, true);
    for (int threads : {1, 3}) gate_1(folder + "/tiny-f32.gguf", all_targets, threads, true);
    gate_1(folder + "/tiny-f32-untied.gguf", all_targets, 2, false);
    for (const std::vector<Target> & targets : std::vector<std::vector<Target>>{{attn_q, attn_v}, {attn_k}, {attn_output}, {ffn_down}, {ffn_up}, {attn_v, ffn_gate}})
        gate_1(folder + "/tiny-f32.gguf", targets, 2, true);
    for (const bool packed : {true, false}) gate_1(folder + "/tiny-f32-untied.gguf", with_head, 2, packed, 0.3);
    for (const char * name : {"tiny-f32-untied", "tiny-q4_k"}) gate_1(folder + "/" + name + ".gguf", with_head, 2, true);
    gate_1(folder + "/tiny-f32-untied.gguf", {output_head}, 2, true, 0.1);
    gate_1(folder + "/tiny-f32.gguf", all_targets, 3, true, 0.5);
    for (const double dropout : {0.0, 0.3}) {
        const double error = worst_directional_error(folder + "/tiny-f32-untied.gguf", with_head, dropout);
        std::printf("tiny-f32-untied with its head, dropout %g: worst directional error %.1e\n", dropout, error);
        CHECK(error <= 1e-6, "%g", error);
    }
    for (const char * name : {"tiny-f32", "tiny-f32-untied"}) {
        const double error = worst_directional_error(folder + "/" + name + ".gguf", all_targets);
        std::printf("%s: worst directional error %.1e\n", name, error);
        CHECK(error <= 1e-6, "%g in %s", error, name);
    }
    return failed_checks == 0 ? 0 : 1;
}
