// Compares the worker with Transformers' own models in double precision: log-probs, and the gradient of every adapter tensor.
// goldens/make_goldens.py made the expected numbers.
// Usage: golden_test <folder of the tiny models> <architecture>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "base/random.h"
#include "check.h"
#include "gates.h"

using nlohmann::json;

namespace {

const std::vector<Target> all_targets = {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down};

/** The numbers of a golden file, tensor by tensor in the index's order. */
class Golden {
public:
    Golden(const std::string & path, const json & tensors) {
        const std::vector<uint8_t> bytes = read_whole_file(path, 1 << 20);
        size_t at = 0;
        for (const json & tensor : tensors) {
            std::vector<float> & values = tensors_[tensor.at("name")];
            values.resize(tensor.at("count"));
            CHECK(at + values.size() * sizeof(float) <= bytes.size(), "%s is too short", path.c_str());
            std::memcpy(values.data(), bytes.data() + at, values.size() * sizeof(float));
            at += values.size() * sizeof(float);
        }
        CHECK(at == bytes.size(), "%s is too long", path.c_str());
    }
    const std::vector<float> & of(const std::string & name) const { return tensors_.at(name); }
    size_t count() const { return tensors_.size(); }

private:
    std::map<std::string, std::vector<float>> tensors_;
};

void compare(const std::string & folder, const json & all, const json & entry) {
    const std::string name = entry.at("model");
    const uint64_t seed = all.at("seed");
    const Golden golden(std::string(PLUMBLINE_TEST_DATA) + "/goldens/" + name + ".f32", entry.at("tensors"));
    Transformer model(folder + "/" + name + ".gguf", 2);
    Adapter a(model.shape(), AdapterShape{all.at("rank"), all.at("alpha"), 0, all_targets});
    const auto each_tensor = [&](const auto & f) {
        a.each_site([&](const std::string & base, const Site & site) {
            f(base + ".lora_a", site.a, static_cast<size_t>(a.shape.rank * site.columns));
            f(base + ".lora_b", site.b, static_cast<size_t>(a.shape.rank * site.rows));
        });
    };
    each_tensor([&](const std::string & tensor, size_t start, size_t count) {
        const uint64_t key = random_key(seed, hash_name(tensor));
        for (size_t i = 0; i < count; i++) a.weights[start + i] = static_cast<float>(random_uniform(key, i) * 0.4 - 0.2);
    });

    Batch batch;
    std::vector<Ask> asks;
    uint64_t drawn = 0;
    for (const json & length : all.at("row_lengths")) {
        std::vector<int32_t> row;
        for (int64_t i = 0; i < length.get<int64_t>(); i++) row.push_back(static_cast<int32_t>(random_uniform(random_key(seed, hash_name("tokens")), drawn++) * 320));
        const int64_t begin = batch.count();
        batch.add_row(row.data(), static_cast<int64_t>(row.size()));
        for (size_t i = 1; i < row.size(); i++) asks.push_back({begin + static_cast<int64_t>(i) - 1, row[i], LossCoefficients{1, 0, 0}, {}});
    }
    for (int64_t t = 0; t < batch.count(); t++) batch.origins.push_back(t);
    const std::vector<TokenLoss> losses = model.forward_backward(batch, a, asks);

    const std::vector<float> & logprobs = golden.of("logprobs");
    CHECK(logprobs.size() == losses.size(), "%zu log-probs, %zu asked", logprobs.size(), losses.size());
    double worst_logprob = 0, loss = 0, worst = 0;
    for (size_t i = 0; i < losses.size(); i++) {
        worst_logprob = std::max(worst_logprob, std::abs(losses[i].logprob - static_cast<double>(logprobs[i])));
        loss -= losses[i].logprob;
    }
    size_t compared = 1;
    each_tensor([&](const std::string & tensor, size_t start, size_t count) {
        const std::vector<float> & expected = golden.of(tensor);
        CHECK(expected.size() == count, "%s has %zu values, not %zu", tensor.c_str(), expected.size(), count);
        const double error = relative_l2(a.gradients.data() + start, expected.data(), count);
        CHECK(error <= 1e-4, "%s of %s: %g", tensor.c_str(), name.c_str(), error);
        worst = std::max(worst, error);
        compared++;
    });
    CHECK(compared == golden.count(), "%zu tensors compared, %zu in the file", compared, golden.count());
    CHECK(worst_logprob <= 1e-4, "%s: %g", name.c_str(), worst_logprob);
    CHECK(std::abs(loss / entry.at("loss").get<double>() - 1) <= 1e-6, "%s: %.9g", name.c_str(), loss);
    std::printf("%s against Transformers: log-probs %.1e nats, gradients %.1e\n", name.c_str(), worst_logprob, worst);
}

} // namespace

int main(int, char ** arguments) {
    const std::string folder = arguments[1], architecture = arguments[2];
    const json all = json::parse(std::ifstream(std::string(PLUMBLINE_TEST_DATA) + "/goldens/goldens.json"));
    for (const char * kind : {"f32", "f32-untied"}) {
        const std::string path = tiny_model(folder, architecture, kind), name = path.substr(path.rfind('/') + 1, path.rfind('.') - path.rfind('/') - 1);
        const json & models = all.at("models");
        const auto entry = std::find_if(models.begin(), models.end(), [&](const json & model) { return model.at("model") == name; });
        CHECK(entry != models.end(), "no golden of %s", name.c_str());
        if (entry != models.end()) compare(folder, all, *entry);
    }
    return failed_checks == 0 ? 0 : 1;
}
