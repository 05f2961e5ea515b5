// Samples many prompts together. Packed passes compute the prompts, and what they share only once; then each step decodes one more token of
// every row that has not ended.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "base/failure.h"
#include "base/random.h"
#include "trainer.h"

/** Rows that are sampled together, and the number of cache places for their prompts and answers. */
struct Trainer::Wave {
    size_t first_row; // index in the request. It keys the random numbers, so that the cut into waves does not change them
    Rows rows;
    Packing packing;
    int64_t places;
};

Trainer::Samples Trainer::sample(const std::optional<std::string> & name, std::optional<int64_t> version, const Rows & prompts, const SampleOptions & options) {
    Adapter * with = adapter_or_base(name);
    if (version && !with) throw Failure("bad_request", "version: the base has none", "Leave version out, or name an adapter.");
    if (version && *version != with->version)
        throw Failure("stale_version", "adapter " + *name + " has version " + std::to_string(with->version) + ", not " + std::to_string(*version), "Sample again from the present weights.");
    check_rows(prompts, options.max_tokens);
    check_top("report_top", options.report_top);
    for (int32_t token : options.stop_tokens)
        if (token < 0 || token >= model().shape().vocabulary) throw Failure("token_out_of_range", "stop token " + std::to_string(token) + ", the vocabulary has " + std::to_string(model().shape().vocabulary), "Use this model's token ids.");

    Samples samples{std::vector<Sampled>(prompts.lengths.size()), 0};
    for (size_t row = 0, token = 0; row < prompts.lengths.size();) {
        const Wave wave = next_wave(with, prompts, row, token, options.max_tokens);
        sample_wave(with, wave, options, samples.rows);
        samples.computed_tokens += wave.packing.tokens();
        row += wave.rows.lengths.size();
        token += wave.rows.tokens.size();
    }
    return samples;
}

/** Takes as many rows from first_row on as have room for their cache in addition to a pass, at least one. */
Trainer::Wave Trainer::next_wave(const Adapter * with, const Rows & prompts, size_t first_row, size_t first_token, int64_t max_tokens) {
    for (size_t count = prompts.lengths.size() - first_row;; count = (count + 1) / 2) {
        Rows rows;
        const auto begin = prompts.lengths.begin() + static_cast<std::ptrdiff_t>(first_row);
        rows.lengths.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
        const std::vector<int64_t> needed(rows.lengths.begin(), rows.lengths.end());
        const auto tokens = prompts.tokens.begin() + static_cast<std::ptrdiff_t>(first_token);
        rows.tokens.assign(tokens, tokens + std::accumulate(needed.begin(), needed.end(), std::ptrdiff_t{0}));
        // A wave of one row must fit: its pass may be cut down to that row.
        Packing packing = cut(rows, needed, with, Keep::nothing, count == 1 ? model_->cache_bytes(needed[0] + max_tokens) : 0, 0);
        const int64_t places = packing.tokens() + static_cast<int64_t>(count) * max_tokens, longest = *std::max_element(needed.begin(), needed.end()) + max_tokens;
        const int64_t pass_bytes = model_->pass_bytes(with ? &with->shape : nullptr, std::max(model_->pass_tokens(), longest), longest, Keep::nothing, 0);
        if (count == 1 || resident_bytes() + pass_bytes + model_->cache_bytes(places) <= memory_limit_) return Wave{first_row, std::move(rows), std::move(packing), places};
    }
}

namespace {

bool all_finite(const float * values, int64_t count) {
    float sum = 0; // x − x is 0 for a finite x, else NaN
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) sum += values[i] - values[i];
    return sum == 0;
}

/** A row of the wave that has not ended. */
struct Live {
    size_t row;     // index in the request
    Path path;      // its places in the cache, in order
    int64_t next;   // cache place of the next token
    int32_t token;  // the last one drawn
};

/** The cache places of a row's tokens, when each segment begins at write[segment]. */
Path path_of(const std::vector<Segment> & segments, int64_t last, const std::vector<int64_t> & write) {
    const Segment & segment = segments[static_cast<size_t>(last)];
    Path path = segment.parent < 0 ? Path{} : path_of(segments, segment.parent, write);
    path.add(Span{write[static_cast<size_t>(last)], segment.length});
    return path;
}

} // namespace

void Trainer::sample_wave(Adapter * with, const Wave & wave, const SampleOptions & options, std::vector<Sampled> & results) {
    make_room(model_->cache_bytes(wave.places));
    const std::unique_ptr<Cache> cache = model_->make_cache(wave.places);
    std::vector<Live> live; // in the order of the passes
    const int64_t vocabulary = model_->shape().vocabulary;
    std::atomic<int64_t> broken_row{-1}; // index in the request of a row with a logit that is not finite
    // Draws the next token of live[offset + i] from the hidden state that the last pass left at positions[i].
    const auto draw_tokens = [&](const std::vector<int64_t> & positions, size_t offset) {
        model_->each_logits(positions, [&](int64_t first, int64_t count, float * logits) {
            model_->pool().each(count, [&](int64_t i, int) {
                Live & l = live[offset + static_cast<size_t>(first + i)];
                Sampled & result = results[l.row];
                float * row = logits + i * vocabulary;
                // Checked before the draw, because NaN cannot be ordered.
                if (!all_finite(row, vocabulary)) {
                    broken_row = static_cast<int64_t>(l.row);
                    return;
                }
                const double uniform = random_uniform(random_key(options.seed, static_cast<uint64_t>(l.row)), result.tokens.size());
                const int32_t token = draw(row, vocabulary, options.draw, uniform);
                const TokenLoss said = token_loss(row, vocabulary, token);
                l.token = token;
                result.tokens.push_back(token);
                result.logprobs.push_back(static_cast<float>(said.logprob));
                if (options.report_top > 0)
                    for (const TopToken & top : top_tokens(row, vocabulary, said.log_sum, options.report_top)) {
                        result.top_tokens.push_back(top.token);
                        result.top_logprobs.push_back(top.logprob);
                    }
                result.stopped = std::find(options.stop_tokens.begin(), options.stop_tokens.end(), token) != options.stop_tokens.end();
            });
        });
        if (broken_row >= 0) not_finite("a logit of row " + std::to_string(broken_row));
    };

    int64_t next = 0; // next free place in the cache
    for (const Pass & pass : wave.packing.passes) {
        const std::vector<Segment> & segments = pass.batch.segments;
        const size_t offset = live.size();
        CachePlan plan{cache.get(), {}, {}, options.as_trained};
        std::vector<int64_t> last;
        auto row = pass.rows.begin();
        for (size_t i = 0; i < segments.size(); i++) {
            plan.write.push_back(next);
            next += segments[i].length;
            // The answers of the rows that end in this segment follow it in the cache.
            for (; row != pass.rows.end() && row->last == static_cast<int64_t>(i); row++) {
                live.push_back(Live{wave.first_row + row->index, path_of(segments, row->last, plan.write), next, 0});
                last.push_back(segments[i].begin + segments[i].length - 1);
                next += options.max_tokens;
            }
        }
        model_->prefill(pass.batch, with, plan);
        draw_tokens(last, offset);
    }
    for (;;) {
        live.erase(std::remove_if(live.begin(), live.end(), [&](const Live & l) {
            const Sampled & r = results[l.row];
            return r.stopped || static_cast<int64_t>(r.tokens.size()) >= options.max_tokens;
        }), live.end());
        if (live.empty()) return;
        const auto step = static_cast<size_t>(model_->pass_tokens());
        for (size_t begin = 0; begin < live.size(); begin += step) {
            const size_t end = std::min(live.size(), begin + step);
            Batch batch;
            CachePlan plan{cache.get(), {}, {}, options.as_trained};
            std::vector<int64_t> positions;
            for (size_t i = begin; i < end; i++) {
                batch.add_row(&live[i].token, 1, live[i].path.length);
                plan.write.push_back(live[i].next);
                live[i].path.add(Span{live[i].next++, 1});
                plan.read.push_back(live[i].path);
                positions.push_back(static_cast<int64_t>(i - begin));
            }
            model_->decode(batch, with, plan);
            draw_tokens(positions, begin);
        }
    }
}
