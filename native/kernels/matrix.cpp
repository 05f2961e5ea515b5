#include "kernels/matrix.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/gemm.h"

void Matrix::read(int64_t row, int64_t column, int64_t count, float * to) const {
    const uint8_t * from = data + static_cast<size_t>(row) * ggml_row_size(type, columns) + ggml_row_size(type, column);
    if (type == GGML_TYPE_F32)
        std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    else
        ggml_get_type_traits(type)->to_float(from, to, count);
}

namespace {

/** Columns [column, column + count) of rows [row, row + rows) as the thread's dense panel [rows, count]. */
void fill_panel(const Matrix & w, int64_t row, int64_t rows, int64_t column, int64_t count, Panels & panels, int thread) {
    std::optional<Timed> timed;
    if (thread == 0) timed.emplace(panels.profile, Op::dequantise);
    float * panel = panels.of(thread);
    for (int64_t r = 0; r < rows; r++) w.read(row + r, column, count, panel + r * count);
}

void product_rows(const Product & p, int64_t begin, int64_t end, const float * x, int64_t tokens, bool add, Panels & panels, int thread) {
    const Matrix & w = *p.w;
    if (w.type == GGML_TYPE_F32) {
        const float * dense = reinterpret_cast<const float *>(w.data) + begin * w.columns;
        gemm(Side::plain, Side::transposed, tokens, end - begin, w.columns, 1, x, w.columns, dense, w.columns, add ? 1 : 0, p.y + begin, w.rows);
        return;
    }
    float * panel = panels.of(thread);
    const int64_t step = std::max<int64_t>(1, panel_floats / w.columns);
    for (int64_t row = begin; row < end; row += step) {
        const int64_t rows = std::min(step, end - row);
        fill_panel(w, row, rows, 0, w.columns, panels, thread);
        gemm(Side::plain, Side::transposed, tokens, rows, w.columns, 1, x, w.columns, panel, w.columns, add ? 1 : 0, p.y + row, w.rows);
    }
}

void product_columns(const Product & p, int64_t begin, int64_t end, float * dx, int64_t tokens, bool add, Panels & panels, int thread) {
    const Matrix & w = *p.w;
    const int64_t width = end - begin;
    if (w.type == GGML_TYPE_F32) {
        const float * dense = reinterpret_cast<const float *>(w.data) + begin;
        gemm(Side::plain, Side::plain, tokens, width, w.rows, 1, p.y, w.rows, dense, w.columns, add ? 1 : 0, dx + begin, w.columns);
        return;
    }
    float * panel = panels.of(thread);
    const int64_t step = std::max<int64_t>(1, panel_floats / width);
    for (int64_t row = 0; row < w.rows; row += step) {
        const int64_t rows = std::min(step, w.rows - row);
        fill_panel(w, row, rows, begin, width, panels, thread);
        gemm(Side::plain, Side::plain, tokens, width, rows, 1, p.y + row, w.rows, panel, width, row > 0 || add ? 1 : 0, dx + begin, w.columns);
    }
}

double flops_of(const std::vector<Product> & products, int64_t tokens) {
    double flops = 0;
    for (const Product & p : products) flops += 2.0 * static_cast<double>(tokens * p.w->rows) * static_cast<double>(p.w->columns);
    return flops;
}

} // namespace

void linear(Pool & pool, Panels & panels, const std::vector<Product> & products, const float * x, int64_t tokens, bool add, Op op) {
    const Timed timed(panels.profile, op, flops_of(products, tokens));
    if (panels.number == Number::bf16) return linear_bf16(pool, panels, products, x, tokens, add);
    pool.run([&](int thread) {
        for (const Product & p : products) {
            const int64_t pieces = (p.w->rows + 15) / 16;
            const int64_t begin = pieces * thread / pool.threads() * 16;
            const int64_t end = std::min(p.w->rows, pieces * (thread + 1) / pool.threads() * 16);
            if (begin < end) product_rows(p, begin, end, x, tokens, add, panels, thread);
        }
    });
}

void linear_backward(Pool & pool, Panels & panels, const std::vector<Product> & products, float * dx, int64_t tokens, bool add, Op op) {
    const Timed timed(panels.profile, op, flops_of(products, tokens));
    if (panels.number == Number::bf16) return linear_backward_bf16(pool, panels, products, dx, tokens, add);
    int64_t grain = 16;
    for (const Product & p : products) grain = std::max(grain, p.w->block());
    pool.split(products[0].w->columns, grain, [&](int64_t begin, int64_t end, int thread) {
        for (const Product & p : products) product_columns(p, begin, end, dx, tokens, add || &p != &products[0], panels, thread);
    });
}
