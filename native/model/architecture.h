// The architectures that this worker trains, and their differences. Each must compute what src/models of llama.cpp computes.
#pragma once
#include <string>

#include "kernels/rope.h"

/** The function that feed-forward applies to its gate before the multiplication. */
enum class Activation { silu, gelu };

struct Architecture {
    const char * name; // name in GGUF
    RopePairs rope_pairs;
    Activation activation;
    bool head_norms;       // q and k of each head are normed
    bool post_norms;       // what attention and feed-forward add is normed before
    bool scaled_embedding; // embeddings are multiplied by √embedding
    bool windows;          // some layers may see only the last tokens
    bool rope_factors;     // the file may have a tensor of factors
};

constexpr Architecture architectures[] = {
    {"llama", RopePairs::neighbours, Activation::silu, false, false, false, false, true},
    {"qwen2", RopePairs::halves, Activation::silu, false, false, false, false, false},
    {"qwen3", RopePairs::halves, Activation::silu, true, false, false, false, false},
    {"gemma3", RopePairs::halves, Activation::gelu, true, true, true, true, false},
};
