// exp for float in plain arithmetic, so that loops over it become vector code. Loops over the library's expf do not, without -ffast-math.
#pragma once
#include <cstdint>
#include <cstring>

/** The relative error is below 2e-7 on [-87, 88]. Smaller arguments give e^-87, larger ones e^88, NaN gives NaN. */
inline float fast_exp(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    // Adding 1.5·2^23 leaves round(x / ln 2) in the low bits of the float.
    const float shifted = x * 1.44269504f + 12582912.0f;
    const float n = shifted - 12582912.0f;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f; // Cephes' polynomial
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t bits;
    std::memcpy(&bits, &shifted, 4);
    bits = (bits - 0x4b400000u + 127u) << 23;
    float scale;
    std::memcpy(&scale, &bits, 4);
    return p * scale;
}
