// The worker's interface: one frozen base, its adapters and their optimizers. It checks ids, rows and memory, and cuts batches into passes
// that fit. It knows neither JSON nor text. Every refusal is a Failure with a code of protocol.md.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/durable_file.h"
#include "base/limits.h"
#include "devices.h"
#include "kernels/draw.h"
#include "packing.h"

/** Coefficients of each token in the loss. Arrays are [T]; an empty array means all 0. */
struct LossWeights {
    std::vector<float> weights, entropy_weights, z_weights;
    std::vector<int32_t> soft_targets; // [T, K], where K = size / T
    std::vector<float> soft_weights;   // [T, K]
};

/** Which activations are reported: the residual stream after a layer, or the input of one of the two matrices that write to it. */
enum class Stream { residual, attn_output, ffn_down };
inline constexpr std::array<const char *, 3> stream_names = {"residual", "attn_output", "ffn_down"};

struct ActivationAsk {
    std::vector<int64_t> layers;  // ascending, each once
    std::vector<Stream> streams;  // each once
    std::vector<int32_t> places;  // [P] indices of tokens in the request
    std::vector<int32_t> groups;  // [P] the group whose mean each place joins, from 0
    int64_t count() const { return groups.empty() ? 0 : int64_t{1} + *std::max_element(groups.begin(), groups.end()); }
};

/** One site of an edit: B [rows, rank] · A [rank, columns] is added to this matrix of the layer. */
struct EditedSite {
    int64_t layer;
    Target target;
};

/** A folder with this file is a PEFT adapter, not a checkpoint. */
inline constexpr const char * peft_config_name = "adapter_config.json";

struct SampleOptions {
    int64_t max_tokens;
    DrawOptions draw;
    uint64_t seed;
    std::vector<int32_t> stop_tokens;
    int64_t report_top = 0; // how many of the likeliest tokens are reported for every draw
    bool as_trained = false; // products with frozen weights in the precision of training
};

struct Sampled {
    std::vector<int32_t> tokens;
    std::vector<float> logprobs;
    std::vector<int32_t> top_tokens; // [tokens, report_top]
    std::vector<float> top_logprobs; // [tokens, report_top]
    bool stopped; // ended by a stop token, else by length
};

class Trainer {
public:
    explicit Trainer(GpuWay gpu = this_machines_gpu()) : gpu_(std::move(gpu)) {}
    const ModelShape & open(const ModelSource & source, int threads, int64_t memory_bytes, const DeviceOptions & device = {DeviceChoice::cpu, Number::f32});
    /** The device of the open model, "cpu" or "cuda", and why it was chosen. */
    std::string device() { return model().device(); }
    const std::string & device_reason() const { return device_reason_; }
    /** Time and arithmetic by operation since the model was opened, and the most memory that its device held. */
    Profile::All profile() { return model().profile(); }
    int64_t peak_device_bytes() { return model().peak_device_bytes(); }
    std::string kernels() { return model().kernels(); }
    Number precision() { return model().precision(); }
    bool gpu_refused() const { return gpu_refused_; }
    /** How often a device ran out of memory but could go on once the memory of passes was given back. */
    int64_t shortages() { return model().shortages(); }
    const Adapter & create_adapter(const std::string & name, const AdapterShape & shape);
    void drop_adapter(const std::string & name);

    /** All values but the loss are 0 for a token whose coefficients are all 0. */
    struct Losses {
        double loss = 0;                                  // Σ of token_loss.h's L
        std::vector<float> logprobs, entropies, log_sums; // [T]
        std::vector<float> soft_logprobs;                 // [T, K]
        std::vector<int32_t> top_tokens;                  // [T, top_k]
        std::vector<float> top_logprobs;                  // [T, top_k]
        int64_t computed_tokens = 0;                      // that went through the layers; a shared token counts once
    };
    Losses forward(const std::optional<std::string> & adapter, const Rows & rows, const LossWeights & weights, int64_t top_k = 0);
    Losses forward_backward(const std::string & adapter, const Rows & rows, const LossWeights & weights);
    struct Step {
        int64_t step, version;
        Adapter::Stepped stepped;
    };
    Step optim_step(const std::string & adapter, const AdamW & options);
    /** One step of a moving average: see Adapter::average. */
    const Adapter & average_adapter(const std::string & adapter, const std::string & from, double decay);
    struct Samples {
        std::vector<Sampled> rows;
        int64_t computed_tokens = 0; // of the prompts
    };
    Samples sample(const std::optional<std::string> & adapter, std::optional<int64_t> version, const Rows & prompts, const SampleOptions & options);
    Losses score(const std::optional<std::string> & adapter, const Rows & rows, const std::vector<int32_t> & prompt_lengths);

    /** The mean of each group; for every stream of the ask [layers, groups, width]. */
    struct Activations {
        std::vector<std::vector<float>> streams;
        int64_t computed_tokens = 0;
    };
    Activations activations(const std::optional<std::string> & adapter, const Rows & rows, const ActivationAsk & ask);
    /** Number of values that a stream has per token. */
    int64_t stream_width(Stream stream);
    /** unit [embedding] must have length 1: see projection.h. */
    Projected project(const std::optional<std::string> & adapter, int64_t layer, Target target, const std::vector<float> & unit);
    /**
     * Creates an adapter W + scale · B A + Σ B' A' of rank r + rank from one of rank r. a and b hold A' and B' of all sites, one after the
     * other.
     */
    const Adapter & stack_adapter(const std::string & name, const std::string & from, int64_t rank, const std::vector<EditedSite> & sites, const std::vector<float> & a, const std::vector<float> & b);

    std::vector<SavedFile> save(const std::string & adapter, const std::string & folder);
    /** Loads a checkpoint's folder, a GGUF adapter or a PEFT folder. The last two start at step 0 without moments. */
    const Adapter & load(const std::string & adapter, const std::string & path);
    SavedFile export_gguf(const std::string & adapter, const std::string & file, const std::map<std::string, std::string> & metadata);
    std::vector<SavedFile> export_peft(const std::string & adapter, const std::string & folder, const std::map<std::string, std::string> & metadata);
    /**
     * Writes the whole model as GGUF. The adapted matrices, W + scale · B A, are stored as F32, F16 or BF16; all other tensors stay as in
     * the base.
     */
    SavedFile export_merged(const std::string & adapter, const std::string & file, ggml_type type, const std::map<std::string, std::string> & metadata);

private:
    Backend & model();
    [[noreturn]] void not_finite(const std::string & what) const;
    const MappedFile & base_file() const;
    void load_checkpoint(Adapter & adapter, const std::string & folder);
    void load_gguf(Adapter & adapter, const std::string & file);
    void load_peft(Adapter & adapter, const std::string & folder);
    Adapter & adapter(const std::string & name);
    Adapter * adapter_or_base(const std::optional<std::string> & name);
    void check_rows(const Rows & rows, int64_t more_tokens);
    void check_weights(const Rows & rows, const LossWeights & weights);
    /** name: the request's field that asks for `count` most likely tokens. */
    void check_top(const char * name, int64_t count);
    int64_t resident_bytes() const;
    /**
     * Makes room for `bytes` that stay on the device: drops what passes left there if both do not fit the limit. Results do not depend on
     * it.
     */
    void make_room(int64_t bytes);
    int64_t fitting_tokens(const Adapter * adapter, int64_t longest_row, int64_t wanted, int64_t extra_bytes, Keep keep, int64_t softs) const;
    /** softs: soft targets per token. */
    Packing cut(const Rows & rows, const std::vector<int64_t> & needed, const Adapter * adapter, Keep keep, int64_t extra_bytes, int64_t softs);
    Losses run(Adapter * adapter, const Rows & rows, const LossWeights & weights, Keep keep, int64_t top_k);
    struct Wave;
    Wave next_wave(const Adapter * adapter, const Rows & prompts, size_t first_row, size_t first_token, int64_t max_tokens);
    void sample_wave(Adapter * adapter, const Wave & wave, const SampleOptions & options, std::vector<Sampled> & results);

    GpuWay gpu_;
    std::unique_ptr<MappedFile> base_file_; // the file that the model was read from, needed for exports; null for a made-up model
    std::unique_ptr<Backend> model_;
    int64_t memory_limit_ = 0;
    std::string device_reason_;
    bool gpu_refused_ = false;
    std::map<std::string, std::unique_ptr<Adapter>> adapters_;
};
