// Decoding many prompts together: all prompts in packed passes, then one further token of every row that still lives.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/failure.h"
#include "base/random.h"
#include "trainer.h"

std::vector<Sampled> Trainer::sample(const std::optional<std::string> & name, std::optional<int64_t> version, const Rows & prompts, const SampleOptions & options) {
    Adapter * with = adapter_or_base(name);
    if (version && !with) throw Failure("bad_request", "version: the base has none");
    if (version && *version != with->version)
        throw Failure("stale_version", "adapter " + *name + " has version " + std::to_string(with->version) + ", not " + std::to_string(*version), "Sample again from the present weights.");
    check_rows(prompts, options.max_tokens);
    for (int32_t token : options.stop_tokens)
        if (token < 0 || token >= model().shape().vocabulary) throw Failure("token_out_of_range", "stop token " + std::to_string(token));

    // As many rows at once as their caches fit beside a pass.
    std::vector<Sampled> results(prompts.lengths.size());
    const auto rows = static_cast<int64_t>(prompts.lengths.size());
    int64_t longest = 1;
    for (int32_t length : prompts.lengths) longest = std::max<int64_t>(longest, length + options.max_tokens);
    const int64_t beside = resident_bytes() + model_->pass_bytes(with ? &with->shape : nullptr, std::max(model_->pass_tokens(), longest), longest, Keep::nothing);
    for (int64_t first = 0; first < rows;) {
        int64_t end = first, places = 0;
        while (end < rows) {
            const int64_t more = prompts.lengths[static_cast<size_t>(end)] + options.max_tokens;
            if (end > first && beside + model_->cache_bytes(places + more) > memory_limit_) break;
            places += more;
            end++;
        }
        sample_wave(with, prompts, first, end, options, results);
        first = end;
    }
    return results;
}

namespace {

/** The rows of a wave that still decode, in order; row and place numbers are those of the wave. */
struct Live {
    int64_t row;      // of the request: keys the random numbers, so that waves do not change them
    RowSpan places;   // in the cache; length counts what is in it
    int32_t token;    // the last one drawn
};

} // namespace

void Trainer::sample_wave(Adapter * with, const Rows & rows, int64_t first_row, int64_t end_row, const SampleOptions & options, std::vector<Sampled> & results) {
    Rows wave;
    size_t at = 0;
    for (int64_t r = 0; r < first_row; r++) at += static_cast<size_t>(rows.lengths[static_cast<size_t>(r)]);
    int64_t places = 0;
    std::vector<Live> live;
    for (int64_t r = first_row; r < end_row; r++) {
        const int32_t length = rows.lengths[static_cast<size_t>(r)];
        wave.lengths.push_back(length);
        wave.tokens.insert(wave.tokens.end(), rows.tokens.begin() + static_cast<std::ptrdiff_t>(at), rows.tokens.begin() + static_cast<std::ptrdiff_t>(at) + length);
        live.push_back(Live{r, RowSpan{places, length}, 0});
        places += length + options.max_tokens;
        at += static_cast<size_t>(length);
    }
    const std::vector<Pass> passes = cut(wave, with, Keep::nothing, model_->cache_bytes(places));
    const std::unique_ptr<Cache> cache = model_->make_cache(places);

    const int64_t vocabulary = model_->shape().vocabulary;
    std::atomic<bool> broken{false};
    // Draws the next token of live[offset + i] from the last pass's hidden state at positions[i].
    const auto draw_tokens = [&](const std::vector<int64_t> & positions, size_t offset) {
        model_->each_logits(positions, [&](int64_t first, int64_t count, float * logits) {
            model_->pool().each(count, [&](int64_t i, int) {
                Live & l = live[offset + static_cast<size_t>(first + i)];
                Sampled & result = results[static_cast<size_t>(l.row)];
                float * row = logits + i * vocabulary;
                const double uniform = random_uniform(random_key(options.seed, static_cast<uint64_t>(l.row)), result.tokens.size());
                const int32_t token = draw(row, vocabulary, options.draw, uniform);
                const double logprob = token_loss(row, vocabulary, token).logprob;
                if (!std::isfinite(logprob)) broken = true;
                l.token = token;
                result.tokens.push_back(token);
                result.logprobs.push_back(static_cast<float>(logprob));
                result.stopped = std::find(options.stop_tokens.begin(), options.stop_tokens.end(), token) != options.stop_tokens.end();
            });
        });
        if (broken) throw Failure("non_finite", "a log-prob is not a finite number", "Go back to the last checkpoint.");
    };

    size_t done = 0;
    for (const Pass & pass : passes) {
        CachePlan plan{cache.get(), {}};
        std::vector<int64_t> last;
        for (size_t r = 0; r < pass.batch.rows.size(); r++) {
            plan.places.push_back(live[done + r].places);
            last.push_back(pass.batch.rows[r].begin + pass.batch.rows[r].length - 1);
        }
        model_->prefill(pass.batch, with, plan);
        draw_tokens(last, done);
        done += pass.batch.rows.size();
    }
    for (;;) {
        live.erase(std::remove_if(live.begin(), live.end(), [&](const Live & l) {
            const Sampled & r = results[static_cast<size_t>(l.row)];
            return r.stopped || static_cast<int64_t>(r.tokens.size()) >= options.max_tokens;
        }), live.end());
        if (live.empty()) return;
        const auto step = static_cast<size_t>(model_->pass_tokens());
        for (size_t begin = 0; begin < live.size(); begin += step) {
            const size_t end = std::min(live.size(), begin + step);
            Batch batch;
            CachePlan plan{cache.get(), {}};
            std::vector<int64_t> positions;
            for (size_t i = begin; i < end; i++) {
                batch.add_row(&live[i].token, 1, live[i].places.length);
                live[i].places.length++;
                plan.places.push_back(live[i].places);
                positions.push_back(static_cast<int64_t>(i - begin));
            }
            model_->decode(batch, with, plan);
            draw_tokens(positions, begin);
        }
    }
}
