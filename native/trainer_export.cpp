// Exports an adapter to the formats of other programs: a GGUF adapter for llama.cpp, a PEFT folder for Python, and a whole model with the
// adapter merged into its weights. GGUF adapters and PEFT folders can also be loaded. PEFT folders are not converted from a GGUF adapter,
// because the order of their rows depends on the opened base.
#include <gguf.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "base/failure.h"
#include "base/shallow_json.h"
#include "kernels/gemm.h"
#include "trainer.h"

using nlohmann::json;
using Texts = std::map<std::string, std::string>;

namespace {

struct GgmlFree {
    void operator()(ggml_context * context) const { ggml_free(context); }
    void operator()(gguf_context * context) const { gguf_free(context); }
};
using Header = std::unique_ptr<gguf_context, GgmlFree>;
using TensorRoom = std::unique_ptr<ggml_context, GgmlFree>;

TensorRoom room_for(size_t tensors) {
    TensorRoom room(ggml_init({ggml_tensor_overhead() * (tensors + 1), nullptr, true}));
    if (!room) throw std::bad_alloc();
    return room;
}

void add_tensor(ggml_context * room, gguf_context * file, const std::string & name, ggml_type type, int64_t columns, int64_t rows) {
    ggml_tensor * tensor = ggml_new_tensor_2d(room, type, columns, rows);
    ggml_set_name(tensor, name.c_str());
    gguf_add_tensor(file, tensor);
}

/** Writes the header and the tensors; append_data(out, i) appends the bytes of tensor i. */
template <class F> SavedFile write_gguf(const gguf_context * file, const std::string & path, const F & append_data) {
    NewFile out(path);
    std::vector<uint8_t> header(gguf_get_meta_size(file));
    gguf_get_meta_data(file, header.data());
    out.append(header.data(), header.size());
    const std::vector<uint8_t> zeros(gguf_get_alignment(file));
    for (int64_t i = 0; i < gguf_get_n_tensors(file); i++) {
        append_data(out, i);
        const size_t past = static_cast<size_t>(out.bytes()) % zeros.size();
        if (past != 0) out.append(zeros.data(), zeros.size() - past);
    }
    return out.publish();
}

/** W += scale · B A for rows [first, first + count) of W. */
void add_adapter(const Adapter & a, const Site & site, int64_t first, int64_t count, float * w) {
    gemm(Side::plain, Side::plain, count, site.columns, a.shape.rank, a.scale(), a.weights.data() + site.b + first * a.shape.rank, a.shape.rank,
         a.weights.data() + site.a, site.columns, 1, w, site.columns);
}

// ---- PEFT

/** The name of a tensor's module in Hugging Face's models: blk.3.attn_q.weight is model.layers.3.self_attn.q_proj. */
std::string module_of(const std::string & base_name) {
    static const std::map<std::string, std::string> modules = {
        {"attn_q", "self_attn.q_proj"}, {"attn_k", "self_attn.k_proj"}, {"attn_v", "self_attn.v_proj"}, {"attn_output", "self_attn.o_proj"},
        {"ffn_gate", "mlp.gate_proj"},  {"ffn_up", "mlp.up_proj"},      {"ffn_down", "mlp.down_proj"},
    };
    if (base_name == "output.weight") return "lm_head";
    const size_t layer = base_name.find('.') + 1, part = base_name.find('.', layer) + 1;
    return "model.layers." + base_name.substr(layer, part - layer) + modules.at(base_name.substr(part, base_name.rfind('.') - part));
}

/**
 * The row in GGUF of row r of a B in Hugging Face's order. llama.cpp's converter interleaves the two halves of every llama head's q and k:
 * row 2j + s in GGUF is row s · d/2 + j there. The reason is that llama.cpp rotates neighbouring values, and Hugging Face rotates halves.
 */
int64_t gguf_row(const Site & site, const ModelShape & m, int64_t r) {
    if (m.rope_pairs != RopePairs::neighbours || (site.target != attn_q && site.target != attn_k)) return r;
    const int64_t in_head = r % m.head_values, half = m.head_values / 2;
    return r - in_head + 2 * (in_head % half) + in_head / half;
}

/** B [rows, rank] with its rows in Hugging Face's order. */
std::vector<float> b_rows(const Adapter & a, const Site & site, const ModelShape & m) {
    const int64_t rank = a.shape.rank;
    std::vector<float> rows(static_cast<size_t>(site.rows * rank));
    for (int64_t r = 0; r < site.rows; r++)
        std::memcpy(&rows[static_cast<size_t>(r * rank)], a.weights.data() + site.b + gguf_row(site, m, r) * rank, static_cast<size_t>(rank) * sizeof(float));
    return rows;
}

std::string peft_prefix(const std::string & base_name) { return "base_model.model." + module_of(base_name); }

struct PeftTensor {
    int64_t rows, columns;
    const float * data;
};

/** The safetensors format: the header's length in 8 bytes, the header in JSON, then the tensors one after the other. */
SavedFile write_safetensors(const std::string & path, const std::map<std::string, PeftTensor> & tensors, Texts metadata) {
    metadata["format"] = "pt"; // loaders refuse a file without it
    json header = {{"__metadata__", metadata}};
    size_t end = 0;
    for (const auto & [name, tensor] : tensors) {
        const size_t begin = end;
        end += static_cast<size_t>(tensor.rows * tensor.columns) * sizeof(float);
        header[name] = {{"dtype", "F32"}, {"shape", {tensor.rows, tensor.columns}}, {"data_offsets", {begin, end}}};
    }
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' '); // aligns the tensors
    const uint64_t length = text.size();
    NewFile out(path);
    out.append(&length, sizeof length);
    out.append(text.data(), text.size());
    for (const auto & [name, tensor] : tensors) out.append(tensor.data, static_cast<size_t>(tensor.rows * tensor.columns) * sizeof(float));
    return out.publish();
}

std::string peft_config(const Adapter & a, const std::vector<std::string> & modules, const json & base_name) {
    json alpha = a.shape.alpha;
    // PEFT declares alpha as an integer, although any number works.
    if (a.shape.alpha == std::floor(a.shape.alpha)) alpha = static_cast<int64_t>(a.shape.alpha);
    json config{{"peft_type", "LORA"},
                {"task_type", "CAUSAL_LM"},
                {"base_model_name_or_path", base_name},
                {"inference_mode", true},
                {"r", a.shape.rank},
                {"lora_alpha", alpha},
                {"lora_dropout", a.shape.dropout},
                {"target_modules", modules},
                {"bias", "none"},
                {"fan_in_fan_out", false},
                {"use_rslora", false},
                {"use_dora", false},
                {"modules_to_save", nullptr}};
    // PEFT would leave out the head, which is in no layer. Without this list it warns of missing tensors and leaves those modules as they are.
    const bool listed = a.shape.first_layer > 0 && !a.shape.has(output_head);
    for (int64_t layer = a.shape.first_layer; listed && layer < static_cast<int64_t>(a.layers.size()); layer++) config["layers_to_transform"].push_back(layer);
    return config.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

// ---- Merged model

/**
 * Copies the base's metadata, but for the alignment, and checks that the copy is equal to the byte: the library could lose what its C
 * strings cannot hold.
 */
Header copied_metadata(const MappedFile & mapped, const GgufFile & base) {
    Header copy(gguf_init_empty());
    gguf_set_kv(copy.get(), base.context());
    std::vector<uint8_t> written(gguf_get_meta_size(copy.get()));
    gguf_get_meta_data(copy.get(), written.data());
    while (!written.empty() && written.back() == 0) written.pop_back(); // padding; in the base's file the list of tensors follows here
    constexpr size_t counts = 24;                                       // the magic, the version and two counts come first
    if (written.size() > mapped.bytes() || (written.size() > counts && std::memcmp(&written[counts], mapped.data() + counts, written.size() - counts) != 0))
        throw Failure("unsupported_architecture", "the metadata of " + mapped.path + " cannot be copied unchanged", "Convert the base again.");
    // The library gives every new file the default alignment, whatever this key says.
    gguf_remove_key(copy.get(), "general.alignment");
    return copy;
}

/** Records what the file is now and which base it was made from. */
void add_provenance(gguf_context * file, const GgufFile & base, const Texts & metadata) {
    const int64_t parents = base.whole_or("general.base_model.count", 0, 0, 1000);
    gguf_set_val_u32(file, "general.base_model.count", static_cast<uint32_t>(parents + 1));
    const std::string parent = "general.base_model." + std::to_string(parents) + ".name";
    gguf_set_val_str(file, parent.c_str(), base.has("general.name") ? base.text("general.name").c_str() : "");
    gguf_set_val_str(file, "general.finetune", "aligned");
    for (const auto & [key, value] : metadata) gguf_set_val_str(file, key.c_str(), value.c_str());
}

/** llama.cpp's file type number for a model whose matrices are mostly of this type. */
uint32_t file_type_number(ggml_type type) { return type == GGML_TYPE_F32 ? 0 : type == GGML_TYPE_F16 ? 1 : 32; }

/** Converts weights to the type and appends them. Throws non_finite for a value that the type cannot hold. */
void append_weights(NewFile & out, const std::string & name, ggml_type type, const float * values, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!(std::abs(values[i]) <= (type == GGML_TYPE_F16 ? 65504.0f : 3.3e38f)))
            throw Failure("non_finite", "the merged tensor " + name + " has a value that " + ggml_type_name(type) + " cannot hold", "Export with weight_type bf16 or f32.");
    if (type == GGML_TYPE_F32) return out.append(values, static_cast<size_t>(count) * sizeof(float));
    std::vector<uint16_t> halves(static_cast<size_t>(count));
    if (type == GGML_TYPE_F16)
        ggml_fp32_to_fp16_row(values, reinterpret_cast<ggml_fp16_t *>(halves.data()), count);
    else
        ggml_fp32_to_bf16_row(values, reinterpret_cast<ggml_bf16_t *>(halves.data()), count);
    out.append(halves.data(), halves.size() * sizeof(uint16_t));
}

void append_merged(NewFile & out, const std::string & name, const Matrix & w, ggml_type type, const Adapter & a, const Site & site) {
    const int64_t step = std::max<int64_t>(1, panel_floats / w.columns);
    Buffer<float> panel(static_cast<size_t>(step * w.columns));
    for (int64_t row = 0; row < w.rows; row += step) {
        const int64_t rows = std::min(step, w.rows - row);
        for (int64_t r = 0; r < rows; r++) w.read(row + r, 0, w.columns, panel.data() + r * w.columns);
        add_adapter(a, site, row, rows, panel.data());
        append_weights(out, name, type, panel.data(), rows * w.columns);
    }
}

} // namespace

const MappedFile & Trainer::base_file() const {
    if (!base_file_) throw Failure("bad_request", "a made-up base has no file to export from", "Open a model from a file.");
    return *base_file_;
}

SavedFile Trainer::export_gguf(const std::string & name, const std::string & path, const Texts & metadata) {
    Adapter & a = adapter(name);
    model_->fetch(a);
    const Header file(gguf_init_empty());
    gguf_set_val_str(file.get(), "general.type", "adapter");
    gguf_set_val_str(file.get(), "general.architecture", model().shape().architecture.c_str());
    gguf_set_val_str(file.get(), "adapter.type", "lora");
    gguf_set_val_f32(file.get(), "adapter.lora.alpha", static_cast<float>(a.shape.alpha));
    for (const auto & [key, value] : metadata) gguf_set_val_str(file.get(), key.c_str(), value.c_str());
    std::vector<const float *> data;
    const TensorRoom room = room_for((a.layers.size() * target_names.size() + 1) * 2);
    a.each_site([&](const std::string & base, const Site & site) {
        add_tensor(room.get(), file.get(), base + ".lora_a", GGML_TYPE_F32, site.columns, a.shape.rank);
        add_tensor(room.get(), file.get(), base + ".lora_b", GGML_TYPE_F32, a.shape.rank, site.rows);
        data.push_back(a.weights.data() + site.a);
        data.push_back(a.weights.data() + site.b);
    });
    return write_gguf(file.get(), path, [&](NewFile & out, int64_t i) { out.append(data[static_cast<size_t>(i)], gguf_get_tensor_size(file.get(), i)); });
}

std::vector<SavedFile> Trainer::export_peft(const std::string & name, const std::string & path, const Texts & metadata) {
    Adapter & a = adapter(name);
    model_->fetch(a);
    std::map<std::string, PeftTensor> tensors;
    std::vector<std::vector<float>> reordered;
    std::vector<std::string> modules;
    a.each_site([&](const std::string & base, const Site & site) {
        const std::string module = module_of(base), prefix = peft_prefix(base);
        reordered.push_back(b_rows(a, site, model().shape()));
        tensors[prefix + ".lora_A.weight"] = {a.shape.rank, site.columns, a.weights.data() + site.a};
        tensors[prefix + ".lora_B.weight"] = {site.rows, a.shape.rank, reordered.back().data()};
        modules.push_back(module.substr(module.rfind('.') + 1));
    });
    std::sort(modules.begin(), modules.end());
    modules.erase(std::unique(modules.begin(), modules.end()), modules.end());

    const GgufFile base(base_file());
    const std::string config = peft_config(a, modules, base.has("general.name") ? json(base.text("general.name")) : json());
    NewFolder folder(path);
    std::vector<SavedFile> files = {write_safetensors(folder.path_of("adapter_model.safetensors"), tensors, metadata),
                                    folder.write(peft_config_name, config.data(), config.size())};
    folder.publish();
    return files;
}

SavedFile Trainer::export_merged(const std::string & name, const std::string & path, ggml_type type, const Texts & metadata) {
    Adapter & a = adapter(name);
    model_->fetch(a);
    std::map<std::string, Site> sites;
    a.each_site([&](const std::string & base, const Site & site) { sites.emplace(base, site); });

    const GgufFile base(base_file());
    const Header file = copied_metadata(base_file(), base);
    add_provenance(file.get(), base, metadata);
    const int64_t count = gguf_get_n_tensors(base.context());
    const TensorRoom room = room_for(static_cast<size_t>(count));
    int64_t bytes = 0, merged_bytes = 0;
    std::vector<std::string> names;
    for (int64_t i = 0; i < count; i++) {
        names.push_back(gguf_get_tensor_name(base.context(), i));
        const Matrix & w = base.tensors.at(names.back()).matrix;
        const bool merged = sites.count(names.back()) != 0;
        add_tensor(room.get(), file.get(), names.back(), merged ? type : w.type, w.columns, w.rows);
        bytes += static_cast<int64_t>(gguf_get_tensor_size(file.get(), i));
        if (merged) merged_bytes += static_cast<int64_t>(gguf_get_tensor_size(file.get(), i));
    }
    if (base.has("general.file_type") && 2 * merged_bytes > bytes) gguf_set_val_u32(file.get(), "general.file_type", file_type_number(type));

    return write_gguf(file.get(), path, [&](NewFile & out, int64_t i) {
        const std::string & tensor = names[static_cast<size_t>(i)];
        const Matrix & w = base.tensors.at(tensor).matrix;
        const auto site = sites.find(tensor);
        if (site == sites.end())
            out.append(w.data, gguf_get_tensor_size(base.context(), i));
        else
            append_merged(out, tensor, w, type, a, site->second);
    });
}

// ---- Loading adapters

namespace {

[[noreturn]] void mismatch(const std::string & path, const std::string & what) {
    throw Failure("checkpoint_mismatch", path + ": " + what, "Create the adapter with the rank, alpha, targets and first layer of the file.");
}

/** The tensors of a safetensors file. Each one is checked to lie inside the file. */
std::map<std::string, Matrix> read_safetensors(const MappedFile & mapped) {
    static const std::map<std::string, ggml_type> types = {{"F32", GGML_TYPE_F32}, {"F16", GGML_TYPE_F16}, {"BF16", GGML_TYPE_BF16}};
    const auto damaged = [&](const std::string & what) { mismatch(mapped.path, "it is not a valid safetensors file: " + what); };
    uint64_t length = 0;
    if (mapped.bytes() < sizeof length) damaged("it is too short");
    std::memcpy(&length, mapped.data(), sizeof length);
    if (length > mapped.bytes() - sizeof length) damaged("its header ends outside it");
    const uint8_t * data = mapped.data() + sizeof length + length;
    const auto bytes = static_cast<int64_t>(mapped.bytes() - sizeof length - length);
    const json header = parse_shallow(mapped.data() + sizeof length, data, [&](const std::string & what) { damaged("its header " + what); });
    if (!header.is_object()) damaged("its header is not a JSON object");
    std::map<std::string, Matrix> tensors;
    for (const auto & [name, tensor] : header.items()) {
        if (name == "__metadata__") continue;
        const json none, shape = tensor.is_object() ? tensor.value("shape", none) : none, offsets = tensor.is_object() ? tensor.value("data_offsets", none) : none;
        const auto numbers = [](const json & values) { return values.is_array() && values.size() == 2 && values[0].is_number_unsigned() && values[1].is_number_unsigned(); };
        if (!numbers(shape) || !numbers(offsets)) damaged("tensor " + name + " does not have two dimensions, or has no offsets");
        const auto type = types.find(tensor.value("dtype", json()) .is_string() ? tensor["dtype"].get<std::string>() : "");
        if (type == types.end()) mismatch(mapped.path, "tensor " + name + " must be F32, F16 or BF16");
        constexpr int64_t most = int64_t{1} << 30;
        const auto begin = offsets[0].get<int64_t>(), end = offsets[1].get<int64_t>(), rows = shape[0].get<int64_t>(), columns = shape[1].get<int64_t>();
        if (rows < 1 || columns < 1 || rows > most || columns > most || begin < 0 || end > bytes || begin > end ||
            end - begin != rows * static_cast<int64_t>(ggml_row_size(type->second, columns)))
            damaged("tensor " + name + " has a size that does not match its shape, or ends outside the file");
        if ((data + begin - mapped.data()) % 4 != 0) damaged("tensor " + name + " is not aligned");
        tensors[name] = Matrix{data + begin, type->second, rows, columns};
    }
    return tensors;
}

/**
 * Reads A and B of every site into the adapter's layout. names(base name) gives the names of the two. The file must hold these tensors and
 * no others.
 */
template <class F> std::vector<float> weights_from(const Adapter & a, const std::string & path, std::map<std::string, Matrix> tensors, const F & names) {
    std::vector<float> weights(a.parameters);
    const auto take = [&](const std::string & name, int64_t rows, int64_t columns, size_t at) {
        const auto found = tensors.find(name);
        if (found == tensors.end()) mismatch(path, "tensor " + name + " is missing");
        const Matrix w = found->second;
        if (w.rows != rows || w.columns != columns) mismatch(path, "tensor " + name + " has a different shape");
        for (int64_t r = 0; r < rows; r++) w.read(r, 0, columns, &weights[at + static_cast<size_t>(r * columns)]);
        tensors.erase(found);
    };
    a.each_site([&](const std::string & base, const Site & site) {
        const auto [name_a, name_b] = names(base);
        take(name_a, a.shape.rank, site.columns, site.a);
        take(name_b, site.rows, a.shape.rank, site.b);
    });
    if (!tensors.empty()) mismatch(path, "tensor " + tensors.begin()->first + " is not one of the adapter's");
    for (float value : weights)
        if (!std::isfinite(value)) mismatch(path, "it holds a value that is not finite");
    return weights;
}

void begin_with(Adapter & a, const float * weights) {
    std::memcpy(a.weights.data(), weights, a.parameters * sizeof(float));
    for (Buffer<float> * moments : {&a.first_moments, &a.second_moments}) std::memset(moments->data(), 0, a.parameters * sizeof(float));
    a.step = 0;
}

} // namespace

void Trainer::load_gguf(Adapter & a, const std::string & path) {
    const MappedFile mapped(path);
    const GgufFile file(mapped);
    if (file.text("general.type") != "adapter" || file.text("adapter.type") != "lora") mismatch(path, "it is not a LoRA adapter");
    if (file.text("general.architecture") != model().shape().architecture) mismatch(path, "it is for architecture " + file.text("general.architecture"));
    if (file.number_or("adapter.lora.alpha", 0) != static_cast<double>(static_cast<float>(a.shape.alpha))) mismatch(path, "its alpha is different");
    std::map<std::string, Matrix> tensors;
    for (const auto & [name, tensor] : file.tensors) tensors[name] = tensor.matrix;
    begin_with(a, weights_from(a, path, tensors, [](const std::string & base) { return std::pair(base + ".lora_a", base + ".lora_b"); }).data());
}

void Trainer::load_peft(Adapter & a, const std::string & folder) {
    const std::vector<uint8_t> text = read_whole_file(folder + "/" + peft_config_name, 1 << 20);
    const json config = parse_shallow(text.begin(), text.end(), [&](const std::string & what) { mismatch(folder, std::string(peft_config_name) + " " + what); });
    if (!config.is_object()) mismatch(folder, std::string(peft_config_name) + " is not a JSON object");
    if (config.value("peft_type", json()) != "LORA") mismatch(folder, "it is not a LoRA adapter");
    if (config.value("r", json()) != a.shape.rank || config.value("lora_alpha", json()) != a.shape.alpha) mismatch(folder, "its rank or alpha is different");
    // These options set scales per module, or compute another sum than W + alpha / r · B A.
    for (const char * other : {"use_rslora", "use_dora", "rank_pattern", "alpha_pattern", "fan_in_fan_out", "lora_bias"})
        if (const json value = config.value(other, json()); !value.is_null() && value != false && value != json::object()) mismatch(folder, std::string(other) + " is not supported");
    const MappedFile mapped(folder + "/adapter_model.safetensors");
    std::vector<float> weights = weights_from(a, mapped.path, read_safetensors(mapped), [](const std::string & base) {
        return std::pair(peft_prefix(base) + ".lora_A.weight", peft_prefix(base) + ".lora_B.weight");
    });
    const int64_t rank = a.shape.rank;
    a.each_site([&](const std::string &, const Site & site) {
        float * b = &weights[site.b];
        const std::vector<float> rows(b, b + site.rows * rank);
        for (int64_t r = 0; r < site.rows; r++) std::memcpy(b + gguf_row(site, model().shape(), r) * rank, &rows[static_cast<size_t>(r * rank)], static_cast<size_t>(rank) * sizeof(float));
    });
    begin_with(a, weights.data());
}
