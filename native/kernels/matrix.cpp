// Each part of a product has two phases. First the weights are dequantised and packed into strips; in bf16 they and the other input are
// also rounded. Then tiles of tokens and strips are multiplied. Both phases are cut finely, and each free thread takes the next piece.
#include "kernels/matrix.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

/** Columns that are dequantised at a time: a multiple of the block size of every type. */
constexpr int64_t columns_at_a_time = 256;
/** Tokens that one task rounds, and rows of a weight that one task packs. */
constexpr int64_t rows_of_task = 32;

int64_t pieces(int64_t count, int64_t size) { return (count + size - 1) / size; }

/** At most `strip` columns of an output. */
struct Strip {
    const Matrix * w;
    int64_t begin, count; // rows of w forward, columns of it backward
    float * out;          // output of the first token
    int64_t stride;       // of out, between tokens
    const LowRank * low;
    size_t product; // index among the products that are computed together
};

/** The layout of the panel: each strip has its part of the frozen weights, followed by `low_steps` steps of a LoRA. */
struct Layout {
    int64_t steps, low_steps;
    int64_t strip_values() const { return (steps + low_steps) * strip; }
    template <class Value> Value * frozen(Value * panel, int64_t s) const { return panel + s * strip_values(); }
    template <class Value> Value * low(Value * panel, int64_t s) const { return frozen(panel, s) + steps * strip; }
};

/** What the products below need to know of a precision. A step along k is one value, or a pair in bf16. */
struct Single {
    using Value = float;
    static constexpr bool rounds = false;
    static int64_t steps(int64_t k) { return k; }
    static f32::Packing packing(int64_t steps) { return f32::packing(steps); }
    static void pack_rows(const float * from, int64_t stride, int64_t rows, int64_t k, float * to, int64_t step) { f32::pack_rows(from, stride, rows, k, to, step); }
    static void multiply(int64_t m, int64_t n, int64_t steps, const float * a, int64_t lda, const float * b, const f32::Packing & packing, bool add, float * c, int64_t ldc) {
        f32::multiply(m, n, steps, {a, lda, 1}, {b, packing}, add, c, ldc);
    }
    static float * panel(Panels & panels) { return panels.floats(); }

    /** Packs `lanes` columns, or as many as there are, of a LoRA's part of a strip. along: v's rows are the strip's columns. */
    static void pack_low(const Strip & of, int64_t lane, bool along, float * to, int64_t low_steps) {
        const LowRank & low = *of.low;
        const f32::Packing packed = packing(low_steps);
        const int64_t column = of.begin + lane, count = std::min(lanes, of.count - lane);
        f32::pack(low.v, along ? low.rank : of.stride, along, column, count, low.rank, low.scale, to + packed.at(lane, 0), packed.step);
    }

    /**
     * Dequantises rows [row, row + count) of w, columns [column, column + columns ≤ columns_at_a_time). The rows lie along k from `step`
     * on; the columns become lanes of strips, of which `to` is the first.
     */
    static void pack_along(const Matrix & w, int64_t row, int64_t count, int64_t column, int64_t columns, const Layout & layout, int64_t step, float * to) {
        const f32::Packing packed = packing(layout.steps);
        float dense[columns_at_a_time];
        for (int64_t r = 0; r < count; r++) {
            w.read(row + r, column, columns, dense);
            for (int64_t c = 0; c < columns; c += lanes) std::copy_n(dense + c, std::min(lanes, columns - c), layout.frozen(to, c / strip) + packed.at(c % strip, step + r));
        }
    }
};

struct Narrow {
    using Value = uint32_t;
    static constexpr bool rounds = true;
    static int64_t steps(int64_t k) { return bf16::pairs_of(k); }
    static f32::Packing packing(int64_t) { return {lanes, strip}; }
    static void pack_rows(const float * from, int64_t stride, int64_t rows, int64_t k, uint32_t * to, int64_t) { bf16::pack_rows(from, stride, rows, k, to); }
    static void multiply(int64_t m, int64_t n, int64_t steps, const uint32_t * a, int64_t lda, const uint32_t * b, const f32::Packing &, bool add, float * c, int64_t ldc) {
        bf16::multiply(m, n, steps, a, lda, b, add, c, ldc);
    }
    static uint32_t * panel(Panels & panels) { return panels.pairs(); }

    static void pack_low(const Strip & of, int64_t lane, bool along, uint32_t * to, int64_t) {
        const LowRank & low = *of.low;
        const int64_t column = of.begin + lane, count = std::min(lanes, of.count - lane);
        alignas(64) float dense[lanes * columns_at_a_time];
        for (int64_t from = 0; from < low.rank; from += columns_at_a_time) {
            const int64_t k = std::min(columns_at_a_time, low.rank - from);
            uint32_t * at = to + lane + steps(from) * strip;
            for (int64_t p = 0; p < k; p++)
                for (int64_t c = 0; c < count; c++)
                    dense[along ? c * columns_at_a_time + p : p * lanes + c] = low.scale * (along ? low.v[(column + c) * low.rank + from + p] : low.v[(from + p) * of.stride + column + c]);
            if (along)
                bf16::pack_rows(dense, columns_at_a_time, count, k, at);
            else
                for (int64_t p = 0; p < k; p += 2) bf16::pack_pair(dense + p * lanes, p + 1 < k ? dense + (p + 1) * lanes : nullptr, count, at + p / 2 * strip);
        }
    }

    static void pack_along(const Matrix & w, int64_t row, int64_t count, int64_t column, int64_t columns, const Layout & layout, int64_t step, uint32_t * to) {
        alignas(64) float dense[2][columns_at_a_time];
        for (int64_t r = 0; r < count; r += 2) {
            const bool odd = r + 1 < count;
            w.read(row + r, column, columns, dense[0]);
            if (odd) w.read(row + r + 1, column, columns, dense[1]);
            for (int64_t c = 0; c < columns; c += strip)
                bf16::pack_pair(dense[0] + c, odd ? dense[1] + c : nullptr, std::min(strip, columns - c), layout.frozen(to, c / strip) + (step + r / 2) * strip);
        }
    }
};

/** Packs rows [row, row + count ≤ lanes) of w, columns [from, from + k), as lanes of a strip whose steps are `step` apart. */
template <class In> void pack_lanes(const Matrix & w, int64_t row, int64_t count, int64_t from, int64_t k, typename In::Value * to, int64_t step) {
    alignas(64) float dense[lanes * columns_at_a_time];
    for (int64_t at = 0; at < k; at += columns_at_a_time) {
        const int64_t columns = std::min(columns_at_a_time, k - at);
        for (int64_t r = 0; r < count; r++) w.read(row + r, from + at, columns, dense + r * columns_at_a_time);
        In::pack_rows(dense, columns_at_a_time, count, columns, to + In::steps(at) * step, step);
    }
}

/** The left input [tokens, steps], or some of its steps; `first` is the panel's step that they begin at. */
template <class Value> struct Left {
    const Value * a;
    int64_t stride, first, steps;
};

/** The left inputs of the LoRAs' parts, by product. */
template <class In> class Lows {
public:
    using Value = typename In::Value;

    Lows(Panels & panels, std::vector<const LowRank *> all, int64_t tokens) : all_(std::move(all)) {
        for (const LowRank * low : all_) steps_ = std::max(steps_, In::steps(low->rank));
        if constexpr (In::rounds) rounded_ = panels.rounded_low.ensure(static_cast<size_t>(tokens * stride()));
    }

    /** Steps of the longest of them. */
    int64_t steps() const { return steps_; }

    void round(int64_t t) const {
        if constexpr (In::rounds)
            for (size_t i = 0; i < all_.size(); i++) bf16::round_row(all_[i]->u + t * all_[i]->ldu, all_[i]->rank, rounded_ + t * stride() + static_cast<int64_t>(i) * steps_);
    }

    void multiply(const Strip & to, int64_t t, int64_t rows, const Value * packed, const f32::Packing & packing) const {
        const LowRank & low = *to.low;
        const Value * left;
        int64_t width = low.ldu;
        if constexpr (In::rounds) {
            width = stride();
            left = rounded_ + t * width + static_cast<int64_t>(to.product) * steps_;
        } else
            left = low.u + t * width;
        if (low.rank > 0) In::multiply(rows, to.count, In::steps(low.rank), left, width, packed, packing, true, to.out + t * to.stride, to.stride);
    }

private:
    int64_t stride() const { return static_cast<int64_t>(all_.size()) * steps_; }
    std::vector<const LowRank *> all_;
    int64_t steps_ = 0;
    uint32_t * rounded_ = nullptr; // [tokens, products, steps]
};

/**
 * Computes the output of every strip: the left input times strip s of the panel, added to the output with `add`, plus the LoRA's part if
 * the layout has one.
 */
template <class In, class Value = typename In::Value>
void multiply(Pool & pool, const Strip * strips, int64_t count, int64_t tokens, const Layout & layout, const std::vector<Left<Value>> & left, const Lows<In> & lows, Value * panel, bool add) {
    const Tiling tiling = product_tiling(tokens, count * strip, layout.steps);
    const f32::Packing packed = In::packing(layout.steps), packed_low = In::packing(layout.low_steps);
    pool.each(tiling.count(), [&](int64_t task, int) {
        const Tile tile = tiling.at(task);
        const int64_t first = tile.column / strip, last = (tile.column + tile.columns) / strip, end = tile.row + tile.rows;
        for (int64_t t = tile.row; t < end; t += product_row_block)
            for (int64_t s = first; s < last; s++) {
                const Strip & to = strips[s];
                const int64_t rows = std::min(product_row_block, end - t);
                float * out = to.out + t * to.stride;
                for (const Left<Value> & l : left)
                    In::multiply(rows, to.count, l.steps, l.a + t * l.stride, l.stride, layout.frozen(panel, s) + packed.at(0, l.first), packed, add || &l != &left[0], out, to.stride);
                if (layout.low_steps > 0) lows.multiply(to, t, rows, layout.low(panel, s), packed_low);
            }
    });
}

template <class In> void forward(Pool & pool, Panels & panels, const std::vector<Product> & products, const float * x, int64_t tokens, bool add) {
    using Value = typename In::Value;
    const int64_t columns = products[0].w->columns;
    std::vector<Strip> strips;
    std::vector<const LowRank *> of_products;
    for (const Product & p : products) {
        for (int64_t row = 0; row < p.w->rows; row += strip) strips.push_back({p.w, row, std::min(strip, p.w->rows - row), p.y + row, p.w->rows, &p.low, of_products.size()});
        of_products.push_back(&p.low);
    }
    const Lows<In> lows(panels, of_products, tokens);
    for (int64_t from = 0; from < columns; from += product_depth) {
        const int64_t k = std::min(product_depth, columns - from), steps = In::steps(k);
        const Layout layout{steps, from == 0 ? lows.steps() : 0};
        std::vector<Left<Value>> left;
        Value * panel = In::panel(panels);
        if constexpr (In::rounds)
            left.push_back({panels.rounded.ensure(static_cast<size_t>(tokens * steps)), steps, 0, steps});
        else
            left.push_back({x + from, columns, 0, steps});
        const auto all = static_cast<int64_t>(strips.size()), fitting = panel_floats / layout.strip_values();
        for (int64_t first = 0; first < all; first += fitting) {
            const int64_t count = std::min(fitting, all - first);
            {
                const Timed timed(panels.profile, Op::dequantise);
                const f32::Packing packed = In::packing(steps);
                const int64_t rounding = In::rounds && first == 0 ? pieces(tokens, rows_of_task) : 0, parts = strip / lanes;
                pool.each(rounding + count * parts, [&](int64_t task, int) {
                    if (task < rounding) {
                        const int64_t end = std::min(tokens, (task + 1) * rows_of_task);
                        for (int64_t t = task * rows_of_task; t < end; t++) {
                            bf16::round_row(x + t * columns + from, k, panels.rounded.data() + t * steps);
                            if (from == 0) lows.round(t);
                        }
                        return;
                    }
                    const int64_t s = (task - rounding) / parts, lane = (task - rounding) % parts * lanes;
                    const Strip & of = strips[static_cast<size_t>(first + s)];
                    if (lane >= of.count) return;
                    pack_lanes<In>(*of.w, of.begin + lane, std::min(lanes, of.count - lane), from, k, layout.frozen(panel, s) + packed.at(lane, 0), packed.step);
                    if (layout.low_steps > 0 && of.low->rank > 0) In::pack_low(of, lane, true, layout.low(panel, s), layout.low_steps);
                });
            }
            multiply<In>(pool, &strips[static_cast<size_t>(first)], count, tokens, layout, left, lows, panel, add || from > 0);
        }
    }
}

/** Pairs or values of the sum that the panel holds beside `columns` columns of the gradient. */
int64_t steps_of_panel(int64_t columns) { return panel_floats / (pieces(columns, strip) * strip); }

/** Columns of the gradient that are computed at a time. The sum is `steps` long and then has `rank` more. */
int64_t columns_of_panel(int64_t steps, int64_t rank) { return panel_floats / (steps + rank) / columns_at_a_time * columns_at_a_time; }

/** Computes columns [from, from + columns) of the gradient. */
template <class In>
void backward(Pool & pool, Panels & panels, const std::vector<Product> & products, const LowRank & low, int64_t from, int64_t columns, float * dx, int64_t tokens, bool add) {
    using Value = typename In::Value;
    const int64_t stride = products[0].w->columns;
    std::vector<Strip> strips;
    for (int64_t column = from; column < from + columns; column += strip) strips.push_back({nullptr, column, std::min(strip, from + columns - column), dx + column, stride, &low, 0});
    const auto across = static_cast<int64_t>(strips.size()), wide = pieces(columns, columns_at_a_time);
    const Lows<In> lows(panels, {&low}, tokens);
    const int64_t most_steps = steps_of_panel(columns) - lows.steps();

    // The sum runs over the rows of all products, one product after the other. A piece has rows of one product.
    struct Piece {
        const Product * of;
        int64_t row, count, step; // step: place of its first row among the steps of the part
    };
    size_t product = 0;
    int64_t row = 0;
    for (bool is_first = true; product < products.size(); is_first = false) {
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
        const Layout layout{steps, is_first ? lows.steps() : 0};
        Value * panel = In::panel(panels);
        if constexpr (In::rounds) left.push_back({panels.rounded.ensure(static_cast<size_t>(tokens * steps)), steps, 0, steps});
        {
            const Timed timed(panels.profile, Op::dequantise);
            const int64_t rounding = In::rounds ? pieces(tokens, rows_of_task) : 0, weights = static_cast<int64_t>(part.size()) * wide;
            pool.each(rounding + weights + (layout.low_steps > 0 ? across : 0), [&](int64_t task, int) {
                if (task < rounding) {
                    const int64_t end = std::min(tokens, (task + 1) * rows_of_task);
                    for (int64_t t = task * rows_of_task; t < end; t++) {
                        for (const Piece & p : part) bf16::round_row(p.of->y + t * p.of->w->rows + p.row, p.count, panels.rounded.data() + t * steps + p.step);
                        if (is_first) lows.round(t);
                    }
                    return;
                }
                if (task >= rounding + weights) {
                    const int64_t s = task - rounding - weights;
                    const Strip & of = strips[static_cast<size_t>(s)];
                    for (int64_t lane = 0; lane < of.count; lane += lanes) In::pack_low(of, lane, false, layout.low(panel, s), layout.low_steps);
                    return;
                }
                const Piece & p = part[static_cast<size_t>((task - rounding) / wide)];
                const int64_t column = (task - rounding) % wide * columns_at_a_time;
                In::pack_along(*p.of->w, p.row, p.count, from + column, std::min(columns_at_a_time, columns - column), layout, p.step, layout.frozen(panel, column / strip));
            });
        }
        multiply<In>(pool, strips.data(), across, tokens, layout, left, lows, panel, add || !is_first);
    }
}

/**
 * Computes only so many columns at a time that the panel holds a long part of the sum, since each part reads and writes the gradient once.
 */
template <class In> void backward(Pool & pool, Panels & panels, const std::vector<Product> & products, const LowRank & low, float * dx, int64_t tokens, bool add) {
    const int64_t columns = products[0].w->columns;
    int64_t rows = 0;
    for (const Product & p : products) rows += p.w->rows;
    const int64_t fitting = columns_of_panel(In::steps(std::min(rows, product_depth)), low.rank);
    for (int64_t from = 0; from < columns; from += fitting) backward<In>(pool, panels, products, low, from, std::min(fitting, columns - from), dx, tokens, add);
}

double flops_of(const std::vector<Product> & products, int64_t tokens) {
    double flops = 0;
    for (const Product & p : products) flops += 2.0 * static_cast<double>(tokens * p.w->rows) * static_cast<double>(p.w->columns + p.low.rank);
    return flops;
}

} // namespace

void linear(Pool & pool, Panels & panels, const std::vector<Product> & products, const float * x, int64_t tokens, bool add, Op op) {
    const Timed timed(panels.profile, op, flops_of(products, tokens));
    (panels.number == Number::bf16 ? forward<Narrow> : forward<Single>)(pool, panels, products, x, tokens, add);
}

void linear_backward(Pool & pool, Panels & panels, const std::vector<Product> & products, const LowRank & low, float * dx, int64_t tokens, bool add, Op op) {
    const Timed timed(panels.profile, op, flops_of(products, tokens) + 2.0 * static_cast<double>(tokens * low.rank) * static_cast<double>(products[0].w->columns));
    if (panels.number == Number::bf16)
        backward<Narrow>(pool, panels, products, low, dx, tokens, add);
    else
        backward<Single>(pool, panels, products, low, dx, tokens, add);
}

int64_t rounded_pairs(int64_t columns) { return bf16::pairs_of(std::min(columns, product_depth)); }

int64_t rounded_pairs_backward(int64_t rows, int64_t columns, int64_t rank) {
    const int64_t fitting = columns_of_panel(bf16::pairs_of(std::min(rows, product_depth)), rank);
    const int64_t narrowest = columns % fitting != 0 ? columns % fitting : fitting;
    constexpr int64_t most_products = 3; // each of which may end with half a pair
    return std::min(bf16::pairs_of(rows) + most_products, steps_of_panel(narrowest));
}
