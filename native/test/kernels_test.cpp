// Compares each op's fast function with its reference in double precision, and the draw with its distribution.
#include <sys/resource.h> // setrlimit
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>

#include "base/failure.h"
#include "base/random.h"
#include "check.h"
#include "kernels/adamw.h"
#include "kernels/draw.h"
#include "kernels/dropout.h"
#include "kernels/exp.h"
#include "kernels/geglu.h"
#include "kernels/gemm.h"
#include "kernels/pool.h"
#include "kernels/processor.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "kernels/token_loss.h"

namespace {

std::vector<float> random_values(size_t count, uint64_t key, double spread) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; i++) values[i] = static_cast<float>((2 * random_uniform(key, i) - 1) * spread);
    return values;
}

std::vector<double> widened(const std::vector<float> & values) { return {values.begin(), values.end()}; }

void test_exp() {
    double worst = 0;
    for (double x = -86.9; x < 88; x += 0.0137) worst = std::max(worst, std::abs(static_cast<double>(fast_exp(static_cast<float>(x))) / std::exp(static_cast<double>(static_cast<float>(x))) - 1));
    CHECK(worst < 2e-7, "%g", worst);
    CHECK(std::isnan(fast_exp(NAN)), "NaN must stay NaN");
    CHECK(fast_exp(-1000) < 1e-37f, "%g", static_cast<double>(fast_exp(-1000)));
    CHECK(fast_exp(0) == 1.0f, "%g", static_cast<double>(fast_exp(0)));
}

void test_elementwise() {
    const size_t n = 577; // not a multiple of a vector's length
    const std::vector<float> x = random_values(n, 1, 6), w = random_values(n, 2, 2), dy = random_values(n, 3, 1);
    std::vector<float> y(n), dx = random_values(n, 4, 1), dgate(n), dup(n);
    std::vector<double> ry(n), rdx = widened(dx), rdgate(n), rdup(n);
    const float inv = rmsnorm(x.data(), w.data(), 1e-5f, n, y.data());
    const double rinv = reference::rmsnorm(widened(x).data(), widened(w).data(), 1e-5, n, ry.data());
    CHECK(relative_l2(y.data(), ry.data(), n) < 1e-6, "rmsnorm");
    rmsnorm_backward(x.data(), w.data(), inv, dy.data(), n, dx.data());
    reference::rmsnorm_backward(widened(x).data(), widened(w).data(), rinv, widened(dy).data(), n, rdx.data());
    CHECK(relative_l2(dx.data(), rdx.data(), n) < 1e-6, "rmsnorm_backward");
    std::vector<float> in_place = dy, added = dy;
    std::fill(rdx.begin(), rdx.end(), 0.0);
    reference::rmsnorm_backward(widened(x).data(), widened(w).data(), rinv, widened(dy).data(), n, rdx.data());
    rmsnorm_backward_only(x.data(), w.data(), inv, in_place.data(), n, in_place.data());
    CHECK(relative_l2(in_place.data(), rdx.data(), n) < 1e-6, "rmsnorm_backward_only");
    rmsnorm_add(x.data(), w.data(), 1e-5f, n, added.data());
    for (size_t i = 0; i < n; i++) ry[i] += static_cast<double>(dy[i]);
    CHECK(relative_l2(added.data(), ry.data(), n) < 1e-6, "rmsnorm_add");
    swiglu(x.data(), w.data(), n, y.data());
    reference::swiglu(widened(x).data(), widened(w).data(), n, ry.data());
    CHECK(relative_l2(y.data(), ry.data(), n) < 1e-6, "swiglu");
    swiglu_backward(x.data(), w.data(), dy.data(), n, dgate.data(), dup.data());
    reference::swiglu_backward(widened(x).data(), widened(w).data(), widened(dy).data(), n, rdgate.data(), rdup.data());
    CHECK(relative_l2(dgate.data(), rdgate.data(), n) < 1e-6 && relative_l2(dup.data(), rdup.data(), n) < 1e-6, "swiglu_backward");
    geglu(x.data(), w.data(), n, y.data());
    reference::geglu(widened(x).data(), widened(w).data(), n, ry.data());
    CHECK(relative_l2(y.data(), ry.data(), n) < 1e-6, "geglu");
    geglu_backward(x.data(), w.data(), dy.data(), n, dgate.data(), dup.data());
    reference::geglu_backward(widened(x).data(), widened(w).data(), widened(dy).data(), n, rdgate.data(), rdup.data());
    CHECK(relative_l2(dgate.data(), rdgate.data(), n) < 1e-6 && relative_l2(dup.data(), rdup.data(), n) < 1e-6, "geglu_backward");
}

/** Checks the published formulas where they are simple: pairs that turn often keep their frequency, slow ones are stretched. */
void test_rope() {
    const int64_t d = 64;
    const Rope plain{rope_frequencies(d, 10000, 1, {}), 1}, yarn = rope_yarn(d, 10000, 4, 4096);
    CHECK(plain.frequencies[0] == 1 && std::abs(plain.frequencies[16] - 0.01) < 1e-12, "%g", plain.frequencies[16]);
    // At 4096 tokens and base 10000, 32 turns fall on pair 10.44 and one turn on pair 22.51: the ramp runs from 10 to 23.
    CHECK(yarn.frequencies[10] == plain.frequencies[10], "a pair that turns 36 times keeps its frequency");
    CHECK(yarn.frequencies[11] < plain.frequencies[11], "the next one is slowed");
    CHECK(yarn.frequencies[22] > plain.frequencies[22] / 4, "a pair that just turns once is not yet fully stretched");
    CHECK(std::abs(yarn.frequencies[23] * 4 / plain.frequencies[23] - 1) < 1e-12, "one that does not is");
    CHECK(std::abs(yarn.magnitude - 1.1386294361119891) < 1e-12, "%.17g", yarn.magnitude);
    const std::vector<float> x = random_values(d, 9, 1);
    for (RopePairs pairs : {RopePairs::neighbours, RopePairs::halves})
        for (float direction : {1.0f, -1.0f}) {
            std::vector<float> table, turned = x;
            std::vector<double> expected = widened(x);
            rope_table_row(12345, pairs, yarn, table);
            rope(turned.data(), d, pairs, table.data(), direction);
            reference::rope(expected.data(), d, 12345, direction > 0 ? 1 : -1, pairs, yarn);
            CHECK(relative_l2(turned.data(), expected.data(), d) < 1e-6, "rope %g", static_cast<double>(direction));
        }
}

const std::vector<int32_t> soft_tokens = {77, 5, 4999, 5}; // one is also the target, another is named twice
const std::vector<float> soft_weights = {0.3f, -0.2f, 0.9f, 0.1f};
const std::vector<int32_t> with_rest = {5, rest_of_vocabulary, 7, 2}; // the last has no weight, so it belongs to the rest
const std::vector<float> rest_weights = {0.3f, 0.5f, 0.2f, 0};

void test_token_loss() {
    const int64_t n = 5003;
    const SoftTargets soft{soft_tokens.data(), soft_weights.data(), 4}, rest{with_rest.data(), rest_weights.data(), 4};
    const std::vector<float> logits = random_values(n, 5, 12);
    for (const LossCoefficients & c : std::vector<LossCoefficients>{{-0.7f, 0, 0}, {0, 0.4f, 0}, {0, 0, 0.01f}, {1.3f, -0.2f, 0.02f}})
        for (const SoftTargets & s : {SoftTargets{}, soft, rest}) {
            std::vector<float> same = logits, gradient = logits;
            std::vector<double> expected = widened(logits);
            const TokenLoss a = token_loss(same.data(), n, 77, s), b = token_loss_backward(gradient.data(), n, 77, c, s);
            const TokenLoss r = reference::token_loss(expected.data(), n, 77, c, s);
            CHECK(std::abs(a.logprob - r.logprob) < 1e-5 && std::abs(a.entropy - r.entropy) < 1e-5 && std::abs(a.log_sum - r.log_sum) < 1e-5, "%g %g %g", a.logprob - r.logprob,
                  a.entropy - r.entropy, a.log_sum - r.log_sum);
            CHECK(std::abs(b.loss(c, s) - r.loss(c, s)) < 1e-5, "%g and %g", b.loss(c, s), r.loss(c, s));
            CHECK(a.logprob == b.logprob && a.entropy == b.entropy && a.log_sum == b.log_sum && a.soft_logprobs == b.soft_logprobs, "both passes must agree");
            CHECK(relative_l2(gradient.data(), expected.data(), n) < 1e-6, "%g %g %g, %lld soft targets: %g", static_cast<double>(c.weight), static_cast<double>(c.entropy),
                  static_cast<double>(c.z), static_cast<long long>(s.count), relative_l2(gradient.data(), expected.data(), n));
        }
    std::vector<float> broken = logits;
    broken[4000] = NAN;
    CHECK(std::isnan(token_loss(broken.data(), n, 77).logprob), "a NaN among the logits must make the log-prob NaN");
}

/** Compares the reference's gradient with central differences of the loss it reports. */
void test_token_loss_differences() {
    const int64_t n = 23;
    const std::vector<double> logits = widened(random_values(n, 6, 3));
    const std::vector<int32_t> tokens = {7, 5, 5};
    const SoftTargets twice{tokens.data(), soft_weights.data(), 3}, rest{with_rest.data(), rest_weights.data(), 4};
    for (const LossCoefficients & c : std::vector<LossCoefficients>{{-0.7f, 0, 0}, {0, 0.4f, 0}, {0, 0, 0.1f}, {1.3f, -0.2f, 0.02f}})
        for (const SoftTargets & soft : {twice, rest}) {
            std::vector<double> gradient = logits;
            reference::token_loss(gradient.data(), n, 7, c, soft);
            for (size_t i = 0; i < static_cast<size_t>(n); i++) {
                constexpr double step = 1e-5;
                const auto loss_at = [&](double offset) {
                    std::vector<double> moved = logits;
                    moved[i] += offset;
                    return reference::token_loss(moved.data(), n, 7, c, soft).loss(c, soft);
                };
                const double numeric = (loss_at(step) - loss_at(-step)) / (2 * step);
                CHECK(std::abs(numeric - gradient[i]) < 1e-8, "logit %zu: %g and %g", i, numeric, gradient[i]);
            }
        }
}

/**
 * When the model agrees with the base, there is nothing to learn: the gradient of KL(base‖base) is 0, including the rest of the vocabulary.
 */
void test_rest_of_vocabulary() {
    const int64_t n = 211;
    const std::vector<float> logits = random_values(n, 8, 4);
    std::vector<int32_t> tokens = {3, 90, 210, 44};
    std::vector<float> ones(4, 1), weights;
    const TokenLoss said = token_loss(std::vector<float>(logits).data(), n, 0, {tokens.data(), ones.data(), 4});
    double left = 1;
    for (double logprob : said.soft_logprobs) {
        weights.push_back(static_cast<float>(std::exp(logprob)));
        left -= std::exp(logprob);
    }
    tokens.push_back(rest_of_vocabulary);
    weights.push_back(static_cast<float>(left));
    std::vector<float> gradient = logits;
    const TokenLoss again = token_loss_backward(gradient.data(), n, 0, {}, {tokens.data(), weights.data(), 5});
    CHECK(std::abs(again.soft_logprobs[4] - std::log(left)) < 1e-6, "log-prob of the rest: %g, not %g", again.soft_logprobs[4], std::log(left));
    for (float value : gradient) CHECK(std::abs(value) < 1e-7f, "gradient %g", static_cast<double>(value));
}

void test_top_tokens() {
    std::vector<float> logits = random_values(997, 12, 5);
    logits[500] = logits[3]; // a tie
    logits[10] = NAN;
    std::vector<int32_t> order;
    for (int32_t i = 0; i < 997; i++)
        if (i != 10) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
    for (const int64_t k : {int64_t{1}, int64_t{64}, int64_t{996}}) {
        const std::vector<TopToken> top = top_tokens(logits.data(), 997, 2, k);
        CHECK(static_cast<int64_t>(top.size()) == k, "%zu of %lld", top.size(), static_cast<long long>(k));
        for (size_t i = 0; i < top.size(); i++)
            CHECK(top[i].token == order[i] && top[i].logprob == logits[static_cast<size_t>(order[i])] - 2, "place %zu: %d and %d", i, top[i].token, order[i]);
    }
}

void test_adamw() {
    const size_t n = 101;
    const AdamW options{0.01, 0.9, 0.95, 1e-8, 0.1, 0};
    std::vector<float> w = random_values(n, 6, 1), m(n), v(n);
    std::vector<double> rw = widened(w), rm(n), rv(n);
    for (int step = 1; step <= 10; step++) {
        const std::vector<float> g = random_values(n, 100 + static_cast<uint64_t>(step), 1);
        adamw(options, step, 0.5, n, w.data(), g.data(), m.data(), v.data());
        reference::adamw(options, step, 0.5, n, rw.data(), widened(g).data(), rm.data(), rv.data());
    }
    CHECK(relative_l2(w.data(), rw.data(), n) < 1e-6 && relative_l2(m.data(), rm.data(), n) < 1e-5 && relative_l2(v.data(), rv.data(), n) < 1e-5, "adamw");
}

void test_dropout() {
    const int64_t n = 40003; // not a multiple of four
    const std::vector<float> x = random_values(n, 20, 1);
    for (const double rate : {0.1, 0.5, 0.9}) {
        const Dropout d(rate);
        std::vector<float> y(n), gradient = random_values(n, 21, 1), dx = x, through = gradient;
        std::vector<double> expected(n);
        dropout(d, 7, x.data(), n, y.data());
        dropout_backward(d, 7, x.data(), n, through.data(), dx.data());
        CHECK(through == y, "rate %g: what was dropped is dropped again", rate);
        reference::dropout(d, 7, widened(x).data(), n, expected.data());
        int64_t dropped = 0, together = 0;
        for (size_t i = 0; i < static_cast<size_t>(n); i++) {
            CHECK(y[i] == static_cast<float>(expected[i]) && std::abs(dx[i] - x[i] - (y[i] == 0 ? 0 : gradient[i] * d.scale)) < 1e-5f, "column %zu", i);
            dropped += y[i] == 0;
            together += i > 0 && y[i] == 0 && y[i - 1] == 0;
        }
        // Limit: five standard deviations of independent draws.
        const double share = static_cast<double>(dropped) / n, pairs = static_cast<double>(together) / n, five = 5 * std::sqrt(rate * (1 - rate) / n);
        CHECK(std::abs(share - rate) < five, "rate %g: %g", rate, share);
        CHECK(std::abs(pairs - rate * rate) < 2 * five, "rate %g: neighbours %g", rate, pairs);
        CHECK(std::abs(static_cast<double>(d.scale) * (1 - rate) - 1) < 1e-4, "rate %g: scale %g", rate, static_cast<double>(d.scale));
        std::vector<float> other(n);
        dropout(d, 8, x.data(), n, other.data());
        CHECK(other != y, "another key");
    }
}

void test_draw(int64_t n) {
    const std::vector<float> logits = random_values(n, 8, 4);
    const DrawOptions cases[] = {{1, 0, 1, 0}, {0.3, 0, 1, 0}, {0.7, 20, 1, 0}, {1.3, 0, 0.8, 0}, {1, 0, 1, 0.1}, {2, 50, 0.9, 0.05}, {1, 1, 1, 0}, {1, 0, 0, 0}};
    for (const DrawOptions & options : cases) {
        const std::vector<double> p = reference::draw_distribution(logits.data(), n, options);
        std::vector<double> seen(static_cast<size_t>(n));
        constexpr int draws = repetitions(20000);
        for (int i = 0; i < draws; i++) seen[static_cast<size_t>(draw(logits.data(), n, options, (i + 0.5) / draws))] += 1.0 / draws;
        double apart = 0;
        for (size_t i = 0; i < p.size(); i++) {
            apart += std::abs(p[i] - seen[i]) / 2;
            CHECK(p[i] > 0 || seen[i] == 0, "token %zu was cut but drawn", i);
        }
        // Evenly spaced numbers meet every probability to within one draw.
        CHECK(apart < static_cast<double>(n) / draws, "temperature %g: %g apart", options.temperature, apart);
    }
    std::vector<float> tied(10, 1.0f);
    CHECK(draw(tied.data(), 10, {0, 0, 1, 0}, 0.9) == 0, "greedy takes the lowest id among equals");
    std::vector<float> broken(10, NAN);
    CHECK(draw(broken.data(), 10, {1, 0, 1, 0}, 0.5) == 0, "NaN must not be fatal here");
}

void test_pool() {
    for (int threads : {1, 2, 5, 16}) {
        Pool pool(threads);
        for (int64_t count : {0, 1, 7, 1000}) {
            std::vector<int> touched(static_cast<size_t>(count));
            pool.split(count, 3, [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin; i < end; i++) touched[static_cast<size_t>(i)]++;
            });
            pool.each(count, [&](int64_t i, int) { touched[static_cast<size_t>(i)] += 10; });
            CHECK(std::all_of(touched.begin(), touched.end(), [](int t) { return t == 11; }), "%d threads, %lld items", threads, static_cast<long long>(count));
        }
        // Short phases follow each other. A thread that is late for one must not be counted in the next, nor read what is gone.
        int64_t sum = 0;
        constexpr int64_t phases = repetitions(5000);
        for (int64_t phase = 0; phase < phases; phase++) {
            std::array<int64_t, 3> parts{};
            pool.each(3, [&](int64_t i, int) { parts[static_cast<size_t>(i)] += phase + i; });
            sum += parts[0] + parts[1] + parts[2];
        }
        CHECK(sum == 3 * (phases * (phases - 1) / 2 + phases), "%d threads: %lld", threads, static_cast<long long>(sum));
    }
}

#ifndef __SANITIZE_ADDRESS__ // the sanitizer's own address space is without bounds
/** In a process of its own, which has room for a few threads' stacks. */
void test_pool_without_threads() {
    const pid_t child = ::fork();
    if (child == 0) {
        long pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        const auto bytes = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE)) + (rlim_t{64} << 20);
        const rlimit limit{bytes, bytes};
        ::setrlimit(RLIMIT_AS, &limit);
        try {
            Pool pool(64);
        } catch (const Failure & failure) {
            ::_exit(failure.code == "out_of_memory" ? 0 : 1);
        }
        ::_exit(2);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0, "status %d", status);
}
#endif

// A processor newer than OpenBLAS must not get the kernels of the oldest one.
void test_gemm_kernels() {
    const std::string name = gemm_prepare();
    const bool wide = PROCESSOR_HAS("avx512f") && PROCESSOR_HAS("avx512vl");
    CHECK(name == "SkylakeX" || (!wide && (name == "Haswell" || name == "Zen")), "%s", name.c_str());
}

} // namespace

int main() {
    test_exp();
    test_elementwise();
    test_rope();
    test_token_loss();
    test_token_loss_differences();
    test_rest_of_vocabulary();
    test_top_tokens();
    test_adamw();
    test_dropout();
    test_draw(300);
    test_draw(2500); // three blocks of softmax_block
    test_pool();
#ifndef __SANITIZE_ADDRESS__
    test_pool_without_threads();
#endif
    test_gemm_kernels();
    return failed_checks == 0 ? 0 : 1;
}
