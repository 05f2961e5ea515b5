#include "trainer.h"

#include <algorithm>
#include <cmath>

#include "base/failure.h"

namespace {

constexpr const char * smaller_work = "shorter rows or a smaller adapter";

[[noreturn]] void bad_rows(const std::string & what) { throw Failure("bad_request", what, "See the rows and their arrays in protocol.md."); }

/** "token 3 of row 1" for an index into the tokens of a request. */
std::string place_of(const Rows & rows, size_t token) {
    size_t row = 0;
    while (token >= static_cast<size_t>(rows.lengths[row])) token -= static_cast<size_t>(rows.lengths[row++]);
    return "token " + std::to_string(token) + " of row " + std::to_string(row);
}

/** The coefficients of a token in the loss, and whether any of them is not 0. */
struct TokenWeights {
    LossCoefficients coefficients;
    SoftTargets soft;
    bool any;
};

TokenWeights weights_of(const LossWeights & w, size_t token, size_t tokens) {
    const auto at = [&](const std::vector<float> & values) { return values.empty() ? 0.0f : values[token]; };
    TokenWeights result{{at(w.weights), at(w.entropy_weights), at(w.z_weights)}, {}, false};
    const size_t k = w.soft_targets.size() / tokens;
    result.soft = {w.soft_targets.data() + token * k, w.soft_weights.data() + token * k, static_cast<int64_t>(k)};
    const bool no_soft = std::all_of(result.soft.weights, result.soft.weights + k, [](float weight) { return weight == 0; });
    if (no_soft) result.soft = {};
    result.any = !no_soft || result.coefficients.weight != 0 || result.coefficients.entropy != 0 || result.coefficients.z != 0;
    return result;
}

/**
 * When -1 (the rest of the vocabulary) is among a token's soft targets, every other target may be named only once. Otherwise the
 * probability that is left for the rest would be wrong.
 */
void check_rests(const LossWeights & w, size_t tokens) {
    const size_t k = tokens == 0 ? 0 : w.soft_targets.size() / tokens;
    std::vector<int32_t> named;
    for (size_t token = 0; token < tokens && k > 0; token++) {
        const int32_t * targets = w.soft_targets.data() + token * k;
        const float * weights = w.soft_weights.data() + token * k;
        if (std::find(targets, targets + k, rest_of_vocabulary) == targets + k) continue;
        named.clear();
        for (size_t i = 0; i < k; i++)
            if (targets[i] == rest_of_vocabulary || weights[i] != 0) named.push_back(targets[i]);
        std::sort(named.begin(), named.end());
        const auto twice = std::adjacent_find(named.begin(), named.end());
        if (twice != named.end()) bad_rows("a token with soft target -1 has soft target " + std::to_string(*twice) + " twice: name each once");
    }
}

} // namespace

const ModelShape & Trainer::open(const ModelSource & source, int threads, int64_t memory_bytes, const DeviceOptions & device) {
    if (model_) throw Failure("already_open", "a model is open already", "Start another worker for another model.");
    auto base_file = source.path.empty() ? nullptr : std::make_unique<MappedFile>(source.path);
    OpenedDevice opened = open_device(source, threads, memory_bytes, device, gpu_);
    base_file_ = std::move(base_file);
    model_ = std::move(opened.backend);
    memory_limit_ = opened.memory_limit;
    device_reason_ = std::move(opened.reason);
    gpu_refused_ = opened.gpu_refused;
    return model_->shape();
}

void Trainer::not_finite(const std::string & what) const {
    // A weight in the file may be the cause. The weights are searched only now, because reading them all would slow down every open.
    const std::string tensor = base_file_ ? tensor_not_finite(*base_file_) : "";
    if (!tensor.empty())
        throw Failure("non_finite", what + " is not a finite number: the model's tensor " + tensor + " holds a value that is not", "Export or download the model again.");
    throw Failure("non_finite", what + " is not a finite number", "Lower the learning rate or the weights; go back to the last checkpoint.");
}

Backend & Trainer::model() {
    if (!model_) throw Failure("not_open", "no model is open", "Send open first.");
    return *model_;
}

Adapter & Trainer::adapter(const std::string & name) {
    model();
    const auto found = adapters_.find(name);
    if (found == adapters_.end()) throw Failure("unknown_adapter", "there is no adapter " + name, "Send adapter_create first.");
    return *found->second;
}

Adapter * Trainer::adapter_or_base(const std::optional<std::string> & name) {
    model();
    return name ? &adapter(*name) : nullptr;
}

const Adapter & Trainer::create_adapter(const std::string & name, const AdapterShape & shape) {
    const ModelShape & m = model().shape();
    if (adapters_.count(name)) throw Failure("adapter_exists", "there is an adapter " + name + " already", "Drop it, or choose another name.");
    shape.check(m);
    const int64_t needed = resident_bytes() + model_->adapter_bytes(shape) + model_->pass_bytes(&shape, 1, 1, Keep::activations, 0);
    if (needed > memory_limit_) out_of_memory("the adapter", needed, memory_limit_, smaller_work);
    make_room(model_->adapter_bytes(shape));
    return *(adapters_[name] = std::make_unique<Adapter>(m, shape));
}

void Trainer::drop_adapter(const std::string & name) {
    Adapter & gone = adapter(name);
    model_->forget(gone);
    adapters_.erase(name);
}

int64_t Trainer::resident_bytes() const {
    int64_t bytes = model_->model_bytes();
    for (const auto & [name, adapter] : adapters_) bytes += model_->adapter_bytes(adapter->shape);
    return bytes;
}

void Trainer::make_room(int64_t bytes) {
    if (resident_bytes() + bytes + model_->scratch_bytes() > memory_limit_) model_->drop_scratch();
}

void Trainer::check_rows(const Rows & rows, int64_t more_tokens) {
    const ModelShape & m = model().shape();
    const int64_t longest = std::min(limits::max_row_tokens, m.context);
    if (static_cast<int64_t>(rows.tokens.size()) > limits::max_batch_tokens)
        throw Failure("batch_too_large", std::to_string(rows.tokens.size()) + " tokens, at most " + std::to_string(limits::max_batch_tokens), "Send fewer rows at once.");
    int64_t total = 0;
    for (int32_t length : rows.lengths) {
        if (length < 1) bad_rows("row_lengths must be at least 1");
        if (length + more_tokens > longest)
            throw Failure("row_too_long", "a row of " + std::to_string(length + more_tokens) + " tokens, at most " + std::to_string(longest), "Cut the row.");
        total += length;
    }
    if (total != static_cast<int64_t>(rows.tokens.size())) bad_rows("row_lengths must sum to the number of tokens");
    for (int32_t token : rows.tokens)
        if (token < 0 || token >= m.vocabulary)
            throw Failure("token_out_of_range", "token " + std::to_string(token) + ", the vocabulary has " + std::to_string(m.vocabulary), "Tokenise with this model's tokenizer.");
}

void Trainer::check_weights(const Rows & rows, const LossWeights & w) {
    const size_t tokens = rows.tokens.size();
    const std::pair<const char *, const std::vector<float> *> arrays[] = {
        {"weights", &w.weights}, {"entropy_weights", &w.entropy_weights}, {"z_weights", &w.z_weights}, {"soft_weights", &w.soft_weights}};
    for (const auto & [name, values] : arrays) {
        if (values != &w.soft_weights && !values->empty() && values->size() != tokens) bad_rows(std::string(name) + " must have one value per token");
        for (float value : *values)
            if (!std::isfinite(value)) bad_rows(std::string(name) + " must be finite");
    }
    if (w.soft_weights.size() != w.soft_targets.size() || (tokens > 0 && w.soft_targets.size() % tokens != 0))
        bad_rows("soft_targets and soft_weights must both have the same number of values for every token");
    for (int32_t token : w.soft_targets)
        if (token < rest_of_vocabulary || token >= model().shape().vocabulary)
            throw Failure("token_out_of_range", "soft target " + std::to_string(token), "Use this model's token ids, or -1 for all other tokens as one; fill unused places with 0 and weight 0.");
    check_rests(w, tokens);
    size_t first = 0;
    for (int32_t length : rows.lengths) {
        if (weights_of(w, first, tokens).any) bad_rows("the first token of a row is never predicted: its weights must be 0");
        first += static_cast<size_t>(length);
    }
}

void Trainer::check_top(const char * name, int64_t count) {
    const int64_t vocabulary = model().shape().vocabulary;
    if (count > vocabulary) throw Failure("bad_request", std::string(name) + " is more than the vocabulary of " + std::to_string(vocabulary), "Ask for fewer.");
}

int64_t Trainer::fitting_tokens(const Adapter * adapter, int64_t longest_row, int64_t wanted, int64_t extra_bytes, Keep keep, int64_t softs) const {
    const auto needed = [&](int64_t tokens) {
        return resident_bytes() + extra_bytes + model_->pass_bytes(adapter ? &adapter->shape : nullptr, tokens, longest_row, keep, softs);
    };
    int64_t tokens = std::max(longest_row, std::min(wanted, model_->pass_tokens()));
    while (needed(tokens) > memory_limit_ && tokens > longest_row) tokens = std::max(longest_row, tokens / 2);
    if (needed(tokens) > memory_limit_) out_of_memory("a row of " + std::to_string(longest_row) + " tokens", needed(tokens), memory_limit_, smaller_work);
    return tokens;
}

Packing Trainer::cut(const Rows & rows, const std::vector<int64_t> & needed, const Adapter * adapter, Keep keep, int64_t extra_bytes, int64_t softs) {
    int64_t longest = 1, total = 0;
    for (int64_t tokens : needed) {
        longest = std::max(longest, tokens);
        total += tokens;
    }
    // With dropout, the same tokens of two rows drop different inputs, so the rows cannot share results.
    const bool share = model_->trees() && !(keep == Keep::activations && adapter->shape.dropout > 0);
    return pack(rows, needed, fitting_tokens(adapter, longest, total, extra_bytes, keep, softs), share);
}

Trainer::Losses Trainer::run(Adapter * adapter, const Rows & rows, const LossWeights & weights, Keep keep, int64_t top_k) {
    Losses result;
    const size_t tokens = rows.tokens.size(), k = static_cast<size_t>(top_k);
    for (std::vector<float> * values : {&result.logprobs, &result.entropies, &result.log_sums}) values->assign(tokens, 0);
    result.soft_logprobs.assign(weights.soft_targets.size(), 0);
    result.top_tokens.assign(tokens * k, 0);
    result.top_logprobs.assign(tokens * k, 0);
    // A row is computed only up to the token before its last weighted one: no result depends on what follows.
    std::vector<int64_t> needed, first_tokens;
    int64_t first = 0;
    for (int32_t length : rows.lengths) {
        first_tokens.push_back(first);
        needed.push_back(0);
        for (int64_t t = 1; t < length; t++)
            if (weights_of(weights, static_cast<size_t>(first + t), tokens).any) needed.back() = t;
        first += length;
    }
    const bool dropping = keep == Keep::activations && adapter->shape.dropout > 0;
    Packing packing = cut(rows, needed, adapter, keep, 0, static_cast<int64_t>(weights.soft_targets.size() / std::max<size_t>(tokens, 1)));
    for (Pass & pass : packing.passes) {
        // The index that dropout uses counts over all requests of the step, so that rows drop the same inputs whether they come in one
        // request or in several.
        if (dropping) pass.batch.origins.resize(static_cast<size_t>(pass.batch.count()));
        for (const Pass::Row & row : pass.rows)
            for (int64_t t = first_tokens[row.index]; dropping && t < first_tokens[row.index] + needed[row.index]; t++)
                pass.batch.origins[static_cast<size_t>(packing.places[static_cast<size_t>(t)])] = adapter->step_tokens + t;
        std::vector<Ask> asks;
        std::vector<size_t> asked; // index of each asked token in the request
        for (const Pass::Row & row : pass.rows)
            for (int64_t t = first_tokens[row.index] + 1; t <= first_tokens[row.index] + needed[row.index]; t++) {
                const auto at = static_cast<size_t>(t);
                const TokenWeights token = weights_of(weights, at, tokens);
                if (!token.any) continue;
                asks.push_back({packing.places[at - 1], rows.tokens[at], token.coefficients, token.soft});
                asked.push_back(at);
            }
        const std::vector<TokenLoss> losses =
            keep == Keep::activations ? model_->forward_backward(pass.batch, *adapter, asks) : model_->forward(pass.batch, adapter, asks, top_k);
        for (size_t i = 0; i < asks.size(); i++) {
            const size_t at = asked[i];
            const double loss = losses[i].loss(asks[i].coefficients, asks[i].soft);
            if (!std::isfinite(loss)) not_finite("the loss of " + place_of(rows, at));
            result.loss += loss;
            result.logprobs[at] = static_cast<float>(losses[i].logprob);
            result.entropies[at] = static_cast<float>(losses[i].entropy);
            result.log_sums[at] = static_cast<float>(losses[i].log_sum);
            for (int64_t j = 0; j < asks[i].soft.count; j++)
                result.soft_logprobs[at * static_cast<size_t>(asks[i].soft.count) + static_cast<size_t>(j)] = static_cast<float>(losses[i].soft_logprobs[static_cast<size_t>(j)]);
            for (size_t j = 0; j < losses[i].top.size(); j++) {
                result.top_tokens[at * k + j] = losses[i].top[j].token;
                result.top_logprobs[at * k + j] = losses[i].top[j].logprob;
            }
        }
    }
    result.computed_tokens = packing.tokens();
    return result;
}

Trainer::Losses Trainer::forward(const std::optional<std::string> & name, const Rows & rows, const LossWeights & weights, int64_t top_k) {
    Adapter * with = adapter_or_base(name);
    check_rows(rows, 0);
    check_weights(rows, weights);
    check_top("top_k", top_k);
    return run(with, rows, weights, Keep::nothing, top_k);
}

Trainer::Losses Trainer::forward_backward(const std::string & name, const Rows & rows, const LossWeights & weights) {
    Adapter & with = adapter(name);
    check_rows(rows, 0);
    check_weights(rows, weights);
    try {
        Losses losses = run(&with, rows, weights, Keep::activations, 0);
        with.gradients_pending = true;
        with.step_tokens += static_cast<int64_t>(rows.tokens.size());
        return losses;
    } catch (...) {
        // Gradients of half a batch would be worse than none.
        model_->clear_gradients(with);
        throw;
    }
}

Trainer::Step Trainer::optim_step(const std::string & name, const AdamW & options) {
    Adapter & with = adapter(name);
    const Adapter::Stepped stepped = model().optimise(with, options);
    return Step{with.step, with.version, stepped};
}

const Adapter & Trainer::average_adapter(const std::string & name, const std::string & from_name, double decay) {
    Adapter & moved = adapter(name);
    const Adapter & from = adapter(from_name);
    const auto differ = [&](const std::string & what) {
        throw Failure("bad_request", "from has a different " + what + " than adapter, so their values do not correspond", "Create both with the same shape.");
    };
    if (from.shape.rank != moved.shape.rank) differ("rank");
    if (from.shape.alpha != moved.shape.alpha) differ("alpha");
    if (from.shape.targets != moved.shape.targets) differ("list of targets");
    if (from.shape.first_layer != moved.shape.first_layer) differ("first layer");
    model_->average(moved, from, decay);
    return moved;
}

Trainer::Losses Trainer::score(const std::optional<std::string> & name, const Rows & rows, const std::vector<int32_t> & prompt_lengths) {
    Adapter * with = adapter_or_base(name);
    check_rows(rows, 0);
    if (prompt_lengths.size() != rows.lengths.size()) bad_rows("prompt_lengths must have one value per row");
    std::vector<float> weights(rows.tokens.size(), 0);
    size_t first = 0;
    for (size_t r = 0; r < rows.lengths.size(); r++) {
        const int32_t length = rows.lengths[r], prompt = prompt_lengths[r];
        if (prompt < 0 || prompt > length) bad_rows("prompt_lengths must lie between 0 and the row's length");
        for (int32_t i = std::max(prompt, 1); i < length; i++) weights[first + static_cast<size_t>(i)] = 1;
        first += static_cast<size_t>(length);
    }
    return run(with, rows, LossWeights{std::move(weights), {}, {}, {}, {}}, Keep::nothing, 0);
}
