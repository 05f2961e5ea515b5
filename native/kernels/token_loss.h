// One row of logits z [vocabulary] and its part of the loss. Every objective consists of such rows:
//   L = −weight · log p(target) − Σ weightₖ · log p(targetₖ) − entropy · H + z · lse²,   p = softmax(z), lse = log Σ exp(z)
//   dL/dzᵢ = pᵢ · (W + entropy · (log pᵢ + H) + 2 z · lse) − Σ over targets of weight · [i = target],   W = Σ of all weights
// A soft target may be the rest of the vocabulary: all tokens that the row's other soft targets do not name, taken as one token of
// probability r = 1 − Σ p(named). Its weight counts in W. Each token of the rest gets the part pᵢ / r of the weight, as if it were a target
// with that weight.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/exp.h"

/** When all are 0, the row is not part of the loss. */
struct LossCoefficients {
    float weight = 0;  // coefficient of −log p(target)
    float entropy = 0; // of −H, the entropy bonus
    float z = 0;       // of lse²
};

/** The soft target that stands for the rest of the vocabulary. With it, no token may be named twice; a token of weight 0 is not named. */
constexpr int32_t rest_of_vocabulary = -1;

/** Further targets of the same row, such as a teacher's top tokens in distillation. */
struct SoftTargets {
    const int32_t * tokens = nullptr; // [count]; rest_of_vocabulary at most once
    const float * weights = nullptr;  // [count]
    int64_t count = 0;
};

/** Lower limit for the probability of the rest. When the named tokens have nearly all of it, single precision cannot tell a smaller rest. */
constexpr double least_rest = 1e-7;

/** Adds the log-prob of the rest to those of the other soft targets, from which it is computed. */
inline void complete_rest(const SoftTargets & soft, std::vector<double> & logprobs) {
    double left = 1;
    int64_t rest = -1;
    for (int64_t k = 0; k < soft.count; k++) {
        if (soft.tokens[k] == rest_of_vocabulary) rest = k;
        else if (soft.weights[k] != 0) left -= std::exp(logprobs[static_cast<size_t>(k)]);
    }
    if (rest >= 0) logprobs[static_cast<size_t>(rest)] = std::log(std::max(left, least_rest));
}

/** Weight of the rest divided by its probability: each token of the rest gets this times its own probability. */
inline double weight_of_rest(const SoftTargets & soft, const std::vector<double> & logprobs) {
    double weight = 0;
    for (int64_t k = 0; k < soft.count; k++)
        if (soft.tokens[k] == rest_of_vocabulary) weight = static_cast<double>(soft.weights[k]) / std::exp(logprobs[static_cast<size_t>(k)]);
    return weight;
}

struct TopToken {
    int32_t token;
    float logprob;
};

/** In nats. */
struct TokenLoss {
    double logprob = 0; // of the target
    double entropy = 0;
    double log_sum = 0; // lse
    std::vector<double> soft_logprobs; // of the soft targets, if there are any
    std::vector<TopToken> top;         // if requested: most likely first, the lower id among equals

    /** The row's part of the loss. */
    double loss(const LossCoefficients & c, const SoftTargets & soft) const {
        double loss = 0;
        // A coefficient of 0 must not turn an infinity into NaN.
        if (c.weight != 0) loss -= static_cast<double>(c.weight) * logprob;
        if (c.entropy != 0) loss -= static_cast<double>(c.entropy) * entropy;
        if (c.z != 0) loss += static_cast<double>(c.z) * log_sum * log_sum;
        for (int64_t k = 0; k < soft.count; k++)
            if (soft.weights[k] != 0) loss -= static_cast<double>(soft.weights[k]) * soft_logprobs[static_cast<size_t>(k)];
        return loss;
    }
};

namespace reference {

/** Replaces the logits by the gradient. T is wider than float. */
template <class T> TokenLoss token_loss(T * z, int64_t vocabulary, int64_t target, const LossCoefficients & c, const SoftTargets & soft = {}) {
    T most = z[0], sum = 0, entropy = 0, weight = static_cast<T>(c.weight);
    for (int64_t i = 1; i < vocabulary; i++) most = std::max(most, z[i]);
    for (int64_t i = 0; i < vocabulary; i++) sum += std::exp(z[i] - most);
    const T lse = most + std::log(sum);
    for (int64_t i = 0; i < vocabulary; i++) entropy -= std::exp(z[i] - lse) * (z[i] - lse);
    TokenLoss result;
    result.logprob = static_cast<double>(z[target] - lse);
    result.entropy = static_cast<double>(entropy);
    result.log_sum = static_cast<double>(lse);
    for (int64_t k = 0; k < soft.count; k++) {
        result.soft_logprobs.push_back(soft.tokens[k] == rest_of_vocabulary ? 0 : static_cast<double>(z[soft.tokens[k]] - lse));
        weight += static_cast<T>(soft.weights[k]);
    }
    complete_rest(soft, result.soft_logprobs);
    const auto of_rest = static_cast<T>(weight_of_rest(soft, result.soft_logprobs));
    weight -= of_rest;
    for (int64_t i = 0; i < vocabulary; i++) {
        const T logp = z[i] - lse, p = std::exp(logp);
        z[i] = p * (weight + static_cast<T>(c.entropy) * (logp + entropy) + 2 * static_cast<T>(c.z) * lse);
    }
    z[target] -= static_cast<T>(c.weight);
    for (int64_t k = 0; k < soft.count; k++)
        if (soft.tokens[k] != rest_of_vocabulary && soft.weights[k] != 0)
            z[soft.tokens[k]] += of_rest * std::exp(static_cast<T>(result.soft_logprobs[static_cast<size_t>(k)])) - static_cast<T>(soft.weights[k]);
    return result;
}

} // namespace reference

/** Sums are in float within blocks of this size and in double across blocks, because a vocabulary is too long for one float sum. */
constexpr int64_t softmax_block = 1024;

struct SoftmaxSums {
    float most;      // largest logit
    double sum;      // Σ exp(l − most)
    double weighted; // Σ exp(l − most) · (l − most)
};

/** Stores exp(l − most) in logits if `store` is set. A NaN among the logits makes sum NaN. */
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

/** The row's values from its sums. The logits that it needs are passed in, because the sums may have overwritten them. */
inline TokenLoss token_loss_of(const SoftmaxSums & s, float target_logit, const SoftTargets & soft, std::vector<double> soft_logits) {
    const double log_sum = std::log(s.sum), most = static_cast<double>(s.most);
    TokenLoss result;
    result.logprob = static_cast<double>(target_logit) - most - log_sum;
    result.entropy = log_sum - s.weighted / s.sum;
    result.log_sum = most + log_sum;
    for (double & logit : soft_logits) logit -= most + log_sum;
    complete_rest(soft, soft_logits);
    result.soft_logprobs = std::move(soft_logits);
    return result;
}

inline std::vector<double> gathered(const float * logits, const SoftTargets & soft) {
    std::vector<double> values(static_cast<size_t>(soft.count));
    for (int64_t k = 0; k < soft.count; k++)
        if (soft.tokens[k] != rest_of_vocabulary) values[static_cast<size_t>(k)] = static_cast<double>(logits[soft.tokens[k]]);
    return values;
}

/** Leaves the logits unchanged. */
inline TokenLoss token_loss(float * logits, int64_t vocabulary, int64_t target, const SoftTargets & soft = {}) {
    return token_loss_of(softmax_sums<false>(logits, vocabulary), logits[target], soft, gathered(logits, soft));
}

/** Replaces the logits by the gradient. */
inline TokenLoss token_loss_backward(float * logits, int64_t vocabulary, int64_t target, const LossCoefficients & c, const SoftTargets & soft = {}) {
    const float target_logit = logits[target];
    std::vector<double> soft_logits = gathered(logits, soft);
    // The entropy's gradient needs the logits again, so in that case the exponentials do not overwrite them.
    const SoftmaxSums s = c.entropy == 0 ? softmax_sums<true>(logits, vocabulary) : softmax_sums<false>(logits, vocabulary);
    TokenLoss result = token_loss_of(s, target_logit, soft, std::move(soft_logits));
    const double of_rest = weight_of_rest(soft, result.soft_logprobs);
    double weight = static_cast<double>(c.weight) + 2 * static_cast<double>(c.z) * result.log_sum;
    for (int64_t k = 0; k < soft.count; k++) weight += static_cast<double>(soft.weights[k]);
    weight -= of_rest;
    if (c.entropy == 0) {
        const auto scale = static_cast<float>(weight / s.sum);
#pragma omp simd
        for (int64_t i = 0; i < vocabulary; i++) logits[i] *= scale;
    } else {
        const auto inverse = static_cast<float>(1 / s.sum), constant = static_cast<float>(weight);
        const auto log_sum = static_cast<float>(std::log(s.sum)), entropy = static_cast<float>(result.entropy);
#pragma omp simd
        for (int64_t i = 0; i < vocabulary; i++) {
            const float below = logits[i] - s.most;
            logits[i] = fast_exp(below) * inverse * (constant + c.entropy * (below - log_sum + entropy));
        }
    }
    logits[target] -= c.weight;
    for (int64_t k = 0; k < soft.count; k++)
        if (soft.tokens[k] != rest_of_vocabulary && soft.weights[k] != 0)
            logits[soft.tokens[k]] += static_cast<float>(of_rest * std::exp(result.soft_logprobs[static_cast<size_t>(k)])) - soft.weights[k];
    return result;
}

/** The k most likely tokens, most likely first, the lower id among equals. A NaN is never among them. */
inline std::vector<TopToken> top_tokens(const float * logits, int64_t vocabulary, double log_sum, int64_t k) {
    const auto before = [&](int32_t a, int32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); };
    std::vector<int32_t> heap; // the worst of the best so far is in front
    for (int32_t i = 0; i < static_cast<int32_t>(vocabulary); i++) {
        if (static_cast<int64_t>(heap.size()) == k) {
            if (!(logits[i] > logits[heap.front()])) continue;
            std::pop_heap(heap.begin(), heap.end(), before);
            heap.back() = i;
        } else if (std::isnan(logits[i])) {
            continue;
        } else {
            heap.push_back(i);
        }
        std::push_heap(heap.begin(), heap.end(), before);
    }
    std::sort_heap(heap.begin(), heap.end(), before);
    std::vector<TopToken> top;
    for (int32_t token : heap) top.push_back({token, static_cast<float>(static_cast<double>(logits[token]) - log_sum)});
    return top;
}
