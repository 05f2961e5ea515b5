// Gate 7 of one architecture: gate 1 must fail on a worker with a planted fault, because a gate that cannot fail proves nothing. Built with
// PLUMBLINE_FAULTS. Usage: fault_test <folder of the tiny models> <architecture>
#include <algorithm>

#include "check.h"
#include "gates.h"
#include "kernels/fault.h"


int main(int, char ** arguments) {
    const std::string architecture = arguments[2];
    const std::vector<Target> all = {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down};
    const auto parity = [&](const char * kind, Fault fault) {
        planted_fault = fault;
        return parity_with_reference(tiny_model(arguments[1], architecture, kind), all, 2, true);
    };
    for (const char * kind : {"f32", "f32-untied"}) {
        const std::string what = architecture + " " + kind;
        const Parity sound = parity(kind, Fault::none);
        CHECK(sound.logprobs <= 1e-5 && sound.gradients <= 1e-5, "%s: %g %g", what.c_str(), sound.logprobs, sound.gradients);

        const Parity keyless = parity(kind, Fault::zero_key_gradient);
        CHECK(keyless.gradients > 1e-5, "%s: gradients without dK pass: %g", what.c_str(), keyless.gradients);
        CHECK(keyless.worst.find("attn_k") != std::string::npos, "%s: the worst should be attn_k: %s", what.c_str(), keyless.worst.c_str());
        CHECK(keyless.logprobs <= 1e-5, "%s: dK has no part in the forward pass: %g", what.c_str(), keyless.logprobs);

        const Parity seer = parity(kind, Fault::see_the_future);
        CHECK(seer.logprobs > 1e-5, "%s: log-probs without the mask pass: %g", what.c_str(), seer.logprobs);

        // Two rows that share a beginning and then differ.
        TestBatch siblings = test_batch(320, {60, 60}, 12);
        std::copy(siblings.rows[0].begin(), siblings.rows[0].begin() + 30, siblings.rows[1].begin());
        planted_fault = Fault::none;
        const Parity apart = shared_parity(tiny_model(arguments[1], architecture, kind), siblings, 2, 1000);
        CHECK(apart.logprobs <= 1e-5 && apart.gradients <= 1e-5, "%s: %g %g", what.c_str(), apart.logprobs, apart.gradients);
        planted_fault = Fault::see_a_sibling;
        const Parity leaking = shared_parity(tiny_model(arguments[1], architecture, kind), siblings, 2, 1000);
        CHECK(leaking.logprobs > 1e-5 && leaking.gradients > 1e-5, "%s: a sibling leaking into another passes: %g %g", what.c_str(), leaking.logprobs, leaking.gradients);

        const Parity loud = parity(kind, Fault::scale_alpha_twice);
        CHECK(loud.logprobs > 1e-5, "%s: alpha scaled twice passes: %g", what.c_str(), loud.logprobs);
        std::printf("%s gate 7: zero dK %.1e, no mask %.1e, a sibling seen %.1e, alpha twice %.1e", what.c_str(), keyless.gradients, seer.logprobs, leaking.logprobs, loud.logprobs);

        // A fault can only show in an architecture that has what it breaks. In the others it must change nothing.
        const bool head_norms = architecture == "qwen3" || architecture == "gemma3", windows = architecture == "gemma3";
        const Parity skipped = parity(kind, Fault::skip_head_norm_backward);
        CHECK((skipped.gradients > 1e-5) == head_norms, "%s: gradients without the backward pass of q's and k's norm: %g", what.c_str(), skipped.gradients);
        const Parity far = parity(kind, Fault::ignore_window);
        CHECK((far.logprobs > 1e-5) == windows, "%s: log-probs without the window: %g", what.c_str(), far.logprobs);
        if (head_norms) std::printf(", no backward of head norms %.1e", skipped.gradients);
        if (windows) std::printf(", no window %.1e", far.logprobs);
        std::printf("\n");
    }
    return failed_checks == 0 ? 0 : 1;
}
