// A frozen weight as it lies in the file, and the two products training needs of it. A panel of it is dequantised into scratch, once for
// all threads, used for every token of the batch, and forgotten; in bf16 the panel and the other input are rounded on the way. Every
// cut goes by the shapes: the result is the same to the bit whatever the number of threads.
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
    /** Row r from column c on (a multiple of block()), as float. */
    void read(int64_t row, int64_t column, int64_t count, float * to) const;
};

/** Floats of the panel that all threads fill and then read: 8 MiB, which a last-level cache holds. */
constexpr int64_t panel_floats = int64_t{1} << 21;

/** What is summed at a time; in bf16 six rows of one input then stay in the first-level cache. */
constexpr int64_t product_depth = 2048;

class Panels {
public:
    explicit Panels(Profile & measured) : profile(measured), panel_(panel_floats) {}
    float * floats() { return panel_.data(); }
    /** The same memory in pairs of bf16. */
    uint32_t * pairs() { return reinterpret_cast<uint32_t *>(panel_.data()); }

    /** The other input of a product in bf16, [tokens, at most product_depth]. */
    Buffer<uint32_t> rounded;
    /** And those of what LoRAs add to it, [tokens, products, half the rank]. */
    Buffer<uint32_t> rounded_low;

    Profile & profile;
    Number number = Number::f32; // of the products that follow

private:
    Buffer<float> panel_;
};

/** scale · u · v of a LoRA, added to a product tile by tile while it is in the cache; what is multiplied is in panels.number too. */
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

/** y = x · Wᵀ + low, or += with add, for every product; x [tokens, columns] is shared. In panels.number; time counts for op. */
void linear(Pool & pool, Panels & panels, const std::vector<Product> & products, const float * x, int64_t tokens, bool add, Op op = Op::linear);

/** dx [tokens, columns] = Σ over products of y · W + low, or += with add; here y holds the gradient of each product. */
void linear_backward(Pool & pool, Panels & panels, const std::vector<Product> & products, const LowRank & low, float * dx, int64_t tokens, bool add, Op op = Op::linear);
