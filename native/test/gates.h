// The gates that the worker must pass, and that each planted fault must fail.
#pragma once
#include <string>
#include <vector>

#include "model/transformer.h"
#include "packing.h"

/** A tiny model of make_tiny: "f32", "f32-untied", "q4_1", "q4_k" or "bf16" of an architecture. */
std::string tiny_model(const std::string & folder, const std::string & architecture, const std::string & kind);

/** Rows of different lengths, some of them longer than a query block. Some tokens have no coefficients, others have one or all three. */
struct TestBatch {
    std::vector<std::vector<int32_t>> rows;
    std::vector<std::vector<LossCoefficients>> coefficients;
};

TestBatch test_batch(int64_t vocabulary, const std::vector<int64_t> & lengths, uint64_t seed);

/** An adapter whose A and B are both random, so that no gradient is zero. */
Adapter random_adapter(const ModelShape & model, const std::vector<Target> & targets, int64_t rank, double alpha, uint64_t seed, double dropout = 0, int64_t first_layer = 0);

/** The largest relative L2 errors, against double precision, of log-probs, entropies, log-sums and of each adapter tensor's gradient. */
struct Parity {
    double logprobs, entropies, log_sums, gradients;
    std::string worst; // adapter tensor with the largest gradient error
};
Parity parity_with_reference(const std::string & path, const std::vector<Target> & targets, int threads, bool packed, double dropout = 0, int64_t first_layer = 0);
/** The same for the given rows in passes of at most `most` tokens, where rows share a common beginning. */
Parity shared_parity(const std::string & path, const TestBatch & batch, int threads, int64_t most);

/** The batch as `pack` takes it, with all its tokens needed. */
Rows rows_of(const TestBatch & batch);
std::vector<int64_t> all_needed(const TestBatch & batch);

/** The largest relative error of the reference's gradient against central differences, over all adapter tensors. */
double worst_directional_error(const std::string & path, const std::vector<Target> & targets, double dropout = 0);
