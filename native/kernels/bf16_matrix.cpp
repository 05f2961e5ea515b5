// The products of matrix.h in bf16. Each part of a product has two phases, both cut finely and given to whoever is free: the weights
// are dequantised, rounded and packed into strips, the other input rounded into rows; then tiles of tokens and strips are multiplied.
#include <algorithm>

#include "kernels/bf16_gemm.h"
#include "kernels/matrix.h"

namespace {

using bf16::lanes;
using bf16::pairs_of;
using bf16::strip;

/** Columns that are dequantised at a time, a multiple of every block. */
constexpr int64_t columns_at_a_time = 256;
/** Tokens, and rows of a weight, that one task rounds. */
constexpr int64_t rows_of_task = 32;

int64_t pieces(int64_t count, int64_t size) { return (count + size - 1) / size; }

/** At most `strip` columns of an output. */
struct Strip {
    const Matrix * w;
    int64_t begin, count; // rows of w forward, columns of it backward
    float * out;          // of the first token
    int64_t stride;       // between tokens
};

/** Output of strip s, and += with add, of a [tokens, pairs] and strip s of b: count strips. */
void multiply(Pool & pool, const Strip * strips, int64_t count, int64_t tokens, int64_t pairs, const uint32_t * a, const uint32_t * b, bool add) {
    // Strips that stay in the second-level cache, while six rows of tokens at a time are multiplied with all of them.
    constexpr int64_t cached_pairs = int64_t{1} << 17, row_block = 6;
    const int64_t wide = std::max<int64_t>(1, std::min({int64_t{4}, pieces(count, pool.threads()), cached_pairs / (pairs * strip)}));
    const int64_t across = pieces(count, wide);
    // Some tiles a thread, that nobody waits long for the last one; of a few row blocks at least, that a strip is not read for one alone.
    const int64_t along = pool.threads() == 1 ? 1 : pieces(int64_t{3} * pool.threads(), across);
    const int64_t high = std::max<int64_t>(2, pieces(pieces(tokens, row_block), along)) * row_block;
    pool.each(across * pieces(tokens, high), [&](int64_t task, int) {
        const int64_t first = task % across * wide, last = std::min(count, first + wide);
        const int64_t begin = task / across * high, end = std::min(tokens, begin + high);
        for (int64_t t = begin; t < end; t += row_block)
            for (int64_t s = first; s < last; s++) {
                const Strip & to = strips[s];
                bf16::multiply(std::min(row_block, end - t), to.count, pairs, a + t * pairs, pairs, b + s * pairs * strip, add, to.out + t * to.stride, to.stride);
            }
    });
}

/** Rows [row, row + count ≤ lanes) of w, columns [from, from + k), as lanes of a strip. */
void pack_lanes(const Matrix & w, int64_t row, int64_t count, int64_t from, int64_t k, uint32_t * to) {
    alignas(64) float dense[lanes * columns_at_a_time];
    for (int64_t at = 0; at < k; at += columns_at_a_time) {
        const int64_t columns = std::min(columns_at_a_time, k - at);
        for (int64_t r = 0; r < count; r++) w.read(row + r, from + at, columns, dense + r * columns_at_a_time);
        bf16::pack_rows(dense, columns_at_a_time, count, columns, to + at / 2 * strip);
    }
}

/** Rows [row, row + count) of w as pairs along k, columns [column, column + columns ≤ columns_at_a_time) as lanes of strips that are strip_pairs long. */
void pack_along(const Matrix & w, int64_t row, int64_t count, int64_t column, int64_t columns, uint32_t * to, int64_t strip_pairs) {
    alignas(64) float dense[2][columns_at_a_time];
    for (int64_t r = 0; r < count; r += 2) {
        const bool odd = r + 1 < count;
        w.read(row + r, column, columns, dense[0]);
        if (odd) w.read(row + r + 1, column, columns, dense[1]);
        for (int64_t c = 0; c < columns; c += strip)
            bf16::pack_pair(dense[0] + c, odd ? dense[1] + c : nullptr, std::min(strip, columns - c), to + c * strip_pairs + r / 2 * strip);
    }
}

} // namespace

void linear_bf16(Pool & pool, Panels & panels, const std::vector<Product> & products, const float * x, int64_t tokens, bool add) {
    const int64_t columns = products[0].w->columns;
    std::vector<Strip> strips;
    for (const Product & p : products)
        for (int64_t row = 0; row < p.w->rows; row += strip) strips.push_back({p.w, row, std::min(strip, p.w->rows - row), p.y + row, p.w->rows});
    for (int64_t from = 0; from < columns; from += bf16_depth) {
        const int64_t k = std::min(bf16_depth, columns - from), pairs = pairs_of(k);
        uint32_t *a = panels.rounded.ensure(static_cast<size_t>(tokens * pairs)), *b = panels.pairs();
        const auto all = static_cast<int64_t>(strips.size()), fitting = panels.pairs_capacity() / (pairs * strip);
        for (int64_t first = 0; first < all; first += fitting) {
            const int64_t count = std::min(fitting, all - first);
            {
                const Timed timed(panels.profile, Op::dequantise);
                const int64_t rounding = first == 0 ? pieces(tokens, rows_of_task) : 0, parts = strip / lanes;
                pool.each(rounding + count * parts, [&](int64_t task, int) {
                    if (task < rounding) {
                        const int64_t end = std::min(tokens, (task + 1) * rows_of_task);
                        for (int64_t t = task * rows_of_task; t < end; t++) bf16::round_row(x + t * columns + from, k, a + t * pairs);
                        return;
                    }
                    const int64_t s = (task - rounding) / parts, lane = (task - rounding) % parts * lanes;
                    const Strip & of = strips[static_cast<size_t>(first + s)];
                    if (lane < of.count) pack_lanes(*of.w, of.begin + lane, std::min(lanes, of.count - lane), from, k, b + s * pairs * strip + lane);
                });
            }
            multiply(pool, &strips[static_cast<size_t>(first)], count, tokens, pairs, a, b, add || from > 0);
        }
    }
}

void linear_backward_bf16(Pool & pool, Panels & panels, const std::vector<Product> & products, float * dx, int64_t tokens, bool add) {
    const int64_t columns = products[0].w->columns;
    std::vector<Strip> strips;
    for (int64_t column = 0; column < columns; column += strip) strips.push_back({nullptr, column, std::min(strip, columns - column), dx + column, columns});
    const auto across = static_cast<int64_t>(strips.size()), wide = pieces(columns, columns_at_a_time);
    const int64_t most_pairs = std::min(bf16_depth / 2, panels.pairs_capacity() / (across * strip));

    // The sum runs over the rows of all products, one behind the other; a piece of it has rows of one product.
    struct Piece {
        const Product * of;
        int64_t row, count, pair; // the first one's place among the pairs of the part
    };
    size_t product = 0;
    int64_t row = 0;
    for (bool more = add; product < products.size(); more = true) {
        std::vector<Piece> part;
        int64_t pairs = 0;
        while (product < products.size() && pairs < most_pairs) {
            const int64_t left = products[product].w->rows - row, count = std::min({left, 2 * (most_pairs - pairs), rows_of_task});
            part.push_back({&products[product], row, count, pairs});
            pairs += pairs_of(count);
            row += count;
            if (count == left) {
                product++;
                row = 0;
            }
        }
        uint32_t *a = panels.rounded.ensure(static_cast<size_t>(tokens * pairs)), *b = panels.pairs();
        {
            const Timed timed(panels.profile, Op::dequantise);
            const int64_t rounding = pieces(tokens, rows_of_task);
            pool.each(rounding + static_cast<int64_t>(part.size()) * wide, [&](int64_t task, int) {
                if (task < rounding) {
                    const int64_t end = std::min(tokens, (task + 1) * rows_of_task);
                    for (int64_t t = task * rows_of_task; t < end; t++)
                        for (const Piece & p : part) bf16::round_row(p.of->y + t * p.of->w->rows + p.row, p.count, a + t * pairs + p.pair);
                    return;
                }
                const Piece & p = part[static_cast<size_t>((task - rounding) / wide)];
                const int64_t column = (task - rounding) % wide * columns_at_a_time;
                pack_along(*p.of->w, p.row, p.count, column, std::min(columns_at_a_time, columns - column), b + column * pairs + p.pair * strip, pairs);
            });
        }
        multiply(pool, strips.data(), across, tokens, pairs, a, b, more);
    }
}
