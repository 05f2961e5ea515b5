// What a product in bf16 gains over OpenBLAS's in single precision: one thread, the shapes of SmolLM2-135M and more, both in turn, the
// best of several by the thread's own processor time, weights dense and packed before. Build and run:
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

void compare(int64_t m, int64_t n, int64_t k, int repeats) {
    const int64_t pairs = bf16::pairs_of(k), strips = (n + bf16::strip - 1) / bf16::strip, wide = std::max<int64_t>(1, std::min<int64_t>(4, (1 << 17) / (pairs * bf16::strip)));
    Buffer<float> x, w, c(static_cast<size_t>(m * n)), narrow_c(static_cast<size_t>(m * n));
    fill(x, m * k);
    fill(w, n * k);
    Buffer<uint32_t> a(static_cast<size_t>(m * pairs)), b(static_cast<size_t>(strips * bf16::strip * pairs));
    for (int64_t row = 0; row < n; row += bf16::lanes)
        bf16::pack_rows(w.data() + row * k, k, std::min(bf16::lanes, n - row), k, b.data() + row / bf16::strip * bf16::strip * pairs + row % bf16::strip);
    double single = INFINITY, narrow = INFINITY, rounding = INFINITY;
    for (int i = 0; i < repeats; i++) {
        const double start = seconds();
        gemm(Side::plain, Side::transposed, m, n, k, 1, x.data(), k, w.data(), k, 0, c.data(), n);
        const double middle = seconds();
        for (int64_t row = 0; row < m; row++) bf16::round_row(x.data() + row * k, k, a.data() + row * pairs);
        const double rounded = seconds();
        for (int64_t first = 0; first < strips; first += wide)
            for (int64_t row = 0; row < m; row += 6)
                for (int64_t s = first; s < std::min(strips, first + wide); s++)
                    bf16::multiply(std::min<int64_t>(6, m - row), std::min(bf16::strip, n - s * bf16::strip), pairs, a.data() + row * pairs, pairs, b.data() + s * bf16::strip * pairs,
                                   false, narrow_c.data() + row * n + s * bf16::strip, n);
        single = std::min(single, middle - start);
        rounding = std::min(rounding, rounded - middle);
        narrow = std::min(narrow, seconds() - rounded);
    }
    const double gigaflops = 2e-9 * static_cast<double>(m * n) * static_cast<double>(k);
    std::printf("| %lld, %lld, %lld | %.1f | %.1f | %.1f | %.2f |\n", static_cast<long long>(m), static_cast<long long>(n), static_cast<long long>(k), gigaflops / single,
                gigaflops / narrow, gigaflops / (narrow + rounding), single / (narrow + rounding));
}

} // namespace

int main(int count, char ** arguments) {
    if (!bf16::supported()) {
        std::printf("this processor does not multiply bf16\n");
        return 1;
    }
    std::printf("OpenBLAS %s\n\n| m, n, k | fp32, GFLOPS | bf16 | with rounding of the input | times fp32 |\n| --- | --- | --- | --- | --- |\n", gemm_prepare());
    for (const int64_t m : {64, 256, 512})
        for (const auto & [n, k] : {std::pair<int64_t, int64_t>{576, 576}, {192, 576}, {1536, 576}, {576, 1536}, {49152, 576}}) compare(m, n, k, count > 1 ? std::atoi(arguments[1]) : 20);
    return 0;
}
