#include "requests.h"

#include <algorithm>
#include <map>

#include "activation_requests.h"
#include "base/failure.h"
#include "cuda/cuda_backend.h"
#include "cuda/driver.h"
#include "estimate.h"
#include "kernels/bf16_gemm.h"
#include "kernels/gemm.h"
#include "model/random_model.h"

using nlohmann::json;

namespace {

constexpr int64_t most_exact = int64_t{1} << 53; // JSON carries whole numbers exactly up to here
constexpr double most_number = 1e30;
constexpr int64_t most_top = 1024; // limit of the most likely tokens reported per place

json told(const SavedFile & file) { return {{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}}; }

Answer hello(Trainer &, Fields & fields) {
    fields.whole("protocol", 1, 1);
    fields.expect_no_more();
    json names = json::array();
    for (const Architecture & architecture : architectures) names.push_back(architecture.name);
    json features = json::array({"avx2", "fma", "f16c"});
    if (__builtin_cpu_supports("avx512f")) features.push_back("avx512f");
    if (__builtin_cpu_supports("avx512vnni")) features.push_back("avx512vnni");
    if (__builtin_cpu_supports("avx512bf16")) features.push_back("avx512bf16");
    json devices = {{{"kind", "cpu"}, {"name", std::string("OpenBLAS ") + gemm_prepare()}, {"threads", std::max(1u, std::thread::hardware_concurrency())}, {"features", features}, {"pass_tokens", limits::cpu_pass_tokens}}};
    const GpuDriver driver = ask_gpu_driver();
    for (const GpuInfo & gpu : driver.devices)
        devices.push_back({{"kind", "cuda"},
                           {"name", gpu.name},
                           {"memory_bytes", gpu.memory},
                           {"compute_capability", std::to_string(gpu.major) + "." + std::to_string(gpu.minor)},
                           {"driver", cuda_version_text(driver.version)},
                           {"pass_tokens", limits::gpu_pass_tokens}});
    const std::string no_gpu = why_no_gpu();
    return {{{"protocol", 1},
             {"version", PLUMBLINE_VERSION},
             {"build", PLUMBLINE_BUILD},
             {"devices", devices},
             {"no_gpu", no_gpu.empty() ? json() : json(no_gpu)},
             {"architectures", names},
             {"limits",
              {{"max_header_bytes", limits::max_header_bytes},
               {"max_payload_bytes", limits::max_payload_bytes},
               {"max_row_tokens", limits::max_row_tokens},
               {"max_batch_tokens", limits::max_batch_tokens}}}},
            {}};
}

/** Reads which model a request means: by its path or by its shape. */
ModelSource source_of(Fields & fields) {
    if (fields.has("path") == fields.has("shape")) Fields::bad("path", "or shape, but not both, must name the model");
    if (fields.has("path")) return {fields.text("path")};
    const Frame frame{0, "shape", fields.object("shape"), {}};
    Fields shape(frame);
    constexpr int64_t most_columns = panel_floats;
    const int64_t embedding = shape.whole("embedding", 1, most_columns), heads = shape.whole("heads", 1, 4096), head_values = shape.whole("head_values", 2, 4096);
    ModelShape m = plain_shape(shape.text("architecture"), embedding, heads, head_values);
    m.layers = shape.whole("layers", 1, 1024);
    m.kv_heads = shape.whole("kv_heads", 1, heads);
    m.feed_forward = shape.whole("feed_forward", 1, most_columns);
    m.vocabulary = shape.whole("vocabulary", 2, 1 << 24);
    m.context = shape.whole("context", 1, int64_t{1} << 31);
    m.tied = shape.flag("tied");
    if (heads % m.kv_heads != 0 || head_values % 2 != 0 || heads * head_values > most_columns)
        Fields::bad("shape", "must have heads a multiple of kv_heads, head_values even, and heads · head_values at most " + std::to_string(most_columns));
    const std::optional<ggml_type> type = stored_type(shape.text("quantisation"));
    if (!type) Fields::bad("quantisation", "must be a type of ggml that can be written without data, such as q4_k, q8_0 or f16");
    shape.expect_no_more();
    return {std::move(m), *type};
}

std::vector<Target> targets_of(Fields & fields) {
    std::vector<Target> targets;
    for (const json & target : fields.list("targets")) {
        const auto found = std::find_if(target_names.begin(), target_names.end(), [&](const char * known) { return target == known; });
        if (found == target_names.end()) Fields::bad("targets", "has an unknown entry " + target.dump());
        targets.push_back(static_cast<Target>(found - target_names.begin()));
    }
    std::sort(targets.begin(), targets.end());
    if (targets.empty() || std::adjacent_find(targets.begin(), targets.end()) != targets.end())
        Fields::bad("targets", "must name at least one matrix, and each once");
    return targets;
}

/** How many layers the model has is checked later. */
int64_t first_layer_of(Fields & fields) { return fields.has("first_layer") ? fields.whole("first_layer", 0, 1023) : 0; }

/** A higher rate could round to 1. */
double dropout_of(Fields & fields) { return fields.number("dropout", 0, 0.9999); }

/** Empty when the request names none. */
std::optional<Number> precision_of(Fields & fields) {
    if (!fields.has("precision")) return std::nullopt;
    const std::string name = fields.text("precision");
    if (name != "bf16" && name != "fp32") Fields::bad("precision", "must be bf16 or fp32");
    return name == "bf16" ? Number::bf16 : Number::f32;
}

/** The rate that the CPU reaches over a whole step when its frozen products are in `precision` and all others in fp32. */
double cpu_gemm_rate(int threads, Number precision, double frozen_share) {
    gemm_prepare();
    Pool pool(threads);
    const double single = gemm_rate(pool, Number::f32);
    return precision == Number::f32 ? single : 1 / (frozen_share / gemm_rate(pool, precision) + (1 - frozen_share) / single);
}

Answer estimate(Trainer &, Fields & fields) {
    const ModelSource source = source_of(fields);
    AdapterShape adapter{fields.whole("rank", 1, limits::max_rank), 1, 0, targets_of(fields)};
    if (fields.has("dropout")) adapter.dropout = dropout_of(fields);
    adapter.first_layer = first_layer_of(fields);
    const int64_t longest_row = fields.whole("longest_row", 1, limits::max_row_tokens), pass_tokens = fields.whole("pass_tokens", 1, limits::max_batch_tokens);
    const auto threads = static_cast<int>(fields.whole("threads", 1, 64));
    const std::string device = fields.text("device");
    if (device != "cpu" && device != "cuda") Fields::bad("device", "must be cpu or cuda");
    const Number precision = precision_of(fields).value_or(device == "cpu" ? cpu_precision() : Number::bf16);
    if (device == "cpu" && precision == Number::bf16 && !bf16::supported()) Fields::bad("precision", "bf16 needs a GPU or a processor with AVX512-BF16");
    fields.expect_no_more();
    const GgufModel model(source, MadeUp::outlined);
    adapter.check(model.shape);
    const EstimateOptions options{adapter, pass_tokens, longest_row, threads};
    const Estimate bytes = device == "cpu" ? estimate_cpu(model.shape, options) : estimate_gpu(model, options, precision);
    const double flops = training_flops_per_token(model.shape, adapter, longest_row), frozen = frozen_flops_per_token(model.shape, adapter);
    const std::optional<double> rate = device == "cpu" ? cpu_gemm_rate(threads, precision, frozen / flops) : gpu_gemm_rate(precision);
    return {{{"weight_bytes", bytes.weight_bytes},
             {"adapter_bytes", bytes.adapter_bytes},
             {"pass_bytes", bytes.pass_bytes},
             {"process_bytes", bytes.process_bytes},
             {"total_bytes", bytes.total_bytes()},
             {"flops_per_token", flops},
             {"gemm_flops_per_second", rate ? json(*rate) : json()},
             {"tokens_per_second", rate ? json(*rate / flops) : json()}},
            {}};
}

Answer profile(Trainer & trainer, Fields & fields) {
    fields.expect_no_more();
    json ops = json::array();
    const Profile::All figures = trainer.profile();
    for (size_t i = 0; i < figures.size(); i++) ops.push_back({{"name", op_names[i]}, {"seconds", figures[i].seconds}, {"flops", figures[i].flops}});
    return {{{"ops", ops}, {"peak_device_bytes", trainer.peak_device_bytes()}, {"shortages", trainer.shortages()}, {"kernels", trainer.kernels()}}, {}};
}

Answer open(Trainer & trainer, Fields & fields) {
    const ModelSource source = source_of(fields);
    const auto threads = static_cast<int>(fields.whole("threads", 1, 64));
    const int64_t memory = fields.whole("memory_bytes", 0, most_exact);
    DeviceOptions device{DeviceChoice::automatic, {}};
    if (fields.has("device")) {
        const std::string name = fields.text("device");
        if (name != "auto" && name != "cpu" && name != "cuda") Fields::bad("device", "must be auto, cpu or cuda");
        device.choice = name == "auto" ? DeviceChoice::automatic : name == "cpu" ? DeviceChoice::cpu : DeviceChoice::cuda;
    }
    device.precision = precision_of(fields);
    if (fields.has("gpu_memory_bytes")) device.gpu_memory_bytes = fields.whole("gpu_memory_bytes", 0, most_exact);
    fields.expect_no_more();
    const ModelShape & m = trainer.open(source, threads, memory, device);
    return {{{"architecture", m.architecture},
             {"layers", m.layers},
             {"embedding", m.embedding},
             {"heads", m.heads},
             {"kv_heads", m.kv_heads},
             {"feed_forward", m.feed_forward},
             {"vocabulary", m.vocabulary},
             {"context", m.context},
             {"tied", m.tied},
             {"file_type", m.file_type},
             {"weight_bytes", m.weight_bytes},
             {"device", trainer.device()},
             {"device_reason", trainer.device_reason()},
             {"gpu_refused", trainer.gpu_refused()},
             {"precision", trainer.precision() == Number::bf16 ? "bf16" : "fp32"}},
            {}};
}

Answer adapter_create(Trainer & trainer, Fields & fields) {
    const std::string name = name_of(fields);
    AdapterShape shape{fields.whole("rank", 1, limits::max_rank), fields.number("alpha", 1e-6, 1e6), static_cast<uint64_t>(fields.whole("seed", 0, most_exact)), targets_of(fields)};
    if (fields.has("dropout")) shape.dropout = dropout_of(fields);
    shape.first_layer = first_layer_of(fields);
    fields.expect_no_more();
    const Adapter & adapter = trainer.create_adapter(name, shape);
    return {{{"parameters", adapter.parameters}, {"version", adapter.version}}, {}};
}

Answer adapter_drop(Trainer & trainer, Fields & fields) {
    const std::string name = name_of(fields);
    fields.expect_no_more();
    trainer.drop_adapter(name);
    return {};
}

LossWeights weights_of(Fields & fields) {
    return {fields.floats("weights"), fields.floats_if_any("entropy_weights"), fields.floats_if_any("z_weights"), fields.integers_if_any("soft_targets"),
            fields.floats_if_any("soft_weights")};
}

Answer answer_losses(const Trainer::Losses & losses) {
    Answer answer{{{"loss", losses.loss}, {"computed_tokens", losses.computed_tokens}},
                  {Array::of("logprobs", losses.logprobs), Array::of("entropies", losses.entropies), Array::of("log_sums", losses.log_sums)}};
    if (!losses.soft_logprobs.empty()) answer.payload.push_back(Array::of("soft_logprobs", losses.soft_logprobs));
    return answer;
}

Answer forward(Trainer & trainer, Fields & fields) {
    const std::optional<std::string> name = fields.text_or_null("adapter");
    const int64_t top_k = fields.has("top_k") ? fields.whole("top_k", 0, most_top) : 0;
    const Rows rows = rows_of(fields);
    const LossWeights weights = weights_of(fields);
    fields.expect_no_more();
    // The answer must fit a frame: three values per token, two per token and top_k, and one per soft target.
    const auto values = static_cast<int64_t>(rows.tokens.size()) * (3 + 2 * top_k) + static_cast<int64_t>(weights.soft_targets.size());
    if (values * static_cast<int64_t>(sizeof(float)) > limits::max_payload_bytes) Fields::bad("top_k", "makes an answer larger than max_payload_bytes");
    const Trainer::Losses losses = trainer.forward(name, rows, weights, top_k);
    Answer answer = answer_losses(losses);
    if (top_k > 0) {
        answer.payload.push_back(Array::of("top_tokens", losses.top_tokens));
        answer.payload.push_back(Array::of("top_logprobs", losses.top_logprobs));
    }
    return answer;
}

Answer forward_backward(Trainer & trainer, Fields & fields) {
    const std::string name = name_of(fields);
    const Rows rows = rows_of(fields);
    const LossWeights weights = weights_of(fields);
    fields.expect_no_more();
    return answer_losses(trainer.forward_backward(name, rows, weights));
}

Answer optim_step(Trainer & trainer, Fields & fields) {
    const std::string name = name_of(fields);
    const double below_one = std::nextafter(1.0, 0.0);
    const AdamW options{fields.number("learning_rate", 0, 1000), fields.number("beta1", 0, below_one), fields.number("beta2", 0, below_one),
                        fields.number("eps", 1e-30, 1),          fields.number("weight_decay", 0, 1000), fields.number("grad_clip_norm", 0, most_number)};
    fields.expect_no_more();
    const Trainer::Step step = trainer.optim_step(name, options);
    return {{{"step", step.step}, {"version", step.version}, {"grad_norm", step.stepped.grad_norm}, {"clipped", step.stepped.clipped}}, {}};
}

Answer adapter_average(Trainer & trainer, Fields & fields) {
    const std::string name = name_of(fields), from = fields.text("from", 256);
    const double decay = fields.number("decay", 0, 1);
    fields.expect_no_more();
    return {{{"version", trainer.average_adapter(name, from, decay).version}}, {}};
}

Answer sample(Trainer & trainer, Fields & fields) {
    const std::optional<std::string> name = fields.text_or_null("adapter");
    std::optional<int64_t> version;
    if (fields.has("version")) version = fields.whole("version", 0, most_exact);
    SampleOptions options{fields.whole("max_tokens", 1, limits::max_row_tokens),
                          DrawOptions{fields.number("temperature", 0, 1000), fields.whole("top_k", 0, most_exact), fields.number("top_p", 0, 1), fields.number("min_p", 0, 1)},
                          static_cast<uint64_t>(fields.whole("seed", 0, most_exact)),
                          {}};
    for (const json & token : fields.list("stop_tokens")) {
        if (!token.is_number_integer() || token < 0 || token > INT32_MAX) Fields::bad("stop_tokens", "must hold token ids");
        options.stop_tokens.push_back(token.get<int32_t>());
    }
    if (fields.has("report_top")) options.report_top = fields.whole("report_top", 0, most_top);
    if (fields.has("as_trained")) options.as_trained = fields.flag("as_trained");
    const Rows prompts = rows_of(fields);
    fields.expect_no_more();
    // Checked before anything is drawn: the answer must fit a frame even if no row stops early. It has one length and one reason per row and,
    // per token, two values and two for each of report_top.
    const auto count = static_cast<int64_t>(prompts.lengths.size()), values = count * (1 + options.max_tokens * (2 + 2 * options.report_top));
    if (values * static_cast<int64_t>(sizeof(float)) > limits::max_payload_bytes)
        Fields::bad(options.report_top > 0 ? "report_top" : "max_tokens", "makes an answer that may be larger than max_payload_bytes");
    constexpr int64_t reason_bytes = sizeof "\"length\"," - 1, other_bytes = 1024;
    if (count * reason_bytes + other_bytes > limits::max_header_bytes) Fields::bad("row_lengths", "has so many rows that their stop_reasons may be larger than max_header_bytes");
    std::vector<int32_t> tokens, lengths, top_tokens;
    std::vector<float> logprobs, top_logprobs;
    json reasons = json::array();
    const auto append = [](auto & all, const auto & some) { all.insert(all.end(), some.begin(), some.end()); };
    const Trainer::Samples samples = trainer.sample(name, version, prompts, options);
    for (const Sampled & row : samples.rows) {
        append(tokens, row.tokens);
        append(logprobs, row.logprobs);
        append(top_tokens, row.top_tokens);
        append(top_logprobs, row.top_logprobs);
        lengths.push_back(static_cast<int32_t>(row.tokens.size()));
        reasons.push_back(row.stopped ? "stop" : "length");
    }
    Answer answer{{{"stop_reasons", reasons}, {"computed_tokens", samples.computed_tokens}}, {Array::of("tokens", tokens), Array::of("row_lengths", lengths), Array::of("logprobs", logprobs)}};
    if (options.report_top > 0) {
        answer.payload.push_back(Array::of("top_tokens", top_tokens));
        answer.payload.push_back(Array::of("top_logprobs", top_logprobs));
    }
    return answer;
}

Answer score(Trainer & trainer, Fields & fields) {
    const std::optional<std::string> name = fields.text_or_null("adapter");
    const Rows rows = rows_of(fields);
    const std::vector<int32_t> prompts = fields.integers("prompt_lengths");
    fields.expect_no_more();
    const Trainer::Losses losses = trainer.score(name, rows, prompts);
    return {{{"computed_tokens", losses.computed_tokens}}, {Array::of("logprobs", losses.logprobs)}};
}

Answer save(Trainer & trainer, Fields & fields) {
    const std::string name = name_of(fields), path = fields.text("path");
    fields.expect_no_more();
    json files = json::array();
    for (const SavedFile & file : trainer.save(name, path)) files.push_back(told(file));
    return {{{"files", files}}, {}};
}

Answer load(Trainer & trainer, Fields & fields) {
    const std::string name = name_of(fields), path = fields.text("path");
    fields.expect_no_more();
    const Adapter & adapter = trainer.load(name, path);
    return {{{"step", adapter.step}, {"version", adapter.version}}, {}};
}

Answer export_adapter(Trainer & trainer, Fields & fields) {
    const std::string name = name_of(fields), path = fields.text("path"), format = fields.text("format");
    std::map<std::string, std::string> metadata;
    for (const auto & [key, value] : fields.object("metadata").items()) {
        // The prefix keeps callers from setting the keys that make the file an adapter.
        if (key.rfind("plumbline.", 0) != 0 || key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.-") != std::string::npos || !value.is_string())
            Fields::bad("metadata", "must map names that start with plumbline. and have a-z, 0-9, _ . - to strings");
        metadata[key] = value.get<std::string>();
        if (metadata[key].find('\0') != std::string::npos) Fields::bad("metadata", "must have no byte 0");
    }
    json files = json::array();
    if (format == "gguf") {
        fields.expect_no_more();
        files.push_back(told(trainer.export_gguf(name, path, metadata)));
    } else if (format == "peft") {
        fields.expect_no_more();
        for (const SavedFile & file : trainer.export_peft(name, path, metadata)) files.push_back(told(file));
    } else if (format == "gguf_merged") {
        const std::map<std::string, ggml_type> types = {{"f16", GGML_TYPE_F16}, {"bf16", GGML_TYPE_BF16}, {"f32", GGML_TYPE_F32}};
        const auto type = types.find(fields.text("weight_type"));
        if (type == types.end()) Fields::bad("weight_type", "must be f16, bf16 or f32");
        fields.expect_no_more();
        files.push_back(told(trainer.export_merged(name, path, type->second, metadata)));
    } else {
        Fields::bad("format", "must be gguf, peft or gguf_merged");
    }
    return {{{"files", files}}, {}};
}

const std::map<std::string, Answer (*)(Trainer &, Fields &)> verbs = {
    {"hello", hello},
    {"estimate", estimate},
    {"profile", profile},
    {"open", open},
    {"adapter_create", adapter_create},
    {"adapter_drop", adapter_drop},
    {"forward", forward},
    {"forward_backward", forward_backward},
    {"optim_step", optim_step},
    {"adapter_average", adapter_average},
    {"sample", sample},
    {"score", score},
    {"activations", activations},
    {"project", project},
    {"adapter_stack", adapter_stack},
    {"save", save},
    {"load", load},
    {"export", export_adapter},
};

} // namespace

Rows rows_of(Fields & fields) {
    Rows rows{fields.integers("tokens"), fields.integers("row_lengths")};
    if (rows.lengths.empty()) Fields::bad("row_lengths", "must not be empty");
    return rows;
}

std::string name_of(Fields & fields) { return fields.text("adapter", 256); }

Answer answer_request(Trainer & trainer, const Frame & frame) {
    const auto found = verbs.find(frame.verb);
    if (found == verbs.end()) throw Failure("unknown_verb", "unknown verb " + frame.verb.substr(0, 100), "See the verbs in protocol.md.");
    Fields fields(frame);
    return found->second(trainer, fields);
}
