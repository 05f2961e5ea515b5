#include "model/gguf_model.h"

#include <cmath>
#include <map>

namespace {

using refuse::invalid;
using refuse::unsupported;

using Tensors = std::map<std::string, GgufFile::Tensor>;

/** Takes tensors out by name, with the shape the header promises; what is left over at the end is unknown. */
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
    void expect_empty() const {
        if (!tensors_.empty()) unsupported("tensor " + tensors_.begin()->first + " is not part of a plain llama");
    }

private:
    Tensors tensors_;
};

int64_t vocabulary_of(const Tensors & tensors) {
    const auto found = tensors.find("token_embd.weight");
    if (found == tensors.end()) invalid("tensor token_embd.weight is missing");
    return found->second.matrix.rows;
}

ModelShape read_shape(const GgufFile & meta) {
    const std::string architecture = meta.text("general.architecture");
    if (architecture != "llama") unsupported("architecture " + architecture);
    constexpr int64_t most_columns = panel_floats; // one row must fit a panel
    ModelShape s{};
    s.layers = meta.whole("llama.block_count", 1, 1024);
    s.embedding = meta.whole("llama.embedding_length", 1, most_columns);
    s.feed_forward = meta.whole("llama.feed_forward_length", 1, most_columns);
    s.heads = meta.whole("llama.attention.head_count", 1, 4096);
    s.kv_heads = meta.whole_or("llama.attention.head_count_kv", s.heads, 1, s.heads);
    s.context = meta.whole("llama.context_length", 1, int64_t{1} << 31);
    if (s.heads % s.kv_heads != 0) invalid("head_count must be a multiple of head_count_kv");
    if (!meta.has("llama.attention.key_length") && s.embedding % s.heads != 0) invalid("embedding_length must be a multiple of head_count");
    s.head_values = meta.whole_or("llama.attention.key_length", s.embedding / s.heads, 1, 4096);
    if (meta.whole_or("llama.attention.value_length", s.head_values, 1, 4096) != s.head_values) unsupported("keys and values of different length");
    if (s.head_values % 2 != 0) invalid("a head must have an even number of values");
    if (meta.whole_or("llama.rope.dimension_count", s.head_values, 1, 4096) != s.head_values) unsupported("positions on a part of the head only");
    if (meta.whole_or("llama.expert_count", 0, 0, 1 << 16) != 0) unsupported("a mixture of experts");
    for (const char * key : {"llama.attention.scale", "llama.logit_scale", "llama.residual_scale", "llama.embedding_scale"})
        if (meta.number_or(key, 0) != 0) unsupported(std::string("metadata ") + key);
    s.norm_eps = static_cast<float>(meta.number_or("llama.attention.layer_norm_rms_epsilon", -1));
    if (!(s.norm_eps >= 0)) invalid("metadata llama.attention.layer_norm_rms_epsilon is missing");

    s.rope_base = meta.number_or("llama.rope.freq_base", 10000);
    const std::string scaling = meta.has("llama.rope.scaling.type") ? meta.text("llama.rope.scaling.type") : "linear";
    if (scaling != "linear" && scaling != "none") unsupported("positions scaled by " + scaling);
    const double factor = meta.number_or("llama.rope.scaling.factor", meta.number_or("llama.rope.scale_linear", 0));
    s.rope_scale = scaling == "none" || factor == 0 ? 1 : 1 / factor;
    if (!(s.rope_base > 0) || !(s.rope_scale > 0)) invalid("metadata of llama.rope must be positive");
    return s;
}

std::string file_type_of(const Tensors & tensors) {
    // The type most bytes have: the header's own number is optional and known to be wrong in the wild.
    std::map<ggml_type, int64_t> bytes;
    for (const auto & [name, tensor] : tensors)
        bytes[tensor.matrix.type] += tensor.bytes();
    ggml_type most = bytes.begin()->first;
    for (const auto & [type, count] : bytes)
        if (count > bytes[most]) most = type;
    return ggml_type_name(most);
}

} // namespace

GgufModel::GgufModel(const std::string & path) : mapped_(path) {
    const GgufFile file(mapped_);
    shape = read_shape(file);
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
    if (take.has("rope_freqs.weight")) shape.rope_factors = take.vector("rope_freqs.weight", shape.head_values / 2);
    for (float value : shape.rope_factors)
        if (!(value > 0)) invalid("tensor rope_freqs.weight must be positive");
    for (int64_t layer = 0; layer < shape.layers; layer++) {
        const std::string blk = "blk." + std::to_string(layer) + ".";
        LayerWeights w;
        w.attn_norm = take.vector(blk + "attn_norm.weight", d);
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
    take.expect_empty();
}
