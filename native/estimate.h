// Costs of training a model, known before anything is loaded: memory from the sizes that passes really take, arithmetic from a formula.
#pragma once
#include <cstdint>

#include "cuda/gemm.h"
#include "model/adapter.h"
#include "model/gguf_model.h"

struct EstimateOptions {
    AdapterShape adapter;
    int64_t pass_tokens; // tokens of a pass; at least longest_row are taken
    int64_t longest_row;
    int threads;
};

struct Estimate {
    int64_t weight_bytes, adapter_bytes, pass_bytes;
    int64_t process_bytes; // the worker's own; on a GPU the workspace of products and the reserve for the driver
    int64_t total_bytes() const { return weight_bytes + adapter_bytes + pass_bytes + process_bytes; }
};

/** Peak memory of training on the CPU: all weights, the adapter with gradients and moments, and a pass with its activations. */
Estimate estimate_cpu(const ModelShape & shape, const EstimateOptions & options);

/**
 * Peak memory of training on a GPU, by the plans that a pass there follows. Needs neither a GPU nor a build with CUDA, and no made-up
 * weights.
 */
Estimate estimate_gpu(const GgufModel & model, const EstimateOptions & options, Number precision);

/**
 * Multiplications and additions that a training step needs per token, when nothing is computed twice, every token is trained on and rows
 * have `length` tokens: 2 N + 2 N' + A + 2 A' + 6 R.
 * N: parameters of the matrices and the head. A = 2 · length · heads · head values · layers: causal attention, forward. N' and A' leave out
 * the layers before the adapter's first one, which the backward pass does not reach. R: parameters of the adapter.
 * The base is frozen, so its matrices need one product forward and one backward; the adapter's need one forward and two backward.
 */
double training_flops_per_token(const ModelShape & shape, const AdapterShape & adapter, int64_t length);

/** The part of them that products with frozen weights need: 2 N + 2 N'. */
double frozen_flops_per_token(const ModelShape & shape, const AdapterShape & adapter);
