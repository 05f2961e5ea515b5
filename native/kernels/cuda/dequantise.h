// Values of GGUF's quantised blocks, one by one: value(block, i) is what ggml's dequantisation writes at place i. Reading value by
// value keeps every type a few lines; neighbouring threads read neighbouring bytes, so the memory is what bounds it.
#pragma once
#include <ggml.h>

#include <type_traits>

#include "kernels/cuda/block.h"

namespace gpu {

/** Two bytes of a block, which always starts at an even address. */
DEVICE float half_at(const uint8_t * at) { return half_value(*reinterpret_cast<const uint16_t *>(at)); }

template <ggml_type type> struct Quantised;

template <> struct Quantised<GGML_TYPE_F32> {
    static constexpr int values = 1, bytes = 4;
    static DEVICE float value(const uint8_t * b, int) { return *reinterpret_cast<const float *>(b); }
};
template <> struct Quantised<GGML_TYPE_F16> {
    static constexpr int values = 1, bytes = 2;
    static DEVICE float value(const uint8_t * b, int) { return half_at(b); }
};
template <> struct Quantised<GGML_TYPE_BF16> {
    static constexpr int values = 1, bytes = 2;
    static DEVICE float value(const uint8_t * b, int) { return get(*reinterpret_cast<const Bf16 *>(b)); }
};

/** Low nibbles hold the first half of the block, high nibbles the second. */
DEVICE int split_nibble(const uint8_t * q, int i, int half) { return i < half ? q[i] & 15 : q[i - half] >> 4; }

template <> struct Quantised<GGML_TYPE_Q4_0> { // d, 16 × 2 nibbles
    static constexpr int values = 32, bytes = 18;
    static DEVICE float value(const uint8_t * b, int i) { return static_cast<float>(split_nibble(b + 2, i, 16) - 8) * half_at(b); }
};
template <> struct Quantised<GGML_TYPE_Q4_1> { // d, m, 16 × 2 nibbles
    static constexpr int values = 32, bytes = 20;
    static DEVICE float value(const uint8_t * b, int i) { return static_cast<float>(split_nibble(b + 4, i, 16)) * half_at(b) + half_at(b + 2); }
};
template <> struct Quantised<GGML_TYPE_Q5_0> { // d, 32 fifth bits, 16 × 2 nibbles
    static constexpr int values = 32, bytes = 22;
    static DEVICE float value(const uint8_t * b, int i) {
        const int fifth = b[2 + i / 8] >> (i % 8) & 1;
        return static_cast<float>((split_nibble(b + 6, i, 16) | fifth << 4) - 16) * half_at(b);
    }
};
template <> struct Quantised<GGML_TYPE_Q5_1> { // d, m, 32 fifth bits, 16 × 2 nibbles
    static constexpr int values = 32, bytes = 24;
    static DEVICE float value(const uint8_t * b, int i) {
        const int fifth = b[4 + i / 8] >> (i % 8) & 1;
        return static_cast<float>(split_nibble(b + 8, i, 16) | fifth << 4) * half_at(b) + half_at(b + 2);
    }
};
template <> struct Quantised<GGML_TYPE_Q8_0> { // d, 32 signed bytes
    static constexpr int values = 32, bytes = 34;
    static DEVICE float value(const uint8_t * b, int i) { return static_cast<float>(static_cast<int8_t>(b[2 + i])) * half_at(b); }
};
template <> struct Quantised<GGML_TYPE_Q2_K> { // 16 scales and minima of 4 bits, 256 × 2 bits, d, dmin
    static constexpr int values = 256, bytes = 84;
    static DEVICE float value(const uint8_t * b, int i) {
        const int part = i / 128, quarter = i % 128 / 32, l = i % 32;
        const int scale = b[part * 8 + quarter * 2 + l / 16];
        const int q = b[16 + part * 32 + l] >> (2 * quarter) & 3;
        return half_at(b + 80) * static_cast<float>(scale & 15) * static_cast<float>(q) - half_at(b + 82) * static_cast<float>(scale >> 4);
    }
};
template <> struct Quantised<GGML_TYPE_Q3_K> { // 256 third bits, 256 × 2 bits, 16 scales of 6 bits, d
    static constexpr int values = 256, bytes = 110;
    static DEVICE float value(const uint8_t * b, int i) {
        const int part = i / 128, quarter = i % 128 / 32, l = i % 32;
        const int s = part * 8 + quarter * 2 + l / 16, word = s / 4;
        const uint8_t * scales = b + 96;
        const int low = word < 2 ? scales[s] & 15 : scales[s - 8] >> 4, high = scales[8 + s % 4] >> (2 * word) & 3;
        const int q = (b[32 + part * 32 + l] >> (2 * quarter) & 3) - (b[l] >> (part * 4 + quarter) & 1 ? 0 : 4);
        return half_at(b + 108) * static_cast<float>((low | high << 4) - 32) * static_cast<float>(q);
    }
};

/** Scale (which 0) or minimum (which 4) of 32 values of Q4_K and Q5_K, 6 bits each, packed into 12 bytes. */
DEVICE int scale_of_k(const uint8_t * scales, int s, int which) {
    if (s < 4) return scales[s + which] & 63;
    const int low = which == 0 ? scales[s + 4] & 15 : scales[s + 4] >> 4;
    return low | scales[s - 4 + which] >> 6 << 4;
}

template <> struct Quantised<GGML_TYPE_Q4_K> { // d, dmin, 12 bytes of scales, 4 × (32 low, 32 high nibbles)
    static constexpr int values = 256, bytes = 144;
    static DEVICE float value(const uint8_t * b, int i) {
        const int s = i / 32;
        const int q = b[16 + i / 64 * 32 + i % 32] >> (4 * (s % 2)) & 15;
        return half_at(b) * static_cast<float>(scale_of_k(b + 4, s, 0)) * static_cast<float>(q) - half_at(b + 2) * static_cast<float>(scale_of_k(b + 4, s, 4));
    }
};
template <> struct Quantised<GGML_TYPE_Q5_K> { // as Q4_K, with 256 fifth bits before the nibbles
    static constexpr int values = 256, bytes = 176;
    static DEVICE float value(const uint8_t * b, int i) {
        const int s = i / 32;
        const int q = (b[48 + i / 64 * 32 + i % 32] >> (4 * (s % 2)) & 15) + (b[16 + i % 32] >> s & 1 ? 16 : 0);
        return half_at(b) * static_cast<float>(scale_of_k(b + 4, s, 0)) * static_cast<float>(q) - half_at(b + 2) * static_cast<float>(scale_of_k(b + 4, s, 4));
    }
};
template <> struct Quantised<GGML_TYPE_Q6_K> { // 256 low nibbles, 256 × 2 high bits, 16 signed scales, d
    static constexpr int values = 256, bytes = 210;
    static DEVICE float value(const uint8_t * b, int i) {
        const int part = i / 128, quarter = i % 128 / 32, l = i % 32;
        const int low = b[part * 64 + quarter % 2 * 32 + l] >> (4 * (quarter / 2)) & 15, high = b[128 + part * 32 + l] >> (2 * quarter) & 3;
        const auto scale = static_cast<int8_t>(b[192 + part * 8 + quarter * 2 + l / 16]);
        return half_at(b + 208) * static_cast<float>(scale) * static_cast<float>((low | high << 4) - 32);
    }
};

/** to [count] = the values of blocks that lie one behind the other; a thread writes two. */
template <ggml_type type, class T> struct Dequantise {
    const uint8_t * from;
    int64_t count;
    T * to;
    template <class Block> DEVICE void operator()(const Block & block) const {
        using Q = Quantised<type>;
        const int64_t first = 2 * (block.x() * block.threads() + block.thread());
        for (int64_t i = first; i < first + 2 && i < count; i++) put(to[i], Q::value(from + i / Q::values * Q::bytes, static_cast<int>(i % Q::values)));
    }
};

/** x [tokens, width] = scale · the rows of the embedding that the tokens name; the block's y is the token's place. */
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
        x[block.y() * width + i] = scale * Q::value(embedding + at / Q::values * Q::bytes, static_cast<int>(i % Q::values));
    }
};

/** f(Quantised type as a constant) for the type of a tensor; false when no kernel knows it. */
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
