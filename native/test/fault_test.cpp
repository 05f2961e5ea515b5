// Gate 1 on a worker with a planted fault: a gate that cannot fail proves nothing. Built with PLUMBLINE_FAULTS.
// Usage: fault_test <folder of the tiny models>
#include <algorithm>

#include "check.h"
#include "gates.h"
#include "kernels/fault.h"

Fault planted_fault = Fault::none;

int main(int, char ** arguments) {
    const std::string path = std::string(arguments[1]) + "/tiny-f32.gguf";
    const std::vector<Target> all = {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down};
    const auto parity = [&](Fault fault) {
        planted_fault = fault;
        return parity_with_reference(path, all, 2, true);
    };
    const Parity sound = parity(Fault::none);
    CHECK(sound.logprobs <= 1e-5 && sound.gradients <= 1e-5, "%g %g", sound.logprobs, sound.gradients);

    const Parity keyless = parity(Fault::zero_key_gradient);
    CHECK(keyless.gradients > 1e-5, "gradients without dK pass: %g", keyless.gradients);
    CHECK(keyless.worst.find("attn_k") != std::string::npos, "the worst should be attn_k: %s", keyless.worst.c_str());
    CHECK(keyless.logprobs <= 1e-5, "dK has no part in the forward pass: %g", keyless.logprobs);

    const Parity seer = parity(Fault::see_the_future);
    CHECK(seer.logprobs > 1e-5, "log-probs without the mask pass: %g", seer.logprobs);

    // Two rows with a beginning in common, then each its own way.
    TestBatch siblings = test_batch(320, {60, 60}, 12);
    std::copy(siblings.rows[0].begin(), siblings.rows[0].begin() + 30, siblings.rows[1].begin());
    planted_fault = Fault::none;
    const Parity apart = shared_parity(path, siblings, 2, 1000);
    CHECK(apart.logprobs <= 1e-5 && apart.gradients <= 1e-5, "%g %g", apart.logprobs, apart.gradients);
    planted_fault = Fault::see_a_sibling;
    const Parity leaking = shared_parity(path, siblings, 2, 1000);
    CHECK(leaking.logprobs > 1e-5 && leaking.gradients > 1e-5, "a sibling leaking into another passes: %g %g", leaking.logprobs, leaking.gradients);

    const Parity loud = parity(Fault::scale_alpha_twice);
    CHECK(loud.logprobs > 1e-5, "alpha scaled twice passes: %g", loud.logprobs);
    std::printf("zero dK %.1e, no mask %.1e, alpha twice %.1e\n", keyless.gradients, seer.logprobs, loud.logprobs);
    return failed_checks == 0 ? 0 : 1;
}
