// Writes the tests' tiny models: seeded random models, complete enough for llama.cpp to load, and models that must be refused, one for each
// reason.
// Usage: make_tiny <folder>
#include <ggml.h>
#include <gguf.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"

namespace {

class Writer;

/** Values of 0 are not written into the header. */
struct Recipe {
    const char * name;
    const char * architecture;
    ggml_type linear, embedding;
    bool tied;
    int64_t layers, width, heads, kv_heads, head, feed_forward;
    double rope_base = 10000, rope_factor = 0; // factor of linear scaling
    bool rope_freqs = false;                   // a tensor with one factor per pair, as in llama 3
    int64_t window = 0, pattern = 0;           // every pattern-th layer sees everything; −1: one flag per layer
    double window_rope_base = 0;
    double yarn = 0;                           // factor of YaRN's scaling
    void (*change)(Writer &) = nullptr;        // changes it into a model that is refused
};

constexpr int64_t byte_tokens = 256, pieces = 61, vocabulary = 3 + byte_tokens + pieces; // 320
constexpr int64_t context = 512;

/** Values of a normal distribution (Box and Muller). The key is the tensor's name. */
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
    const auto whole = [&](const char * name, int64_t value) { gguf_set_val_u32(file, (a + name).c_str(), static_cast<uint32_t>(value)); };
    const auto number = [&](const char * name, double value) { gguf_set_val_f32(file, (a + name).c_str(), static_cast<float>(value)); };
    gguf_set_val_str(file, "general.architecture", r.architecture);
    gguf_set_val_str(file, "general.name", r.name);
    whole("block_count", r.layers);
    whole("context_length", context);
    whole("embedding_length", r.width);
    whole("feed_forward_length", r.feed_forward);
    whole("attention.head_count", r.heads);
    whole("attention.head_count_kv", r.kv_heads);
    if (r.head * r.heads != r.width) {
        whole("attention.key_length", r.head);
        whole("attention.value_length", r.head);
    }
    whole("rope.dimension_count", r.head);
    number("rope.freq_base", r.rope_base);
    number("attention.layer_norm_rms_epsilon", 1e-5);
    whole("vocab_size", vocabulary);
    if (r.rope_factor > 0) {
        gguf_set_val_str(file, (a + "rope.scaling.type").c_str(), "linear");
        number("rope.scaling.factor", r.rope_factor);
    }
    if (r.yarn > 0) {
        gguf_set_val_str(file, (a + "rope.scaling.type").c_str(), "yarn");
        number("rope.scaling.factor", r.yarn);
        whole("rope.scaling.original_context_length", context / 4);
    }
    if (r.window > 0) whole("attention.sliding_window", r.window);
    if (r.window_rope_base > 0) number("rope.freq_base_swa", r.window_rope_base);
    if (r.pattern > 0) whole("attention.sliding_window_pattern", r.pattern);
    if (r.pattern < 0) {
        const std::vector<int8_t> flags = {0, 1, 1};
        gguf_set_arr_data(file, (a + "attention.sliding_window_pattern").c_str(), GGUF_TYPE_BOOL, flags.data(), flags.size());
    }
}

bool write_model(const Recipe & r, const std::string & folder) {
    Writer writer(r.layers * 16 + 8);
    add_header(writer.file(), r);
    add_tokenizer(writer.file());
    const std::string architecture = r.architecture;
    const bool gemma3 = architecture == "gemma3", head_norms = gemma3 || architecture == "qwen3";
    const int64_t d = r.width, q = r.heads * r.head, kv = r.kv_heads * r.head;
    const auto spread = [](int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); };
    const auto norm = [&](const std::string & name, int64_t width) { writer.add(name, GGML_TYPE_F32, width, 1, 1, 0.1); };
    writer.add("token_embd.weight", r.embedding, d, vocabulary, 0, 0.3);
    norm("output_norm.weight", d);
    if (!r.tied) writer.add("output.weight", r.embedding, d, vocabulary, 0, 0.3);
    // Factors around 3, all of them positive.
    if (r.rope_freqs) writer.add("rope_freqs.weight", GGML_TYPE_F32, r.head / 2, 1, 3, 0.5);
    for (int64_t layer = 0; layer < r.layers; layer++) {
        const std::string blk = "blk." + std::to_string(layer) + ".";
        norm(blk + "attn_norm.weight", d);
        writer.add(blk + "attn_q.weight", r.linear, d, q, 0, spread(d));
        writer.add(blk + "attn_k.weight", r.linear, d, kv, 0, spread(d));
        writer.add(blk + "attn_v.weight", r.linear, d, kv, 0, spread(d));
        if (architecture == "qwen2") {
            writer.add(blk + "attn_q.bias", GGML_TYPE_F32, q, 1, 0, 0.5);
            writer.add(blk + "attn_k.bias", GGML_TYPE_F32, kv, 1, 0, 0.5);
            writer.add(blk + "attn_v.bias", GGML_TYPE_F32, kv, 1, 0, 0.5);
        }
        if (head_norms) {
            norm(blk + "attn_q_norm.weight", r.head);
            norm(blk + "attn_k_norm.weight", r.head);
        }
        writer.add(blk + "attn_output.weight", r.linear, q, d, 0, spread(q));
        if (gemma3) norm(blk + "post_attention_norm.weight", d);
        norm(blk + "ffn_norm.weight", d);
        writer.add(blk + "ffn_gate.weight", r.linear, d, r.feed_forward, 0, spread(d));
        writer.add(blk + "ffn_up.weight", r.linear, d, r.feed_forward, 0, spread(d));
        writer.add(blk + "ffn_down.weight", r.linear, r.feed_forward, d, 0, spread(r.feed_forward));
        if (gemma3) norm(blk + "post_ffw_norm.weight", d);
    }
    if (r.change) r.change(writer);
    const std::string path = folder + "/" + r.name + ".gguf", temporary = path + ".part";
    return gguf_write_to_file(writer.file(), temporary.c_str(), false) && std::rename(temporary.c_str(), path.c_str()) == 0;
}

constexpr ggml_type F32 = GGML_TYPE_F32, BF16 = GGML_TYPE_BF16, F16 = GGML_TYPE_F16, Q4_1 = GGML_TYPE_Q4_1, Q8_0 = GGML_TYPE_Q8_0,
                    Q4_K = GGML_TYPE_Q4_K, Q6_K = GGML_TYPE_Q6_K;

// For each architecture, a tied and an untied model in F32, and three models in other types. Each quantised type needs its own widths.
const Recipe trainable[] = {
    {"tiny-f32", "llama", F32, F32, true, 2, 64, 4, 2, 16, 96},
    {"tiny-f32-untied", "llama", F32, F32, false, 3, 96, 6, 2, 16, 160, 10000, 2, true},
    {"tiny-q4_1", "llama", Q4_1, Q8_0, true, 2, 64, 4, 2, 16, 96},
    {"tiny-q4_k", "llama", Q4_K, Q6_K, false, 2, 256, 4, 4, 64, 256},
    {"tiny-bf16", "llama", BF16, F16, false, 2, 64, 4, 1, 16, 96},
    {"tiny-qwen2-f32", "qwen2", F32, F32, true, 2, 64, 4, 2, 16, 96, 1e6},
    {"tiny-qwen2-f32-untied", "qwen2", F32, F32, false, 3, 96, 6, 2, 16, 160, 10000, 2},
    {"tiny-qwen2-q4_1", "qwen2", Q4_1, Q8_0, true, 2, 64, 4, 2, 16, 96},
    {"tiny-qwen2-q4_k", "qwen2", Q4_K, Q6_K, false, 2, 256, 4, 4, 64, 256},
    {"tiny-qwen2-bf16", "qwen2", BF16, F16, false, 2, 64, 4, 1, 16, 96, 10000, 0, false, 0, 0, 0, 4},
    {"tiny-qwen3-f32", "qwen3", F32, F32, true, 2, 64, 4, 2, 24, 96, 1e6},
    {"tiny-qwen3-f32-untied", "qwen3", F32, F32, false, 3, 96, 6, 2, 32, 160, 10000, 0, false, 0, 0, 0, 4},
    {"tiny-qwen3-q4_1", "qwen3", Q4_1, Q8_0, true, 2, 64, 4, 2, 24, 96},
    {"tiny-qwen3-q4_k", "qwen3", Q4_K, Q6_K, false, 2, 256, 4, 4, 128, 256},
    {"tiny-qwen3-bf16", "qwen3", BF16, F16, false, 2, 64, 4, 1, 24, 96},
    {"tiny-gemma3-f32", "gemma3", F32, F32, true, 7, 64, 4, 2, 24, 96, 1e6, 8, false, 6},
    {"tiny-gemma3-f32-untied", "gemma3", F32, F32, false, 3, 96, 6, 2, 16, 160, 1e5, 0, false, 80, 2, 5000},
    {"tiny-gemma3-q4_1", "gemma3", Q4_1, Q8_0, true, 3, 64, 4, 2, 24, 96, 1e6, 0, false, 16, -1},
    {"tiny-gemma3-q4_k", "gemma3", Q4_K, Q6_K, false, 2, 256, 4, 4, 64, 256, 1e6},
    {"tiny-gemma3-bf16", "gemma3", BF16, F16, false, 2, 64, 4, 1, 24, 96, 1e6, 0, false, 20, 2},
};

Recipe refused(const char * name, const char * architecture, void (*change)(Writer &)) {
    Recipe recipe{name, architecture, F32, F32, true, 1, 64, 4, 2, 16, 96};
    recipe.change = change;
    return recipe;
}

const Recipe untrainable[] = {
    refused("refused-gemma2", "gemma2", nullptr),
    refused("refused-gemma3n", "gemma3n", nullptr),
    refused("refused-qwen2moe", "qwen2moe", nullptr),
    refused("refused-experts", "llama", [](Writer & w) { gguf_set_val_u32(w.file(), "llama.expert_count", 8); }),
    refused("refused-output-bias", "llama", [](Writer & w) { w.add("blk.0.attn_output.bias", F32, 64, 1, 0, 0.1); }),
    refused("refused-head-bias", "qwen2", [](Writer & w) { w.add("output.bias", F32, vocabulary, 1, 0, 0.1); }),
    refused("refused-rope-factors", "qwen3", [](Writer & w) { w.add("rope_freqs.weight", F32, 8, 1, 3, 0.5); }),
    refused("refused-vision", "gemma3", [](Writer & w) { w.add("v.patch_embd.weight", F32, 64, 64, 0, 0.1); }),
    refused("refused-fused-qkv", "qwen2", [](Writer & w) { w.add("blk.0.attn_qkv.weight", F32, 64, 128, 0, 0.1); }),
    refused("refused-logit-softcap", "gemma3", [](Writer & w) { gguf_set_val_f32(w.file(), "gemma3.final_logit_softcapping", 30); }),
    refused("refused-attention-softcap", "gemma3", [](Writer & w) { gguf_set_val_f32(w.file(), "gemma3.attn_logit_softcapping", 50); }),
    refused("refused-attention-scale", "llama", [](Writer & w) { gguf_set_val_f32(w.file(), "llama.attention.scale", 0.5f); }),
    refused("refused-not-causal", "gemma3", [](Writer & w) { gguf_set_val_bool(w.file(), "gemma3.attention.causal", false); }),
    refused("refused-longrope", "llama", [](Writer & w) { gguf_set_val_str(w.file(), "llama.rope.scaling.type", "longrope"); }),
    refused("refused-yarn-windows", "gemma3", [](Writer & w) { gguf_set_val_str(w.file(), "gemma3.rope.scaling.type", "yarn"); }),
    refused("refused-partial-rope", "qwen2", [](Writer & w) { gguf_set_val_u32(w.file(), "qwen2.rope.dimension_count", 8); }),
    refused("refused-value-length", "qwen3", [](Writer & w) { gguf_set_val_u32(w.file(), "qwen3.attention.value_length", 32); }),
    refused("refused-window-heads", "gemma3", [](Writer & w) { gguf_set_val_u32(w.file(), "gemma3.attention.key_length_swa", 32); }),
    refused("refused-layers-differ", "llama", [](Writer & w) {
        const uint32_t heads[] = {4};
        gguf_remove_key(w.file(), "llama.attention.head_count");
        gguf_set_arr_data(w.file(), "llama.attention.head_count", GGUF_TYPE_UINT32, heads, 1);
    }),
};

} // namespace

int main(int count, char ** arguments) {
    if (count != 2) return 2;
    std::vector<Recipe> recipes(std::begin(trainable), std::end(trainable));
    recipes.insert(recipes.end(), std::begin(untrainable), std::end(untrainable));
    for (const Recipe & recipe : recipes)
        if (!write_model(recipe, arguments[1])) {
            std::fprintf(stderr, "could not write %s\n", recipe.name);
            return 1;
        }
    return 0;
}
