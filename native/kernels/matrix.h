// A frozen weight as stored in the file, and the two products that training needs of it. A panel of the weight is dequantised into scratch
// once for all threads, used for every token of the batch, and then overwritten. In bf16 the panel and the other input are rounded when
// they are packed. All cuts depend only on the shapes, so the result is the same to the bit with any number of threads.
#pragma once
#include <ggml.h>

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "kernels/number.h"
#include "kernels/pool.h"
#include "kernels/profile.h"

/** W [rows, columns] row-major: y = W x has `rows` values. */
struct Matrix {
    const uint8_t * data = nullptr;
    ggml_type type = GGML_TYPE_F32;
    int64_t rows = 0, columns = 0;

    int64_t block() const { return ggml_blck_size(type); }
    /** Reads row r as float, from column c on (a multiple of block()). */
    void read(int64_t row, int64_t column, int64_t count, float * to) const;
};

/** Floats of the panel, which all threads fill and then read: 8 MiB, which a last-level cache holds. */
constexpr int64_t panel_floats = int64_t{1} << 21;

/** Length of the sum that is computed at a time. In bf16, six rows of one input then stay in the first-level cache. */
constexpr int64_t product_depth = 2048;

class Panels {
public:
    explicit Panels(Profile & measured) : profile(measured), panel_(panel_floats) {}
    float * floats() { return panel_.data(); }
    /** The same memory as pairs of bf16. */
    uint32_t * pairs() { return reinterpret_cast<uint32_t *>(panel_.data()); }

    /** The left input of a product rounded to bf16, in pairs: [tokens, steps of the part that is computed]. */
    Buffer<uint32_t> rounded;
    /** The left inputs of the LoRAs rounded to bf16, in pairs: [tokens, products, half the largest rank]. */
    Buffer<uint32_t> rounded_low;

    Profile & profile;
    Number number = Number::f32; // precision of the products that follow

private:
    Buffer<float> panel_;
};

/**
 * A LoRA's part of a product, scale · u · v. It is added tile by tile while the tile is in the cache. Its inputs are in panels.number too.
 */
struct LowRank {
    int64_t rank = 0; // 0: nothing is added
    const float * u = nullptr; // [tokens, rank], rows ldu apart
    int64_t ldu = 0;
    const float * v = nullptr; // forward [w->rows, rank], backward [rank, columns]
    float scale = 1;
};

struct Product {
    const Matrix * w;
    float * y; // [tokens, w->rows]
    LowRank low = {};
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

/**
 * y = x · Wᵀ + low for every product, or += with add. All products share x [tokens, columns]. They compute in panels.number; their time
 * counts for op.
 */
void linear(Pool & pool, Panels & panels, const std::vector<Product> & products, const float * x, int64_t tokens, bool add, Op op = Op::linear);

/** dx [tokens, columns] = Σ over products of y · W + low, or += with add. Here y holds the gradient of each product's output. */
void linear_backward(Pool & pool, Panels & panels, const std::vector<Product> & products, const LowRank & low, float * dx, int64_t tokens, bool add, Op op = Op::linear);

/**
 * In bf16, the most pairs of one token's values that a product holds rounded at a time: linear of `columns` values, and linear_backward whose
 * sum runs over the `rows` of all products and whose gradient has `columns` values.
 */
int64_t rounded_pairs(int64_t columns);
int64_t rounded_pairs_backward(int64_t rows, int64_t columns, int64_t rank);
