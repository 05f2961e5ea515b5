// What a kernel may use, both on the device and in the tests' emulator. A kernel is a struct of its arguments with
//
//     template <class Block> DEVICE void operator()(const Block & block) const
//
// which every thread of every block runs once. Block offers:
// - thread(), threads(), x() and y() (the block's place in the grid), sync(), shared<T>(byte_offset);
// - sum(float) and most(float) over the whole block; all its threads must call them;
// - of a warp: shuffle_xor(float, mask), shuffle(float, lane), load_matrices(), load_matrices_transposed() and multiply(), as the device's
//   instructions of those names;
// - copies into shared memory that run while the block computes: copy_16(to, from, real) begins one of 16 bytes, which are zeros when it is
//   not real, and wait_copies() waits for all copies that its own thread began.
// nvcc compiles a kernel for the device, and the host's compiler compiles the same lines for the emulator. So the tests without a device
// check the code that runs on a device.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define DEVICE __device__ inline
#define HOST_DEVICE __host__ __device__ inline
#else
#define DEVICE inline
#define HOST_DEVICE inline
#endif

namespace gpu {

/** bfloat16: the upper half of a float. */
struct Bf16 {
    uint16_t bits;
};

template <class To, class From> HOST_DEVICE To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

HOST_DEVICE float get(float x) { return x; }
HOST_DEVICE float get(Bf16 x) { return same_bits<float>(static_cast<uint32_t>(x.bits) << 16); }

HOST_DEVICE void put(float & to, float x) { to = x; }
/** Rounds to nearest, ties to even. */
HOST_DEVICE void put(Bf16 & to, float x) {
    const auto bits = same_bits<uint32_t>(x);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    to.bits = static_cast<uint16_t>(nan ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/** The value of an IEEE half, subnormals included. The exponent is shifted by a multiplication, which is exact. */
DEVICE float half_value(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    const uint32_t value = rest >= 0x7c00u ? rest << 13 | 0x7f800000u : same_bits<uint32_t>(same_bits<float>(rest << 13) * 0x1p112f);
    return same_bits<float>(sign | value);
}

/**
 * Values that a thread reads or writes with one instruction: 16 bytes of Ts if the width of a row is a multiple of that, else one value.
 * The same number of values of a wider type takes more than one instruction.
 */
template <class T, int n> struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) Chunk {
    T values[n];
};
template <class T, int n> DEVICE Chunk<T, n> chunk_at(const T * at) { return *reinterpret_cast<const Chunk<T, n> *>(at); }
template <class T, int n> DEVICE void put_chunk(T * at, const Chunk<T, n> & chunk) { *reinterpret_cast<Chunk<T, n> *>(at) = chunk; }

} // namespace gpu
