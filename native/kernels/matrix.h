// A frozen weight as it lies in the file, and the two products training needs of it. A panel of rows is dequantised into a
// thread's scratch, used for every token of the batch, and forgotten.
#pragma once
#include <ggml.h>

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "kernels/pool.h"
#include "kernels/profile.h"

/** W [rows, columns] row-major: y = W x has `rows` values. */
struct Matrix {
    const uint8_t * data = nullptr;
    ggml_type type = GGML_TYPE_F32;
    int64_t rows = 0, columns = 0;

    int64_t block() const { return ggml_blck_size(type); }
    /** Row r from column c on (a multiple of block()), as float. */
    void read(int64_t row, int64_t column, int64_t count, float * to) const;
};

/** Floats of one thread's panel: 4 MiB, so that it stays in the last-level cache. */
constexpr int64_t panel_floats = int64_t{1} << 20;

class Panels {
public:
    Panels(int threads, Profile & measured) : profile(measured) {
        for (int i = 0; i < threads; i++) panels_.emplace_back(static_cast<size_t>(panel_floats));
    }
    float * of(int thread) { return panels_[static_cast<size_t>(thread)].data(); }

    Profile & profile;

private:
    std::vector<Buffer<float>> panels_;
};

struct Product {
    const Matrix * w;
    float * y; // [tokens, w->rows]
};

namespace reference {

/** y[t, r] += Σ_c W[r, c] · x[t, c], for a dense W [rows, columns]. */
template <class T> void linear(const T * w, int64_t rows, int64_t columns, const T * x, int64_t tokens, T * y) {
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++) y[t * rows + r] += w[r * columns + c] * x[t * columns + c];
}

/** dx[t, c] += Σ_r dy[t, r] · W[r, c]. */
template <class T> void linear_backward(const T * w, int64_t rows, int64_t columns, const T * dy, int64_t tokens, T * dx) {
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++) dx[t * columns + c] += dy[t * rows + r] * w[r * columns + c];
}

} // namespace reference

/** y = x · Wᵀ + beta · y for every product; x [tokens, columns] is shared. Time counts for op. */
void linear(Pool & pool, Panels & panels, const std::vector<Product> & products, const float * x, int64_t tokens, float beta, Op op = Op::linear);

/** dx [tokens, columns] = Σ over products of y · W, + beta · dx; here y holds the gradient of each product. */
void linear_backward(Pool & pool, Panels & panels, const std::vector<Product> & products, float * dx, int64_t tokens, float beta, Op op = Op::linear);
