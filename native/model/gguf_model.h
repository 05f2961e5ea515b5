// A GGUF file as the trainer sees it. A file that this worker does not compute exactly as llama.cpp does is refused with a reason.
// Differences between architectures are data here, so there is one transformer.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "kernels/attention.h"
#include "kernels/rope.h"
#include "model/architecture.h"
#include "model/gguf_file.h"

struct ModelShape {
    std::string architecture;
    int64_t layers, embedding, heads, kv_heads, head_values, feed_forward, vocabulary, context;
    float norm_eps;
    float embedding_scale;      // factor of the embeddings
    double attention_scale;     // factor of query · key
    Activation activation;
    bool head_norms, post_norms; // q and k of each head are normed; what attention and feed-forward add is normed
    RopePairs rope_pairs;
    bool tied;                  // the head is the token embedding
    std::string file_type;      // ggml's name of the type that most bytes have, for people
    int64_t weight_bytes;       // sum over all tensors as stored
};

struct LayerWeights {
    std::vector<float> attn_norm, ffn_norm;           // [embedding]
    std::vector<float> attn_post_norm, ffn_post_norm; // [embedding], or empty
    std::vector<float> q_norm, k_norm;                // [head_values], or empty
    std::vector<float> q_bias, k_bias, v_bias;        // a value per row of the matrix, or empty
    Matrix attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down;
    int64_t window = no_window;                       // the most keys that a token sees
    size_t rope = 0;                                  // index into the model's ropes
};

/** Where a model comes from: a file, or a shape with made-up weights (random_model.h). */
struct ModelSource {
    ModelSource(std::string file) : path(std::move(file)) {}
    ModelSource(const char * file) : path(file) {}
    ModelSource(ModelShape made_up, ggml_type stored) : shape(std::move(made_up)), type(stored) {}

    std::string path; // empty for a made-up model
    ModelShape shape{};
    ggml_type type = GGML_TYPE_F32;
};

/** Whether a model without a file gets weights (filled) or is only measured (outlined): then matrices have no data and norms no values. */
enum class MadeUp { filled, outlined };

class GgufModel {
public:
    /** Throws io_error, invalid_model or unsupported_architecture. */
    explicit GgufModel(const ModelSource & source, MadeUp made_up = MadeUp::filled);

    ModelShape shape;
    Matrix token_embd, head;
    std::vector<float> output_norm; // [embedding]
    std::vector<Rope> ropes;        // of the layers without a window, and of those with one
    std::vector<LayerWeights> layers;

private:
    void read(const std::string & path);
    void make_up(ggml_type type, MadeUp made_up);

    std::optional<MappedFile> mapped_;
    Buffer<uint8_t> made_; // the weights of a made-up model
};
