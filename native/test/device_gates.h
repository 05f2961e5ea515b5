// Gates 3, 5 and 7 of a device. Its passes are compared with the CPU's, which gate 1 compares with double precision.
#pragma once
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "base/failure.h"
#include "check.h"
#include "gates.h"
#include "kernels/fault.h"
#include "model/transformer.h"

/**
 * Errors of gradients are relative to the tensor's norm, but at least to a tenth of the largest norm that a tensor of its kind has in any
 * layer. With rank 1 and two tokens, a tensor's gradient is one sum times a vector. When that sum is almost zero (a three-hundredth of
 * another layer's was observed), bf16 cannot reproduce it.
 */
struct DeviceParity {
    double logprobs = 0, gradients = 0; // the largest relative L2 error
    double cosine = 1;                  // the smallest cosine of an adapter tensor's gradient
    std::string worst;                  // adapter tensor with the largest gradient error
};

struct Asked {
    Batch batch;
    std::vector<Ask> asks;
};

/**
 * Makes each row a segment of its own. Entropy, z-loss and soft targets (on every third ask) are only used with `everything`: the gradient
 * of an entropy is a difference of probabilities, in which the rounding of bf16 counts half as much again.
 */
inline Asked asked_of(const TestBatch & test, bool everything) {
    static const int32_t soft_tokens[] = {3, 200};
    static const float soft_weights[] = {0.3f, 0.2f};
    Asked asked;
    for (size_t r = 0; r < test.rows.size(); r++) {
        const int64_t begin = asked.batch.count();
        asked.batch.add_row(test.rows[r].data(), static_cast<int64_t>(test.rows[r].size()));
        for (size_t i = 1; i < test.rows[r].size(); i++) {
            const LossCoefficients & c = test.coefficients[r][i];
            if (c.weight == 0 && c.entropy == 0 && c.z == 0) continue;
            Ask ask{begin + static_cast<int64_t>(i) - 1, test.rows[r][i], {c.weight != 0 ? c.weight : 0.5f, 0, 0}, {}};
            if (everything) {
                ask.coefficients = c;
                if (i % 3 == 0) ask.soft = {soft_tokens, soft_weights, 2};
            }
            asked.asks.push_back(ask);
        }
    }
    for (int64_t t = 0; t < asked.batch.count(); t++) asked.batch.origins.push_back(100 + t);
    return asked;
}

inline std::vector<Target> targets_of(const ModelShape & model) {
    std::vector<Target> targets = {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down};
    if (!model.tied) targets.push_back(output_head);
    return targets;
}

inline Adapter device_test_adapter(const ModelShape & model, const std::vector<Target> & targets, double dropout, int64_t rank = 4, int64_t first_layer = 0) {
    Adapter adapter = random_adapter(model, targets, rank, 1.5 * static_cast<double>(rank), 5, 0, first_layer);
    // Adapters are small compared with what they adapt. Larger ones make these models so sensitive that only single precision can follow.
    for (size_t i = 0; i < adapter.parameters; i++) adapter.weights[i] *= 0.25f;
    adapter.shape.dropout = dropout;
    return adapter;
}

inline std::vector<double> numbers_of(const std::vector<TokenLoss> & losses) {
    std::vector<double> numbers;
    for (const TokenLoss & loss : losses) {
        numbers.insert(numbers.end(), {loss.logprob, loss.entropy, loss.log_sum});
        numbers.insert(numbers.end(), loss.soft_logprobs.begin(), loss.soft_logprobs.end());
    }
    return numbers;
}

/** The largest relative L2 error of a stream after any layer, over the tokens of the batch. */
inline double watch_parity(Backend & device, const ModelSource & source, const Batch & batch) {
    Transformer cpu(source, 2);
    const ModelShape & m = cpu.shape();
    const Adapter adapter = device_test_adapter(m, targets_of(m), 0);
    const auto tokens = static_cast<size_t>(batch.count()), d = static_cast<size_t>(m.embedding), q = static_cast<size_t>(m.heads * m.head_values), ff = static_cast<size_t>(m.feed_forward);
    const auto all = [&](Backend & backend) {
        LayerWatch watch;
        std::vector<std::vector<float>> streams;
        for (int64_t layer = 0; layer < m.layers; layer++) watch.layers.push_back(layer);
        watch.see = [&](int64_t, const LayerSeen & seen) {
            streams.emplace_back(seen.residual, seen.residual + tokens * d);
            streams.emplace_back(seen.attn_output, seen.attn_output + tokens * q);
            streams.emplace_back(seen.ffn_down, seen.ffn_down + tokens * ff);
        };
        backend.watch(batch, &adapter, watch);
        return streams;
    };
    const std::vector<std::vector<float>> expected = all(cpu), seen = all(device);
    double worst = 0;
    for (size_t i = 0; i < expected.size(); i++) worst = std::max(worst, relative_l2(seen[i].data(), expected[i].data(), expected[i].size()));
    device.forget(const_cast<Adapter &>(adapter));
    return worst;
}

/** The CPU's results for a batch: numbers_of its losses, and an adapter with its gradients. */
struct Expected {
    std::vector<double> numbers;
    Adapter adapter;
};
inline Expected expected_of(const ModelSource & source, const Asked & asked, const std::vector<Target> & targets, double dropout = 0, int threads = 2, int64_t rank = 4, int64_t first_layer = 0) {
    Transformer cpu(source, threads);
    Adapter adapter = device_test_adapter(cpu.shape(), targets, dropout, rank, first_layer);
    std::vector<double> numbers = numbers_of(cpu.forward_backward(asked.batch, adapter, asked.asks));
    return {std::move(numbers), std::move(adapter)};
}

inline DeviceParity parity_with(const Expected & from_cpu, Backend & device, const Asked & asked) {
    const Adapter & theirs = from_cpu.adapter;
    const std::vector<double> & expected = from_cpu.numbers;
    Adapter ours = device_test_adapter(device.shape(), theirs.shape.targets, theirs.shape.dropout, theirs.shape.rank, theirs.shape.first_layer);
    const std::vector<double> seen = numbers_of(device.forward_backward(asked.batch, ours, asked.asks));
    device.fetch(ours);
    device.forget(ours);
    DeviceParity parity;
    parity.logprobs = relative_l2(seen.data(), expected.data(), expected.size());
    const auto size_of = [&](const Site & site, bool is_b) { return static_cast<size_t>(ours.shape.rank * (is_b ? site.rows : site.columns)); };
    const auto norm = [](const float * x, size_t count) {
        double sum = 0;
        for (size_t i = 0; i < count; i++) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
        return std::sqrt(sum);
    };
    std::map<std::pair<Target, bool>, double> largest;
    theirs.each_site([&](const std::string &, const Site & site) {
        for (bool is_b : {false, true}) {
            double & most = largest[{site.target, is_b}];
            most = std::max(most, norm(theirs.gradients.data() + (is_b ? site.b : site.a), size_of(site, is_b)));
        }
    });
    ours.each_site([&](const std::string & name, const Site & site) {
        for (bool is_b : {false, true}) {
            const size_t start = is_b ? site.b : site.a, count = size_of(site, is_b);
            const float *a = ours.gradients.data() + start, *b = theirs.gradients.data() + start;
            const double own = norm(b, count), beside = std::max(own, 0.1 * largest[{site.target, is_b}]);
            double dot = 0, apart = 0;
            for (size_t i = 0; i < count; i++) {
                dot += static_cast<double>(a[i]) * static_cast<double>(b[i]);
                apart += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
            }
            const double error = std::sqrt(apart) / beside, cosine = dot / (norm(a, count) * own);
            if (!(error <= parity.gradients)) {
                parity.gradients = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
                parity.worst = name + (is_b ? ".lora_b" : ".lora_a");
            }
            if (!(cosine >= parity.cosine)) parity.cosine = cosine;
        }
    });
    return parity;
}

inline DeviceParity parity_with_cpu(Backend & device, const ModelSource & source, const Asked & asked, const std::vector<Target> & targets, double dropout = 0, int threads = 2, int64_t rank = 4) {
    return parity_with(expected_of(source, asked, targets, dropout, threads, rank), device, asked);
}

/**
 * Gate 3. In bf16, where every value is rounded by 2⁻⁹, the worst tensor of these models differs by 2–4 %: their random logits and
 * attention are far more sensitive than trained ones. So the direction must agree, and the size within 4e-2. The sums over a real model's
 * widths differ by more than those over tiny ones; `allowed` gives the limits for fp32 and bf16.
 */
struct Allowed {
    double fp32 = 1e-5, bf16 = 4e-2;
};
inline void gate_3(const std::string & name, bool narrow, const DeviceParity & p, const Allowed & allowed = {}) {
    std::printf("%s gate 3 %s: log-probs %.1e gradients %.1e cosine %.6f (%s)\n", name.c_str(), narrow ? "bf16" : "fp32", p.logprobs, p.gradients, p.cosine, p.worst.c_str());
    CHECK(p.logprobs <= (narrow ? 1e-2 : 1e-5), "%s: %g", name.c_str(), p.logprobs);
    CHECK(p.gradients <= (narrow ? allowed.bf16 : allowed.fp32), "%s: %g at %s", name.c_str(), p.gradients, p.worst.c_str());
    CHECK(p.cosine >= 0.999, "%s: %g", name.c_str(), p.cosine);
}

/** Gate 5: the same work gives the same bits twice, gradients add up, and an optimizer step agrees with the CPU's. */
inline void gate_5(const std::string & name, Backend & device, const std::string & path, const Asked & asked, int parts, double tolerance) {
    Transformer cpu(path, 2);
    const std::vector<Target> targets = targets_of(cpu.shape());
    // epsilon is far above the gradients' rounding. Below it, Adam takes whole steps whose sign is rounding alone.
    const AdamW step{0.01, 0.9, 0.95, 1e-5, 0.01, 1};
    std::vector<std::vector<float>> weights;
    for (int run = 0; run < 2; run++) {
        Adapter a = device_test_adapter(cpu.shape(), targets, 0);
        for (int i = 0; i < 2; i++) {
            for (int part = 0; part < parts; part++) device.forward_backward(asked.batch, a, asked.asks);
            device.optimise(a, step);
        }
        device.fetch(a);
        device.forget(a);
        weights.emplace_back(a.weights.data(), a.weights.data() + a.parameters);
    }
    CHECK(weights[0] == weights[1], "%s: two runs differ", name.c_str());
    Adapter b = device_test_adapter(cpu.shape(), targets, 0);
    for (int i = 0; i < 2; i++) {
        for (int part = 0; part < parts; part++) cpu.forward_backward(asked.batch, b, asked.asks);
        cpu.optimise(b, step);
    }
    const double error = relative_l2(weights[0].data(), b.weights.data(), b.parameters);
    std::printf("%s gate 5: the same to the bit; after two steps %.1e from the CPU\n", name.c_str(), error);
    CHECK(error <= tolerance, "%s: %g after two steps", name.c_str(), error);
}

/** A moving average of a trained adapter agrees with the CPU's, and passes read it at once, even if they read the old values before. */
inline void check_average(const std::string & name, Backend & device, const std::string & path, const Asked & asked) {
    Transformer cpu(path, 2);
    const std::vector<Target> targets = targets_of(cpu.shape());
    Adapter policy = device_test_adapter(cpu.shape(), targets, 0), ema(cpu.shape(), policy.shape), expected(cpu.shape(), policy.shape);
    const auto loss_of = [&](const Adapter & adapter) {
        double loss = 0;
        const std::vector<TokenLoss> losses = device.forward(asked.batch, &adapter, asked.asks, 0);
        for (size_t i = 0; i < losses.size(); i++) loss += losses[i].loss(asked.asks[i].coefficients, asked.asks[i].soft);
        return loss;
    };
    const double before = loss_of(ema);
    device.forward_backward(asked.batch, policy, asked.asks);
    device.optimise(policy, {0.01, 0.9, 0.95, 1e-8, 0, 1});
    device.average(ema, policy, 0.75);
    device.fetch(policy);
    device.fetch(ema);
    expected.average(cpu.pool(), policy, 0.75);
    const double error = relative_l2(ema.weights.data(), expected.weights.data(), ema.parameters);
    CHECK(error <= 1e-6, "%s: the average is %g from the CPU's", name.c_str(), error);
    CHECK(loss_of(ema) != before, "%s: a pass still reads the old values", name.c_str());
    device.average(ema, policy, 0);
    CHECK(loss_of(ema) == loss_of(policy), "%s: a copy gives another loss", name.c_str());
    for (Adapter * adapter : {&policy, &ema}) device.forget(*adapter);
}

/** Puts prompts into a cache, then decodes token by token. The logits of each step are those of the whole row computed at once. */
inline void check_decoding(const std::string & name, Backend & device, const std::string & path, double tolerance) {
    Transformer cpu(path, 2);
    const Adapter a = device_test_adapter(cpu.shape(), targets_of(cpu.shape()), 0);
    const TestBatch rows = test_batch(cpu.shape().vocabulary, {9, 30, 4}, 17);
    constexpr int64_t steps = 3;
    const std::unique_ptr<Cache> cache = device.make_cache(9 + 30 + 4);
    Batch prompts;
    CachePlan plan{cache.get(), {}, {}};
    std::vector<int64_t> begins, last;
    int64_t place = 0;
    for (const auto & row : rows.rows) {
        const auto length = static_cast<int64_t>(row.size());
        prompts.add_row(row.data(), length - steps);
        plan.write.push_back(place);
        begins.push_back(place);
        place += length;
        last.push_back(prompts.count() - 1);
    }
    const auto compare = [&](int64_t seen_tokens) {
        Batch whole;
        std::vector<int64_t> ends;
        for (const auto & row : rows.rows) {
            whole.add_row(row.data(), static_cast<int64_t>(row.size()) - steps + seen_tokens);
            ends.push_back(whole.count() - 1);
        }
        std::vector<float> expected, seen;
        CachePlan unused{nullptr, {}, {}};
        const auto keep = [&](std::vector<float> & to) {
            return [&](int64_t, int64_t count, float * logits) { to.insert(to.end(), logits, logits + count * cpu.shape().vocabulary); };
        };
        const std::unique_ptr<Cache> own = cpu.make_cache(whole.count());
        unused.cache = own.get();
        for (const Segment & s : whole.segments) unused.write.push_back(s.begin);
        cpu.prefill(whole, &a, unused);
        cpu.each_logits(ends, keep(expected));
        device.each_logits(last, keep(seen));
        const double error = relative_l2(seen.data(), expected.data(), expected.size());
        CHECK(seen.size() == expected.size() && error <= tolerance, "%s after %lld tokens: %g", name.c_str(), static_cast<long long>(seen_tokens), error);
    };
    device.prefill(prompts, &a, plan);
    compare(0);
    for (int64_t step = 0; step < steps; step++) {
        Batch one;
        CachePlan next{cache.get(), {}, {}};
        last.clear();
        for (size_t r = 0; r < rows.rows.size(); r++) {
            const auto at = static_cast<int64_t>(rows.rows[r].size()) - steps + step;
            one.add_row(&rows.rows[r][static_cast<size_t>(at)], 1, at);
            next.write.push_back(begins[r] + at);
            next.read.emplace_back();
            next.read.back().add(Span{begins[r], at + 1});
            last.push_back(static_cast<int64_t>(r));
        }
        device.decode(one, &a, next);
        compare(step + 1);
    }
    device.forget(const_cast<Adapter &>(a));
}

/** Gate 7: the device disagrees with a CPU that has a planted fault. So gate 3 would find the fault on either side. */
inline void gate_7(const std::string & name, Backend & device, const std::string & path, const Asked & asked) {
    for (Fault fault : {Fault::zero_key_gradient, Fault::see_the_future, Fault::scale_alpha_twice}) {
        planted_fault = fault;
        const DeviceParity p = parity_with_cpu(device, path, asked, targets_of(device.shape()));
        planted_fault = Fault::none;
        CHECK(p.gradients > 2e-2, "%s: fault %d passes with %g", name.c_str(), static_cast<int>(fault), p.gradients);
    }
}

/**
 * Runs everything above for one model in one precision. open() gives a device with the model on it. With parts ≥ 3, the third part may be a
 * repetition of what the device recorded in the second.
 */
inline void all_gates(const std::string & name, bool narrow, int parts, const std::function<std::unique_ptr<Backend>()> & open, const std::string & path) {
    const std::unique_ptr<Backend> device = open();
    const ModelShape & shape = device->shape();
    const Asked asked = asked_of(test_batch(shape.vocabulary, {7, 1, 70}, 11), !narrow);
    gate_3(name, narrow, parity_with_cpu(*device, path, asked, targets_of(shape)));
    gate_3(name + " with dropout", narrow, parity_with_cpu(*device, path, asked, targets_of(shape), 0.25));
    gate_3(name + " with two targets", narrow, parity_with_cpu(*device, path, asked, {attn_v, ffn_down}));
    gate_3(name + " from its second layer", narrow, parity_with(expected_of(path, asked, targets_of(shape), 0.25, 2, 4, 1), *device, asked));
    // Adam takes full steps by the signs of gradients that are mostly rounding, so in bf16 two devices soon differ.
    gate_5(name, *device, path, asked, parts, narrow ? 0.1 : 1e-4);
    check_average(name, *device, path, asked);
    check_decoding(name, *device, path, narrow ? 2e-2 : 1e-5);
    if (!narrow) gate_7(name, *device, path, asked);
}
