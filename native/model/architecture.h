// The architectures this worker trains, and what they differ in. src/models of llama.cpp is what each must equal.
#pragma once
#include <string>

#include "kernels/rope.h"

/** What the feed-forward part makes of its gate before it multiplies. */
enum class Activation { silu, gelu };

struct Architecture {
    const char * name; // as GGUF has it
    RopePairs rope_pairs;
    Activation activation;
    bool head_norms;       // q and k of each head are normed
    bool post_norms;       // what attention and feed-forward add is normed
    bool scaled_embedding; // by √embedding
    bool windows;          // some layers may see the last tokens only
    bool rope_factors;     // there may be a tensor of them
};

constexpr Architecture architectures[] = {
    {"llama", RopePairs::neighbours, Activation::silu, false, false, false, false, true},
    {"qwen2", RopePairs::halves, Activation::silu, false, false, false, false, false},
    {"qwen3", RopePairs::halves, Activation::silu, true, false, false, false, false},
    {"gemma3", RopePairs::halves, Activation::gelu, true, true, true, true, false},
};
