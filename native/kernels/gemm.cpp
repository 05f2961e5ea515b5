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
 * Chooses OpenBLAS's kernels for this processor before OpenBLAS does: its constructor has no priority, so this one runs first. OpenBLAS
 * goes by model numbers, and a processor that is newer than the library gets kernels for SSE3. On an Emerald Rapids, OpenBLAS 0.3.21
 * reaches 32 GFLOPS per core with these, 151 with the kernels for AVX-512, and 111 with those that it takes for processors with bfloat16. A
 * value that the environment sets stays. OpenBLAS's constructor also starts a thread for each core, none of which is used, and ends the
 * process where the machine gives none: it is told to start none.
 */
__attribute__((constructor(101))) void choose_kernels() {
    __builtin_cpu_init();
    const bool wide = PROCESSOR_HAS("avx512f") && PROCESSOR_HAS("avx512dq") && PROCESSOR_HAS("avx512bw") &&
                      PROCESSOR_HAS("avx512vl");
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OPENBLAS_CORETYPE", wide ? "SkylakeX" : __builtin_cpu_is("amd") ? "Zen" : "Haswell", 0);
}

} // namespace

const char * gemm_prepare() {
    openblas_set_num_threads(1);
    return openblas_get_corename();
}

namespace {

using f32::lanes;
using f32::strip;

/**
 * How much of the sum is computed at a time. The lines of matrices whose rows lie far apart are then still in the second-level cache for
 * the next rows.
 */
constexpr int64_t depth = 128;

/** Columns [first, first + columns) of a product. packed: where their B is packed; null when B is read as stored. */
struct Part {
    const TiledGemm * of;
    int64_t first, columns;
    float * packed;
    Tiling tiling;
};

/** B is packed when it is transposed, scaled, or ends within a group of lanes. It is the smaller input of every product of a LoRA. */
bool packs(const TiledGemm & p) { return p.b_side == Side::transposed || p.alpha != 1 || p.n % lanes != 0; }

int64_t strips_of(int64_t columns) { return (columns + strip - 1) / strip; }

/** Packs one group of lanes of a part, beginning at its column `lane`. */
void pack(const Part & part, int64_t lane) {
    const TiledGemm & p = *part.of;
    const int64_t column = part.first + lane, count = std::min(lanes, part.columns - lane);
    const f32::Packing packed = f32::packing(p.k);
    float * to = part.packed + lane / strip * strip * p.k + packed.at(lane % strip, 0);
    f32::pack(p.b, p.ldb, p.b_side == Side::transposed, column, count, p.k, p.alpha, to, packed.step);
}

void multiply(const Part & part, const Tile & tile) {
    const TiledGemm & p = *part.of;
    const bool turned = p.a_side == Side::transposed;
    const f32::Packing packed = part.packed ? f32::packing(p.k) : f32::Packing{lanes, p.ldb};
    const int64_t end = tile.row + tile.rows, last = std::min(part.columns, tile.column + tile.columns);
    for (int64_t from = 0; from < p.k; from += depth)
        for (int64_t row = tile.row; row < end; row += product_row_block)
            for (int64_t column = tile.column; column < last; column += strip) {
                const f32::Left left = turned ? f32::Left{p.a + from * p.lda + row, 1, p.lda} : f32::Left{p.a + row * p.lda + from, p.lda, 1};
                const f32::Right right{(part.packed ? part.packed + column * p.k : p.b + part.first + column) + packed.at(0, from), packed};
                f32::multiply(std::min(product_row_block, end - row), std::min(strip, last - column), std::min(depth, p.k - from), left, right, p.add || from > 0,
                              p.c + row * p.ldc + part.first + column, p.ldc);
            }
}

/** Calls f(part, task within the part) for all tasks of all parts. */
template <class Count, class F> void each_of(Pool & pool, const std::vector<Part> & parts, const Count & count, const F & f) {
    int64_t all = 0;
    for (const Part & part : parts) all += count(part);
    pool.each(all, [&](int64_t task, int) {
        size_t of = 0;
        for (; task >= count(parts[of]); of++) task -= count(parts[of]);
        f(parts[of], task);
    });
}

void multiply(Pool & pool, const std::vector<Part> & parts) {
    each_of(pool, parts, [](const Part & part) { return part.packed ? (part.columns + lanes - 1) / lanes : 0; }, [](const Part & part, int64_t group) { pack(part, group * lanes); });
    each_of(pool, parts, [](const Part & part) { return part.tiling.count(); }, [](const Part & part, int64_t tile) { multiply(part, part.tiling.at(tile)); });
}

} // namespace

/** Computes a product whose sum is too long for the scratch: in pieces of k, which are added in the same order as without the cut. */
static void gemm_in_pieces(Pool & pool, const TiledGemm & p, float * scratch, int64_t scratch_floats) {
    const int64_t longest = scratch_floats / strip / depth * depth;
    for (int64_t from = 0; from < p.k; from += longest) {
        TiledGemm piece = p;
        piece.k = std::min(longest, p.k - from);
        piece.a += p.a_side == Side::transposed ? from * p.lda : from;
        piece.b += p.b_side == Side::transposed ? from : from * p.ldb;
        piece.add = p.add || from > 0;
        gemms(pool, {piece}, scratch, scratch_floats);
    }
}

void gemms(Pool & pool, const std::vector<TiledGemm> & products, float * scratch, int64_t scratch_floats) {
    std::vector<Part> parts;
    int64_t used = 0;
    for (const TiledGemm & p : products) {
        if (packs(p) && strip * p.k > scratch_floats) {
            gemm_in_pieces(pool, p, scratch, scratch_floats);
            continue;
        }
        for (int64_t first = 0, columns; first < p.n && p.m > 0; first += columns) {
            const int64_t of_strip = packs(p) ? strip * p.k : 0;
            if (used + of_strip > scratch_floats) {
                multiply(pool, parts);
                parts.clear();
                used = 0;
            }
            const int64_t strips = of_strip > 0 ? std::min(strips_of(p.n - first), (scratch_floats - used) / of_strip) : strips_of(p.n);
            columns = std::min(p.n - first, strips * strip);
            parts.push_back({&p, first, columns, of_strip > 0 ? scratch + used : nullptr, product_tiling(p.m, strips * strip, p.k)});
            used += strips * of_strip;
        }
    }
    multiply(pool, parts);
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
                f32::multiply(m, f32::strip, k, {o.a.data(), k, 1}, {o.b.data() + column * k, f32::packing(k)}, false, o.c.data() + column, n);
            else
                bf16::multiply(m, bf16::strip, pairs, o.narrow_a.data(), pairs, o.narrow_b.data() + column * pairs, false, o.c.data() + column, n);
        }
    };
    double best = 0;
    const auto start = Clock::now();
    // The best of several runs counts, because a disturbed run does not show the machine's rate.
    while (Clock::now() - start < std::chrono::milliseconds(200)) {
        const auto begin = Clock::now();
        pool.each(pool.threads(), [&](int64_t task, int) { multiply(operands[static_cast<size_t>(task)]); });
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        best = std::max(best, 2.0 * m * n * k * pool.threads() / seconds);
    }
    return best;
}
