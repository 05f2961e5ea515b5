// Kernels that touch every value once: rotary positions, the gated activation, biases, casts, averages, dropout and the cache.
#pragma once
#include <type_traits>

#include "kernels/cuda/block.h"

namespace gpu {

/**
 * Rotates heads of d values in place. x is [tokens, stride], and the block's x is the token. table [positions, d/2] holds (cos, sin). Pairs
 * are (2i, 2i+1), or (i, i + d/2) with neox. direction −1 is the backward pass.
 */
template <class T> struct Rope {
    T * x;
    int64_t stride;
    int32_t heads, d; // 32 bits, because a division in 64 bits would take longer than all the rest
    const int32_t * positions;
    const float * table;
    bool neox;
    float direction;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const float * angles = table + static_cast<int64_t>(positions[block.x()]) * d;
        T * row = x + block.x() * stride;
        const int32_t pairs = d / 2;
        for (int32_t i = block.thread(); i < heads * pairs; i += block.threads()) {
            const int32_t pair = i % pairs;
            T * head = row + i / pairs * d;
            T & first = head[neox ? pair : 2 * pair];
            T & second = head[neox ? pair + pairs : 2 * pair + 1];
            const float c = angles[2 * pair], s = angles[2 * pair + 1] * direction;
            const float a = get(first), b = get(second);
            put(first, a * c - b * s);
            put(second, a * s + b * c);
        }
    }
};

/** Calls f(n as a constant), where n is the number of Ts per thread for rows of this width, or for an array of this length. */
template <class T, class F> void with_chunk(int64_t width, const F & f) {
    constexpr int whole = 16 / static_cast<int>(sizeof(T));
    if (width % whole == 0)
        f(std::integral_constant<int, whole>{});
    else
        f(std::integral_constant<int, 1>{});
}

enum class Activation { silu, gelu_tanh };

/** The activation and its derivative at x. */
struct Activated {
    float value, slope;
};
DEVICE Activated activate(Activation kind, float x) {
    if (kind == Activation::silu) {
        const float s = 1.0f / (1.0f + expf(-x));
        return {x * s, s * (1.0f + x * (1.0f - s))};
    }
    // The tanh approximation of Hendrycks and Gimpel, which ggml and gemma use.
    constexpr float root = 0.7978845608028654f, cubic = 0.044715f;
    const float t = tanhf(root * x * (1.0f + cubic * x * x));
    return {0.5f * x * (1.0f + t), 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * root * (1.0f + 3.0f * cubic * x * x)};
}

/** product [tokens, width] = act(gate) · up. gate_up [tokens, 2 · width] holds a token's gates, then its ups. Each thread takes n values. */
template <class T, int n> struct Glu {
    const T * gate_up;
    int64_t width;
    Activation kind;
    T * product;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const T * gate = gate_up + block.y() * 2 * width;
        const int64_t i = n * (block.x() * block.threads() + block.thread());
        if (i >= width) return;
        const auto gates = chunk_at<T, n>(gate + i), ups = chunk_at<T, n>(gate + width + i);
        Chunk<T, n> made;
        for (int j = 0; j < n; j++) put(made.values[j], activate(kind, get(gates.values[j])).value * get(ups.values[j]));
        put_chunk(product + block.y() * width + i, made);
    }
};

/** Replaces gate and up by their gradients. */
template <class T, int n> struct GluBackward {
    T * gate_up;
    const T * dproduct;
    int64_t width;
    Activation kind;
    template <class Block> DEVICE void operator()(const Block & block) const {
        T * gate = gate_up + block.y() * 2 * width;
        const int64_t i = n * (block.x() * block.threads() + block.thread());
        if (i >= width) return;
        auto gates = chunk_at<T, n>(gate + i), ups = chunk_at<T, n>(gate + width + i);
        const auto dys = chunk_at<T, n>(dproduct + block.y() * width + i);
        for (int j = 0; j < n; j++) {
            const Activated a = activate(kind, get(gates.values[j]));
            const float up = get(ups.values[j]), dy = get(dys.values[j]);
            put(ups.values[j], dy * a.value);
            put(gates.values[j], dy * up * a.slope);
        }
        put_chunk(gate + i, gates);
        put_chunk(gate + width + i, ups);
    }
};

/** Adds bias [width] to every row of y [tokens, stride]. */
template <class T> struct AddBias {
    T * y;
    int64_t stride, width;
    const float * bias;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t i = block.x() * block.threads() + block.thread();
        if (i < width) put(y[block.y() * stride + i], get(y[block.y() * stride + i]) + bias[i]);
    }
};

template <class T, int n> struct Cast {
    const float * from;
    int64_t count;
    T * to;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t i = n * (block.x() * block.threads() + block.thread());
        if (i >= count) return;
        const auto values = chunk_at<float, n>(from + i);
        Chunk<T, n> made;
        for (int j = 0; j < n; j++) put(made.values[j], values.values[j]);
        put_chunk(to + i, made);
    }
};

/** One step of kernels/average.h. kept + taken = 1. */
struct Average {
    float * w; // [count]
    const float * from;
    int64_t count;
    float kept, taken;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t i = block.x() * block.threads() + block.thread();
        if (i >= count) return;
        w[i] = kept > 0.5f ? w[i] + taken * (from[i] - w[i]) : from[i] + kept * (w[i] - from[i]);
    }
};

/** mix64 and random_key of base/random.h, for the device. */
DEVICE uint64_t mix_bits(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}
DEVICE uint64_t key_of(uint64_t seed, uint64_t stream) { return mix_bits(mix_bits(seed + 0x9e3779b97f4a7c15ull) ^ (stream * 0xd6e8feb86659fd93ull + 0x2545f4914f6cdd1dull)); }

/**
 * Applies the mask of kernels/dropout.h to x [tokens, width]: y = (add ? y : 0) + mask · x · scale. Token t's key is made of *group and
 * origins[t].
 */
template <class T, class Y, bool add> struct DropoutRows {
    const T * x;
    int64_t width;
    const uint64_t * group;
    const int64_t * origins;
    uint32_t below;
    float scale;
    Y * y;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t i = block.x() * block.threads() + block.thread(), at = block.y() * width + i;
        if (i >= width) return;
        const uint64_t key = key_of(*group, static_cast<uint64_t>(origins[block.y()]));
        const uint64_t bits = mix_bits(key + (static_cast<uint64_t>(i / 4) + 1) * 0x9e3779b97f4a7c15ull);
        const float kept = (bits >> (16 * (i % 4)) & 0xffff) < below ? 0.0f : get(x[at]) * scale;
        put(y[at], (add ? get(y[at]) : 0.0f) + kept);
    }
};

/** Copies keys and values of a pass into a cache [places, width]: token t goes to places[t], or nowhere if that is negative. */
template <class T> struct StoreCache {
    const T *k, *v;
    int64_t k_stride, v_stride, width;
    const int32_t * places;
    T *keys, *values;
    template <class Block> DEVICE void operator()(const Block & block) const {
        const int64_t i = block.x() * block.threads() + block.thread();
        const int64_t place = places[block.y()];
        if (i >= width || place < 0) return;
        keys[place * width + i] = k[block.y() * k_stride + i];
        values[place * width + i] = v[block.y() * v_stride + i];
    }
};

} // namespace gpu
