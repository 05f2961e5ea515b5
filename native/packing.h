// Rows of a request → passes: which rows are computed together, and which of their tokens are computed once for several rows.
#pragma once
#include <cstdint>
#include <vector>

#include "model/backend.h"

/** tokens [T], lengths [R] summing to T. */
struct Rows {
    std::vector<int32_t> tokens;
    std::vector<int32_t> lengths;
};

/** Rows that begin with the same tokens share them when there are at least this many: a branch of a tree costs about as much. */
constexpr int64_t least_shared = 16;

struct Pass {
    struct Row {
        size_t index;  // in the request
        int64_t last;  // segment
    };
    Batch batch;
    std::vector<Row> rows; // in the order of their last segments
};

struct Packing {
    std::vector<Pass> passes;
    std::vector<int64_t> places; // [T]: where a token of the request stands in its row's pass; −1 where it is not computed

    int64_t tokens() const; // of all passes
};

/**
 * Passes of about equal size that hold at most `most` tokens, or one row. Of row r the first needed[r] tokens are computed; a
 * row of which none are is in no pass. With `share`, rows with a common beginning stand beside each other, and it is a segment
 * of its own, which each pass computes once; else rows keep their order. Depends on nothing but its arguments.
 */
Packing pack(const Rows & rows, const std::vector<int64_t> & needed, int64_t most, bool share);
