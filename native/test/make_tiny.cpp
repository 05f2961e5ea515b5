// Writes the tests' tiny models: seeded random llamas of a few hundred kilobytes, complete enough for llama.cpp to load.
// Usage: make_tiny <folder>
#include <ggml.h>
#include <gguf.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"

namespace {

struct Recipe {
    const char * name;
    ggml_type linear, embedding;
    bool tied;
    int64_t layers, width, heads, kv_heads, feed_forward;
    double rope_factor;  // linear scaling; 0 = none written
    bool rope_freqs;     // a tensor of factors per pair, as llama 3 has
    const char * architecture = "llama";
    bool bias = false;
};

constexpr int64_t byte_tokens = 256, pieces = 61, vocabulary = 3 + byte_tokens + pieces; // 320
constexpr int64_t context = 512;

/** Values of a normal distribution (Box and Muller), keyed by the tensor's name. */
std::vector<float> normal(const std::string & name, size_t count, double mean, double deviation) {
    const uint64_t key = random_key(42, hash_name(name));
    std::vector<float> values(count);
    for (size_t i = 0; i < count; i++) {
        const double radius = std::sqrt(-2 * std::log(1 - random_uniform(key, 2 * i)));
        values[i] = static_cast<float>(mean + deviation * radius * std::cos(6.283185307179586 * random_uniform(key, 2 * i + 1)));
    }
    return values;
}

class Writer {
public:
    explicit Writer(int64_t tensors) : context_(ggml_init({ggml_tensor_overhead() * static_cast<size_t>(tensors), nullptr, true})), file_(gguf_init_empty()) {}
    ~Writer() {
        ggml_free(context_);
        gguf_free(file_);
    }
    gguf_context * file() { return file_; }

    void add(const std::string & name, ggml_type type, int64_t columns, int64_t rows, double mean, double deviation) {
        const std::vector<float> values = normal(name, static_cast<size_t>(columns * rows), mean, deviation);
        data_.push_back(std::make_unique<std::vector<uint8_t>>(ggml_row_size(type, columns) * static_cast<size_t>(rows)));
        if (type == GGML_TYPE_F32)
            std::memcpy(data_.back()->data(), values.data(), data_.back()->size());
        else
            ggml_quantize_chunk(type, values.data(), data_.back()->data(), 0, rows, columns, nullptr);
        ggml_tensor * tensor = rows == 1 ? ggml_new_tensor_1d(context_, type, columns) : ggml_new_tensor_2d(context_, type, columns, rows);
        ggml_set_name(tensor, name.c_str());
        tensor->data = data_.back()->data();
        gguf_add_tensor(file_, tensor);
    }

private:
    ggml_context * context_;
    gguf_context * file_;
    std::vector<std::unique_ptr<std::vector<uint8_t>>> data_;
};

/** A sentencepiece vocabulary: three control tokens, every byte, and a few pieces that merge. */
void add_tokenizer(gguf_context * file) {
    std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
    std::vector<float> scores(3, 0);
    std::vector<int32_t> types = {2, 3, 3}; // unknown, control, control
    for (int byte = 0; byte < byte_tokens; byte++) {
        char text[8];
        std::snprintf(text, sizeof text, "<0x%02X>", byte);
        tokens.push_back(text);
        scores.push_back(0);
        types.push_back(6); // byte
    }
    for (char c = 'a'; c <= 'z'; c++) tokens.push_back(std::string(1, c));
    for (char c = 'a'; c <= 'z'; c++) tokens.push_back("\xe2\x96\x81" + std::string(1, c));
    for (const char * piece : {"\xe2\x96\x81", "th", "the", "\xe2\x96\x81the", "in", "er", "an", "re", "on"}) tokens.push_back(piece);
    for (size_t i = scores.size(); i < tokens.size(); i++) {
        scores.push_back(-static_cast<float>(i));
        types.push_back(1); // normal
    }
    std::vector<const char *> pointers;
    for (const std::string & token : tokens) pointers.push_back(token.c_str());
    gguf_set_val_str(file, "tokenizer.ggml.model", "llama");
    gguf_set_arr_str(file, "tokenizer.ggml.tokens", pointers.data(), pointers.size());
    gguf_set_arr_data(file, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(), scores.size());
    gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
    gguf_set_val_u32(file, "tokenizer.ggml.unknown_token_id", 0);
    gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_val_u32(file, "tokenizer.ggml.eos_token_id", 2);
    gguf_set_val_bool(file, "tokenizer.ggml.add_bos_token", false);
}

void add_header(gguf_context * file, const Recipe & r) {
    const std::string a = std::string(r.architecture) + ".";
    gguf_set_val_str(file, "general.architecture", r.architecture);
    gguf_set_val_str(file, "general.name", r.name);
    gguf_set_val_u32(file, (a + "block_count").c_str(), static_cast<uint32_t>(r.layers));
    gguf_set_val_u32(file, (a + "context_length").c_str(), context);
    gguf_set_val_u32(file, (a + "embedding_length").c_str(), static_cast<uint32_t>(r.width));
    gguf_set_val_u32(file, (a + "feed_forward_length").c_str(), static_cast<uint32_t>(r.feed_forward));
    gguf_set_val_u32(file, (a + "attention.head_count").c_str(), static_cast<uint32_t>(r.heads));
    gguf_set_val_u32(file, (a + "attention.head_count_kv").c_str(), static_cast<uint32_t>(r.kv_heads));
    gguf_set_val_u32(file, (a + "rope.dimension_count").c_str(), static_cast<uint32_t>(r.width / r.heads));
    gguf_set_val_f32(file, (a + "rope.freq_base").c_str(), 10000);
    gguf_set_val_f32(file, (a + "attention.layer_norm_rms_epsilon").c_str(), 1e-5f);
    gguf_set_val_u32(file, (a + "vocab_size").c_str(), vocabulary);
    if (r.rope_factor > 0) {
        gguf_set_val_str(file, (a + "rope.scaling.type").c_str(), "linear");
        gguf_set_val_f32(file, (a + "rope.scaling.factor").c_str(), static_cast<float>(r.rope_factor));
    }
}

bool write_model(const Recipe & r, const std::string & folder) {
    Writer writer(r.layers * 12 + 8);
    add_header(writer.file(), r);
    add_tokenizer(writer.file());
    const int64_t d = r.width, head = d / r.heads, kv = r.kv_heads * head;
    const auto spread = [](int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); };
    writer.add("token_embd.weight", r.embedding, d, vocabulary, 0, 0.3);
    writer.add("output_norm.weight", GGML_TYPE_F32, d, 1, 1, 0.1);
    if (!r.tied) writer.add("output.weight", r.embedding, d, vocabulary, 0, 0.3);
    // Positive factors, near 1 for fast pairs and larger for slow ones.
    if (r.rope_freqs) writer.add("rope_freqs.weight", GGML_TYPE_F32, head / 2, 1, 3, 0.5);
    for (int64_t layer = 0; layer < r.layers; layer++) {
        const std::string blk = "blk." + std::to_string(layer) + ".";
        writer.add(blk + "attn_norm.weight", GGML_TYPE_F32, d, 1, 1, 0.1);
        writer.add(blk + "attn_q.weight", r.linear, d, d, 0, spread(d));
        if (r.bias) writer.add(blk + "attn_q.bias", GGML_TYPE_F32, d, 1, 0, 0.1);
        writer.add(blk + "attn_k.weight", r.linear, d, kv, 0, spread(d));
        writer.add(blk + "attn_v.weight", r.linear, d, kv, 0, spread(d));
        writer.add(blk + "attn_output.weight", r.linear, d, d, 0, spread(d));
        writer.add(blk + "ffn_norm.weight", GGML_TYPE_F32, d, 1, 1, 0.1);
        writer.add(blk + "ffn_gate.weight", r.linear, d, r.feed_forward, 0, spread(d));
        writer.add(blk + "ffn_up.weight", r.linear, d, r.feed_forward, 0, spread(d));
        writer.add(blk + "ffn_down.weight", r.linear, r.feed_forward, d, 0, spread(r.feed_forward));
    }
    const std::string path = folder + "/" + r.name + ".gguf", temporary = path + ".part";
    return gguf_write_to_file(writer.file(), temporary.c_str(), false) && std::rename(temporary.c_str(), path.c_str()) == 0;
}

} // namespace

int main(int count, char ** arguments) {
    if (count != 2) return 2;
    const Recipe recipes[] = {
        {"tiny-f32", GGML_TYPE_F32, GGML_TYPE_F32, true, 2, 64, 4, 2, 96, 0, false},
        {"tiny-f32-untied", GGML_TYPE_F32, GGML_TYPE_F32, false, 3, 96, 6, 2, 160, 2, true},
        {"tiny-q4_1", GGML_TYPE_Q4_1, GGML_TYPE_Q8_0, true, 2, 64, 4, 2, 96, 0, false},
        {"tiny-q4_k", GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, false, 2, 256, 4, 4, 256, 0, false},
        {"tiny-bf16", GGML_TYPE_BF16, GGML_TYPE_F16, false, 2, 64, 4, 1, 96, 0, false},
        {"tiny-bias", GGML_TYPE_F32, GGML_TYPE_F32, true, 1, 64, 4, 2, 96, 0, false, "llama", true},
        {"tiny-other", GGML_TYPE_F32, GGML_TYPE_F32, true, 1, 64, 4, 2, 96, 0, false, "gemma2"},
    };
    for (const Recipe & recipe : recipes)
        if (!write_model(recipe, arguments[1])) {
            std::fprintf(stderr, "could not write %s\n", recipe.name);
            return 1;
        }
    return 0;
}
