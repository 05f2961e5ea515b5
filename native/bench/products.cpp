// Compares our products with OpenBLAS's, in single precision and in bf16, on one thread and for the shapes of SmolLM2-135M. Each figure is
// the best of several runs by the thread's own processor time. Weights are dense. "Packing" is that of the weights; a pass dequantises and
// packs in one step. Build and run:
//
//     cmake --build build --target bench_products && build/bench_products [repeats]
#include <time.h> // clock_gettime

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/buffer.h"
#include "kernels/bf16_gemm.h"
#include "kernels/f32_gemm.h"
#include "kernels/gemm.h"

namespace {

double seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void fill(Buffer<float> & values, int64_t count) {
    values.ensure(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; i++) values[static_cast<size_t>(i)] = static_cast<float>(std::rand() % 2001 - 1000) / 1000;
}

/** Calls f(first row, rows, strip) over tiles whose strips stay in the second-level cache, as matrix.cpp does. */
template <class F> void each_tile(int64_t m, int64_t n, int64_t steps, const F & f) {
    const int64_t strips = (n + f32::strip - 1) / f32::strip;
    const Tiling tiling = product_tiling(m, strips * f32::strip, steps);
    for (int64_t i = 0; i < tiling.count(); i++) {
        const Tile t = tiling.at(i);
        for (int64_t row = t.row; row < t.row + t.rows; row += product_row_block)
            for (int64_t s = t.column / f32::strip; s < (t.column + t.columns) / f32::strip; s++) f(row, std::min(product_row_block, t.row + t.rows - row), s);
    }
}

void compare(int64_t m, int64_t n, int64_t k, int repeats) {
    constexpr int64_t strip = f32::strip, lanes = f32::lanes;
    const int64_t pairs = bf16::pairs_of(k), padded = (n + strip - 1) / strip * strip;
    const f32::Packing packed = f32::packing(k);
    const auto place = [&](auto & b, int64_t row, int64_t steps, int64_t group) { return b.data() + row / strip * strip * steps + row % strip / lanes * group; };
    Buffer<float> x, w, b(static_cast<size_t>(padded * k)), c(static_cast<size_t>(m * n));
    fill(x, m * k);
    fill(w, n * k);
    Buffer<uint32_t> narrow_a(static_cast<size_t>(m * pairs)), narrow_b(static_cast<size_t>(padded * pairs));
    double theirs = INFINITY, packing = INFINITY, ours = INFINITY, rounding = INFINITY, narrow = INFINITY;
    for (int i = 0; i < repeats; i++) {
        const auto timed = [](double & best, const auto & f) {
            const double start = seconds();
            f();
            best = std::min(best, seconds() - start);
        };
        timed(theirs, [&] { gemm(Side::plain, Side::transposed, m, n, k, 1, x.data(), k, w.data(), k, 0, c.data(), n); });
        timed(packing, [&] {
            for (int64_t row = 0; row < n; row += lanes) f32::pack_rows(w.data() + row * k, k, std::min(lanes, n - row), k, place(b, row, k, packed.group), packed.step);
        });
        timed(ours, [&] {
            each_tile(m, n, k, [&](int64_t row, int64_t rows, int64_t s) {
                f32::multiply(rows, std::min(strip, n - s * strip), k, {x.data() + row * k, k, 1}, {b.data() + s * strip * k, packed}, false, c.data() + row * n + s * strip, n);
            });
        });
        if (!bf16::supported()) continue;
        timed(rounding, [&] {
            for (int64_t row = 0; row < m; row++) bf16::round_row(x.data() + row * k, k, narrow_a.data() + row * pairs);
            for (int64_t row = 0; row < n; row += lanes) bf16::pack_rows(w.data() + row * k, k, std::min(lanes, n - row), k, place(narrow_b, row, pairs, lanes));
        });
        timed(narrow, [&] {
            each_tile(m, n, pairs, [&](int64_t row, int64_t rows, int64_t s) {
                bf16::multiply(rows, std::min(strip, n - s * strip), pairs, narrow_a.data() + row * pairs, pairs, narrow_b.data() + s * strip * pairs, false, c.data() + row * n + s * strip, n);
            });
        });
    }
    const double gigaflops = 2e-9 * static_cast<double>(m * n) * static_cast<double>(k);
    std::printf("| %lld, %lld, %lld | %.1f | %.1f | %.1f | %.1f | %.1f |\n", static_cast<long long>(m), static_cast<long long>(n), static_cast<long long>(k), gigaflops / theirs,
                gigaflops / ours, gigaflops / (ours + packing), gigaflops / narrow, gigaflops / (narrow + rounding));
}

} // namespace

int main(int count, char ** arguments) {
    const int repeats = count > 1 ? std::atoi(arguments[1]) : 20;
    if (repeats < 1) {
        std::printf("usage: bench_products [repeats]\n");
        return 2;
    }
    std::printf("OpenBLAS %s%s; GFLOPS\n\n", gemm_prepare(), bf16::supported() ? "" : "; this processor does not multiply bf16");
    std::printf("| m, n, k | sgemm | fp32 | with packing | bf16 | with packing and rounding |\n| --- | --- | --- | --- | --- | --- |\n");
    for (const int64_t m : {64, 256, 512})
        for (const auto & [n, k] : {std::pair<int64_t, int64_t>{576, 576}, {192, 576}, {1536, 576}, {576, 1536}, {49152, 576}}) compare(m, n, k, repeats);
    return 0;
}
