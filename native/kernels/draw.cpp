#include "kernels/draw.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/exp.h"
#include "kernels/token_loss.h"

namespace {

struct Candidate {
    int32_t token;
    double weight; // exp((logit − most) / temperature), which is 1 for the most likely token
};

bool likelier(const Candidate & a, const Candidate & b) { return a.weight != b.weight ? a.weight > b.weight : a.token < b.token; }

/** Returns 0 when a NaN hides the maximum. */
int32_t most_likely(const float * logits, int64_t vocabulary) {
    float most = logits[0];
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < vocabulary; i++) most = logits[i] > most ? logits[i] : most;
    const float * found = std::find(logits, logits + vocabulary, most);
    return found == logits + vocabulary ? 0 : static_cast<int32_t>(found - logits);
}

/** Draws from the whole distribution. The weights are summed block by block; only those of the block that is drawn are computed again. */
int32_t draw_of_all(const float * logits, int64_t vocabulary, int32_t best, double temperature, double uniform) {
    const float most = logits[best], sharper = static_cast<float>(1 / temperature);
    std::vector<double> blocks;
    double total = 0;
    for (int64_t block = 0; block < vocabulary; block += softmax_block) {
        const int64_t end = std::min(vocabulary, block + softmax_block);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = block; i < end; i++) sum += fast_exp((logits[i] - most) * sharper);
        blocks.push_back(static_cast<double>(sum));
        total += blocks.back();
    }
    if (!std::isfinite(total)) return best; // the caller sees the NaN in the log-prob
    double left = uniform * total;
    size_t block = 0;
    while (block + 1 < blocks.size() && left >= blocks[block]) left -= blocks[block++];
    const int64_t begin = static_cast<int64_t>(block) * softmax_block, end = std::min(vocabulary, begin + softmax_block);
    for (int64_t i = begin; i < end; i++)
        if ((left -= static_cast<double>(fast_exp((logits[i] - most) * sharper))) < 0) return static_cast<int32_t>(i);
    // The block's sum was rounded up, by less than any likely token weighs, so the likeliest token is taken.
    return static_cast<int32_t>(std::max_element(logits + begin, logits + end) - logits);
}

/** Keeps the likeliest candidates until they hold top_p of the weight. Sorts only as many as that takes. */
void keep_top_p(std::vector<Candidate> & candidates, double top_p) {
    double total = 0;
    for (const Candidate & c : candidates) total += c.weight;
    double held = 0;
    size_t sorted = 0;
    for (size_t i = 0; i < candidates.size(); i++) {
        if (i == sorted) {
            sorted = std::min(candidates.size(), sorted == 0 ? size_t{64} : sorted * 8);
            std::partial_sort(candidates.begin() + static_cast<std::ptrdiff_t>(i), candidates.begin() + static_cast<std::ptrdiff_t>(sorted), candidates.end(), likelier);
        }
        held += candidates[i].weight;
        if (held >= top_p * total) return candidates.resize(i + 1);
    }
}

} // namespace

std::vector<double> reference::draw_distribution(const float * logits, int64_t vocabulary, const DrawOptions & o) {
    std::vector<Candidate> all;
    const double most = static_cast<double>(*std::max_element(logits, logits + vocabulary));
    for (int64_t i = 0; i < vocabulary; i++) all.push_back({static_cast<int32_t>(i), std::exp((static_cast<double>(logits[i]) - most) / o.temperature)});
    std::sort(all.begin(), all.end(), likelier);
    if (o.top_k > 0 && o.top_k < vocabulary) all.resize(static_cast<size_t>(o.top_k));
    double total = 0, held = 0;
    for (const Candidate & c : all) total += c.weight;
    size_t kept = 0;
    while (kept < all.size() && held < o.top_p * total) held += all[kept++].weight;
    all.resize(std::max<size_t>(kept, 1));
    std::vector<double> p(static_cast<size_t>(vocabulary));
    total = 0;
    for (const Candidate & c : all)
        if (c.weight >= o.min_p) total += c.weight;
    for (const Candidate & c : all)
        if (c.weight >= o.min_p) p[static_cast<size_t>(c.token)] = c.weight / total;
    return p;
}

int32_t draw(const float * logits, int64_t vocabulary, const DrawOptions & o, double uniform) {
    const int32_t best = most_likely(logits, vocabulary);
    if (o.temperature == 0) return best;
    if (o.top_k == 0 && o.top_p >= 1 && o.min_p == 0) return draw_of_all(logits, vocabulary, best, o.temperature, uniform);
    const double most = static_cast<double>(logits[best]);
    std::vector<Candidate> candidates;
    // A token with e^-50 of the likeliest one's weight cannot be drawn with 53 random bits, and does not change a sum of doubles.
    const double least = most - 50 * o.temperature;
    for (int64_t i = 0; i < vocabulary; i++)
        if (static_cast<double>(logits[i]) >= least) candidates.push_back({static_cast<int32_t>(i), std::exp((static_cast<double>(logits[i]) - most) / o.temperature)});
    if (candidates.empty()) return best; // a NaN is among the logits; the caller sees it in the log-prob
    bool in_order = true; // the candidates are in order of id until some are left out by weight
    if (o.top_k > 0 && o.top_k < static_cast<int64_t>(candidates.size())) {
        in_order = false;
        std::nth_element(candidates.begin(), candidates.begin() + o.top_k, candidates.end(), likelier);
        candidates.resize(static_cast<size_t>(o.top_k));
    }
    if (o.top_p < 1) {
        in_order = false;
        keep_top_p(candidates, o.top_p);
    }
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(), [&](const Candidate & c) { return c.weight < o.min_p; }), candidates.end());
    if (!in_order) std::sort(candidates.begin(), candidates.end(), [](const Candidate & a, const Candidate & b) { return a.token < b.token; });
    double total = 0;
    for (const Candidate & c : candidates) total += c.weight;
    double left = uniform * total;
    for (const Candidate & c : candidates)
        if ((left -= c.weight) < 0) return c.token;
    return candidates.back().token;
}
