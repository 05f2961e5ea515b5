// What training a model costs, before anything is loaded: bytes by the sizes that the passes really take, arithmetic by a formula.
#pragma once
#include <cstdint>

#include "cuda/gemm.h"
#include "model/adapter.h"
#include "model/gguf_model.h"

struct EstimateOptions {
    AdapterShape adapter;
    int64_t pass_tokens; // at the same time; at least the longest row
    int64_t longest_row;
    int threads;
};

struct Estimate {
    int64_t weight_bytes, adapter_bytes, pass_bytes;
    int64_t process_bytes; // of the worker itself; on a GPU what products and the driver are given beside
    int64_t total_bytes() const { return weight_bytes + adapter_bytes + pass_bytes + process_bytes; }
};

/** Peak of training on the CPU: all weights read, adapter with gradients and moments, a pass with its activations. */
Estimate estimate_cpu(const ModelShape & shape, const EstimateOptions & options);

/** Peak of a GPU's memory by the plans that training there follows. Needs neither a GPU nor a build for one, nor weights that are made up. */
Estimate estimate_gpu(const GgufModel & model, const EstimateOptions & options, Number precision);

/**
 * Multiplications and additions a token of a training step needs when nothing is computed again, every token is trained on and rows
 * have `length` tokens: 4 N + 3 A + 6 R, with N the parameters of the matrices and the head, A = 2 · length · heads · head values ·
 * layers the causal attention forward, and R the parameters of the adapter. The base is frozen, so that its matrices have a product
 * forward and one backward, the adapter's two.
 */
double training_flops_per_token(const ModelShape & shape, const AdapterShape & adapter, int64_t length);

/** Of them those of products with frozen weights, 4 N. */
double frozen_flops_per_token(const ModelShape & shape);
