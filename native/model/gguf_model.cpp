#include "model/gguf_model.h"

#include <cmath>
#include <map>

namespace {

using refuse::invalid;
using refuse::unsupported;

const Architecture & architecture_of(const std::string & name) {
    for (const Architecture & architecture : architectures)
        if (name == architecture.name) return architecture;
    unsupported("architecture " + name);
}

/** The file's metadata, by names without the architecture's prefix. */
class Metadata {
public:
    Metadata(const GgufFile & file, const Architecture & architecture) : file_(file), prefix_(std::string(architecture.name) + ".") {}

    bool has(const std::string & name) const { return file_.has(prefix_ + name); }
    std::string text_or(const std::string & name, const char * fallback) const { return has(name) ? file_.text(prefix_ + name) : fallback; }
    int64_t whole(const std::string & name, int64_t least, int64_t most) const { return file_.whole(prefix_ + name, least, most); }
    int64_t whole_or(const std::string & name, int64_t fallback, int64_t least, int64_t most) const {
        return file_.whole_or(prefix_ + name, fallback, least, most);
    }
    double number_or(const std::string & name, double fallback) const { return file_.number_or(prefix_ + name, fallback); }
    double positive_or(const std::string & name, double fallback) const {
        const double value = number_or(name, fallback);
        if (!(value > 0)) invalid("metadata " + prefix_ + name + " must be positive");
        return value;
    }
    bool is_array(const std::string & name) const { return has(name) && file_.is_array(prefix_ + name); }
    bool flag_or(const std::string & name, bool fallback) const { return has(name) ? file_.flag(prefix_ + name) : fallback; }
    std::vector<bool> flags(const std::string & name, int64_t count) const { return file_.flags(prefix_ + name, count); }

private:
    const GgufFile & file_;
    const std::string prefix_;
};

using Tensors = std::map<std::string, GgufFile::Tensor>;

/** Takes tensors out by name and checks their shapes against the header. Whatever is left at the end is unknown. */
class Taker {
public:
    explicit Taker(Tensors tensors) : tensors_(std::move(tensors)) {}

    Matrix matrix(const std::string & name, int64_t rows, int64_t columns) {
        const auto found = tensors_.find(name);
        if (found == tensors_.end()) invalid("tensor " + name + " is missing");
        const Matrix m = found->second.matrix;
        if (m.rows != rows || m.columns != columns)
            invalid("tensor " + name + " is " + std::to_string(m.columns) + "×" + std::to_string(m.rows) + ", the header says " +
                    std::to_string(columns) + "×" + std::to_string(rows));
        tensors_.erase(found);
        return m;
    }
    std::vector<float> vector(const std::string & name, int64_t count) {
        const Matrix m = matrix(name, 1, count);
        std::vector<float> values(static_cast<size_t>(count));
        m.read(0, 0, count, values.data());
        for (float value : values)
            if (!std::isfinite(value)) invalid("tensor " + name + " holds a value that is not finite");
        return values;
    }
    bool has(const std::string & name) const { return tensors_.count(name) != 0; }
    std::vector<float> vector_or_empty(const std::string & name, int64_t count) { return has(name) ? vector(name, count) : std::vector<float>(); }
    void expect_empty(const std::string & architecture) const {
        if (!tensors_.empty()) unsupported("tensor " + tensors_.begin()->first + " is not part of a plain " + architecture);
    }

private:
    Tensors tensors_;
};

int64_t vocabulary_of(const Tensors & tensors) {
    const auto found = tensors.find("token_embd.weight");
    if (found == tensors.end()) invalid("tensor token_embd.weight is missing");
    if (found->second.matrix.rows < 1) invalid("tensor token_embd.weight has no rows");
    return found->second.matrix.rows;
}

void refuse_what_is_not_computed(const Metadata & meta, const ModelShape & s) {
    if (meta.whole_or("attention.value_length", s.head_values, 1, 4096) != s.head_values) unsupported("keys and values of different length");
    if (meta.whole_or("rope.dimension_count", s.head_values, 1, 4096) != s.head_values) unsupported("positions on a part of the head only");
    for (const char * name : {"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"})
        if (meta.whole_or(name, s.head_values, 1, 4096) != s.head_values) unsupported(std::string("another head size in layers with a window: ") + name);
    if (meta.whole_or("expert_count", 0, 0, 1 << 16) != 0) unsupported("a mixture of experts");
    for (const char * name : {"attention.scale", "logit_scale", "residual_scale", "embedding_scale", "attn_logit_softcapping", "final_logit_softcapping"})
        if (meta.number_or(name, 0) != 0) unsupported(std::string("metadata ") + name);
    if (!meta.flag_or("attention.causal", true)) unsupported("attention that sees what follows");
}

ModelShape read_shape(const Metadata & meta, const Architecture & architecture) {
    constexpr int64_t most_columns = panel_floats; // one row must fit a panel
    ModelShape s{};
    s.architecture = architecture.name;
    s.layers = meta.whole("block_count", 1, 1024);
    s.embedding = meta.whole("embedding_length", 1, most_columns);
    s.feed_forward = meta.whole("feed_forward_length", 1, most_columns);
    s.heads = meta.whole("attention.head_count", 1, 4096);
    s.kv_heads = meta.whole_or("attention.head_count_kv", s.heads, 1, s.heads);
    s.context = meta.whole("context_length", 1, int64_t{1} << 31);
    if (s.heads % s.kv_heads != 0) invalid("head_count must be a multiple of head_count_kv");
    if (!meta.has("attention.key_length") && s.embedding % s.heads != 0) invalid("embedding_length must be a multiple of head_count");
    s.head_values = meta.whole_or("attention.key_length", s.embedding / s.heads, 1, 4096);
    if (s.head_values % 2 != 0) invalid("a head must have an even number of values");
    if (s.heads * s.head_values > most_columns) invalid("the heads together are too wide");
    refuse_what_is_not_computed(meta, s);
    s.norm_eps = static_cast<float>(meta.number_or("attention.layer_norm_rms_epsilon", -1));
    if (!(s.norm_eps >= 0)) invalid("metadata attention.layer_norm_rms_epsilon is missing");
    s.embedding_scale = architecture.scaled_embedding ? std::sqrt(static_cast<float>(s.embedding)) : 1;
    // llama.cpp recognises the largest gemma3 by its 62 layers. That one scales by embedding / heads instead of the width of a head.
    const bool by_width = architecture.windows && s.layers == 62;
    s.attention_scale = 1 / std::sqrt(static_cast<double>(by_width ? s.embedding / s.heads : s.head_values));
    s.activation = architecture.activation;
    s.head_norms = architecture.head_norms;
    s.post_norms = architecture.post_norms;
    s.rope_pairs = architecture.rope_pairs;
    return s;
}

/** The rope of layers without a window. */
Rope read_rope(const Metadata & meta, const Architecture & architecture, int64_t d, const std::vector<float> & factors) {
    const double base = meta.positive_or("rope.freq_base", 10000);
    const std::string scaling = meta.text_or("rope.scaling.type", "linear");
    const double stated = meta.number_or("rope.scaling.factor", meta.number_or("rope.scale_linear", 0));
    const double stretch = scaling == "none" || stated == 0 ? 1 : stated;
    if (!(stretch > 0)) invalid("metadata rope.scaling.factor must be positive");
    Rope rope;
    if (scaling == "linear" || scaling == "none") {
        rope.frequencies = rope_frequencies(d, base, 1 / stretch, factors);
    } else if (scaling == "yarn" && factors.empty() && !architecture.windows) {
        const int64_t context = meta.whole("context_length", 1, int64_t{1} << 31);
        rope = rope_yarn(d, base, stretch, static_cast<double>(meta.whole_or("rope.scaling.original_context_length", context, 1, int64_t{1} << 31)));
    } else {
        unsupported("positions scaled by " + scaling);
    }
    rope.magnitude *= meta.positive_or("rope.scaling.attn_factor", 1);
    return rope;
}

/** Which layers have a window: all but every n-th, or those that an array of flags names. */
std::vector<bool> windowed_layers(const Metadata & meta, int64_t layers) {
    const char * name = "attention.sliding_window_pattern";
    if (meta.is_array(name)) return meta.flags(name, layers);
    const int64_t every = meta.whole_or(name, 6, 0, 1024);
    std::vector<bool> windowed;
    for (int64_t layer = 0; layer < layers; layer++) windowed.push_back(every == 0 || (layer + 1) % every != 0);
    return windowed;
}

std::string file_type_of(const Tensors & tensors) {
    // The type that most bytes have. The header's own number is optional, and wrong in some files.
    std::map<ggml_type, int64_t> bytes;
    for (const auto & [name, tensor] : tensors)
        bytes[tensor.matrix.type] += tensor.bytes();
    ggml_type most = bytes.begin()->first;
    for (const auto & [type, count] : bytes)
        if (count > bytes[most]) most = type;
    return ggml_type_name(most);
}

} // namespace

GgufModel::GgufModel(const ModelSource & source, MadeUp made_up) : shape(source.shape) {
    if (source.path.empty())
        make_up(source.type, made_up);
    else
        read(source.path);
}

void GgufModel::read(const std::string & path) {
    const GgufFile file(mapped_.emplace(path));
    const Architecture & architecture = architecture_of(file.text("general.architecture"));
    const Metadata meta(file, architecture);
    shape = read_shape(meta, architecture);
    shape.vocabulary = vocabulary_of(file.tensors);
    shape.file_type = file_type_of(file.tensors);
    shape.weight_bytes = 0;
    for (const auto & [name, tensor] : file.tensors) shape.weight_bytes += tensor.bytes();

    Taker take(file.tensors);
    const int64_t d = shape.embedding, q = shape.heads * shape.head_values, kv = shape.kv_heads * shape.head_values;
    token_embd = take.matrix("token_embd.weight", shape.vocabulary, d);
    shape.tied = !take.has("output.weight");
    head = shape.tied ? token_embd : take.matrix("output.weight", shape.vocabulary, d);
    output_norm = take.vector("output_norm.weight", d);
    std::vector<float> rope_factors;
    if (architecture.rope_factors) rope_factors = take.vector_or_empty("rope_freqs.weight", shape.head_values / 2);
    for (float value : rope_factors)
        if (!(value > 0)) invalid("tensor rope_freqs.weight must be positive");
    ropes.push_back(read_rope(meta, architecture, shape.head_values, rope_factors));
    const int64_t window = architecture.windows ? meta.whole_or("attention.sliding_window", 0, 0, INT32_MAX) : 0;
    std::vector<bool> windowed(static_cast<size_t>(shape.layers), false);
    if (window > 0) {
        windowed = windowed_layers(meta, shape.layers);
        // Layers with a window keep the positions that they were first trained with, however the others are stretched.
        ropes.push_back({rope_frequencies(shape.head_values, meta.positive_or("rope.freq_base_swa", 10000), 1, {}), ropes[0].magnitude});
    }
    for (int64_t layer = 0; layer < shape.layers; layer++) {
        const std::string blk = "blk." + std::to_string(layer) + ".";
        if (take.has(blk + "attn_qkv.weight")) unsupported("queries, keys and values in one tensor");
        LayerWeights w;
        w.attn_norm = take.vector(blk + "attn_norm.weight", d);
        w.q_bias = take.vector_or_empty(blk + "attn_q.bias", q);
        w.k_bias = take.vector_or_empty(blk + "attn_k.bias", kv);
        w.v_bias = take.vector_or_empty(blk + "attn_v.bias", kv);
        if (shape.head_norms) {
            w.q_norm = take.vector(blk + "attn_q_norm.weight", shape.head_values);
            w.k_norm = take.vector(blk + "attn_k_norm.weight", shape.head_values);
        }
        if (shape.post_norms) {
            w.attn_post_norm = take.vector(blk + "post_attention_norm.weight", d);
            w.ffn_post_norm = take.vector(blk + "post_ffw_norm.weight", d);
        }
        if (windowed[static_cast<size_t>(layer)]) {
            w.window = window;
            w.rope = 1;
        }
        w.attn_q = take.matrix(blk + "attn_q.weight", q, d);
        w.attn_k = take.matrix(blk + "attn_k.weight", kv, d);
        w.attn_v = take.matrix(blk + "attn_v.weight", kv, d);
        w.attn_output = take.matrix(blk + "attn_output.weight", d, q);
        w.ffn_norm = take.vector(blk + "ffn_norm.weight", d);
        w.ffn_gate = take.matrix(blk + "ffn_gate.weight", shape.feed_forward, d);
        w.ffn_up = take.matrix(blk + "ffn_up.weight", shape.feed_forward, d);
        w.ffn_down = take.matrix(blk + "ffn_down.weight", d, shape.feed_forward);
        layers.push_back(std::move(w));
    }
    take.expect_empty(shape.architecture);
}
