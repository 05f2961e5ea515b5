// Values of GGUF's quantised blocks, one by one. A value is its level times its step's factor, minus the step's offset, as in ggml's
// dequantisation. Eight values that begin at a multiple of eight share one step.
#pragma once
#include <ggml.h>

#include <type_traits>

#include "kernels/cuda/block.h"

namespace gpu {

/** Reads two bytes of a block as a half. A block always starts at an even address. */
DEVICE float half_at(const uint8_t * at) { return half_value(*reinterpret_cast<const uint16_t *>(at)); }

/** A level is multiplied by the factor, and then the offset is subtracted. */
struct Step {
    float factor, offset;
};

/** step(block, i) and level(block, i) are those of the value at place i. */
template <ggml_type type> struct Quantised;

struct Unquantised {
    static constexpr int values = 1;
    static DEVICE Step step(const uint8_t *, int) { return {1, 0}; }
};
template <> struct Quantised<GGML_TYPE_F32> : Unquantised {
    static constexpr int bytes = 4;
    static DEVICE float level(const uint8_t * b, int) { return *reinterpret_cast<const float *>(b); }
};
template <> struct Quantised<GGML_TYPE_F16> : Unquantised {
    static constexpr int bytes = 2;
    static DEVICE float level(const uint8_t * b, int) { return half_at(b); }
};
template <> struct Quantised<GGML_TYPE_BF16> : Unquantised {
    static constexpr int bytes = 2;
    static DEVICE float level(const uint8_t * b, int) { return get(*reinterpret_cast<const Bf16 *>(b)); }
};

/** The low nibbles of 16 bytes hold the first half of 32 values, the high nibbles the second. */
DEVICE int nibble(const uint8_t * q, int i) { return q[i % 16] >> (i / 16 * 4) & 15; }
DEVICE int bit(const uint8_t * bits, int i) { return bits[i / 8] >> (i % 8) & 1; }

template <> struct Quantised<GGML_TYPE_Q4_0> { // d, 16 × 2 nibbles
    static constexpr int values = 32, bytes = 18;
    static DEVICE Step step(const uint8_t * b, int) { return {half_at(b), 0}; }
    static DEVICE float level(const uint8_t * b, int i) { return static_cast<float>(nibble(b + 2, i) - 8); }
};
template <> struct Quantised<GGML_TYPE_Q4_1> { // d, m, 16 × 2 nibbles
    static constexpr int values = 32, bytes = 20;
    static DEVICE Step step(const uint8_t * b, int) { return {half_at(b), -half_at(b + 2)}; }
    static DEVICE float level(const uint8_t * b, int i) { return static_cast<float>(nibble(b + 4, i)); }
};
template <> struct Quantised<GGML_TYPE_Q5_0> { // d, 32 fifth bits, 16 × 2 nibbles
    static constexpr int values = 32, bytes = 22;
    static DEVICE Step step(const uint8_t * b, int) { return {half_at(b), 0}; }
    static DEVICE float level(const uint8_t * b, int i) { return static_cast<float>((nibble(b + 6, i) | bit(b + 2, i) << 4) - 16); }
};
template <> struct Quantised<GGML_TYPE_Q5_1> { // d, m, 32 fifth bits, 16 × 2 nibbles
    static constexpr int values = 32, bytes = 24;
    static DEVICE Step step(const uint8_t * b, int) { return {half_at(b), -half_at(b + 2)}; }
    static DEVICE float level(const uint8_t * b, int i) { return static_cast<float>(nibble(b + 8, i) | bit(b + 4, i) << 4); }
};
template <> struct Quantised<GGML_TYPE_Q8_0> { // d, 32 signed bytes
    static constexpr int values = 32, bytes = 34;
    static DEVICE Step step(const uint8_t * b, int) { return {half_at(b), 0}; }
    static DEVICE float level(const uint8_t * b, int i) { return static_cast<float>(static_cast<int8_t>(b[2 + i])); }
};
template <> struct Quantised<GGML_TYPE_Q2_K> { // 16 scales and minima of 4 bits, 256 × 2 bits, d, dmin
    static constexpr int values = 256, bytes = 84;
    static DEVICE Step step(const uint8_t * b, int i) {
        const int scale = b[i / 16];
        return {half_at(b + 80) * static_cast<float>(scale & 15), half_at(b + 82) * static_cast<float>(scale >> 4)};
    }
    static DEVICE float level(const uint8_t * b, int i) { return static_cast<float>(b[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3); }
};
template <> struct Quantised<GGML_TYPE_Q3_K> { // 256 third bits, 256 × 2 bits, 16 scales of 6 bits, d
    static constexpr int values = 256, bytes = 110;
    static DEVICE Step step(const uint8_t * b, int i) {
        const int s = i / 16, word = s / 4;
        const uint8_t * scales = b + 96;
        const int low = scales[s % 8] >> (word / 2 * 4) & 15, high = scales[8 + s % 4] >> (2 * word) & 3;
        return {half_at(b + 108) * static_cast<float>((low | high << 4) - 32), 0};
    }
    static DEVICE float level(const uint8_t * b, int i) {
        const int low = b[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3, third = b[i % 32] >> (i / 32) & 1;
        return static_cast<float>(low + third * 4 - 4);
    }
};

/** The scales and minima of Q4_K and Q5_K: one of each per 32 values, 6 bits each, packed into 12 bytes after d and dmin. */
struct PackedScales {
    static DEVICE Step step(const uint8_t * b, int i) {
        const int s = i / 32;
        const uint8_t * scales = b + 4;
        const int scale = s < 4 ? scales[s] & 63 : (scales[s + 4] & 15) | scales[s - 4] >> 6 << 4;
        const int least = s < 4 ? scales[s + 4] & 63 : scales[s + 4] >> 4 | scales[s] >> 6 << 4;
        return {half_at(b) * static_cast<float>(scale), half_at(b + 2) * static_cast<float>(least)};
    }
};
template <> struct Quantised<GGML_TYPE_Q4_K> : PackedScales { // d, dmin, 12 bytes of scales, 4 × (32 low, 32 high nibbles)
    static constexpr int values = 256, bytes = 144;
    static DEVICE float level(const uint8_t * b, int i) { return static_cast<float>(b[16 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15); }
};
template <> struct Quantised<GGML_TYPE_Q5_K> : PackedScales { // as Q4_K, with 256 fifth bits before the nibbles
    static constexpr int values = 256, bytes = 176;
    static DEVICE float level(const uint8_t * b, int i) {
        return static_cast<float>((b[48 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15) | (b[16 + i % 32] >> (i / 32) & 1) << 4);
    }
};
template <> struct Quantised<GGML_TYPE_Q6_K> { // 256 low nibbles, 256 × 2 high bits, 16 signed scales, d
    static constexpr int values = 256, bytes = 210;
    static DEVICE Step step(const uint8_t * b, int i) { return {half_at(b + 208) * static_cast<float>(static_cast<int8_t>(b[192 + i / 16])), 0}; }
    static DEVICE float level(const uint8_t * b, int i) {
        const int part = i / 128, quarter = i % 128 / 32, l = i % 32;
        const int low = b[part * 64 + quarter % 2 * 32 + l] >> (quarter / 2 * 4) & 15, high = b[128 + part * 32 + l] >> (2 * quarter) & 3;
        return static_cast<float>((low | high << 4) - 32);
    }
};

/** The n values from place i on. They must share one step. */
template <ggml_type type, int n> DEVICE void values_at(const uint8_t * block, int i, float (&to)[n]) {
    using Q = Quantised<type>;
    const Step step = Q::step(block, i);
    for (int k = 0; k < n; k++) to[k] = step.factor * (Q::values == 1 ? Q::level(block + k * Q::bytes, 0) : Q::level(block, i | k)) - step.offset;
}

/**
 * to [count] = the values of consecutive blocks; each thread writes n of them. The remainder is unsigned and a multiple of n, which tells
 * the compiler which bits of a place the n values share.
 */
template <ggml_type type, class T, int n> struct Dequantise {
    const uint8_t * from;
    int64_t count;
    T * to;
    template <class Block> DEVICE void operator()(const Block & block) const {
        using Q = Quantised<type>;
        static_assert(n <= 8 && (Q::values == 1 || Q::values % n == 0), "a thread's values have one step");
        const uint64_t first = static_cast<uint64_t>(n) * static_cast<uint64_t>(block.x() * block.threads() + block.thread());
        if (first >= static_cast<uint64_t>(count)) return;
        float values[n];
        values_at<type>(from + first / Q::values * Q::bytes, static_cast<int>(first % Q::values), values);
        Chunk<T, n> made;
        for (int i = 0; i < n; i++) put(made.values[i], values[i]);
        put_chunk(to + first, made);
    }
};

/** x [tokens, width] = scale · the embedding's rows of the tokens. The block's y is the token's place. */
template <ggml_type type> struct Embed {
    const uint8_t * embedding;
    const int32_t * tokens;
    int64_t width;
    float scale;
    float * x;
    template <class Block> DEVICE void operator()(const Block & block) const {
        using Q = Quantised<type>;
        const int64_t i = block.x() * block.threads() + block.thread();
        if (i >= width) return;
        const int64_t at = tokens[block.y()] * width + i;
        float value[1];
        values_at<type>(embedding + at / Q::values * Q::bytes, static_cast<int>(i % Q::values), value);
        x[block.y() * width + i] = scale * value[0];
    }
};

/** Calls f(type as a constant) for the type of a tensor. Returns false when there is no kernel for the type. */
template <class F> bool with_type(ggml_type type, const F & f) {
    switch (type) {
#define PLUMBLINE_TYPE(name) \
    case name: f(std::integral_constant<ggml_type, name>{}); return true;
        PLUMBLINE_TYPE(GGML_TYPE_F32)
        PLUMBLINE_TYPE(GGML_TYPE_F16)
        PLUMBLINE_TYPE(GGML_TYPE_BF16)
        PLUMBLINE_TYPE(GGML_TYPE_Q4_0)
        PLUMBLINE_TYPE(GGML_TYPE_Q4_1)
        PLUMBLINE_TYPE(GGML_TYPE_Q5_0)
        PLUMBLINE_TYPE(GGML_TYPE_Q5_1)
        PLUMBLINE_TYPE(GGML_TYPE_Q8_0)
        PLUMBLINE_TYPE(GGML_TYPE_Q2_K)
        PLUMBLINE_TYPE(GGML_TYPE_Q3_K)
        PLUMBLINE_TYPE(GGML_TYPE_Q4_K)
        PLUMBLINE_TYPE(GGML_TYPE_Q5_K)
        PLUMBLINE_TYPE(GGML_TYPE_Q6_K)
#undef PLUMBLINE_TYPE
        default: return false;
    }
}

} // namespace gpu
