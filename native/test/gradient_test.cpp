// Gates 1 and 2: the worker against double precision, and double precision against central differences.
// Usage: gradient_test <folder of the tiny models>
#include "check.h"
#include "gates.h"

namespace {

const std::vector<Target> all_targets = {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down};

void gate_1(const std::string & path, const std::vector<Target> & targets, int threads, bool packed) {
    const Parity p = parity_with_reference(path, targets, threads, packed);
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
    for (const char * name : {"tiny-f32", "tiny-f32-untied"}) {
        const double error = worst_directional_error(folder + "/" + name + ".gguf", all_targets);
        std::printf("%s: worst directional error %.1e\n", name, error);
        CHECK(error <= 1e-6, "%g in %s", error, name);
    }
    return failed_checks == 0 ? 0 : 1;
}
