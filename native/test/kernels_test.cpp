// Each op's fast function against its reference in double precision, and the draw against its distribution.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/random.h"
#include "check.h"
#include "kernels/adamw.h"
#include "kernels/cross_entropy.h"
#include "kernels/draw.h"
#include "kernels/exp.h"
#include "kernels/pool.h"
#include "kernels/rmsnorm.h"
#include "kernels/swiglu.h"

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
    const size_t n = 577; // no multiple of a vector
    const std::vector<float> x = random_values(n, 1, 6), w = random_values(n, 2, 2), dy = random_values(n, 3, 1);
    std::vector<float> y(n), dx = random_values(n, 4, 1), dgate(n), dup(n);
    std::vector<double> ry(n), rdx = widened(dx), rdgate(n), rdup(n);
    const float inv = rmsnorm(x.data(), w.data(), 1e-5f, n, y.data());
    const double rinv = reference::rmsnorm(widened(x).data(), widened(w).data(), 1e-5, n, ry.data());
    CHECK(relative_l2(y.data(), ry.data(), n) < 1e-6, "rmsnorm");
    rmsnorm_backward(x.data(), w.data(), inv, dy.data(), n, dx.data());
    reference::rmsnorm_backward(widened(x).data(), widened(w).data(), rinv, widened(dy).data(), n, rdx.data());
    CHECK(relative_l2(dx.data(), rdx.data(), n) < 1e-6, "rmsnorm_backward");
    swiglu(x.data(), w.data(), n, y.data());
    reference::swiglu(widened(x).data(), widened(w).data(), n, ry.data());
    CHECK(relative_l2(y.data(), ry.data(), n) < 1e-6, "swiglu");
    swiglu_backward(x.data(), w.data(), dy.data(), n, dgate.data(), dup.data());
    reference::swiglu_backward(widened(x).data(), widened(w).data(), widened(dy).data(), n, rdgate.data(), rdup.data());
    CHECK(relative_l2(dgate.data(), rdgate.data(), n) < 1e-6 && relative_l2(dup.data(), rdup.data(), n) < 1e-6, "swiglu_backward");
}

void test_cross_entropy() {
    const int64_t n = 5003;
    std::vector<float> logits = random_values(n, 5, 12), same = logits;
    std::vector<double> expected = widened(logits);
    const TokenLoss a = cross_entropy(same.data(), n, 77), b = cross_entropy_backward(logits.data(), n, 77, -0.7f);
    const TokenLoss r = reference::cross_entropy(expected.data(), n, 77, static_cast<double>(-0.7f));
    CHECK(std::abs(a.logprob - r.logprob) < 1e-5 && std::abs(a.entropy - r.entropy) < 1e-5, "%g %g", a.logprob - r.logprob, a.entropy - r.entropy);
    CHECK(a.logprob == b.logprob && a.entropy == b.entropy, "both passes must agree");
    CHECK(relative_l2(logits.data(), expected.data(), n) < 1e-6, "gradient");
    same[4000] = NAN;
    CHECK(std::isnan(cross_entropy(same.data(), n, 77).logprob), "a NaN among the logits must show");
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

void test_draw() {
    const int64_t n = 300;
    const std::vector<float> logits = random_values(n, 8, 4);
    const DrawOptions cases[] = {{1, 0, 1, 0}, {0.7, 20, 1, 0}, {1.3, 0, 0.8, 0}, {1, 0, 1, 0.1}, {2, 50, 0.9, 0.05}, {1, 1, 1, 0}, {1, 0, 0, 0}};
    for (const DrawOptions & options : cases) {
        const std::vector<double> p = reference::draw_distribution(logits.data(), n, options);
        std::vector<double> seen(static_cast<size_t>(n));
        constexpr int draws = 20000;
        for (int i = 0; i < draws; i++) seen[static_cast<size_t>(draw(logits.data(), n, options, (i + 0.5) / draws))] += 1.0 / draws;
        double apart = 0;
        for (size_t i = 0; i < p.size(); i++) {
            apart += std::abs(p[i] - seen[i]) / 2;
            CHECK(p[i] > 0 || seen[i] == 0, "token %zu was cut but drawn", i);
        }
        // Evenly spaced numbers hit every probability to within one draw.
        CHECK(apart < static_cast<double>(n) / draws, "temperature %g: %g apart", options.temperature, apart);
    }
    std::vector<float> tied(10, 1.0f);
    CHECK(draw(tied.data(), 10, {0, 0, 1, 0}, 0.9) == 0, "greedy takes the lowest id among equals");
    std::vector<float> broken(10, NAN);
    CHECK(draw(broken.data(), 10, {1, 0, 1, 0}, 0.5) == 0, "NaN must not be fatal here");
}

void test_pool() {
    for (int threads : {1, 2, 5}) {
        Pool pool(threads);
        for (int64_t count : {0, 1, 7, 1000}) {
            std::vector<int> touched(static_cast<size_t>(count));
            pool.split(count, 3, [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin; i < end; i++) touched[static_cast<size_t>(i)]++;
            });
            pool.each(count, [&](int64_t i, int) { touched[static_cast<size_t>(i)] += 10; });
            CHECK(std::all_of(touched.begin(), touched.end(), [](int t) { return t == 11; }), "%d threads, %lld items", threads, static_cast<long long>(count));
        }
    }
}

} // namespace

int main() {
    test_exp();
    test_elementwise();
    test_cross_entropy();
    test_adamw();
    test_draw();
    test_pool();
    return failed_checks == 0 ? 0 : 1;
}
