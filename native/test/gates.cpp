#include "gates.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "check.h"
#include "reference_model.h"

std::string tiny_model(const std::string & folder, const std::string & architecture, const std::string & kind) {
    return folder + "/tiny-" + (architecture == "llama" ? "" : architecture + "-") + kind + ".gguf";
}

TestBatch test_batch(int64_t vocabulary, const std::vector<int64_t> & lengths, uint64_t seed) {
    TestBatch batch;
    uint64_t at = 0;
    for (int64_t length : lengths) {
        std::vector<int32_t> row;
        std::vector<LossCoefficients> coefficients(static_cast<size_t>(length));
        for (int64_t i = 0; i < length; i++) {
            row.push_back(static_cast<int32_t>(random_uniform(seed, at++) * static_cast<double>(vocabulary)));
            const double u = random_uniform(seed, at++);
            LossCoefficients & c = coefficients[static_cast<size_t>(i)];
            if (i == 0 || u < 0.25) continue;
            if (u >= 0.3) c.weight = static_cast<float>(2 * u - 0.8);
            if (u < 0.6) c.entropy = static_cast<float>(u - 0.1);
            if (u > 0.5 || u < 0.3) c.z = static_cast<float>(0.02 * u);
        }
        batch.rows.push_back(row);
        batch.coefficients.push_back(coefficients);
    }
    return batch;
}

Adapter random_adapter(const ModelShape & model, const std::vector<Target> & targets, int64_t rank, double alpha, uint64_t seed, double dropout, int64_t first_layer) {
    Adapter adapter(model, AdapterShape{rank, alpha, seed, targets, dropout, first_layer});
    for (size_t i = 0; i < adapter.parameters; i++) adapter.weights[i] = static_cast<float>((2 * random_uniform(seed + 1, i) - 1) * 0.2);
    return adapter;
}

namespace {

constexpr int64_t test_rank = 3;
constexpr double test_alpha = 5;

/** Calls f(name, start, count) for every A and B of an adapter. */
template <class F> void each_tensor(const Adapter & a, const F & f) {
    a.each_site([&](const std::string & name, const Site & site) {
        f(name + ".lora_a", site.a, static_cast<size_t>(a.shape.rank * site.columns));
        f(name + ".lora_b", site.b, static_cast<size_t>(a.shape.rank * site.rows));
    });
}

struct FullReference {
    double loss = 0;
    std::vector<double> logprobs, entropies, log_sums, gradient;
};

FullReference run_reference(const ReferenceModel & model, const TestBatch & batch, const Adapter & a, const std::vector<double> & w, bool with_gradient) {
    FullReference full;
    full.gradient.resize(a.parameters);
    for (size_t r = 0; r < batch.rows.size(); r++) {
        const ReferenceModel::Result row = model.row(batch.rows[r], batch.coefficients[r], a, w, with_gradient ? &full.gradient : nullptr, static_cast<int64_t>(full.logprobs.size()));
        full.loss += row.loss;
        full.logprobs.insert(full.logprobs.end(), row.logprobs.begin(), row.logprobs.end());
        full.entropies.insert(full.entropies.end(), row.entropies.begin(), row.entropies.end());
        full.log_sums.insert(full.log_sums.end(), row.log_sums.begin(), row.log_sums.end());
    }
    return full;
}

bool weighs(const LossCoefficients & c) { return c.weight != 0 || c.entropy != 0 || c.z != 0; }

/** Runs rows [first, end) through the worker's fast path. Stores the results in `seen`, for tokens from `at` on. */
void run_worker(Transformer & model, const TestBatch & test, size_t first, size_t end, Adapter & a, size_t at, FullReference & seen) {
    Batch batch;
    std::vector<Ask> asks;
    for (size_t r = first; r < end; r++) {
        const int64_t begin = batch.count();
        batch.add_row(test.rows[r].data(), static_cast<int64_t>(test.rows[r].size()));
        for (size_t i = 1; i < test.rows[r].size(); i++)
            if (const LossCoefficients & c = test.coefficients[r][i]; weighs(c))
                asks.push_back({begin + static_cast<int64_t>(i) - 1, test.rows[r][i], c, {}});
    }
    for (int64_t t = 0; t < batch.count(); t++) batch.origins.push_back(static_cast<int64_t>(at) + t);
    const std::vector<TokenLoss> losses = model.forward_backward(batch, a, asks);
    for (size_t i = 0; i < asks.size(); i++) {
        const size_t token = at + static_cast<size_t>(asks[i].position) + 1;
        seen.logprobs[token] = losses[i].logprob;
        seen.entropies[token] = losses[i].entropy;
        seen.log_sums[token] = losses[i].log_sum;
    }
}

/** run(model, adapter, seen) computes the batch, and this compares the result with double precision. */
template <class F>
Parity parity_of(const std::string & path, const std::vector<Target> & targets, const TestBatch & batch, int threads, double dropout, int64_t first_layer, const F & run) {
    const ReferenceModel reference(path);
    Transformer model(path, threads);
    Adapter a = random_adapter(model.shape(), targets, test_rank, test_alpha, 5, dropout, first_layer);
    const FullReference expected = run_reference(reference, batch, a, std::vector<double>(a.weights.data(), a.weights.data() + a.parameters), true);
    const size_t tokens = expected.logprobs.size();
    FullReference seen{0, std::vector<double>(tokens), std::vector<double>(tokens), std::vector<double>(tokens), {}};
    run(model, a, seen);
    Parity parity{relative_l2(seen.logprobs.data(), expected.logprobs.data(), tokens), relative_l2(seen.entropies.data(), expected.entropies.data(), tokens),
                  relative_l2(seen.log_sums.data(), expected.log_sums.data(), tokens), 0, ""};
    each_tensor(a, [&](const std::string & name, size_t start, size_t count) {
        const double error = relative_l2(a.gradients.data() + start, &expected.gradient[start], count);
        if (!(error <= parity.gradients)) {
            parity.gradients = error;
            parity.worst = name;
        }
    });
    return parity;
}

} // namespace

Parity parity_with_reference(const std::string & path, const std::vector<Target> & targets, int threads, bool packed, double dropout, int64_t first_layer) {
    const TestBatch batch = test_batch(GgufModel(path).shape.vocabulary, {7, 1, 70, 2, 33, 130}, 11);
    return parity_of(path, targets, batch, threads, dropout, first_layer, [&](Transformer & model, Adapter & a, FullReference & seen) {
        if (packed) return run_worker(model, batch, 0, batch.rows.size(), a, 0, seen);
        size_t at = 0;
        for (size_t r = 0; r < batch.rows.size(); r++) {
            run_worker(model, batch, r, r + 1, a, at, seen);
            at += batch.rows[r].size();
        }
    });
}

Rows rows_of(const TestBatch & batch) {
    Rows rows;
    for (const std::vector<int32_t> & row : batch.rows) {
        rows.tokens.insert(rows.tokens.end(), row.begin(), row.end());
        rows.lengths.push_back(static_cast<int32_t>(row.size()));
    }
    return rows;
}

std::vector<int64_t> all_needed(const TestBatch & batch) {
    std::vector<int64_t> needed;
    for (const std::vector<int32_t> & row : batch.rows) needed.push_back(static_cast<int64_t>(row.size()));
    return needed;
}

Parity shared_parity(const std::string & path, const TestBatch & batch, int threads, int64_t most) {
    const std::vector<Target> targets = {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down};
    return parity_of(path, targets, batch, threads, 0, 0, [&](Transformer & model, Adapter & a, FullReference & seen) {
        const Packing packing = pack(rows_of(batch), all_needed(batch), most, true);
        for (const Pass & pass : packing.passes) {
            std::vector<Ask> asks;
            std::vector<size_t> asked;
            for (const Pass::Row & row : pass.rows) {
                const size_t r = row.index;
                size_t first = 0;
                for (size_t before = 0; before < r; before++) first += batch.rows[before].size();
                for (size_t i = 1; i < batch.rows[r].size(); i++) {
                    if (!weighs(batch.coefficients[r][i])) continue;
                    asks.push_back({packing.places[first + i - 1], batch.rows[r][i], batch.coefficients[r][i], {}});
                    asked.push_back(first + i);
                }
            }
            const std::vector<TokenLoss> losses = model.forward_backward(pass.batch, a, asks);
            for (size_t i = 0; i < asked.size(); i++) {
                seen.logprobs[asked[i]] = losses[i].logprob;
                seen.entropies[asked[i]] = losses[i].entropy;
                seen.log_sums[asked[i]] = losses[i].log_sum;
            }
        }
    });
}

double worst_directional_error(const std::string & path, const std::vector<Target> & targets, double dropout) {
    const ReferenceModel reference(path);
    const TestBatch batch = test_batch(reference.shape().vocabulary, {9, 1, 14}, 3);
    const Adapter a = random_adapter(reference.shape(), targets, test_rank, test_alpha, 6, dropout);
    const std::vector<double> w(a.weights.data(), a.weights.data() + a.parameters);
    const FullReference at = run_reference(reference, batch, a, w, true);
    double worst = 0;
    each_tensor(a, [&](const std::string & name, size_t start, size_t count) {
        const uint64_t key = hash_name(name);
        // A five-point central difference. Its truncation error falls with the fourth power of the step, and rounding grows with the step's
        // inverse.
        constexpr double step = 2e-5;
        double analytic = 0;
        for (size_t i = 0; i < count; i++) analytic += at.gradient[start + i] * (2 * random_uniform(key, i) - 1);
        const auto loss_at = [&](double steps) {
            std::vector<double> moved = w;
            for (size_t i = 0; i < count; i++) moved[start + i] += steps * step * (2 * random_uniform(key, i) - 1);
            return run_reference(reference, batch, a, moved, false).loss;
        };
        const double numeric = (8 * (loss_at(1) - loss_at(-1)) - (loss_at(2) - loss_at(-2))) / (12 * step);
        const double error = std::abs(numeric - analytic) / std::max(std::abs(analytic), 1e-12);
        if (!(error <= worst)) worst = error;
    });
    return worst;
}
