// What a direction of the residual stream reads of the matrices that write to it.
#pragma once
#include <vector>

#include "kernels/matrix.h"
#include "model/adapter.h"

/** direction [embedding]: the unit vector in what the matrix gives, which is the asked one but where the model norms what it adds;
 *  row [columns] = directionᵀ (W + scale · B A). */
struct Projected {
    std::vector<float> direction, row;
};

/** Of a layer's attn_output or ffn_down. adapter: null is the base; its own arrays are read. */
Projected project(Pool & pool, Panels & panels, const GgufModel & model, const Adapter * adapter, int64_t layer, Target target, const std::vector<float> & unit);
