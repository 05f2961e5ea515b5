// One row of logits [vocabulary] against its target: log-prob, entropy, and the gradient of −weight · log-prob in place.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/exp.h"

struct TokenLoss {
    double logprob; // nats
    double entropy; // nats
};

namespace reference {

template <class T> TokenLoss cross_entropy(T * logits, int64_t vocabulary, int64_t target, T weight) {
    T most = logits[0], sum = 0, weighted = 0;
    for (int64_t i = 1; i < vocabulary; i++) most = std::max(most, logits[i]);
    for (int64_t i = 0; i < vocabulary; i++) sum += std::exp(logits[i] - most);
    for (int64_t i = 0; i < vocabulary; i++) weighted += std::exp(logits[i] - most) / sum * (logits[i] - most);
    const TokenLoss result{static_cast<double>(logits[target] - most - std::log(sum)), static_cast<double>(std::log(sum) - weighted)};
    for (int64_t i = 0; i < vocabulary; i++) logits[i] = weight * (std::exp(logits[i] - most) / sum - (i == target ? 1 : 0));
    return result;
}

} // namespace reference

/** Sums in float within blocks and in double across them: a vocabulary is too long for one float sum. */
constexpr int64_t softmax_block = 1024;

struct SoftmaxSums {
    float most;      // largest logit
    double sum;      // Σ exp(l − most)
    double weighted; // Σ exp(l − most) · (l − most)
};

/** Leaves exp(l − most) in logits when store is set. A NaN among the logits makes sum NaN. */
template <bool store> inline SoftmaxSums softmax_sums(float * logits, int64_t vocabulary) {
    float most = logits[0];
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < vocabulary; i++) most = logits[i] > most ? logits[i] : most;
    SoftmaxSums result{most, 0, 0};
    for (int64_t block = 0; block < vocabulary; block += softmax_block) {
        const int64_t end = std::min(vocabulary, block + softmax_block);
        float sum = 0, weighted = 0;
#pragma omp simd reduction(+ : sum, weighted)
        for (int64_t i = block; i < end; i++) {
            const float below = logits[i] - most;
            const float e = fast_exp(below);
            sum += e;
            weighted += e * below;
            if (store) logits[i] = e;
        }
        result.sum += static_cast<double>(sum);
        result.weighted += static_cast<double>(weighted);
    }
    return result;
}

/** Log-prob and entropy only; the logits stay as they are. */
inline TokenLoss cross_entropy(float * logits, int64_t vocabulary, int64_t target) {
    const double at = static_cast<double>(logits[target]);
    const SoftmaxSums s = softmax_sums<false>(logits, vocabulary);
    const double log_sum = std::log(s.sum);
    return {at - static_cast<double>(s.most) - log_sum, log_sum - s.weighted / s.sum};
}

/** The logits become the gradient. */
inline TokenLoss cross_entropy_backward(float * logits, int64_t vocabulary, int64_t target, float weight) {
    const double at = static_cast<double>(logits[target]);
    const SoftmaxSums s = softmax_sums<true>(logits, vocabulary);
    const double log_sum = std::log(s.sum);
    const float scale = static_cast<float>(static_cast<double>(weight) / s.sum);
#pragma omp simd
    for (int64_t i = 0; i < vocabulary; i++) logits[i] *= scale;
    logits[target] -= weight;
    return {at - static_cast<double>(s.most) - log_sum, log_sum - s.weighted / s.sum};
}
