// Cuts the rows of a request into passes: which rows are computed together, and which tokens are computed once for several rows.
#pragma once
#include <cstdint>
#include <vector>

#include "model/backend.h"

/** tokens [T]; lengths [R], which sum to T. */
struct Rows {
    std::vector<int32_t> tokens;
    std::vector<int32_t> lengths;
};

/** Rows share a common beginning of at least this many tokens. A branch in the tree costs about as much as computing that many. */
constexpr int64_t least_shared = 16;

struct Pass {
    struct Row {
        size_t index;  // of the row in the request
        int64_t last;  // its last segment
    };
    Batch batch;
    std::vector<Row> rows; // ordered by their last segments
};

struct Packing {
    std::vector<Pass> passes;
    std::vector<int64_t> places; // [T]: where each token of the request stands in its row's pass; −1 if it is not computed

    int64_t tokens() const; // sum over all passes
};

/**
 * Makes passes of about equal size. A pass holds at most `most` tokens, or a single row. Of row r the first needed[r] tokens are computed;
 * a row that needs none is in no pass. With `share`, rows with a common beginning stand next to each other, and that beginning is a segment
 * of its own, which each pass computes once; without it, rows keep their order. The result depends only on the arguments.
 */
Packing pack(const Rows & rows, const std::vector<int64_t> & needed, int64_t most, bool share);
