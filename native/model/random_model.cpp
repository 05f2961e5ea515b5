#include "model/random_model.h"

#include <strings.h> // strcasecmp: ggml writes q4_K

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/failure.h"
#include "base/random.h"

namespace {

/** The type that llama.cpp's quantiser stores a row in when the blocks of the requested type do not divide its length. */
ggml_type type_for(ggml_type type, int64_t columns) {
    if (columns % ggml_blck_size(type) == 0) return type;
    ggml_type other = GGML_TYPE_F16;
    if (type == GGML_TYPE_Q4_K) other = GGML_TYPE_Q5_0;
    if (type == GGML_TYPE_Q5_K) other = GGML_TYPE_Q5_1;
    if (type == GGML_TYPE_Q6_K) other = GGML_TYPE_Q8_0;
    return columns % ggml_blck_size(other) == 0 ? other : GGML_TYPE_F16;
}

int64_t bytes_of(ggml_type type, int64_t rows, int64_t columns) { return rows * static_cast<int64_t>(ggml_row_size(type_for(type, columns), columns)); }

/** Number of rows that are made up. The rest of a matrix repeats them. */
constexpr int64_t pattern_rows = 61;

/** Fills a matrix with values in [−1, 1]/√columns, about as large as trained weights. */
void fill(ggml_type type, int64_t rows, int64_t columns, uint64_t key, uint8_t * to) {
    const int64_t made = std::min(rows, pattern_rows);
    std::vector<float> values(static_cast<size_t>(made * columns));
    for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>((2 * random_uniform(key, i) - 1) / std::sqrt(static_cast<double>(columns)));
    const size_t row = ggml_row_size(type, columns);
    if (type == GGML_TYPE_F32)
        std::memcpy(to, values.data(), values.size() * sizeof(float));
    else
        ggml_quantize_chunk(type, values.data(), to, 0, made, columns, nullptr);
    for (int64_t r = made; r < rows; r++) std::memcpy(to + static_cast<size_t>(r) * row, to + static_cast<size_t>(r % made) * row, row);
}

} // namespace

ModelShape plain_shape(const std::string & architecture, int64_t embedding, int64_t heads, int64_t head_values) {
    for (const Architecture & known : architectures)
        if (architecture == known.name) {
            ModelShape s{};
            s.architecture = architecture;
            s.embedding = embedding;
            s.heads = heads;
            s.head_values = head_values;
            s.norm_eps = 1e-5f;
            s.embedding_scale = known.scaled_embedding ? std::sqrt(static_cast<float>(embedding)) : 1;
            s.attention_scale = 1 / std::sqrt(static_cast<double>(head_values));
            s.activation = known.activation;
            s.head_norms = known.head_norms;
            s.post_norms = known.post_norms;
            s.rope_pairs = known.rope_pairs;
            return s;
        }
    refuse::unsupported("architecture " + architecture);
}

std::optional<ggml_type> stored_type(const std::string & name) {
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        const auto type = static_cast<ggml_type>(i);
        const ggml_type_traits * traits = ggml_get_type_traits(type);
        if (traits->type_name == nullptr || ::strcasecmp(name.c_str(), traits->type_name) != 0 || ggml_quantize_requires_imatrix(type)) continue;
        if (type == GGML_TYPE_F32 || (traits->to_float != nullptr && traits->from_float_ref != nullptr)) return type;
    }
    return std::nullopt;
}

int64_t stored_bytes(const ModelShape & m, ggml_type type) {
    const int64_t d = m.embedding, q = m.heads * m.head_values, kv = m.kv_heads * m.head_values, ff = m.feed_forward;
    const int64_t layer = bytes_of(type, q + 2 * kv + 2 * ff, d) + bytes_of(type, d, q) + bytes_of(type, d, ff) + 8 * d;
    return m.layers * layer + (m.tied ? 1 : 2) * bytes_of(type, m.vocabulary, d) + 4 * d;
}

void GgufModel::make_up(ggml_type type, MadeUp made_up) {
    shape.file_type = ggml_type_name(type);
    shape.weight_bytes = stored_bytes(shape, type);
    uint8_t * next = made_up == MadeUp::filled ? made_.ensure(static_cast<size_t>(shape.weight_bytes)) : nullptr;
    uint64_t key = 1;
    const auto matrix = [&](int64_t rows, int64_t columns) {
        const Matrix m{next, type_for(type, columns), rows, columns};
        if (!next) return m;
        fill(m.type, rows, columns, key++, next);
        next += bytes_of(type, rows, columns);
        return m;
    };
    const int64_t d = shape.embedding, q = shape.heads * shape.head_values, kv = shape.kv_heads * shape.head_values;
    const auto ones = [&](int64_t count) { return std::vector<float>(static_cast<size_t>(made_up == MadeUp::filled ? count : 0), 1.0f); };
    token_embd = matrix(shape.vocabulary, d);
    head = shape.tied ? token_embd : matrix(shape.vocabulary, d);
    output_norm = ones(d);
    ropes.push_back({rope_frequencies(shape.head_values, 10000, 1, {}), 1});
    for (int64_t layer = 0; layer < shape.layers; layer++) {
        LayerWeights w;
        w.attn_norm = w.ffn_norm = ones(d);
        if (shape.post_norms) w.attn_post_norm = w.ffn_post_norm = ones(d);
        if (shape.head_norms) w.q_norm = w.k_norm = ones(shape.head_values);
        w.attn_q = matrix(q, d);
        w.attn_k = matrix(kv, d);
        w.attn_v = matrix(kv, d);
        w.attn_output = matrix(d, q);
        w.ffn_gate = matrix(shape.feed_forward, d);
        w.ffn_up = matrix(shape.feed_forward, d);
        w.ffn_down = matrix(d, shape.feed_forward);
        layers.push_back(std::move(w));
    }
}
