// Counter-based random numbers: a value depends only on its key and index, so order and threads cannot change it.
#pragma once
#include <cstdint>
#include <string_view>

/** SplitMix64's finaliser (Steele, Lea and Flood, 2014): a bijection whose output bits all depend on all input bits. */
inline uint64_t mix64(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/** FNV-1a. It lets a tensor's name be part of a key. */
inline uint64_t hash_name(std::string_view name) {
    uint64_t hash = 0xcbf29ce484222325ull;
    for (unsigned char byte : name) hash = (hash ^ byte) * 0x100000001b3ull;
    return hash;
}

inline uint64_t random_key(uint64_t seed, uint64_t stream) {
    return mix64(mix64(seed + 0x9e3779b97f4a7c15ull) ^ (stream * 0xd6e8feb86659fd93ull + 0x2545f4914f6cdd1dull));
}

/** Uniform in [0, 1), 53 bits. */
inline double random_uniform(uint64_t key, uint64_t index) {
    return static_cast<double>(mix64(key + (index + 1) * 0x9e3779b97f4a7c15ull) >> 11) * 0x1.0p-53;
}
