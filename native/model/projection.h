// What a direction of the residual stream reads of a matrix that writes to it.
#pragma once
#include <vector>

#include "kernels/matrix.h"
#include "model/adapter.h"

/**
 * direction [embedding]: the unit vector in the matrix's output. It is the requested one, except where the model norms what the matrix
 * adds. row [columns] = directionᵀ (W + scale · B A).
 */
struct Projected {
    std::vector<float> direction, row;
};

/** For attn_output or ffn_down of a layer. adapter is null for the base; its own arrays are read. */
Projected project(Pool & pool, Panels & panels, const GgufModel & model, const Adapter * adapter, int64_t layer, Target target, const std::vector<float> & unit);
