// A training run on an emulated device of which any call may fail. After every failure the run continues with the right losses, on the
// device or on the CPU, or it ends with the failure that came first. Also tests a device that others fill. Usage:
//     emulated_mishaps_test                  every call fails once, with the kinds of failure in turn
//     emulated_mishaps_test <from> <every>   calls from, from + every, … fail in every way
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>

#include "base/failure.h"
#include "base/random.h"
#include "check.h"
#include "cuda/device_memory.h"
#include "emulated_device.h"
#include "emulated_gpu.h"
#include "kernels/cuda/elementwise.h"
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

struct Request {
    Rows rows;
    LossWeights weights;
};

/** Rows of random tokens. All but the first of a row have a weight, and all but the first two have soft targets. */
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

/** The results that a run gave its caller. */
struct Told {
    std::vector<double> losses;
    std::vector<int32_t> sampled;
    std::vector<std::string> saved; // hashes of the checkpoint's files
    std::string device;
    bool operator==(const Told & other) const { return losses == other.losses && sampled == other.sampled && saved == other.saved; }
};

/** The failures that the caller met, and the first one that ended the worker. */
struct Met {
    int failures = 0;
    std::string ended;
};

/**
 * Three steps of two requests each, then a sample and a checkpoint. The caller repeats a request that failed. Throws a failure that ends
 * the worker, or one that comes more often than a single planted failure can.
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
            }, [&] { next = 0; }); // the gradients of both requests are gone
        patient([&] { trainer.optim_step("a", adam); }, nothing);
        told.losses.insert(told.losses.end(), losses, losses + 2);
    }
    patient([&] { told.losses.push_back(trainer.forward("a", first.rows, first.weights).loss); }, nothing);
    patient([&] {
        told.sampled.clear();
        for (const Sampled & row : trainer.sample("a", 3, {{1, 2, 3, 4}, {3, 1}}, {3, {0, 0, 1, 0}, 1, {}}).rows) told.sampled.insert(told.sampled.end(), row.tokens.begin(), row.tokens.end());
    }, nothing);
    const std::string folder = scratch_folder();
    patient([&] {
        for (const SavedFile & file : trainer.save("a", folder + "/checkpoint")) told.saved.push_back(file.sha256);
    }, nothing);
    std::filesystem::remove_all(folder);
    return told;
}

/**
 * Ends the test when it uses more than this many seconds of processor time from now on; 0 = no limit. Elapsed time means little on a busy
 * machine.
 */
void limit_processor_time(int seconds) {
    const itimerval limit{{0, 0}, {seconds, 0}};
    setitimer(ITIMER_PROF, &limit, nullptr);
}

struct Kind {
    const char * name;
    int error;
    bool later, ends; // ends: the worker cannot go on, unless the failure came early enough to choose the CPU
};
const Kind kinds[] = {{"no memory", 2, false, false},
                      {"too many resources", 701, false, false},
                      {"devices unavailable", 46, false, false},
                      {"illegal address", 700, false, true},
                      {"illegal address, met later", 700, true, true}};

void test_every_call(int64_t from, int64_t every, bool every_kind) {
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
    const std::vector<bool> issued = mishaps->issued;
    int64_t tried = 0, silent = 0, met_by_caller = 0, on_the_cpu = 0, ended = 0;
    for (int64_t k = from; k <= calls; k += every)
        for (const Kind & kind : kinds) {
            if (!every_kind && &kind != &kinds[static_cast<size_t>(k) % std::size(kinds)]) continue;
            if (every_kind && kind.later && !issued[static_cast<size_t>(k - 1)]) continue; // the call waits for its work, so there is no later error
            const auto name = [&] { return "call " + std::to_string(k) + ", " + kind.name; };
            limit_processor_time(60); // a hang counts as a failure
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
                    CHECK(!kind.ends || fell_back, "%s: went on", name().c_str());
                    on_the_cpu += fell_back;
                    silent += met.failures == 0;
                    met_by_caller += met.failures > 0;
                } catch (const Failure & failure) {
                    CHECK(failure.fatal && kind.ends && met.failures == 1, "%s: ended after %d failures with %s", name().c_str(), met.failures, failure.what());
                    CHECK(std::string(failure.what()).find("error 700") != std::string::npos, "%s: ended with %s", name().c_str(), failure.what());
                    ended++;
                    // From then on every request is answered with the first failure.
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
    limit_processor_time(0);
    std::printf("%lld calls in a run of three steps; %lld failures tried: %lld runs noticed nothing, %lld sent a request again, %lld ended with the first failure; %lld went on the CPU\n",
                static_cast<long long>(calls), static_cast<long long>(tried), static_cast<long long>(silent), static_cast<long long>(met_by_caller), static_cast<long long>(ended),
                static_cast<long long>(on_the_cpu));
}

/** A number on the device to which work adds one. */
struct Counter {
    explicit Counter(EmulatedDevice & device_) : device(device_), value(device_, 4), one(device_, 4) {
        const float numbers[] = {0, 1};
        device.write(value.at<float>(), &numbers[0], 4);
        device.write(one.at<float>(), &numbers[1], 4);
    }
    void add(uint64_t key) {
        device.replay(key, [&] { device.launch(gpu::AddBias<float>{value.at<float>(), 1, 1, one.at<float>()}, 1, 1, 32); });
        expected++;
    }
    void check(const std::string & what) {
        float seen;
        device.read(&seen, value.at<float>(), 4);
        CHECK(seen == expected, "%s: ran %g times, not %g", what.c_str(), static_cast<double>(seen), static_cast<double>(expected));
    }
    EmulatedDevice & device;
    DeviceMemory<EmulatedDevice> value, one;
    float expected = 0;
};

/** Work that comes again and again is recorded once, however many other sizes come between. Work that cannot be recorded runs directly. */
void test_replays() {
    const auto mishaps = std::make_shared<Mishaps>();
    {
        EmulatedDevice device(false, mishaps);
        Counter counter(device);
        for (int round = 0; round < 3; round++)
            for (uint64_t size = 1; size <= 70; size++) {
                counter.add(size);
                counter.add(0);
            }
        counter.check("seventy sizes");
        CHECK(mishaps->repeats >= 209, "one work of 210 was repeated %lld times", static_cast<long long>(mishaps->repeats));
        CHECK(mishaps->held_bytes <= 64 * EmulatedRuntime::graph_bytes + 1024, "%lld bytes of graphs", static_cast<long long>(mishaps->held_bytes));
    }
    CHECK(mishaps->left == 0, "%lld pieces were not given back", static_cast<long long>(mishaps->left));
    for (int error : {2, 46, 701, 900})
        for (int64_t refused = 0; refused < 6; refused++) {
            const auto refusing = std::make_shared<Mishaps>();
            EmulatedDevice device(false, refusing);
            Counter counter(device);
            counter.add(1);
            refusing->fail_at = refusing->calls + 1 + refused; // the calls are begin, launch, end, prepare, repeat, repeat
            refusing->error = error;
            for (int i = 0; i < 4; i++) counter.add(1);
            counter.check("error " + std::to_string(error) + " at call " + std::to_string(refused + 1) + " of a recording");
            CHECK(device.unrecorded() == 1, "%lld kept from recording", static_cast<long long>(device.unrecorded()));
        }
}

/**
 * What passes left behind is given up for a cache and for an adapter, both to stay within the limit and when the device has run out of
 * memory.
 */
void test_room() {
    const Request large = request_of({30, 30, 30, 30}, 3), larger = request_of({50, 50, 50, 50}, 4);
    const Rows prompts{{1, 2, 3, 4, 5, 6}, {4, 2}};
    const SampleOptions options{40, {0, 0, 1, 0}, 1, {}};
    const auto sampled = [&](Trainer & trainer) {
        std::vector<int32_t> tokens;
        for (const Sampled & row : trainer.sample("a", {}, prompts, options).rows) tokens.insert(tokens.end(), row.tokens.begin(), row.tokens.end());
        return tokens;
    };
    const auto train = [&](Trainer & trainer, const std::string & name, const Request & request) { return trainer.forward_backward(name, request.rows, request.weights).loss; };
    int64_t limit;
    {
        const std::unique_ptr<Backend> model = emulated_gpu(std::make_shared<Mishaps>()).open(small_model(), 1, Number::f32);
        limit = model->model_bytes() + model->adapter_bytes(adapter_shape) + model->pass_bytes(&adapter_shape, 120, 30, Keep::activations, 2);
    }
    std::vector<int32_t> expected;
    double loss, loss_of_larger;
    {
        const auto mishaps = std::make_shared<Mishaps>();
        Trainer trainer(emulated_gpu(mishaps));
        trainer.open(small_model(), 1, 0, {DeviceChoice::cuda, Number::f32, limit});
        trainer.create_adapter("a", adapter_shape);
        loss = train(trainer, "a", large);
        trainer.optim_step("a", adam);
        expected = sampled(trainer);
        trainer.create_adapter("b", adapter_shape);
        CHECK(train(trainer, "b", request_of({5}, 3)) > 0, "another adapter after a large pass");
        CHECK(mishaps->peak_bytes <= limit + EmulatedRuntime::workspace_bytes, "%lld bytes were held, the limit is %lld", static_cast<long long>(mishaps->peak_bytes), static_cast<long long>(limit));
        CHECK(trainer.shortages() == 0, "within the limit the device is never short");
    }
    {
        Trainer trainer(emulated_gpu(std::make_shared<Mishaps>()));
        trainer.open(small_model(), 1, 0, {DeviceChoice::cuda, Number::f32});
        trainer.create_adapter("a", adapter_shape);
        train(trainer, "a", large);
        loss_of_larger = train(trainer, "a", larger);
    }
    // Other programs fill the device while a run goes on.
    const auto mishaps = std::make_shared<Mishaps>();
    Trainer trainer(emulated_gpu(mishaps));
    trainer.open(small_model(), 1, 0, {DeviceChoice::cuda, Number::f32});
    trainer.create_adapter("a", adapter_shape);
    CHECK(train(trainer, "a", large) == loss, "the loss without a limit");
    trainer.optim_step("a", adam);
    mishaps->memory_bytes = mishaps->held_bytes + 1000;
    CHECK(sampled(trainer) == expected, "samples on a full device");
    CHECK(trainer.shortages() == 1, "%lld shortages", static_cast<long long>(trainer.shortages()));
    trainer.drop_adapter("a");
    trainer.create_adapter("a", adapter_shape);
    mishaps->memory_bytes = mishaps->held_bytes + 20000;
    try {
        train(trainer, "a", larger);
        CHECK(false, "a pass larger than the device");
    } catch (const Failure & failure) {
        CHECK(failure.code == "out_of_memory" && std::string(failure.what()).find("MiB free") != std::string::npos, "%s: %s", failure.code.c_str(), failure.what());
    }
    mishaps->memory_bytes = int64_t{1} << 40;
    CHECK(train(trainer, "a", large) == loss && train(trainer, "a", larger) == loss_of_larger, "losses when there is room again");
}

/** On a device that is full or busy, "auto" takes the CPU and says so, and "cuda" reports the reason. */
void test_opening() {
    for (const bool full : {true, false}) {
        const auto mishaps = [&] {
            const auto made = std::make_shared<Mishaps>();
            if (full) made->memory_bytes = 1000;
            else made->fail_at = 1;
            made->error = 46;
            return made;
        };
        Trainer strict(emulated_gpu(mishaps())), lenient(emulated_gpu(mishaps()));
        const std::string code = code_of([&] { strict.open(small_model(), 1, 0, {DeviceChoice::cuda, Number::f32}); });
        CHECK(code == (full ? "out_of_memory" : "device_unavailable"), "%s", code.c_str());
        lenient.open(small_model(), 1, 0, {DeviceChoice::automatic, {}});
        CHECK(lenient.device() == "cpu" && lenient.gpu_refused() && lenient.device_reason().find("on the GPU ") == 0, "%s: %s", lenient.device().c_str(), lenient.device_reason().c_str());
    }
    // The machine's memory and the device's memory have separate limits.
    const ModelSource source = small_model();
    const auto opened = [&](int64_t machine, int64_t device) {
        Trainer trainer(emulated_gpu(std::make_shared<Mishaps>()));
        trainer.open(small_model(), 1, machine, {DeviceChoice::automatic, {}, device});
        return trainer.device();
    };
    CHECK(opened(stored_bytes(source.shape, source.type), 0) == "cuda", "a machine with little memory, and a device with much");
    CHECK(opened(0, 1000) == "cpu", "a device with little memory, and a machine with much");
}

} // namespace

int main(int count, char ** arguments) {
    test_replays();
    test_room();
    test_opening();
    const bool chosen = count > 2;
    test_every_call(chosen ? std::atoll(arguments[1]) : 1, chosen ? std::atoll(arguments[2]) : 1, chosen);
    return failed_checks == 0 ? 0 : 1;
}
