// How the output of a product is cut into tiles. The cut depends only on the product's shape, never on the number of threads.
#pragma once
#include <algorithm>
#include <cstdint>

struct Tile {
    int64_t row, rows, column, columns;
};

/** Limits for the tiles of a kernel. Sizes are multiples of the units and lie between least and most, except where the output ends. */
struct TileLimits {
    int64_t row_unit, least_rows, most_rows;
    int64_t column_unit, least_columns, most_columns;
};

class Tiling {
public:
    /** Cuts into at least `wanted` tiles if the limits allow it. Of such cuts it takes the one that reads its inputs least often. */
    Tiling(int64_t rows, int64_t columns, int64_t wanted, const TileLimits & limits) : rows_(rows), columns_(columns) {
        double best = 0;
        for (int64_t down = 1; down <= divided(rows, limits.least_rows); down++) {
            const int64_t high = std::clamp(divided(divided(rows, down), limits.row_unit) * limits.row_unit, limits.least_rows, limits.most_rows);
            const int64_t across = divided(wanted, divided(rows, high));
            const int64_t wide = std::clamp(columns / across / limits.column_unit * limits.column_unit, limits.least_columns, limits.most_columns);
            // Measured with sgemm: per tile, its work on the columns' side costs about twice its work on the rows' side.
            const double reading = 2.0 / static_cast<double>(high) + 1.0 / static_cast<double>(wide);
            const bool enough = divided(rows, high) * divided(columns, wide) >= wanted;
            const double worth = (enough ? 1 : 0) + 1 / (1 + reading);
            if (worth <= best) continue;
            best = worth;
            high_ = high;
            wide_ = wide;
        }
    }

    int64_t count() const { return divided(rows_, high_) * divided(columns_, wide_); }

    /** Tiles of the same columns follow each other, because the columns are those of a weight, which is read from distant memory. */
    Tile at(int64_t i) const {
        const int64_t down = divided(rows_, high_), row = i % down * high_, column = i / down * wide_;
        return {row, std::min(high_, rows_ - row), column, std::min(wide_, columns_ - column)};
    }

private:
    static int64_t divided(int64_t a, int64_t by) { return (a + by - 1) / by; }
    int64_t rows_, columns_, high_ = 1, wide_ = 1;
};

/** The number of tiles that some arithmetic is worth: enough for 16 threads, but no tile so small that scheduling takes most of its time. */
inline int64_t tiles_for(double multiplications) {
    constexpr double most = 16, least_work = 1 << 20;
    return static_cast<int64_t>(std::clamp(multiplications / least_work, 1.0, most));
}

/** Rows that the kernels of f32_gemm.h and bf16_gemm.h multiply at once. */
constexpr int64_t product_row_block = 6;

/**
 * The tiling of a product of those kernels whose sum has `steps` steps. A tile's strips stay in the second-level cache while all its rows
 * are multiplied with them.
 */
inline Tiling product_tiling(int64_t rows, int64_t columns, int64_t steps) {
    constexpr int64_t strip = 64, cached_values = int64_t{1} << 17;
    const int64_t widest = std::clamp<int64_t>(cached_values / (steps * strip), 1, 4) * strip;
    // Reading a weight takes about as long as multiplying it with this many rows.
    constexpr int64_t reading = 16;
    const double work = static_cast<double>((rows + reading) * columns) * static_cast<double>(steps);
    return {rows, columns, tiles_for(work), {product_row_block, 5 * product_row_block, 42 * product_row_block, strip, strip, widest}};
}
