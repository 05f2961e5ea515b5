// Each part of a product has two phases, both cut finely and given to whoever is free: the weights are dequantised and packed into
// strips (and, in bf16, rounded, as the other input is), then tiles of tokens and strips are multiplied.
#include "kernels/matrix.h"

#include <algorithm>
#include <cstring>

#include "kernels/bf16_gemm.h"
#include "kernels/f32_gemm.h"
#include "kernels/tiling.h"

void Matrix::read(int64_t row, int64_t column, int64_t count, float * to) const {
    const uint8_t * from = data + static_cast<size_t>(row) * ggml_row_size(type, columns) + ggml_row_size(type, column);
    if (type == GGML_TYPE_F32)
        std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    else
        ggml_get_type_traits(type)->to_float(from, to, count);
}

namespace {

constexpr int64_t strip = 64, lanes = 16;
static_assert(f32::strip == strip && f32::lanes == lanes && bf16::strip == strip && bf16::lanes == lanes);

/** Columns that are dequantised at a time, a multiple of every block. */
constexpr int64_t columns_at_a_time = 256;
/** Tokens, and rows of a weight, that one task rounds. */
constexpr int64_t rows_of_task = 32;

int64_t pieces(int64_t count, int64_t size) { return (count + size - 1) / size; }

/** What the products below need of a precision. A step along k is one value, or a pair. */
struct Single {
    using Value = float;
    static constexpr bool rounds = false;
    static int64_t steps(int64_t k) { return k; }
    static void pack_rows(const float * from, int64_t stride, int64_t rows, int64_t k, float * to) { f32::pack_rows(from, stride, rows, k, to); }
    static void multiply(int64_t m, int64_t n, int64_t steps, const float * a, int64_t lda, const float * b, bool add, float * c, int64_t ldc) {
        f32::multiply(m, n, steps, a, lda, b, add, c, ldc);
    }
    static float * panel(Panels & panels) { return panels.floats(); }

    /** Rows [row, row + count) of w along k, columns [column, column + columns ≤ columns_at_a_time) as lanes of strips that are strip_steps long. */
    static void pack_along(const Matrix & w, int64_t row, int64_t count, int64_t column, int64_t columns, float * to, int64_t strip_steps) {
        float dense[columns_at_a_time];
        for (int64_t r = 0; r < count; r++) {
            w.read(row + r, column, columns, dense);
            for (int64_t c = 0; c < columns; c += strip) std::copy_n(dense + c, std::min(strip, columns - c), to + c * strip_steps + r * strip);
        }
    }
};

struct Narrow {
    using Value = uint32_t;
    static constexpr bool rounds = true;
    static int64_t steps(int64_t k) { return bf16::pairs_of(k); }
    static void pack_rows(const float * from, int64_t stride, int64_t rows, int64_t k, uint32_t * to) { bf16::pack_rows(from, stride, rows, k, to); }
    static void multiply(int64_t m, int64_t n, int64_t steps, const uint32_t * a, int64_t lda, const uint32_t * b, bool add, float * c, int64_t ldc) {
        bf16::multiply(m, n, steps, a, lda, b, add, c, ldc);
    }
    static uint32_t * panel(Panels & panels) { return panels.pairs(); }

    static void pack_along(const Matrix & w, int64_t row, int64_t count, int64_t column, int64_t columns, uint32_t * to, int64_t strip_steps) {
        alignas(64) float dense[2][columns_at_a_time];
        for (int64_t r = 0; r < count; r += 2) {
            const bool odd = r + 1 < count;
            w.read(row + r, column, columns, dense[0]);
            if (odd) w.read(row + r + 1, column, columns, dense[1]);
            for (int64_t c = 0; c < columns; c += strip)
                bf16::pack_pair(dense[0] + c, odd ? dense[1] + c : nullptr, std::min(strip, columns - c), to + c * strip_steps + r / 2 * strip);
        }
    }
};

/** Rows [row, row + count ≤ lanes) of w, columns [from, from + k), as lanes of a strip. */
template <class In> void pack_lanes(const Matrix & w, int64_t row, int64_t count, int64_t from, int64_t k, typename In::Value * to) {
    alignas(64) float dense[lanes * columns_at_a_time];
    for (int64_t at = 0; at < k; at += columns_at_a_time) {
        const int64_t columns = std::min(columns_at_a_time, k - at);
        for (int64_t r = 0; r < count; r++) w.read(row + r, from + at, columns, dense + r * columns_at_a_time);
        In::pack_rows(dense, columns_at_a_time, count, columns, to + In::steps(at) * strip);
    }
}

/** At most `strip` columns of an output. */
struct Strip {
    const Matrix * w;
    int64_t begin, count; // rows of w forward, columns of it backward
    float * out;          // of the first token
    int64_t stride;       // between tokens
};

/** The other input [tokens, steps], or some of its steps. */
template <class Value> struct Left {
    const Value * a;
    int64_t stride, first, steps;
};

/** Output of strip s, and += with add, of the left input and strip s of b: count strips, `steps` long. */
template <class In, class Value = typename In::Value>
void multiply(Pool & pool, const Strip * strips, int64_t count, int64_t tokens, int64_t steps, const std::vector<Left<Value>> & left, const Value * b, bool add) {
    const Tiling tiling = product_tiling(tokens, count * strip, steps);
    pool.each(tiling.count(), [&](int64_t task, int) {
        const Tile tile = tiling.at(task);
        const int64_t first = tile.column / strip, last = (tile.column + tile.columns) / strip, end = tile.row + tile.rows;
        for (int64_t t = tile.row; t < end; t += product_row_block)
            for (int64_t s = first; s < last; s++)
                for (const Left<Value> & l : left) {
                    const Strip & to = strips[s];
                    In::multiply(std::min(product_row_block, end - t), to.count, l.steps, l.a + t * l.stride, l.stride, b + (s * steps + l.first) * strip,
                                 add || &l != &left[0], to.out + t * to.stride, to.stride);
                }
    });
}

template <class In> void forward(Pool & pool, Panels & panels, const std::vector<Product> & products, const float * x, int64_t tokens, bool add) {
    using Value = typename In::Value;
    const int64_t columns = products[0].w->columns;
    std::vector<Strip> strips;
    for (const Product & p : products)
        for (int64_t row = 0; row < p.w->rows; row += strip) strips.push_back({p.w, row, std::min(strip, p.w->rows - row), p.y + row, p.w->rows});
    for (int64_t from = 0; from < columns; from += product_depth) {
        const int64_t k = std::min(product_depth, columns - from), steps = In::steps(k);
        std::vector<Left<Value>> left;
        Value * b = In::panel(panels);
        if constexpr (In::rounds)
            left.push_back({panels.rounded.ensure(static_cast<size_t>(tokens * steps)), steps, 0, steps});
        else
            left.push_back({x + from, columns, 0, steps});
        const auto all = static_cast<int64_t>(strips.size()), fitting = panel_floats / (steps * strip);
        for (int64_t first = 0; first < all; first += fitting) {
            const int64_t count = std::min(fitting, all - first);
            {
                const Timed timed(panels.profile, Op::dequantise);
                const int64_t rounding = In::rounds && first == 0 ? pieces(tokens, rows_of_task) : 0, parts = strip / lanes;
                pool.each(rounding + count * parts, [&](int64_t task, int) {
                    if (task < rounding) {
                        const int64_t end = std::min(tokens, (task + 1) * rows_of_task);
                        for (int64_t t = task * rows_of_task; t < end; t++) bf16::round_row(x + t * columns + from, k, panels.rounded.data() + t * steps);
                        return;
                    }
                    const int64_t s = (task - rounding) / parts, lane = (task - rounding) % parts * lanes;
                    const Strip & of = strips[static_cast<size_t>(first + s)];
                    if (lane < of.count) pack_lanes<In>(*of.w, of.begin + lane, std::min(lanes, of.count - lane), from, k, b + s * steps * strip + lane);
                });
            }
            multiply<In>(pool, &strips[static_cast<size_t>(first)], count, tokens, steps, left, b, add || from > 0);
        }
    }
}

/** Columns [from, from + columns) of the gradient. */
template <class In> void backward(Pool & pool, Panels & panels, const std::vector<Product> & products, int64_t from, int64_t columns, float * dx, int64_t tokens, bool add) {
    using Value = typename In::Value;
    const int64_t stride = products[0].w->columns;
    std::vector<Strip> strips;
    for (int64_t column = from; column < from + columns; column += strip) strips.push_back({nullptr, column, std::min(strip, from + columns - column), dx + column, stride});
    const auto across = static_cast<int64_t>(strips.size()), wide = pieces(columns, columns_at_a_time);
    const int64_t most_steps = panel_floats / (across * strip);

    // The sum runs over the rows of all products, one behind the other; a piece of it has rows of one product.
    struct Piece {
        const Product * of;
        int64_t row, count, step; // the first one's place among the steps of the part
    };
    size_t product = 0;
    int64_t row = 0;
    for (bool more = add; product < products.size(); more = true) {
        std::vector<Piece> part;
        std::vector<Left<Value>> left;
        int64_t steps = 0;
        while (product < products.size() && steps < most_steps) {
            const Product & p = products[product];
            const int64_t rest = p.w->rows - row, count = std::min({rest, (In::rounds ? 2 : 1) * (most_steps - steps), rows_of_task});
            part.push_back({&p, row, count, steps});
            if constexpr (!In::rounds) {
                if (row == 0 || steps == 0) left.push_back({p.y + row, p.w->rows, steps, 0});
                left.back().steps += count;
            }
            steps += In::steps(count);
            row += count;
            if (count == rest) {
                product++;
                row = 0;
            }
        }
        Value * b = In::panel(panels);
        if constexpr (In::rounds) left.push_back({panels.rounded.ensure(static_cast<size_t>(tokens * steps)), steps, 0, steps});
        {
            const Timed timed(panels.profile, Op::dequantise);
            const int64_t rounding = In::rounds ? pieces(tokens, rows_of_task) : 0;
            pool.each(rounding + static_cast<int64_t>(part.size()) * wide, [&](int64_t task, int) {
                if (task < rounding) {
                    const int64_t end = std::min(tokens, (task + 1) * rows_of_task);
                    for (int64_t t = task * rows_of_task; t < end; t++)
                        for (const Piece & p : part) bf16::round_row(p.of->y + t * p.of->w->rows + p.row, p.count, panels.rounded.data() + t * steps + p.step);
                    return;
                }
                const Piece & p = part[static_cast<size_t>((task - rounding) / wide)];
                const int64_t column = (task - rounding) % wide * columns_at_a_time;
                In::pack_along(*p.of->w, p.row, p.count, from + column, std::min(columns_at_a_time, columns - column), b + column * steps + p.step * strip, steps);
            });
        }
        multiply<In>(pool, strips.data(), across, tokens, steps, left, b, more);
    }
}

/** So many columns at a time that the panel holds a long part of the sum: the gradient is read and written once for each. */
template <class In> void backward(Pool & pool, Panels & panels, const std::vector<Product> & products, float * dx, int64_t tokens, bool add) {
    const int64_t columns = products[0].w->columns;
    int64_t rows = 0;
    for (const Product & p : products) rows += p.w->rows;
    const int64_t fitting = panel_floats / In::steps(std::min(rows, product_depth)) / columns_at_a_time * columns_at_a_time;
    for (int64_t from = 0; from < columns; from += fitting) backward<In>(pool, panels, products, from, std::min(fitting, columns - from), dx, tokens, add);
}

double flops_of(const std::vector<Product> & products, int64_t tokens) {
    double flops = 0;
    for (const Product & p : products) flops += 2.0 * static_cast<double>(tokens * p.w->rows) * static_cast<double>(p.w->columns);
    return flops;
}

} // namespace

void linear(Pool & pool, Panels & panels, const std::vector<Product> & products, const float * x, int64_t tokens, bool add, Op op) {
    const Timed timed(panels.profile, op, flops_of(products, tokens));
    (panels.number == Number::bf16 ? forward<Narrow> : forward<Single>)(pool, panels, products, x, tokens, add);
}

void linear_backward(Pool & pool, Panels & panels, const std::vector<Product> & products, float * dx, int64_t tokens, bool add, Op op) {
    const Timed timed(panels.profile, op, flops_of(products, tokens));
    if (panels.number == Number::bf16)
        backward<Narrow>(pool, panels, products, dx, tokens, add);
    else
        backward<Single>(pool, panels, products, dx, tokens, add);
}
