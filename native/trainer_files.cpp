// Checkpoints. A run that resumes from one gets the same results to the bit.
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "base/failure.h"
#include "base/shallow_json.h"
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
    return {{"architecture", m.architecture}, {"layers", m.layers},           {"embedding", m.embedding},
            {"heads", m.heads},          {"kv_heads", m.kv_heads},       {"head_values", m.head_values},
            {"feed_forward", m.feed_forward}, {"vocabulary", m.vocabulary}, {"rank", a.shape.rank},
            {"alpha", a.shape.alpha},    {"dropout", a.shape.dropout},   {"targets", targets},           {"first_layer", a.shape.first_layer},
            {"parameters", a.parameters}};
}

[[noreturn]] void mismatch(const std::string & what) {
    throw Failure("checkpoint_mismatch", what, "Load the checkpoint that was saved from an adapter of this shape, or an earlier one.");
}

} // namespace

std::vector<SavedFile> Trainer::save(const std::string & name, const std::string & folder) {
    Adapter & a = adapter(name);
    if (a.gradients_pending) throw Failure("bad_request", "gradients are pending, which a checkpoint does not hold", "Send optim_step first.");
    NewFolder made(folder);
    model_->fetch(a);
    std::vector<SavedFile> files;
    json listed = json::array();
    for (const Part & part : parts_of(a)) {
        files.push_back(made.write(part.name, part.values->data(), a.parameters * sizeof(float)));
        listed.push_back({{"name", files.back().name}, {"bytes", files.back().bytes}, {"sha256", files.back().sha256}});
    }
    const json manifest = {{"format", "plumbline-adapter-checkpoint"}, {"format_version", 1}, {"shape", shape_of(model().shape(), a)},
                           {"seed", a.shape.seed},          {"step", a.step},      {"files", listed}};
    const std::string text = manifest.dump(2) + "\n";
    files.push_back(made.write(manifest_name, text.data(), text.size()));
    made.publish();
    return files;
}

namespace {

json read_manifest(const std::string & folder) {
    const std::vector<uint8_t> bytes = read_whole_file(folder + "/" + manifest_name, 1 << 20);
    json manifest = parse_shallow(bytes.begin(), bytes.end(), [&](const std::string & what) { mismatch(folder + "/" + manifest_name + " " + what); });
    if (!manifest.is_object() || manifest.value("format", json()) != "plumbline-adapter-checkpoint" || manifest.value("format_version", json()) != 1)
        mismatch(folder + "/" + manifest_name + " is not a checkpoint's manifest");
    return manifest;
}

std::string listed_sha256(const json & manifest, const std::string & name, int64_t bytes) {
    const json files = manifest.value("files", json::array());
    for (const json & file : files)
        if (file.is_object() && file.value("name", json()) == name) {
            if (file.value("bytes", json()) != bytes) mismatch(name + " does not have the adapter's size");
            const json hash = file.value("sha256", json());
            if (hash.is_string()) return hash.get<std::string>();
        }
    mismatch("the manifest does not list " + name);
}

} // namespace

const Adapter & Trainer::load(const std::string & name, const std::string & path) {
    Adapter & a = adapter(name);
    // A file's weights and moments are read beside the adapter's own, and changed only when all are known to be good.
    if (device() == "cpu") make_room(static_cast<int64_t>(3 * a.parameters * sizeof(float)));
    if (is_file(path))
        load_gguf(a, path);
    else if (is_file(path + "/" + peft_config_name))
        load_peft(a, path);
    else
        load_checkpoint(a, path);
    model_->store(a);
    model_->clear_gradients(a);
    a.version++;
    return a;
}

/** No training has more steps. One step more must not overflow, and the optimizer's powers of a step's number must be exact. */
constexpr uint64_t most_steps = uint64_t{1} << 53;

void Trainer::load_checkpoint(Adapter & a, const std::string & folder) {
    const json manifest = read_manifest(folder);
    const json shape = manifest.value("shape", json()), expected = shape_of(model().shape(), a);
    if (!shape.is_object()) mismatch("the manifest has no shape");
    for (const auto & [key, value] : expected.items()) {
        // Checkpoints without a first layer adapt all of them.
        const json held = shape.value(key, key == "first_layer" ? json(0) : json());
        if (held != value) mismatch("the checkpoint's " + key + " is " + held.dump() + ", the adapter's " + value.dump());
    }
    const json step = manifest.value("step", json());
    const json seed = manifest.value("seed", json());
    if (!step.is_number_unsigned() || !seed.is_number_unsigned()) mismatch("the manifest has no step or no seed");
    if (step.get<uint64_t>() > most_steps) mismatch("the manifest's step is larger than any training's");
    // Everything is read and checked before the adapter is changed.
    std::vector<std::vector<uint8_t>> contents;
    const auto bytes = static_cast<int64_t>(a.parameters * sizeof(float));
    for (const Part & part : parts_of(a)) {
        const std::string hash = listed_sha256(manifest, part.name, bytes);
        contents.push_back(read_whole_file(folder + "/" + part.name, static_cast<uint64_t>(bytes) + 1));
        if (static_cast<int64_t>(contents.back().size()) != bytes) mismatch(std::string(part.name) + " has " + std::to_string(contents.back().size()) + " bytes, not " + std::to_string(bytes));
        if (sha256_hex(contents.back().data(), contents.back().size()) != hash) mismatch(std::string(part.name) + " does not match the hash in the manifest");
    }
    size_t i = 0;
    for (const Part & part : parts_of(a)) std::memcpy(part.values->data(), contents[i++].data(), a.parameters * sizeof(float));
    a.shape.seed = seed.get<uint64_t>(); // later dropout depends on it
    a.step = step.get<int64_t>();
}
