#include "estimate.h"

#include <algorithm>

#include "cuda/plan.h"
#include "model/transformer.h"

namespace {
/**
 * Memory that the process takes before it opens anything: program, libraries, and what OpenBLAS keeps per thread. Measured with one to four
 * threads.
 */
constexpr int64_t own_bytes = int64_t{9} << 20, own_bytes_per_thread = int64_t{3} << 20;
} // namespace

Estimate estimate_cpu(const ModelShape & m, const EstimateOptions & o) {
    const int64_t tokens = std::max(o.pass_tokens, o.longest_row);
    return {m.weight_bytes, Adapter::bytes(m, o.adapter), Transformer::pass_bytes(m, &o.adapter, o.threads, tokens, o.longest_row, Keep::activations),
            own_bytes + o.threads * own_bytes_per_thread};
}

Estimate estimate_gpu(const GgufModel & model, const EstimateOptions & o, Number precision) {
    const int64_t tokens = std::max(o.pass_tokens, o.longest_row);
    return {device_model_bytes(model, precision), device_adapter_bytes(model.shape, o.adapter, precision), device_pass_bytes(model.shape, &o.adapter, tokens, Keep::activations, precision),
            device_workspace_bytes + device_reserve_bytes};
}

double frozen_flops_per_token(const ModelShape & m, const AdapterShape & adapter) {
    const double d = static_cast<double>(m.embedding), q = static_cast<double>(m.heads * m.head_values), kv = static_cast<double>(m.kv_heads * m.head_values);
    const double layers = static_cast<double>(2 * m.layers - adapter.first_layer), ff = static_cast<double>(m.feed_forward);
    return 2 * layers * (2 * d * q + 2 * d * kv + 3 * d * ff) + 4 * d * static_cast<double>(m.vocabulary);
}

double training_flops_per_token(const ModelShape & m, const AdapterShape & adapter, int64_t length) {
    const double a = 2 * static_cast<double>(length * m.heads * m.head_values), layers = static_cast<double>(3 * m.layers - 2 * adapter.first_layer);
    const double r = static_cast<double>(Adapter::bytes(m, adapter)) / (4 * sizeof(float));
    return frozen_flops_per_token(m, adapter) + layers * a + 6 * r;
}
