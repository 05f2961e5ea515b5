// Causal attention in tiles on the matrix units (Dao, "FlashAttention-2", 2023). Inputs are bf16, sums are in single precision, and scores
// are never stored in memory. A block of 128 threads owns a tile of 64 queries (or 64 keys) of a row, 16 of them per warp. It walks over
// the other side in tiles, and copies the next tile while it computes with the current one. The backward pass has one kernel for dq and one
// for dk and dv, and each block owns what it writes. Five products would be enough where these take seven, but nothing is added by atomics,
// so the sums are the same every time.
//
// Fragments of the instruction mma.m16n8k16 (g = lane / 4, t = lane % 4): A holds rows g, g + 8 and columns 2t, 2t + 1, 2t + 8, 2t + 9; B
// holds rows (of k) 2t, 2t + 1, 2t + 8, 2t + 9 of column g; C holds rows g, g + 8 and columns 2t, 2t + 1. So two neighbouring C's form an
// A, and probabilities become the left side of the next product without leaving the registers.
#pragma once
#include "kernels/cuda/attention_plain.h"

namespace gpu {

/** A tile of a row: tokens [first, first + 64), of which those before end exist. The row starts at begin. end = 0 means no tile. */
struct Tile {
    int32_t begin, first, end;
};

constexpr int flash_threads = 128;
constexpr int flash_rows = 64; // rows of the tile that a block owns

template <int d> struct Flash {
    static_assert(d % 16 == 0, "");
    static constexpr int stride = d + 8; // of a row in shared memory: 16 bytes more than its values, so that rows start in different banks
    static constexpr int streamed_forward = d <= 128 ? 64 : 32;
    static constexpr int streamed_backward = d <= 128 ? 32 : 16;
    static constexpr int tile_bytes(int rows) { return rows * stride * 2; }
    static constexpr int forward_bytes = tile_bytes(flash_rows) + 2 * tile_bytes(streamed_forward);
    static constexpr int backward_bytes = 2 * tile_bytes(flash_rows) + 4 * tile_bytes(streamed_backward);
    static constexpr int most_shared = 99 * 1024; // limit of a block on the smallest devices, of compute capability 8.6 and 8.9
    static_assert(forward_bytes <= most_shared && backward_bytes <= most_shared, "more shared memory than a block can have");
};

constexpr float log2_of_e = 1.4426950408889634f, ln_of_2 = 0.6931471805599453f;

/**
 * Begins to copy rows [first, first + rows) of a head into shared memory. Rows at or after end become 0. from is the head's first value.
 * The block may read the rows once each of its threads has called wait_copies() and then sync().
 */
template <int d, int rows, class Block> DEVICE void copy_tile(const Block & block, const Bf16 * from, int64_t stride, int32_t first, int32_t end, Bf16 * to) {
    constexpr int chunks = d / 8;
    for (int i = block.thread(); i < rows * chunks; i += flash_threads) {
        const int row = i / chunks, column = i % chunks * 8;
        const bool real = first + row < end;
        block.copy_16(to + row * Flash<d>::stride + column, from + (real ? first + row : 0) * stride + column, real);
    }
}

/** C[16, n] += A[16, d] · B[n, d]ᵀ, with A and B in shared memory. A's 16 rows are the warp's. */
template <int d, int n, class Block> DEVICE void multiply_rows(const Block & block, const Bf16 * a, const Bf16 * b, float (&c)[n / 8][4]) {
    constexpr int stride = Flash<d>::stride;
    const int lane = block.lane();
#pragma unroll
    for (int k = 0; k < d; k += 16) {
        uint32_t left[4];
        block.load_matrices(left, a + lane % 16 * stride + k + lane / 16 * 8);
#pragma unroll
        for (int j = 0; j < n; j += 16) {
            uint32_t right[4];
            block.load_matrices(right, b + (j + lane / 16 * 8 + lane % 8) * stride + k + lane / 8 % 2 * 8);
            block.multiply(c[j / 8], left, right);
            block.multiply(c[j / 8 + 1], left, right + 2);
        }
    }
}

/** C[16, d] += P[16, n] · B[n, d], with P in registers as C fragments and B in shared memory. */
template <int d, int n, class Block> DEVICE void multiply_columns(const Block & block, const float (&p)[n / 8][4], const Bf16 * b, float (&c)[d / 8][4]) {
    constexpr int stride = Flash<d>::stride;
    const int lane = block.lane();
#pragma unroll
    for (int k = 0; k < n; k += 16) {
        const float *low = p[k / 8], *high = p[k / 8 + 1];
        const uint32_t left[4] = {block.pack(low[0], low[1]), block.pack(low[2], low[3]), block.pack(high[0], high[1]), block.pack(high[2], high[3])};
#pragma unroll
        for (int j = 0; j < d; j += 16) {
            uint32_t right[4];
            block.load_matrices_transposed(right, b + (k + lane / 8 % 2 * 8 + lane % 8) * stride + j + lane / 16 * 8);
            block.multiply(c[j / 8], left, right);
            block.multiply(c[j / 8 + 1], left, right + 2);
        }
    }
}

/** Writes two neighbouring values of a row. */
template <class Block> DEVICE void put_pair(const Block & block, Bf16 * to, float a, float b) { *reinterpret_cast<uint32_t *>(to) = block.pack(a, b); }

/** Writes the warp's 16 rows of C, scaled by row. Rows at or after end are not written. to is the head's first value. */
template <int d, class Block>
DEVICE void store_rows(const Block & block, const float (&c)[d / 8][4], float scale_low, float scale_high, Bf16 * to, int64_t stride, int32_t first, int32_t end) {
    const int64_t low = first + block.lane() / 4, high = low + 8;
    const int column = block.lane() % 4 * 2;
#pragma unroll
    for (int j = 0; j < d / 8; j++) {
        if (low < end) put_pair(block, to + low * stride + j * 8 + column, c[j][0] * scale_low, c[j][1] * scale_low);
        if (high < end) put_pair(block, to + high * stride + j * 8 + column, c[j][2] * scale_high, c[j][3] * scale_high);
    }
}

DEVICE bool sees(int32_t query, int32_t key, int32_t window) { return key <= query && (window == 0 || key > query - window); }

/** The warp's 16 queries of the block's tile and head. The forward kernel and the kernel of dq share this. */
template <int d> struct FlashQueries {
    Tile tile;
    int64_t head, kv;      // kv: offset of the group's key/value head in a row
    Bf16 * q;              // [64, d] at the beginning of shared memory
    int own;               // offset of the warp's rows in it
    int32_t window;
    int32_t low, high;     // the thread's two queries
    int32_t start, last;   // keys: the first that any query of the tile sees, and one past the last
    template <class Block> DEVICE FlashQueries(const Block & block, const AttentionInputs<Bf16> & in, const Tile & of)
        : tile(of), head(block.y()), kv(block.y() / in.group * d), q(block.template shared<Bf16>(0)), own(block.warp() * 16 * Flash<d>::stride), window(static_cast<int32_t>(in.window)),
          low(of.first + block.warp() * 16 + block.lane() / 4), high(low + 8), start(static_cast<int32_t>(first_visible(of.begin, of.first, in.window))),
          last(of.first + flash_rows < of.end ? of.first + flash_rows : of.end) {
        copy_tile<d, flash_rows>(block, in.q + head * d, in.q_stride, tile.first, tile.end, q);
    }
    template <int n, class Block> DEVICE void copy_keys(const Block & block, const AttentionInputs<Bf16> & in, int32_t j, Bf16 * k) const {
        copy_tile<d, n>(block, in.k + kv, in.k_stride, j, tile.end, k);
    }
    template <int n, class Block> DEVICE void copy_values(const Block & block, const AttentionInputs<Bf16> & in, int32_t j, Bf16 * v) const {
        copy_tile<d, n>(block, in.v + kv, in.v_stride, j, tile.end, v);
    }
    /** Whether every query of the tile sees every one of the n keys from j on. */
    DEVICE bool whole(int32_t j, int n) const { return window == 0 && j + n - 1 <= tile.first; }
};

template <int d> struct FlashForward {
    AttentionInputs<Bf16> in;
    const Tile * last_tile; // a block's x counts backwards from it, so that the late tiles of a row, which take longest, begin first
    Bf16 * out;             // [tokens, heads · d]
    float * lse;            // [tokens, heads]
    template <class Block> DEVICE void operator()(const Block & block) const {
        constexpr int n = Flash<d>::streamed_forward;
        const Tile tile = last_tile[-block.x()];
        if (tile.end == 0) return;
        const FlashQueries<d> queries(block, in, tile);
        const int32_t low = queries.low, high = queries.high;
        Bf16 * k = queries.q + flash_rows * Flash<d>::stride;
        Bf16 * v = k + n * Flash<d>::stride;
        const float scale = in.scale * log2_of_e; // scores are exponents of 2

        float o[d / 8][4] = {};
        float most_low = -INFINITY, most_high = -INFINITY, sum_low = 0, sum_high = 0;
        queries.template copy_keys<n>(block, in, queries.start, k);
        for (int32_t j = queries.start; j < queries.last; j += n) {
            // The values are copied while the scores are computed, and the next keys while the values are added up.
            block.wait_copies();
            block.sync();
            queries.template copy_values<n>(block, in, j, v);
            float s[n / 8][4] = {};
            multiply_rows<d, n>(block, queries.q + queries.own, k, s);
            const bool whole = queries.whole(j, n);
            float top_low = most_low, top_high = most_high;
#pragma unroll
            for (int i = 0; i < n / 8; i++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const int32_t key = j + i * 8 + block.lane() % 4 * 2 + c;
                    s[i][c] = whole || sees(low, key, queries.window) ? s[i][c] * scale : -INFINITY;
                    s[i][c + 2] = whole || sees(high, key, queries.window) ? s[i][c + 2] * scale : -INFINITY;
                    top_low = fmaxf(top_low, s[i][c]);
                    top_high = fmaxf(top_high, s[i][c + 2]);
                }
            top_low = fmaxf(top_low, block.shuffle_xor(top_low, 1));
            top_low = fmaxf(top_low, block.shuffle_xor(top_low, 2));
            top_high = fmaxf(top_high, block.shuffle_xor(top_high, 1));
            top_high = fmaxf(top_high, block.shuffle_xor(top_high, 2));
            // A query that has seen no key yet has nothing to shrink, and −∞ − (−∞) would be NaN.
            const float base_low = top_low == -INFINITY ? 0 : top_low, base_high = top_high == -INFINITY ? 0 : top_high;
            const float shrink_low = exp2f(most_low - base_low), shrink_high = exp2f(most_high - base_high);
            most_low = top_low;
            most_high = top_high;
            sum_low *= shrink_low;
            sum_high *= shrink_high;
#pragma unroll
            for (int i = 0; i < n / 8; i++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    s[i][c] = exp2f(s[i][c] - base_low);
                    s[i][c + 2] = exp2f(s[i][c + 2] - base_high);
                    sum_low += s[i][c];
                    sum_high += s[i][c + 2];
                }
#pragma unroll
            for (int i = 0; i < d / 8; i++) {
                o[i][0] *= shrink_low;
                o[i][1] *= shrink_low;
                o[i][2] *= shrink_high;
                o[i][3] *= shrink_high;
            }
            block.wait_copies();
            block.sync();
            if (j + n < queries.last) queries.template copy_keys<n>(block, in, j + n, k);
            multiply_columns<d, n>(block, s, v, o);
        }
        sum_low += block.shuffle_xor(sum_low, 1);
        sum_low += block.shuffle_xor(sum_low, 2);
        sum_high += block.shuffle_xor(sum_high, 1);
        sum_high += block.shuffle_xor(sum_high, 2);
        store_rows<d>(block, o, 1.0f / sum_low, 1.0f / sum_high, out + queries.head * d, in.heads * d, tile.first + block.warp() * 16, tile.end);
        if (block.lane() % 4 == 0) {
            if (low < tile.end) lse[low * in.heads + queries.head] = most_low * ln_of_2 + logf(sum_low);
            if (high < tile.end) lse[high * in.heads + queries.head] = most_high * ln_of_2 + logf(sum_high);
        }
    }
};

template <int d> struct FlashDq {
    AttentionInputs<Bf16> in;
    const Tile * last_tile; // as in the forward kernel
    AttentionGradients<Bf16> g;
    template <class Block> DEVICE void operator()(const Block & block) const {
        constexpr int n = Flash<d>::streamed_backward, stride = Flash<d>::stride;
        const Tile tile = last_tile[-block.x()];
        if (tile.end == 0) return;
        const FlashQueries<d> queries(block, in, tile);
        const int64_t head = queries.head;
        const int32_t low = queries.low, high = queries.high;
        Bf16 * dout = queries.q + flash_rows * stride;
        Bf16 * streamed = dout + flash_rows * stride; // two pairs of tiles, keys and values, used in turn
        copy_tile<d, flash_rows>(block, g.dout + head * d, in.heads * d, tile.first, tile.end, dout);
        // After the row's end q and dout are 0. With lse and delta of 0, the gradient there is 0 too.
        const float lse_low = low < tile.end ? g.lse[low * in.heads + head] * log2_of_e : 0, lse_high = high < tile.end ? g.lse[high * in.heads + head] * log2_of_e : 0;
        const float delta_low = low < tile.end ? g.delta[low * in.heads + head] : 0, delta_high = high < tile.end ? g.delta[high * in.heads + head] : 0;
        const float scale = in.scale * log2_of_e;
        const auto copy = [&](int32_t j, int turn) {
            queries.template copy_keys<n>(block, in, j, streamed + turn * 2 * n * stride);
            queries.template copy_values<n>(block, in, j, streamed + (turn * 2 + 1) * n * stride);
        };

        float dq[d / 8][4] = {};
        copy(queries.start, 0);
        int turn = 0;
        for (int32_t j = queries.start; j < queries.last; j += n, turn ^= 1) {
            block.wait_copies();
            block.sync(); // the tile has arrived, and no thread needs the previous one
            if (j + n < queries.last) copy(j + n, turn ^ 1);
            const Bf16 *k = streamed + turn * 2 * n * stride, *v = k + n * stride;
            float s[n / 8][4] = {}, dp[n / 8][4] = {};
            multiply_rows<d, n>(block, queries.q + queries.own, k, s);
            multiply_rows<d, n>(block, dout + queries.own, v, dp);
            const bool whole = queries.whole(j, n);
#pragma unroll
            for (int i = 0; i < n / 8; i++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const int32_t key = j + i * 8 + block.lane() % 4 * 2 + c;
                    s[i][c] = whole || sees(low, key, queries.window) ? exp2f(s[i][c] * scale - lse_low) * (dp[i][c] - delta_low) : 0;
                    s[i][c + 2] = whole || sees(high, key, queries.window) ? exp2f(s[i][c + 2] * scale - lse_high) * (dp[i][c + 2] - delta_high) : 0;
                }
            multiply_columns<d, n>(block, s, k, dq);
        }
        store_rows<d>(block, dq, in.scale, in.scale, g.dq + head * d, g.dq_stride, tile.first + block.warp() * 16, tile.end);
    }
};

/** The block's y is the key/value head. Scores are transposed: a warp owns 16 keys. */
template <int d> struct FlashDkv {
    AttentionInputs<Bf16> in;
    const Tile * tiles; // indexed by the block's x: the first tiles of a row take longest and begin first
    AttentionGradients<Bf16> g;
    template <class Block> DEVICE void operator()(const Block & block) const {
        constexpr int n = Flash<d>::streamed_backward, stride = Flash<d>::stride;
        const Tile tile = tiles[block.x()];
        if (tile.end == 0) return;
        const int64_t kv = block.y() * d;
        const auto window = static_cast<int32_t>(in.window);
        Bf16 * k = block.template shared<Bf16>(0);
        Bf16 * v = k + flash_rows * stride;
        Bf16 * streamed = v + flash_rows * stride; // two pairs of tiles, queries and dout, used in turn
        copy_tile<d, flash_rows>(block, in.k + kv, in.k_stride, tile.first, tile.end, k);
        copy_tile<d, flash_rows>(block, in.v + kv, in.v_stride, tile.first, tile.end, v);
        const int own = block.warp() * 16 * stride;
        const int32_t low = tile.first + block.warp() * 16 + block.lane() / 4, high = low + 8;
        const float scale = in.scale * log2_of_e;

        // The last query that sees a key of this tile stands window − 1 after the tile's last key.
        const int64_t reach = tile.first + flash_rows - 1 + in.window;
        const int32_t end = window > 0 && reach < tile.end ? static_cast<int32_t>(reach) : tile.end;
        const int32_t of_head = (end - tile.first + n - 1) / n, all = of_head * static_cast<int32_t>(in.group);
        const auto head_at = [&](int32_t at) { return block.y() * in.group + at / of_head; };
        const auto query_at = [&](int32_t at) { return tile.first + at % of_head * n; };
        const auto copy = [&](int32_t at, int turn) {
            Bf16 * q = streamed + turn * 2 * n * stride;
            copy_tile<d, n>(block, in.q + head_at(at) * d, in.q_stride, query_at(at), tile.end, q);
            copy_tile<d, n>(block, g.dout + head_at(at) * d, in.heads * d, query_at(at), tile.end, q + n * stride);
        };

        float dk[d / 8][4] = {}, dv[d / 8][4] = {};
        copy(0, 0);
        int turn = 0;
        for (int32_t at = 0; at < all; at++, turn ^= 1) {
            block.wait_copies();
            block.sync(); // the tile has arrived, and no thread needs the previous one
            if (at + 1 < all) copy(at + 1, turn ^ 1);
            const Bf16 *q = streamed + turn * 2 * n * stride, *dout = q + n * stride;
            const int32_t j = query_at(at), mine = j + block.lane();
            // Each lane reads lse and delta of one query, and the other lanes get them from it. After the row's end q and dout are 0, and
            // with lse and delta of 0 they add 0.
            const bool real = mine < tile.end && block.lane() < n;
            const float lse_mine = real ? g.lse[mine * in.heads + head_at(at)] * log2_of_e : 0, delta_mine = real ? g.delta[mine * in.heads + head_at(at)] : 0;
            float s[n / 8][4] = {}, dp[n / 8][4] = {};
            multiply_rows<d, n>(block, k + own, q, s);
            multiply_rows<d, n>(block, v + own, dout, dp);
            const bool whole = window == 0 && j >= tile.first + flash_rows - 1;
#pragma unroll
            for (int i = 0; i < n / 8; i++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const int of = i * 8 + block.lane() % 4 * 2 + c;
                    const int32_t query = j + of;
                    const float lse = block.shuffle(lse_mine, of), delta = block.shuffle(delta_mine, of);
                    s[i][c] = whole || sees(query, low, window) ? exp2f(s[i][c] * scale - lse) : 0;
                    s[i][c + 2] = whole || sees(query, high, window) ? exp2f(s[i][c + 2] * scale - lse) : 0;
                    dp[i][c] = s[i][c] * (dp[i][c] - delta);
                    dp[i][c + 2] = s[i][c + 2] * (dp[i][c + 2] - delta);
                }
            multiply_columns<d, n>(block, s, dout, dv);
            multiply_columns<d, n>(block, dp, q, dk);
        }
        store_rows<d>(block, dk, in.scale, in.scale, g.dk + kv, g.dk_stride, tile.first + block.warp() * 16, tile.end);
        store_rows<d>(block, dv, 1, 1, g.dv + kv, g.dv_stride, tile.first + block.warp() * 16, tile.end);
    }
};

} // namespace gpu
