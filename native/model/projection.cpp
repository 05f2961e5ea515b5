#include "model/projection.h"

#include <algorithm>
#include <cmath>

#include "kernels/gemm.h"

Projected project(Pool & pool, Panels & panels, const GgufModel & model, const Adapter * adapter, int64_t layer, Target target, const std::vector<float> & unit) {
    const LayerWeights & w = model.layers[static_cast<size_t>(layer)];
    const Matrix & matrix = target == attn_output ? w.attn_output : w.ffn_down;
    const std::vector<float> & gains = target == attn_output ? w.attn_post_norm : w.ffn_post_norm;
    Projected result{unit, std::vector<float>(static_cast<size_t>(matrix.columns))};
    if (!gains.empty()) {
        // unitᵀ (g ⊙ o / rms(o)) is 0 exactly when (g ⊙ unit)ᵀ o is 0.
        double squares = 0;
        for (size_t i = 0; i < gains.size(); i++) {
            result.direction[i] = gains[i] * unit[i];
            squares += static_cast<double>(result.direction[i]) * static_cast<double>(result.direction[i]);
        }
        const auto inverse = static_cast<float>(1 / std::sqrt(std::max(squares, 1e-30)));
        for (float & value : result.direction) value *= inverse;
    }
    linear_backward(pool, panels, {{&matrix, result.direction.data()}}, {}, result.row.data(), 1, false);
    if (!adapter) return result;
    const int64_t rank = adapter->shape.rank;
    for (const Site & site : adapter->layers[static_cast<size_t>(layer)][target == attn_output ? group_output : group_down].sites) {
        std::vector<float> u(static_cast<size_t>(rank));
        const float * a = adapter->weights.data() + site.a;
        const float * b = adapter->weights.data() + site.b;
        gemm(Side::plain, Side::plain, 1, rank, site.rows, adapter->scale(), result.direction.data(), site.rows, b, rank, 0, u.data(), rank);
        gemm(Side::plain, Side::plain, 1, site.columns, rank, 1, u.data(), rank, a, site.columns, 1, result.row.data(), site.columns);
    }
    return result;
}
