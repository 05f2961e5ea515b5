#include "trainer.h"

#include <algorithm>
#include <cmath>

#include "base/failure.h"
#include "model/transformer.h"

namespace {

std::string mebibytes(int64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

[[noreturn]] void out_of_memory(const std::string & what, int64_t needed, int64_t limit) {
    throw Failure("out_of_memory", what + " needs " + mebibytes(needed) + " in all, the limit is " + mebibytes(limit),
                  "Allow more memory, or use shorter rows or a smaller adapter.");
}

[[noreturn]] void not_finite(const std::string & what) {
    throw Failure("non_finite", what + " is not a finite number", "Lower the learning rate or the weights; go back to the last checkpoint.");
}

} // namespace

const ModelShape & Trainer::open(const std::string & path, int threads, int64_t memory_bytes) {
    if (model_) throw Failure("already_open", "a model is open already", "Start another worker for another model.");
    auto model = std::make_unique<Transformer>(path, threads);
    const int64_t limit = memory_bytes == 0 ? model->memory() : std::min(memory_bytes, model->memory());
    const int64_t least = model->shape().weight_bytes + model->pass_bytes(nullptr, 1, 1, Keep::nothing);
    if (least > limit) out_of_memory("the model", least, limit);
    model_ = std::move(model);
    memory_limit_ = limit;
    return model_->shape();
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
    const int64_t needed = resident_bytes() + model_->adapter_bytes(shape) + model_->pass_bytes(&shape, 1, 1, Keep::activations);
    if (needed > memory_limit_) out_of_memory("the adapter", needed, memory_limit_);
    return *(adapters_[name] = std::make_unique<Adapter>(m, shape));
}

void Trainer::drop_adapter(const std::string & name) {
    model_->forget(adapter(name));
    adapters_.erase(name);
}

int64_t Trainer::resident_bytes() const {
    int64_t bytes = model_->shape().weight_bytes;
    for (const auto & [name, adapter] : adapters_) bytes += model_->adapter_bytes(adapter->shape);
    return bytes;
}

void Trainer::check_rows(const Rows & rows, int64_t more_tokens) {
    const ModelShape & m = model().shape();
    const int64_t longest = std::min(limits::max_row_tokens, m.context);
    if (static_cast<int64_t>(rows.tokens.size()) > limits::max_batch_tokens)
        throw Failure("batch_too_large", std::to_string(rows.tokens.size()) + " tokens, at most " + std::to_string(limits::max_batch_tokens), "Send fewer rows at once.");
    int64_t total = 0;
    for (int32_t length : rows.lengths) {
        if (length < 1) throw Failure("bad_request", "row_lengths must be at least 1");
        if (length + more_tokens > longest)
            throw Failure("row_too_long", "a row of " + std::to_string(length + more_tokens) + " tokens, at most " + std::to_string(longest), "Cut the row.");
        total += length;
    }
    if (total != static_cast<int64_t>(rows.tokens.size())) throw Failure("bad_request", "row_lengths must sum to the number of tokens");
    for (int32_t token : rows.tokens)
        if (token < 0 || token >= m.vocabulary)
            throw Failure("token_out_of_range", "token " + std::to_string(token) + ", the vocabulary has " + std::to_string(m.vocabulary), "Tokenise with this model's tokenizer.");
}

void Trainer::check_weights(const Rows & rows, const std::vector<float> & weights) {
    if (weights.size() != rows.tokens.size()) throw Failure("bad_request", "weights must have one value per token");
    for (float weight : weights)
        if (!std::isfinite(weight)) throw Failure("bad_request", "weights must be finite");
    size_t first = 0;
    for (int32_t length : rows.lengths) {
        if (weights[first] != 0) throw Failure("bad_request", "the first token of a row is never predicted: its weight must be 0");
        first += static_cast<size_t>(length);
    }
}

int64_t Trainer::fitting_tokens(const Adapter * adapter, int64_t longest_row, int64_t wanted, int64_t extra_bytes, Keep keep) const {
    const auto needed = [&](int64_t tokens) {
        return resident_bytes() + extra_bytes + model_->pass_bytes(adapter ? &adapter->shape : nullptr, tokens, longest_row, keep);
    };
    int64_t tokens = std::max(longest_row, std::min(wanted, model_->pass_tokens()));
    while (needed(tokens) > memory_limit_ && tokens > longest_row) tokens = std::max(longest_row, tokens / 2);
    if (needed(tokens) > memory_limit_) out_of_memory("a row of " + std::to_string(longest_row) + " tokens", needed(tokens), memory_limit_);
    return tokens;
}

std::vector<Trainer::Pass> Trainer::cut(const Rows & rows, const Adapter * adapter, Keep keep, int64_t extra_bytes) {
    const auto total = static_cast<int64_t>(rows.tokens.size());
    int64_t longest = 0;
    for (int32_t length : rows.lengths) longest = std::max<int64_t>(longest, length);
    const int64_t most = fitting_tokens(adapter, longest, total, extra_bytes, keep);
    // Passes of about equal size: a short last one would dequantise every weight for a few tokens.
    const int64_t passes = (total + most - 1) / most;
    const int64_t target = (total + passes - 1) / passes;
    std::vector<Pass> cut;
    int64_t at = 0;
    for (int32_t length : rows.lengths) {
        if (cut.empty() || cut.back().batch.count() >= target || cut.back().batch.count() + length > most) cut.push_back(Pass{{}, at});
        cut.back().batch.add_row(rows.tokens.data() + at, length);
        at += length;
    }
    return cut;
}

Trainer::Losses Trainer::run(Adapter * adapter, const Rows & rows, const std::vector<float> & weights, Keep keep) {
    Losses result;
    result.logprobs.assign(rows.tokens.size(), 0);
    result.entropies.assign(rows.tokens.size(), 0);
    for (const Pass & pass : cut(rows, adapter, keep)) {
        std::vector<Ask> asks;
        for (int64_t t = 1; t < pass.batch.count(); t++) {
            const auto at = static_cast<size_t>(pass.first_token + t);
            if (weights[at] != 0) asks.push_back({t - 1, rows.tokens[at], weights[at]});
        }
        if (asks.empty()) continue;
        const std::vector<TokenLoss> losses =
            keep == Keep::activations ? model_->forward_backward(pass.batch, *adapter, asks) : model_->forward(pass.batch, adapter, asks);
        for (size_t i = 0; i < asks.size(); i++) {
            const auto at = static_cast<size_t>(pass.first_token + asks[i].position + 1);
            result.loss -= static_cast<double>(asks[i].weight) * losses[i].logprob;
            result.logprobs[at] = static_cast<float>(losses[i].logprob);
            result.entropies[at] = static_cast<float>(losses[i].entropy);
        }
    }
    return result;
}

Trainer::Losses Trainer::forward(const std::optional<std::string> & name, const Rows & rows, const std::vector<float> & weights) {
    Adapter * with = adapter_or_base(name);
    check_rows(rows, 0);
    check_weights(rows, weights);
    Losses losses = run(with, rows, weights, Keep::nothing);
    if (!std::isfinite(losses.loss)) not_finite("the loss");
    return losses;
}

Trainer::Losses Trainer::forward_backward(const std::string & name, const Rows & rows, const std::vector<float> & weights) {
    Adapter & with = adapter(name);
    check_rows(rows, 0);
    check_weights(rows, weights);
    Losses losses;
    try {
        losses = run(&with, rows, weights, Keep::activations);
    } catch (...) {
        // Half a batch in the gradients would be worse than none.
        model_->clear_gradients(with);
        throw;
    }
    if (!std::isfinite(losses.loss)) {
        model_->clear_gradients(with);
        not_finite("the loss");
    }
    with.gradients_pending = true;
    return losses;
}

Trainer::Step Trainer::optim_step(const std::string & name, const AdamW & options) {
    Adapter & with = adapter(name);
    const std::optional<Adapter::Stepped> stepped = model().optimise(with, options);
    if (!stepped) not_finite("the gradient");
    return Step{with.step, with.version, *stepped};
}

std::vector<float> Trainer::score(const std::optional<std::string> & name, const Rows & rows, const std::vector<int32_t> & prompt_lengths) {
    Adapter * with = adapter_or_base(name);
    check_rows(rows, 0);
    if (prompt_lengths.size() != rows.lengths.size()) throw Failure("bad_request", "prompt_lengths must have one value per row");
    std::vector<float> weights(rows.tokens.size(), 0);
    size_t first = 0;
    for (size_t r = 0; r < rows.lengths.size(); r++) {
        const int32_t length = rows.lengths[r], prompt = prompt_lengths[r];
        if (prompt < 0 || prompt > length) throw Failure("bad_request", "prompt_lengths must lie between 0 and the row's length");
        for (int32_t i = std::max(prompt, 1); i < length; i++) weights[first + static_cast<size_t>(i)] = 1;
        first += static_cast<size_t>(length);
    }
    Losses losses = run(with, rows, weights, Keep::nothing);
    if (!std::isfinite(losses.loss)) not_finite("a log-prob");
    return std::move(losses.logprobs);
}
