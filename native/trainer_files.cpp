// What leaves and enters by files: checkpoints that resume to the bit, and the adapter as llama.cpp loads it.
#include <gguf.h>
#include <sys/stat.h> // mkdir
#include <unistd.h>   // rmdir

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "base/failure.h"
#include "trainer.h"

using nlohmann::json;

namespace {

constexpr const char * manifest_name = "manifest.json";

struct Part {
    const char * name;
    Buffer<float> * values; // [parameters]
};

std::vector<Part> parts_of(Adapter & a) {
    return {{"adapter.f32", &a.weights}, {"first_moments.f32", &a.first_moments}, {"second_moments.f32", &a.second_moments}};
}

/** Everything that must be equal for a checkpoint to fit an adapter. */
json shape_of(const ModelShape & m, const Adapter & a) {
    json targets = json::array();
    for (Target target : a.shape.targets) targets.push_back(target_names[target]);
    return {{"architecture", "llama"},   {"layers", m.layers},           {"embedding", m.embedding},
            {"heads", m.heads},          {"kv_heads", m.kv_heads},       {"head_values", m.head_values},
            {"feed_forward", m.feed_forward}, {"vocabulary", m.vocabulary}, {"rank", a.shape.rank},
            {"alpha", a.shape.alpha},    {"targets", targets},           {"parameters", a.parameters}};
}

/** Removes what a failed write left, unless told that it succeeded. */
class Leftover {
public:
    explicit Leftover(std::string folder) : folder_(std::move(folder)) {}
    ~Leftover() {
        if (kept_) return;
        for (const std::string & file : files_) ::unlink((folder_ + "/" + file).c_str());
        ::rmdir(folder_.c_str());
    }
    void add(const std::string & file) { files_.push_back(file); }
    void keep() { kept_ = true; }

private:
    std::string folder_;
    std::vector<std::string> files_;
    bool kept_ = false;
};

[[noreturn]] void mismatch(const std::string & what) {
    throw Failure("checkpoint_mismatch", what, "Load the checkpoint that was saved from an adapter of this shape, or an earlier one.");
}

void refuse_existing(const std::string & path) {
    if (path_exists(path)) throw Failure("io_error", path + " exists already", "Choose a new name; nothing is overwritten.");
}

} // namespace

std::vector<SavedFile> Trainer::save(const std::string & name, const std::string & folder) {
    Adapter & a = adapter(name);
    if (a.gradients_pending) throw Failure("bad_request", "gradients are pending, which a checkpoint does not hold", "Send optim_step first.");
    refuse_existing(folder);
    model_->fetch(a);
    const std::string temporary = temporary_beside(folder);
    if (::mkdir(temporary.c_str(), 0700) != 0)
        throw Failure("io_error", "cannot create " + temporary + ": " + std::strerror(errno), "Check the path, its rights and the free space.");
    Leftover leftover(temporary);
    std::vector<SavedFile> files;
    json listed = json::array();
    const auto write = [&](const std::string & file, const void * data, size_t bytes) {
        leftover.add(file);
        write_synced(temporary + "/" + file, data, bytes);
        files.push_back({file, static_cast<int64_t>(bytes), sha256_hex(data, bytes)});
    };
    for (const Part & part : parts_of(a)) {
        write(part.name, part.values->data(), a.parameters * sizeof(float));
        listed.push_back({{"name", files.back().name}, {"bytes", files.back().bytes}, {"sha256", files.back().sha256}});
    }
    const json manifest = {{"format", "plumbline-adapter-checkpoint"}, {"format_version", 1}, {"shape", shape_of(model().shape(), a)},
                           {"seed", a.shape.seed},          {"step", a.step},      {"files", listed}};
    const std::string text = manifest.dump(2) + "\n";
    write(manifest_name, text.data(), text.size());
    sync_folder(temporary);
    rename_new(temporary, folder);
    leftover.keep();
    return files;
}

namespace {

json read_manifest(const std::string & folder) {
    const std::vector<uint8_t> bytes = read_whole_file(folder + "/" + manifest_name, 1 << 20);
    json manifest = json::parse(bytes.begin(), bytes.end(), nullptr, false);
    if (!manifest.is_object() || manifest.value("format", json()) != "plumbline-adapter-checkpoint" || manifest.value("format_version", json()) != 1)
        mismatch(folder + "/" + manifest_name + " is not a checkpoint's manifest");
    return manifest;
}

std::string listed_sha256(const json & manifest, const std::string & name, int64_t bytes) {
    const json files = manifest.value("files", json::array());
    for (const json & file : files)
        if (file.is_object() && file.value("name", json()) == name) {
            if (file.value("bytes", json()) != bytes) mismatch(name + " has another size than the adapter");
            const json hash = file.value("sha256", json());
            if (hash.is_string()) return hash.get<std::string>();
        }
    mismatch("the manifest does not list " + name);
}

} // namespace

const Adapter & Trainer::load(const std::string & name, const std::string & folder) {
    Adapter & a = adapter(name);
    const json manifest = read_manifest(folder);
    const json shape = manifest.value("shape", json()), expected = shape_of(model().shape(), a);
    for (const auto & [key, value] : expected.items())
        if (!shape.is_object() || shape.value(key, json()) != value) mismatch("the checkpoint's " + key + " is " + shape.value(key, json()).dump() + ", the adapter's " + value.dump());
    const json step = manifest.value("step", json());
    if (!step.is_number_unsigned()) mismatch("the manifest has no step");
    // Everything is read and proven before anything is changed.
    std::vector<std::vector<uint8_t>> contents;
    const auto bytes = static_cast<int64_t>(a.parameters * sizeof(float));
    for (const Part & part : parts_of(a)) {
        const std::string hash = listed_sha256(manifest, part.name, bytes);
        contents.push_back(read_whole_file(folder + "/" + part.name, static_cast<uint64_t>(bytes) + 1));
        if (static_cast<int64_t>(contents.back().size()) != bytes) mismatch(std::string(part.name) + " has " + std::to_string(contents.back().size()) + " bytes, not " + std::to_string(bytes));
        if (sha256_hex(contents.back().data(), contents.back().size()) != hash) mismatch(std::string(part.name) + " is not what the manifest says");
    }
    size_t i = 0;
    for (const Part & part : parts_of(a)) std::memcpy(part.values->data(), contents[i++].data(), a.parameters * sizeof(float));
    model_->store(a);
    model_->clear_gradients(a);
    a.step = step.get<int64_t>();
    a.version++;
    return a;
}

namespace {

struct GgmlFree {
    void operator()(ggml_context * context) const { ggml_free(context); }
    void operator()(gguf_context * context) const { gguf_free(context); }
    void operator()(FILE * file) const { std::fclose(file); }
};

void add_tensor(ggml_context * context, gguf_context * file, const std::string & name, int64_t columns, int64_t rows, float * data) {
    ggml_tensor * tensor = ggml_new_tensor_2d(context, GGML_TYPE_F32, columns, rows);
    ggml_set_name(tensor, name.c_str());
    tensor->data = data;
    gguf_add_tensor(file, tensor);
}

void add_tensors(Adapter & a, ggml_context * context, gguf_context * file) {
    for (size_t layer = 0; layer < a.layers.size(); layer++)
        for (const Group & group : a.layers[layer])
            for (const Site & site : group.sites) {
                const std::string base = Adapter::base_name(static_cast<int64_t>(layer), site.target);
                add_tensor(context, file, base + ".lora_a", site.columns, a.shape.rank, a.weights.data() + site.a);
                add_tensor(context, file, base + ".lora_b", a.shape.rank, site.rows, a.weights.data() + site.b);
            }
}

void write_gguf(const gguf_context * file, const std::string & path) {
    const std::unique_ptr<FILE, GgmlFree> out(std::fopen(path.c_str(), "wbx"));
    if (!out || !gguf_write_to_file_ptr(file, out.get(), false) || std::fflush(out.get()) != 0 || ::fsync(fileno(out.get())) != 0)
        throw Failure("io_error", "cannot write " + path + ": " + std::strerror(errno), "Check the path, its rights and the free space.");
}

} // namespace

SavedFile Trainer::export_gguf(const std::string & name, const std::string & path, const std::map<std::string, std::string> & metadata) {
    Adapter & a = adapter(name);
    refuse_existing(path);
    model_->fetch(a);
    const std::unique_ptr<gguf_context, GgmlFree> file(gguf_init_empty());
    gguf_set_val_str(file.get(), "general.type", "adapter");
    gguf_set_val_str(file.get(), "general.architecture", "llama");
    gguf_set_val_str(file.get(), "adapter.type", "lora");
    gguf_set_val_f32(file.get(), "adapter.lora.alpha", static_cast<float>(a.shape.alpha));
    for (const auto & [key, value] : metadata) gguf_set_val_str(file.get(), key.c_str(), value.c_str());
    const size_t tensors = a.layers.size() * target_names.size() * 2;
    const std::unique_ptr<ggml_context, GgmlFree> context(ggml_init({ggml_tensor_overhead() * (tensors + 1), nullptr, true}));
    if (!context) throw std::bad_alloc();
    add_tensors(a, context.get(), file.get());

    const std::string temporary = temporary_beside(path);
    SavedFile saved{path.substr(path.find_last_of('/') + 1), 0, ""};
    try {
        write_gguf(file.get(), temporary);
        const std::vector<uint8_t> bytes = read_whole_file(temporary, UINT64_MAX);
        saved.bytes = static_cast<int64_t>(bytes.size());
        saved.sha256 = sha256_hex(bytes.data(), bytes.size());
        rename_new(temporary, path);
    } catch (...) {
        ::unlink(temporary.c_str());
        throw;
    }
    return saved;
}
