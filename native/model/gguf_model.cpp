#include "model/gguf_model.h"

#include <fcntl.h>    // open
#include <gguf.h>
#include <sys/mman.h> // mmap
#include <sys/stat.h> // fstat
#include <unistd.h>   // close

#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "base/failure.h"

namespace {

[[noreturn]] void invalid(const std::string & what) {
    throw Failure("invalid_model", what, "Export or download the file again.");
}
[[noreturn]] void unsupported(const std::string & what) {
    throw Failure("unsupported_architecture", what, "Models of architecture llama without biases or experts can be trained.");
}

/** While the header is parsed, an assertion of the library means a damaged file, not the end of the worker. */
class AbortAsRefusal {
public:
    AbortAsRefusal() : before_(ggml_set_abort_callback([](const char * message) { invalid(message); })) {}
    ~AbortAsRefusal() { ggml_set_abort_callback(before_); }

private:
    ggml_abort_callback_t before_;
};

/** Metadata with the type checked: the library aborts on a wrong one. */
class Metadata {
public:
    explicit Metadata(const gguf_context * file) : file_(file) {}

    bool has(const std::string & key) const { return gguf_find_key(file_, key.c_str()) >= 0; }

    std::string text(const std::string & key) const {
        const int64_t at = gguf_find_key(file_, key.c_str());
        if (at < 0 || gguf_get_kv_type(file_, at) != GGUF_TYPE_STRING) invalid("metadata " + key + " must be a string");
        return gguf_get_val_str(file_, at);
    }
    int64_t whole(const std::string & key, int64_t least, int64_t most) const {
        const int64_t at = gguf_find_key(file_, key.c_str());
        int64_t value = -1;
        if (at >= 0) switch (gguf_get_kv_type(file_, at)) {
                case GGUF_TYPE_UINT16: value = gguf_get_val_u16(file_, at); break;
                case GGUF_TYPE_UINT32: value = gguf_get_val_u32(file_, at); break;
                case GGUF_TYPE_INT32: value = gguf_get_val_i32(file_, at); break;
                case GGUF_TYPE_UINT64: value = static_cast<int64_t>(std::min<uint64_t>(gguf_get_val_u64(file_, at), INT64_MAX)); break;
                case GGUF_TYPE_ARRAY: unsupported(key + " differs between layers");
                default: break;
            }
        if (value < least || value > most)
            invalid("metadata " + key + " must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
        return value;
    }
    int64_t whole_or(const std::string & key, int64_t fallback, int64_t least, int64_t most) const {
        return has(key) ? whole(key, least, most) : fallback;
    }
    double number_or(const std::string & key, double fallback) const {
        const int64_t at = gguf_find_key(file_, key.c_str());
        if (at < 0) return fallback;
        if (gguf_get_kv_type(file_, at) != GGUF_TYPE_FLOAT32 || !std::isfinite(gguf_get_val_f32(file_, at)))
            invalid("metadata " + key + " must be a finite float");
        return gguf_get_val_f32(file_, at);
    }

private:
    const gguf_context * file_;
};

struct Tensor {
    Matrix matrix;
    int64_t dimensions;
};

/** Every tensor, each proven to lie inside the mapped bytes. */
std::map<std::string, Tensor> read_tensors(const gguf_context * file, const uint8_t * bytes, size_t file_bytes) {
    std::map<std::string, Tensor> tensors;
    const size_t data = gguf_get_data_offset(file);
    for (int64_t i = 0; i < gguf_get_n_tensors(file); i++) {
        const std::string name = gguf_get_tensor_name(file, i);
        const size_t offset = gguf_get_tensor_offset(file, i), size = gguf_get_tensor_size(file, i);
        if (data > file_bytes || offset > file_bytes - data || size > file_bytes - data - offset)
            invalid("tensor " + name + " ends outside the file of " + std::to_string(file_bytes) + " bytes: it is cut short");
        if ((data + offset) % 8 != 0) invalid("tensor " + name + " is not aligned");
        const int64_t * ne = gguf_get_tensor_ne(file, i);
        const ggml_type type = gguf_get_tensor_type(file, i);
        if (ne[2] != 1 || ne[3] != 1) unsupported("tensor " + name + " has more than two dimensions");
        if (type != GGML_TYPE_F32 && (ggml_get_type_traits(type) == nullptr || ggml_get_type_traits(type)->to_float == nullptr))
            unsupported("tensor " + name + " has type " + ggml_type_name(type) + ", which cannot be dequantised");
        tensors[name] = Tensor{Matrix{bytes + data + offset, type, ne[1], ne[0]}, ne[1] == 1 ? 1 : 2};
    }
    return tensors;
}

/** Takes tensors out by name, with the shape the header promises; what is left over at the end is unknown. */
class Taker {
public:
    explicit Taker(std::map<std::string, Tensor> tensors) : tensors_(std::move(tensors)) {}

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
    std::map<std::string, Tensor> tensors_;
};

int64_t vocabulary_of(const std::map<std::string, Tensor> & tensors) {
    const auto found = tensors.find("token_embd.weight");
    if (found == tensors.end()) invalid("tensor token_embd.weight is missing");
    return found->second.matrix.rows;
}

ModelShape read_shape(const Metadata & meta) {
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

std::string file_type_of(const std::map<std::string, Tensor> & tensors) {
    // The type most bytes have: the header's own number is optional and known to be wrong in the wild.
    std::map<ggml_type, int64_t> bytes;
    for (const auto & [name, tensor] : tensors)
        bytes[tensor.matrix.type] += tensor.matrix.rows * static_cast<int64_t>(ggml_row_size(tensor.matrix.type, tensor.matrix.columns));
    ggml_type most = bytes.begin()->first;
    for (const auto & [type, count] : bytes)
        if (count > bytes[most]) most = type;
    return ggml_type_name(most);
}

} // namespace

GgufModel::GgufModel(const std::string & path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info {};
    if (fd < 0 || ::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        const int error = fd < 0 ? errno : EINVAL;
        if (fd >= 0) ::close(fd);
        throw Failure("io_error", "cannot open " + path + ": " + std::strerror(error), "Check the path and its rights.");
    }
    mapped_bytes_ = static_cast<size_t>(info.st_size);
    mapping_ = mapped_bytes_ == 0 ? MAP_FAILED : ::mmap(nullptr, mapped_bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
    ::close(fd);
    if (mapping_ == MAP_FAILED) {
        mapping_ = nullptr;
        invalid(path + " is empty or cannot be mapped");
    }
    try {
        const AbortAsRefusal refusing;
        const std::unique_ptr<gguf_context, void (*)(gguf_context *)> file(
            gguf_init_from_buffer(mapping_, mapped_bytes_, gguf_init_params{true, nullptr}), gguf_free);
        if (!file) invalid(path + " is not a GGUF file or its header is damaged");
        const Metadata meta(file.get());
        shape = read_shape(meta);
        auto tensors = read_tensors(file.get(), static_cast<const uint8_t *>(mapping_), mapped_bytes_);
        shape.vocabulary = vocabulary_of(tensors);
        shape.file_type = file_type_of(tensors);
        shape.weight_bytes = 0;
        for (int64_t i = 0; i < gguf_get_n_tensors(file.get()); i++) shape.weight_bytes += static_cast<int64_t>(gguf_get_tensor_size(file.get(), i));

        Taker take(std::move(tensors));
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
    } catch (...) {
        ::munmap(mapping_, mapped_bytes_);
        throw;
    }
}

GgufModel::~GgufModel() { ::munmap(mapping_, mapped_bytes_); }
