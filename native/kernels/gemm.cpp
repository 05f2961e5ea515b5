#include "kernels/gemm.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "base/buffer.h"
#include "kernels/bf16_gemm.h"

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

double gemm_rate(Pool & pool, Number inputs) {
    constexpr int64_t m = 512, n = 1024, k = 1024, pairs = bf16::pairs_of(k);
    using Clock = std::chrono::steady_clock;
    struct Operands {
        Buffer<float> a{m * k}, b{n * k}, c{m * n};
        Buffer<uint32_t> narrow_a{m * pairs}, narrow_b{n * pairs};
    };
    std::vector<Operands> operands(static_cast<size_t>(pool.threads()));
    for (Operands & o : operands) {
        std::fill_n(o.a.data(), m * k, 0.5f);
        std::fill_n(o.b.data(), n * k, 0.25f);
        std::fill_n(o.narrow_a.data(), m * pairs, 0x3f003f00u); // 0.5 twice
        std::fill_n(o.narrow_b.data(), n * pairs, 0x3e803e80u);
    }
    const auto multiply = [&](Operands & o) {
        if (inputs == Number::f32) return gemm(Side::plain, Side::transposed, m, n, k, 1, o.a.data(), k, o.b.data(), k, 0, o.c.data(), n);
        for (int64_t column = 0; column < n; column += bf16::strip)
            bf16::multiply(m, bf16::strip, pairs, o.narrow_a.data(), pairs, o.narrow_b.data() + column * pairs, false, o.c.data() + column, n);
    };
    double best = 0;
    const auto start = Clock::now();
    // The best of several: what disturbs one of them is not the machine's rate.
    while (Clock::now() - start < std::chrono::milliseconds(200)) {
        const auto begin = Clock::now();
        pool.run([&](int thread) { multiply(operands[static_cast<size_t>(thread)]); });
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        best = std::max(best, 2.0 * m * n * k * pool.threads() / seconds);
    }
    return best;
}
