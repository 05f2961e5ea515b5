#include "kernels/gemm.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/buffer.h"
#include "kernels/bf16_gemm.h"
#include "kernels/f32_gemm.h"
#include "kernels/processor.h"

namespace {

/**
 * Names OpenBLAS's kernels for this processor before OpenBLAS itself looks (its constructor has no priority, so that this one comes
 * first). It goes by model numbers, and one that is newer than the library gets kernels for SSE3: on an Emerald Rapids 0.3.21
 * reaches 32 GFLOPS a core with them, 151 with those for AVX-512 (111 with those it would take for bfloat16's sake). What the
 * environment says holds.
 */
__attribute__((constructor(101))) void choose_kernels() {
    __builtin_cpu_init();
    const bool wide = PROCESSOR_HAS("avx512f") && PROCESSOR_HAS("avx512dq") && PROCESSOR_HAS("avx512bw") &&
                      PROCESSOR_HAS("avx512vl");
    setenv("OPENBLAS_CORETYPE", wide ? "SkylakeX" : __builtin_cpu_is("amd") ? "Zen" : "Haswell", 0);
}

} // namespace

const char * gemm_prepare() {
    openblas_set_num_threads(1);
    return openblas_get_corename();
}

std::vector<Tiling> tilings(const std::vector<TiledGemm> & products) {
    constexpr TileLimits limits{8, 32, 256, 16, 32, 256};
    const auto multiplications = [](const TiledGemm & p) {
        int64_t k = 0;
        for (const Factors & f : p.sum) k += f.k;
        return static_cast<double>(p.m * p.n) * static_cast<double>(k);
    };
    double all = 0;
    for (const TiledGemm & p : products) all += multiplications(p);
    std::vector<Tiling> cut;
    for (const TiledGemm & p : products) {
        const double share = all > 0 ? multiplications(p) / all : 1;
        cut.emplace_back(p.m, p.n, static_cast<int64_t>(std::ceil(share * static_cast<double>(tiles_for(all)))), limits);
    }
    return cut;
}

void gemms(Pool & pool, const std::vector<TiledGemm> & products) {
    const std::vector<Tiling> cut = tilings(products);
    int64_t count = 0;
    for (const Tiling & t : cut) count += t.count();
    pool.each(count, [&](int64_t task, int) {
        size_t of = 0;
        for (; task >= cut[of].count(); of++) task -= cut[of].count();
        const TiledGemm & p = products[of];
        const Tile t = cut[of].at(task);
        for (const Factors & f : p.sum) {
            const float * a = f.a + (p.a_side == Side::plain ? t.row * f.lda : t.row);
            const float * b = f.b + (p.b_side == Side::plain ? t.column : t.column * f.ldb);
            gemm(p.a_side, p.b_side, t.rows, t.columns, f.k, p.alpha, a, f.lda, b, f.ldb, &f == &p.sum[0] ? p.beta : 1, p.c + t.row * p.ldc + t.column, p.ldc);
        }
    });
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
        for (int64_t column = 0; column < n; column += f32::strip) {
            if (inputs == Number::f32)
                f32::multiply(m, f32::strip, k, o.a.data(), k, o.b.data() + column * k, false, o.c.data() + column, n);
            else
                bf16::multiply(m, bf16::strip, pairs, o.narrow_a.data(), pairs, o.narrow_b.data() + column * pairs, false, o.c.data() + column, n);
        }
    };
    double best = 0;
    const auto start = Clock::now();
    // The best of several: what disturbs one of them is not the machine's rate.
    while (Clock::now() - start < std::chrono::milliseconds(200)) {
        const auto begin = Clock::now();
        pool.each(pool.threads(), [&](int64_t task, int) { multiply(operands[static_cast<size_t>(task)]); });
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        best = std::max(best, 2.0 * m * n * k * pool.threads() / seconds);
    }
    return best;
}
