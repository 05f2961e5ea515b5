// Exports are read back as others read them: the GGUF adapter gives the same log-probs to the bit, the merged model gives the same within
// its rounding, and the PEFT folder has PEFT's own names and the rows in Hugging Face's order.
// Usage: export_test <folder of the tiny models>
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/durable_file.h"
#include "check.h"
#include "gates.h"
#include "trainer.h"

using nlohmann::json;

namespace {

const AdapterShape test_shape{4, 8, 9, {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down}};

const Rows & test_rows() {
    static const Rows rows = [] {
        Rows made;
        for (const std::vector<int32_t> & row : test_batch(320, {40, 9, 66}, 4).rows) {
            made.tokens.insert(made.tokens.end(), row.begin(), row.end());
            made.lengths.push_back(static_cast<int32_t>(row.size()));
        }
        return made;
    }();
    return rows;
}

std::vector<float> scores(Trainer & trainer, const std::optional<std::string> & adapter) { return trainer.score(adapter, test_rows(), {1, 1, 1}).logprobs; }

double largest_difference(const std::vector<float> & a, const std::vector<float> & b) {
    double most = 0;
    for (size_t i = 0; i < a.size(); i++) most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    return most;
}

/** Trains an adapter "a", so that its B is no longer 0. */
void train(Trainer & trainer, const AdapterShape & shape, double learning_rate = 0.02) {
    trainer.create_adapter("a", shape);
    LossWeights weights;
    for (int32_t length : test_rows().lengths)
        for (int32_t i = 0; i < length; i++) weights.weights.push_back(i == 0 ? 0.0f : 0.01f);
    for (int i = 0; i < 4; i++) {
        trainer.forward_backward("a", test_rows(), weights);
        trainer.optim_step("a", {learning_rate, 0.9, 0.95, 1e-8, 0, 1});
    }
}

// ---- GGUF

void test_gguf_comes_back(const std::string & model) {
    Trainer trainer;
    trainer.open(model, 1, 0);
    train(trainer, test_shape);
    const std::string folder = scratch_folder(), file = folder + "/a.gguf";
    const SavedFile saved = trainer.export_gguf("a", file, {{"plumbline.base_sha256", "abc"}});
    const std::vector<uint8_t> bytes = read_whole_file(file, 1 << 30);
    CHECK(saved.bytes == static_cast<int64_t>(bytes.size()) && saved.sha256 == sha256_hex(bytes.data(), bytes.size()), "size and hash");
    const MappedFile mapped(file);
    CHECK(GgufFile(mapped).text("plumbline.base_sha256") == "abc", "provenance");

    AdapterShape other = test_shape;
    other.seed = 77;
    trainer.create_adapter("b", other);
    const Adapter & loaded = trainer.load("b", file);
    CHECK(loaded.step == 0 && loaded.version == 1, "%ld %ld", static_cast<long>(loaded.step), static_cast<long>(loaded.version));
    CHECK(scores(trainer, std::string("a")) == scores(trainer, std::string("b")), "the adapter that was loaded again gives other scores");

    other.alpha = 9;
    trainer.create_adapter("c", other);
    CHECK(code_of([&] { trainer.load("c", file); }) == "checkpoint_mismatch", "alpha");
    other = {5, 8, 9, test_shape.targets};
    trainer.create_adapter("d", other);
    CHECK(code_of([&] { trainer.load("d", file); }) == "checkpoint_mismatch", "rank");
    other = {4, 8, 9, {attn_q}};
    trainer.create_adapter("e", other);
    CHECK(code_of([&] { trainer.load("e", file); }) == "checkpoint_mismatch", "targets");
    other = test_shape;
    other.first_layer = 1;
    trainer.create_adapter("f", other);
    CHECK(code_of([&] { trainer.load("f", file); }) == "checkpoint_mismatch", "first layer");
    CHECK(code_of([&] { trainer.load("b", model); }) == "invalid_model", "no adapter");
    for (const char * kind : {"gguf", "peft", "merged"}) {
        const auto again = [&] {
            if (kind[0] == 'g') trainer.export_gguf("a", file, {});
            if (kind[0] == 'p') trainer.export_peft("a", file, {});
            if (kind[0] == 'm') trainer.export_merged("a", file, GGML_TYPE_F32, {});
        };
        CHECK(code_of(again) == "io_error", "%s over another file", kind);
    }
    CHECK(read_whole_file(file, 1 << 30) == bytes, "a refused export changed the file");
    CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1, "refused exports left something behind");
}

// ---- Merged

/** Keys that say what the merged file is. All other keys must be as in the base. */
bool of_provenance(const std::string & key) {
    return begins(key, "general.base_model.") || begins(key, "plumbline.") || key == "general.finetune" || key == "general.file_type";
}

/** The bytes of all other keys, in order, and of every tensor that no adapter changed. */
std::string kept_part(const std::string & path) {
    const MappedFile mapped(path);
    const GgufFile file(mapped);
    std::unique_ptr<gguf_context, void (*)(gguf_context *)> copy(gguf_init_empty(), gguf_free);
    gguf_set_kv(copy.get(), file.context());
    for (int64_t i = 0; i < gguf_get_n_kv(file.context()); i++)
        if (const char * key = gguf_get_key(file.context(), i); of_provenance(key)) gguf_remove_key(copy.get(), key);
    std::string kept(gguf_get_meta_size(copy.get()), '\0');
    gguf_get_meta_data(copy.get(), kept.data());
    for (const auto & [name, tensor] : file.tensors) {
        const auto named = [&, tensor_name = name](const char * target) { return tensor_name.find(std::string(".") + target + ".weight") != std::string::npos; };
        if (std::none_of(target_names.begin(), target_names.end(), named)) kept.append(reinterpret_cast<const char *>(tensor.matrix.data), static_cast<size_t>(tensor.bytes()));
    }
    return kept;
}

void test_merged(const std::string & model) {
    Trainer trainer;
    trainer.open(model, 1, 0);
    train(trainer, test_shape);
    const std::string folder = scratch_folder();
    const std::vector<float> aligned = scores(trainer, std::string("a"));
    CHECK(largest_difference(aligned, scores(trainer, std::nullopt)) > 0.1, "the adapter does nothing");
    double difference[3];
    const ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};
    for (int i = 0; i < 3; i++) {
        const std::string file = folder + "/" + ggml_type_name(types[i]) + ".gguf";
        trainer.export_merged("a", file, types[i], {{"plumbline.run", "r"}});
        Trainer merged;
        merged.open(file, 1, 0);
        difference[i] = largest_difference(aligned, scores(merged, std::nullopt));
        CHECK(kept_part(file) == kept_part(model), "%s: more than the adapted matrices changed", file.c_str());
        const MappedFile mapped(file);
        const GgufFile header(mapped);
        CHECK(header.text("plumbline.run") == "r" && header.whole("general.base_model.count", 1, 1) == 1, "provenance");
        CHECK(header.text("general.base_model.0.name") == header.text("general.name"), "the base's name");
        CHECK(header.tensors.at("blk.0.ffn_down.weight").matrix.type == types[i], "type");
    }
    std::printf("%s merged: f32 %.1e f16 %.1e bf16 %.1e nats\n", model.c_str(), difference[0], difference[1], difference[2]);
    CHECK(difference[0] <= 1e-3, "f32: %g", difference[0]);
    // Rounding moves a weight by at most 2^-11 of its value in F16 and 2^-8 in BF16. A log-prob sums a few thousand of these.
    CHECK(difference[1] <= 1e-2 && difference[2] <= 1e-1, "f16 %g bf16 %g", difference[1], difference[2]);
}

/** Writes the model with its tensors at multiples of `alignment`. Sizes of its tensors are multiples already, so only the header changes. */
void write_aligned(const std::string & model, uint32_t alignment, const std::string & to) {
    const std::vector<uint8_t> bytes = read_whole_file(model, 1 << 30);
    const MappedFile mapped(model);
    const GgufFile file(mapped);
    for (const auto & [name, tensor] : file.tensors) CHECK(tensor.bytes() % alignment == 0, "%s has %lld bytes", name.c_str(), static_cast<long long>(tensor.bytes()));
    const std::string whole(bytes.begin(), bytes.end()), last = gguf_get_tensor_name(file.context(), gguf_get_n_tensors(file.context()) - 1);
    const size_t data = gguf_get_data_offset(file.context()), name_end = whole.rfind(last, data) + last.size();
    uint32_t dimensions;
    std::memcpy(&dimensions, &whole[name_end], sizeof dimensions);
    std::string header = whole.substr(0, name_end + sizeof dimensions + 8 * dimensions + sizeof(uint32_t) + sizeof(uint64_t));
    constexpr size_t count_at = 16, counts_end = 24;
    header[count_at]++; // the tiny models have few keys
    const std::string key = "general.alignment";
    const uint64_t length = key.size();
    const uint32_t type = GGUF_TYPE_UINT32;
    const auto raw = [](const auto & number) { return std::string(reinterpret_cast<const char *>(&number), sizeof number); };
    header.insert(counts_end, raw(length) + key + raw(type) + raw(alignment));
    header.append((alignment - header.size() % alignment) % alignment, '\0');
    NewFile out(to);
    out.append(header.data(), header.size());
    out.append(whole.data() + data, whole.size() - data);
    out.publish();
}

/** The merged file must open and score as the adapter does, wherever its header happens to end. */
void test_merged_alignment(const std::string & model) {
    for (uint32_t alignment : {16, 64}) {
        const std::string folder = scratch_folder(), base = folder + "/base.gguf";
        write_aligned(model, alignment, base);
        Trainer trainer;
        trainer.open(base, 1, 0);
        train(trainer, test_shape);
        const std::vector<float> aligned = scores(trainer, std::string("a"));
        for (size_t length : {1, 17, 33, 49}) {
            const std::string file = folder + "/" + std::to_string(length) + ".gguf";
            trainer.export_merged("a", file, GGML_TYPE_F32, {{"plumbline.run", std::string(length, 'r')}});
            Trainer merged;
            const std::string opened = failure_of([&] { merged.open(file, 1, 0); });
            CHECK(opened == "no failure", "a base aligned to %u, a key of %zu: %s", alignment, length, opened.c_str());
            if (opened != "no failure") continue;
            const double difference = largest_difference(aligned, scores(merged, std::nullopt));
            CHECK(difference <= 1e-3, "a base aligned to %u, a key of %zu: %g nats", alignment, length, difference);
        }
    }
}

void test_merged_overflow(const std::string & model) {
    Trainer trainer;
    trainer.open(model, 1, 0);
    AdapterShape loud = test_shape;
    loud.alpha = 1e6;
    train(trainer, loud, 1);
    const std::string folder = scratch_folder();
    const std::string refused = failure_of([&] { trainer.export_merged("a", folder + "/m.gguf", GGML_TYPE_F16, {}); });
    CHECK(begins(refused, "non_finite") && refused.find("blk.0.") != std::string::npos, "%s", refused.c_str());
    CHECK(std::filesystem::is_empty(folder), "a failed export left something behind");
    trainer.export_merged("a", folder + "/m.gguf", GGML_TYPE_BF16, {});
}

// ---- PEFT

struct Safetensors {
    json header;
    std::vector<uint8_t> bytes;
    size_t data;

    explicit Safetensors(const std::string & path) : bytes(read_whole_file(path, 1 << 30)) {
        uint64_t length;
        std::memcpy(&length, bytes.data(), 8);
        header = json::parse(bytes.begin() + 8, bytes.begin() + 8 + static_cast<std::ptrdiff_t>(length));
        data = 8 + length;
    }
    std::vector<float> values(const std::string & name) const {
        const size_t begin = header[name]["data_offsets"][0], end = header[name]["data_offsets"][1];
        std::vector<float> result((end - begin) / 4);
        std::memcpy(result.data(), &bytes[data + begin], end - begin);
        return result;
    }
};

/** The tensors must cover the data one after the other, as safetensors requires, and have their stated shapes. */
void check_layout(const Safetensors & file) {
    CHECK(file.data % 8 == 0, "the data begin at %zu", file.data);
    std::map<size_t, size_t> spans;
    for (const auto & [name, entry] : file.header.items())
        if (name != "__metadata__") {
            CHECK(entry["dtype"] == "F32" && entry["shape"].size() == 2, "%s", name.c_str());
            spans[entry["data_offsets"][0]] = entry["data_offsets"][1];
            CHECK(entry["data_offsets"][1].get<size_t>() - entry["data_offsets"][0].get<size_t>() == entry["shape"][0].get<size_t>() * entry["shape"][1].get<size_t>() * 4, "%s", name.c_str());
        }
    size_t end = 0;
    for (const auto & [from, to] : spans) {
        CHECK(from == end, "a hole or an overlap at %zu", from);
        end = to;
    }
    CHECK(end == file.bytes.size() - file.data, "%zu of %zu bytes", end, file.bytes.size() - file.data);
}

void test_peft(const std::string & model) {
    Trainer trainer;
    const ModelShape shape = trainer.open(model, 1, 0);
    train(trainer, test_shape);
    const std::string folder = scratch_folder();
    const std::vector<SavedFile> files = trainer.export_peft("a", folder + "/peft", {{"plumbline.run", "r"}});
    trainer.export_gguf("a", folder + "/a.gguf", {});
    const Safetensors saved(folder + "/peft/adapter_model.safetensors");
    check_layout(saved);
    CHECK(files.size() == 2 && files[0].sha256 == sha256_hex(saved.bytes.data(), saved.bytes.size()), "hash");
    CHECK(saved.header["__metadata__"] == json({{"format", "pt"}, {"plumbline.run", "r"}}), "%s", saved.header["__metadata__"].dump().c_str());

    // The names that PEFT itself saves for these layers. peft_check.py wrote the list, for two layers and with a head.
    std::set<std::string> expected, found;
    const std::vector<uint8_t> list = read_whole_file(PLUMBLINE_TEST_DATA "/peft_names.json", 1 << 20);
    const json listed = json::parse(list.begin(), list.end());
    for (const auto & [name, dimensions] : listed.items())
        for (int64_t layer = 0; name.find("lm_head") == std::string::npos && layer < shape.layers; layer++) {
            std::string of_layer = name;
            of_layer.replace(of_layer.find("layers.") + 7, 1, std::to_string(layer));
            expected.insert(of_layer);
        }
    for (const auto & [name, entry] : saved.header.items())
        if (name != "__metadata__") found.insert(name);
    CHECK(found == expected, "%zu names, %zu expected; the first found is %s", found.size(), expected.size(), found.empty() ? "" : found.begin()->c_str());

    // llama.cpp's converter applies reshape(heads, 2, d / 2, …).swapaxes(1, 2) to q and k of a llama, and to no other architecture. Applied
    // to the PEFT rows, it must give the rows of the GGUF.
    const MappedFile mapped(folder + "/a.gguf");
    const GgufFile adapter(mapped);
    const auto rank = static_cast<size_t>(test_shape.rank), half = static_cast<size_t>(shape.head_values / 2);
    const bool llama = adapter.text("general.architecture") == "llama";
    for (const auto & [module, tensor, heads, swapped] : std::vector<std::tuple<std::string, std::string, int64_t, bool>>{
             {"self_attn.q_proj", "attn_q", shape.heads, llama}, {"self_attn.k_proj", "attn_k", shape.kv_heads, llama}, {"self_attn.v_proj", "attn_v", shape.kv_heads, false}}) {
        const std::vector<float> peft = saved.values("base_model.model.model.layers.1." + module + ".lora_B.weight");
        const auto * gguf = reinterpret_cast<const float *>(adapter.tensors.at("blk.1." + tensor + ".weight.lora_b").matrix.data);
        size_t to = 0;
        bool same = true, differs = false;
        for (size_t h = 0; h < static_cast<size_t>(heads); h++)
            for (size_t j = 0; j < half; j++)
                for (size_t s = 0; s < 2; s++, to++) {
                    const size_t from = swapped ? (h * 2 + s) * half + j : to;
                    same = same && std::memcmp(&peft[from * rank], gguf + to * rank, rank * sizeof(float)) == 0;
                    differs = differs || std::memcmp(&peft[to * rank], gguf + to * rank, rank * sizeof(float)) != 0;
                }
        CHECK(same && differs == swapped, "rows of %s", tensor.c_str());
    }

    const std::vector<uint8_t> text = read_whole_file(folder + "/peft/adapter_config.json", 1 << 20);
    const json config = json::parse(text.begin(), text.end());
    CHECK(config["r"] == 4 && config["lora_alpha"] == 8 && config["lora_alpha"].is_number_integer() && config["peft_type"] == "LORA" && config["bias"] == "none", "%s", config.dump().c_str());
    CHECK(config["target_modules"] == json({"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"}), "%s", config["target_modules"].dump().c_str());
    AdapterShape other = test_shape;
    other.seed = 77;
    trainer.create_adapter("b", other);
    CHECK(trainer.load("b", folder + "/peft").step == 0, "step");
    CHECK(scores(trainer, std::string("a")) == scores(trainer, std::string("b")), "the adapter that was loaded again gives other scores");
    other.rank = 5;
    trainer.create_adapter("c", other);
    CHECK(code_of([&] { trainer.load("c", folder + "/peft"); }) == "checkpoint_mismatch", "rank");
    for (const size_t bytes : {saved.bytes.size() - 4, size_t{100}, size_t{4}}) {
        std::filesystem::resize_file(folder + "/peft/adapter_model.safetensors", bytes);
        CHECK(code_of([&] { trainer.load("b", folder + "/peft"); }) == "checkpoint_mismatch", "cut to %zu bytes", bytes);
    }
    CHECK(scores(trainer, std::string("a")) == scores(trainer, std::string("b")), "a refusal must change nothing");
    CHECK(config["base_model_name_or_path"] == std::filesystem::path(model).stem().string(), "%s", config["base_model_name_or_path"].dump().c_str());
}

/** An adapter of the upper layers comes back from every kind of file, and names its layers as PEFT reads them. */
void test_upper_layers(const std::string & model) {
    Trainer trainer;
    const int64_t layers = trainer.open(model, 1, 0).layers;
    AdapterShape upper = test_shape;
    upper.first_layer = 1;
    train(trainer, upper);
    CHECK(scores(trainer, std::string("a")) != scores(trainer, std::nullopt), "it changes nothing");
    const std::string folder = scratch_folder();
    trainer.export_gguf("a", folder + "/a.gguf", {});
    trainer.export_peft("a", folder + "/peft", {});
    trainer.save("a", folder + "/checkpoint");
    const std::vector<uint8_t> text = read_whole_file(folder + "/peft/adapter_config.json", 1 << 20);
    std::vector<int64_t> expected;
    for (int64_t layer = 1; layer < layers; layer++) expected.push_back(layer);
    CHECK(json::parse(text.begin(), text.end())["layers_to_transform"] == json(expected), "layers");
    trainer.create_adapter("b", upper);
    for (const char * name : {"/a.gguf", "/peft", "/checkpoint"}) {
        trainer.load("b", folder + name);
        CHECK(scores(trainer, std::string("a")) == scores(trainer, std::string("b")), "%s gives other scores", name);
    }
    trainer.create_adapter("whole", test_shape);
    for (const char * name : {"/a.gguf", "/peft", "/checkpoint"}) CHECK(code_of([&] { trainer.load("whole", folder + name); }) == "checkpoint_mismatch", "%s", name);
    CHECK(code_of([&] { trainer.average_adapter("whole", "a", 0.5); }) == "bad_request", "average");
    upper.first_layer = layers;
    CHECK(code_of([&] { trainer.create_adapter("none", upper); }) == "bad_request", "no layer left");
}

std::vector<std::string> trainable(const std::string & folder) {
    std::vector<std::string> models;
    for (const auto & entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".gguf" && code_of([&] { Trainer().open(entry.path().string(), 1, 0); }) != "unsupported_architecture") models.push_back(entry.path());
    std::sort(models.begin(), models.end());
    return models;
}

} // namespace

int main(int, char ** arguments) {
    const std::string folder = arguments[1], quantised = folder + "/tiny-q4_1.gguf";
    const std::vector<std::string> models = trainable(folder);
    CHECK(models.size() >= 5, "%zu models", models.size());
    for (const std::string & model : models) test_merged(model);
    test_merged_alignment(folder + "/tiny-f32.gguf");
    test_merged_overflow(quantised);
    test_gguf_comes_back(quantised);
    test_upper_layers(quantised);
    for (const char * name : {"tiny-f32", "tiny-f32-untied"}) test_peft(folder + "/" + name + ".gguf");
    return failed_checks == 0 ? 0 : 1;
}
