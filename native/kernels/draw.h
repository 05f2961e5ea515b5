// Draws one token from a row of logits: applies the temperature, then top-k, top-p and min-p, and draws with a given random number.
#pragma once
#include <cstdint>
#include <vector>

struct DrawOptions {
    double temperature; // 0 = the most likely token, the lowest id among equals
    int64_t top_k;      // 0 = off
    double top_p;       // 1 = off
    double min_p;       // 0 = off; relative to the most likely token
};

namespace reference {

/** Probability of every token after top-k, top-p and min-p, found by sorting everything. */
std::vector<double> draw_distribution(const float * logits, int64_t vocabulary, const DrawOptions & options);

} // namespace reference

/** uniform lies in [0, 1). Candidates are taken in order of id, so that equal distributions give equal tokens. */
int32_t draw(const float * logits, int64_t vocabulary, const DrawOptions & options, double uniform);
