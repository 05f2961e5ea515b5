// A training run on an emulated device of which any call may fail: after every failure the run goes on with the right losses, on the
// device or on the CPU, or ends with the failure that came first. And a device that others fill.
// Usage: emulated_mishaps_test [from, every]   the failing calls that are tried: from, from + every, …; 1, 1 without
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/failure.h"
#include "check.h"
#include "cuda/device_transformer.h"
#include "emulated_device.h"
#include "model/random_model.h"
#include "trainer.h"

namespace {

ModelSource small_model() {
    ModelShape m = plain_shape("llama", 32, 2, 16);
    m.layers = 1;
    m.kv_heads = 1;
    m.feed_forward = 32;
    m.vocabulary = 40;
    m.context = 64;
    m.tied = false;
    return {m, GGML_TYPE_Q8_0};
}

const AdapterShape adapter_shape{2, 4, 9, {attn_q, attn_v, ffn_down, output_head}, 0.25};
const AdamW adam{0.05, 0.9, 0.95, 1e-8, 0.01, 1};

GpuWay emulated_gpu(const std::shared_ptr<Mishaps> & mishaps) {
    return {[] { return std::string(); },
            [mishaps](const ModelSource & source, int threads, Number precision) {
                return open_on_device(source, threads, std::make_unique<EmulatedDevice>(false, mishaps), "cuda", precision);
            }};
}

struct Request {
    Rows rows;
    LossWeights weights;
};

/** Rows of random tokens, every one of which weighs but the first; some have soft targets. */
Request request_of(const std::vector<int32_t> & lengths, uint64_t seed) {
    Request r{{{}, lengths}, {}};
    uint64_t at = 0;
    const auto token = [&] { return static_cast<int32_t>(random_uniform(seed, at++) * 40); };
    for (int32_t length : lengths)
        for (int32_t i = 0; i < length; i++) {
            r.rows.tokens.push_back(token());
            r.weights.weights.push_back(i == 0 ? 0.0f : 0.1f);
            for (int k = 0; k < 2; k++) {
                r.weights.soft_targets.push_back(token());
                r.weights.soft_weights.push_back(i < 2 ? 0.0f : 0.05f);
            }
        }
    return r;
}

/** What a run told its caller. */
struct Told {
    std::vector<double> losses;
    std::vector<int32_t> sampled;
    std::vector<std::string> saved; // hashes of the checkpoint's files
    std::string device;
    bool operator==(const Told & other) const { return losses == other.losses && sampled == other.sampled && saved == other.saved; }
};

/** Failures that the caller met, the first that ended the worker among them. */
struct Met {
    int failures = 0;
    std::string ended;
};

/**
 * Three steps of two requests each, then a sample and a checkpoint, by a caller who sends again what failed. Throws what ends the
 * worker, or fails more often than anything may that happens once.
 */
Told run(Trainer & trainer, DeviceChoice choice, Met & met) {
    const auto patient = [&](const std::function<void()> & ask, const std::function<void()> & restart) {
        for (;;) try {
                return ask();
            } catch (const Failure & failure) {
                met.failures++;
                if (failure.fatal || met.failures > 3) throw;
                restart();
            }
    };
    const auto nothing = [] {};
    const Request first = request_of({5, 4}, 1), second = request_of({7}, 2);
    Told told;
    patient([&] { trainer.open(small_model(), 1, 0, {choice, Number::f32}); }, nothing);
    told.device = trainer.device();
    patient([&] { trainer.create_adapter("a", adapter_shape); }, nothing);
    for (int step = 0; step < 3; step++) {
        double losses[2];
        int next = 0;
        while (next < 2)
            patient([&] {
                const Request & request = next == 0 ? first : second;
                losses[next] = trainer.forward_backward("a", request.rows, request.weights).loss;
                next++;
            }, [&] { next = 0; }); // the gradients of both are gone
        patient([&] { trainer.optim_step("a", adam); }, nothing);
        told.losses.insert(told.losses.end(), losses, losses + 2);
    }
    patient([&] { told.losses.push_back(trainer.forward("a", first.rows, first.weights).loss); }, nothing);
    patient([&] {
        told.sampled.clear();
        for (const Sampled & row : trainer.sample("a", 3, {{1, 2, 3, 4}, {3, 1}}, {3, {0, 0, 1, 0}, 1, {}}).rows) told.sampled.insert(told.sampled.end(), row.tokens.begin(), row.tokens.end());
    }, nothing);
    char folder[] = "/tmp/plumbline-test-XXXXXX";
    if (!mkdtemp(folder)) std::abort();
    patient([&] {
        for (const SavedFile & file : trainer.save("a", std::string(folder) + "/checkpoint")) told.saved.push_back(file.sha256);
    }, nothing);
    std::filesystem::remove_all(folder);
    return told;
}

struct Kind {
    const char * name;
    int error;
    bool later, ends; // ends: the worker cannot go on, unless it has a CPU to begin on
};
const Kind kinds[] = {{"no memory", 2, false, false},
                      {"too many resources", 701, false, false},
                      {"devices unavailable", 46, false, false},
                      {"illegal address", 700, false, true},
                      {"illegal address, met later", 700, true, true}};

void test_every_call(int64_t from, int64_t every) {
    Met met;
    Trainer on_cpu;
    const Told cpu = run(on_cpu, DeviceChoice::cpu, met);
    auto mishaps = std::make_shared<Mishaps>();
    Told gpu;
    {
        Trainer trainer(emulated_gpu(mishaps));
        gpu = run(trainer, DeviceChoice::automatic, met);
    }
    CHECK(met.failures == 0 && gpu.device == "cuda" && cpu.device == "cpu", "undisturbed: %d failures", met.failures);
    CHECK(mishaps->repeats > 0 && mishaps->left == 0, "%lld repeats, %lld left", static_cast<long long>(mishaps->repeats), static_cast<long long>(mishaps->left));
    CHECK(relative_l2(gpu.losses.data(), cpu.losses.data(), cpu.losses.size()) < 1e-4 && gpu.losses[6] < gpu.losses[0], "the device's losses");
    const int64_t calls = mishaps->calls;
    int64_t tried = 0, silent = 0, met_by_caller = 0, on_the_cpu = 0, ended = 0;
    for (int64_t k = from; k <= calls; k += every)
        for (const Kind & kind : kinds) {
            const auto name = [&] { return "call " + std::to_string(k) + ", " + kind.name; };
            alarm(120); // a hang is a failure too
            tried++;
            mishaps = std::make_shared<Mishaps>();
            mishaps->fail_at = k;
            mishaps->error = kind.error;
            mishaps->later = kind.later;
            met = {};
            {
                Trainer trainer(emulated_gpu(mishaps));
                try {
                    const Told told = run(trainer, DeviceChoice::automatic, met);
                    const bool fell_back = told.device == "cpu";
                    CHECK(told == (fell_back ? cpu : gpu), "%s: other losses, samples or checkpoint", name().c_str());
                    CHECK(!kind.ends || fell_back || mishaps->calls < k + 2, "%s: went on", name().c_str());
                    on_the_cpu += fell_back;
                    silent += met.failures == 0;
                    met_by_caller += met.failures > 0;
                } catch (const Failure & failure) {
                    CHECK(failure.fatal && kind.ends && met.failures == 1, "%s: ended after %d failures with %s", name().c_str(), met.failures, failure.what());
                    CHECK(std::string(failure.what()).find("error 700") != std::string::npos, "%s: ended with %s", name().c_str(), failure.what());
                    ended++;
                    // Whatever is asked of it then, the first failure is the answer.
                    try {
                        trainer.forward(std::nullopt, {{1, 2}, {2}}, {{0, 1}, {}, {}, {}, {}});
                        CHECK(false, "%s: answers after its end", name().c_str());
                    } catch (const Failure & again) {
                        CHECK(again.code == "not_open" || std::string(again.what()) == failure.what(), "%s: first %s, then %s", name().c_str(), failure.what(), again.what());
                    }
                }
            }
            CHECK(mishaps->left == 0, "%s: %lld pieces were not given back", name().c_str(), static_cast<long long>(mishaps->left));
        }
    alarm(0);
    std::printf("%lld calls in a run of three steps; %lld failures tried: %lld runs noticed nothing, %lld sent a request again, %lld ended with the first failure; %lld went on the CPU\n",
                static_cast<long long>(calls), static_cast<long long>(tried), static_cast<long long>(silent), static_cast<long long>(met_by_caller), static_cast<long long>(ended),
                static_cast<long long>(on_the_cpu));
}

} // namespace

int main(int count, char ** arguments) {
    test_every_call(count > 2 ? std::atoll(arguments[1]) : 1, count > 2 ? std::atoll(arguments[2]) : 1);
    return failed_checks == 0 ? 0 : 1;
}
