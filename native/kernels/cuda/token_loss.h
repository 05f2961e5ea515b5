// Rows of logits and their part of the loss, by the formula of kernels/token_loss.h. One block per row.
#pragma once
#include "kernels/cuda/block.h"

namespace gpu {

struct RowLoss {
    float logprob, entropy, log_sum; // nats
};

/** The soft target that stands for the rest of the vocabulary, and the rest's least probability, as in kernels/token_loss.h. */
constexpr int32_t rest_of_row = -1;
constexpr float least_rest_of_row = 1e-7f;

/** Soft targets of row r: [soft_begin[r], soft_begin[r + 1]) of the soft arrays. A row with target −1 has no prediction. */
template <class T> struct TokenLossRows {
    const float * logits; // [rows, vocabulary]
    int64_t vocabulary;
    const int32_t * targets;
    const float * coefficients; // [rows, 3]: weight, entropy, z
    const int32_t * soft_begin;
    const int32_t * soft_tokens;
    const float * soft_weights;
    RowLoss * losses;      // [rows]
    float * soft_logprobs; // in the order of soft_tokens
    T * gradient;          // [rows, vocabulary] or null; with T = float it may be the logits themselves

    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t row = block.x();
        const float * z = logits + row * vocabulary;
        const int32_t target = targets[row];
        if (target < 0) {
            for (int64_t i = block.thread(); gradient && i < vocabulary; i += block.threads()) put(gradient[row * vocabulary + i], 0);
            if (block.thread() == 0) losses[row] = RowLoss{0, 0, 0};
            return;
        }
        // Each thread keeps its own maximum. At the end the sums are scaled to the common maximum.
        float most = -INFINITY, sum = 0, weighted = 0;
        for (int64_t i = block.thread(); i < vocabulary; i += block.threads()) {
            const float value = z[i];
            if (value > most) {
                const float shrink = sum == 0 ? 0 : expf(most - value);
                weighted = sum == 0 ? 0 : shrink * (weighted + (most - value) * sum);
                sum *= shrink;
                most = value;
            }
            const float below = value - most, e = expf(below);
            sum += e;
            weighted += e == 0 ? 0 : e * below;
        }
        const float top = block.most(most);
        if (sum != 0) {
            const float shrink = expf(most - top);
            weighted = shrink == 0 ? 0 : shrink * (weighted + (most - top) * sum);
            sum *= shrink;
        }
        sum = block.sum(sum);
        weighted = block.sum(weighted);
        const float log_sum = logf(sum), entropy = log_sum - weighted / sum;
        const float weight = coefficients[3 * row], bonus = coefficients[3 * row + 1];
        float all = weight + 2 * coefficients[3 * row + 2] * (top + log_sum);
        for (int32_t k = soft_begin[row]; k < soft_begin[row + 1]; k++) all += soft_weights[k];
        if (block.thread() == 0) losses[row] = RowLoss{z[target] - top - log_sum, entropy, top + log_sum};
        // Every thread computes the probability of the rest itself, because there are few soft targets.
        float left = 1, rest_weight = 0;
        bool has_rest = false;
        for (int32_t k = soft_begin[row]; k < soft_begin[row + 1]; k++) {
            if (soft_tokens[k] == rest_of_row) {
                has_rest = true;
                rest_weight = soft_weights[k];
            } else if (soft_weights[k] != 0) {
                left -= expf(z[soft_tokens[k]] - top - log_sum);
            }
        }
        left = fmaxf(left, least_rest_of_row);
        const float of_rest = has_rest ? rest_weight / left : 0;
        for (int32_t k = soft_begin[row] + block.thread(); k < soft_begin[row + 1]; k += block.threads())
            soft_logprobs[k] = soft_tokens[k] == rest_of_row ? logf(left) : z[soft_tokens[k]] - top - log_sum;
        if (!gradient) return;

        // The target's gradient is computed before the logits may be overwritten, and written after them.
        block.sync();
        float at_target = 0;
        const auto gradient_at = [&](float value, float from_rest) {
            const float logp = value - top - log_sum;
            return expf(logp) * (all - from_rest + bonus * (logp + entropy));
        };
        const auto is_named = [&](int32_t token) {
            for (int32_t k = soft_begin[row]; k < soft_begin[row + 1]; k++)
                if (soft_tokens[k] == token && soft_weights[k] != 0) return true;
            return false;
        };
        const auto taken = [&](int32_t token) {
            float sum_of = token == target ? weight : 0;
            for (int32_t k = soft_begin[row]; k < soft_begin[row + 1]; k++) sum_of += soft_tokens[k] == token ? soft_weights[k] : 0;
            return sum_of;
        };
        if (block.thread() == 0) at_target = gradient_at(z[target], is_named(target) ? 0 : of_rest) - taken(target);
        block.sync();
        T * out = gradient + row * vocabulary;
        for (int64_t i = block.thread(); i < vocabulary; i += block.threads()) put(out[i], gradient_at(z[i], of_rest));
        block.sync();
        if (block.thread() == 0) put(out[target], at_target);
        // The gradients of soft targets come from their log-probs, which are not overwritten. A token that is named twice is written once.
        const auto written = [&](int32_t k) {
            if (soft_tokens[k] == target || soft_tokens[k] == rest_of_row || soft_weights[k] == 0) return true;
            for (int32_t before = soft_begin[row]; before < k; before++)
                if (soft_tokens[before] == soft_tokens[k] && soft_weights[before] != 0) return true;
            return false;
        };
        for (int32_t k = soft_begin[row] + block.thread(); k < soft_begin[row + 1]; k += block.threads())
            if (!written(k)) put(out[soft_tokens[k]], gradient_at(soft_logprobs[k] + top + log_sum, 0) - taken(soft_tokens[k]));
    }
};

} // namespace gpu
