#include "kernels/gemm.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

namespace {

/**
 * Names OpenBLAS's kernels for this processor before OpenBLAS itself looks (its constructor has no priority, so that this one comes
 * first). It goes by model numbers, and one that is newer than the library gets kernels for SSE3: on an Emerald Rapids 0.3.21
 * reaches 32 GFLOPS a core with them, 151 with those for AVX-512 (111 with those it would take for bfloat16's sake). What the
 * environment says holds.
 */
__attribute__((constructor(101))) void choose_kernels() {
    __builtin_cpu_init();
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl");
    setenv("OPENBLAS_CORETYPE", wide ? "SkylakeX" : __builtin_cpu_is("amd") ? "Zen" : "Haswell", 0);
}

} // namespace

const char * gemm_prepare() {
    openblas_set_num_threads(1);
    return openblas_get_corename();
}

double gemm_rate(Pool & pool) {
    constexpr int64_t m = 512, n = 1024, k = 1024;
    using Clock = std::chrono::steady_clock;
    std::vector<std::vector<float>> a, b, c;
    for (int thread = 0; thread < pool.threads(); thread++) {
        a.emplace_back(m * k, 0.5f);
        b.emplace_back(n * k, 0.25f);
        c.emplace_back(m * n);
    }
    double best = 0;
    const auto start = Clock::now();
    // The best of several: what disturbs one of them is not the machine's rate.
    while (Clock::now() - start < std::chrono::milliseconds(200)) {
        const auto begin = Clock::now();
        pool.run([&](int thread) {
            const auto t = static_cast<size_t>(thread);
            gemm(Side::plain, Side::transposed, m, n, k, 1, a[t].data(), k, b[t].data(), k, 0, c[t].data(), n);
        });
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        best = std::max(best, 2.0 * m * n * k * pool.threads() / seconds);
    }
    return best;
}
