// A GGUF file as the trainer sees it, refused with a reason when it is not a llama this worker trains exactly.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/gguf_file.h"

struct ModelShape {
    int64_t layers, embedding, heads, kv_heads, head_values, feed_forward, vocabulary, context;
    float norm_eps;
    double rope_base, rope_scale;     // angle = position · rope_scale · base^(−2i/d)
    std::vector<float> rope_factors;  // per pair, or empty
    bool tied;                        // the head is the token embedding
    std::string file_type;            // as llama.cpp names quantisations, for people
    int64_t weight_bytes;             // of all tensors as stored
};

struct LayerWeights {
    std::vector<float> attn_norm, ffn_norm; // [embedding]
    Matrix attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down;
};

class GgufModel {
public:
    /** Throws io_error, invalid_model or unsupported_architecture. */
    explicit GgufModel(const std::string & path);

    ModelShape shape;
    Matrix token_embd, head;
    std::vector<float> output_norm; // [embedding]
    std::vector<LayerWeights> layers;

private:
    MappedFile mapped_;
};
