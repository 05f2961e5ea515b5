// Rows with a common beginning: how they are packed, and that sharing the beginning changes no row's log-probs or gradients.
// Usage: packing_test <folder of the tiny models>
#include <cstring>
#include <set>

#include "base/random.h"
#include "check.h"
#include "gates.h"
#include "model/transformer.h"
#include "trainer.h"

namespace {

constexpr int64_t vocabulary = 320;

/** Random numbers from one key, one by one. */
class Draws {
public:
    explicit Draws(uint64_t key) : key_(key) {}
    int64_t below(int64_t n) { return static_cast<int64_t>(random_uniform(key_, at_++) * static_cast<double>(n)); }

private:
    uint64_t key_, at_ = 0;
};

/** Gives every token but the first coefficients of all kinds, or none. */
void weigh(TestBatch & batch, Draws & draws) {
    for (const std::vector<int32_t> & row : batch.rows) {
        batch.coefficients.emplace_back();
        const auto value = [&] { return static_cast<float>(draws.below(16) - 5) / 10; };
        for (size_t i = 0; i < row.size(); i++) {
            const bool none = i == 0 || draws.below(4) == 0;
            batch.coefficients.back().push_back(none ? LossCoefficients{} : LossCoefficients{value(), value() / 5, value() / 50});
        }
    }
}

std::vector<int32_t> some_tokens(Draws & draws, int64_t count) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; i++) tokens.push_back(static_cast<int32_t>(draws.below(vocabulary)));
    return tokens;
}

/** Each row continues a random earlier row from a random place, or begins anew, which gives all kinds of trees. */
TestBatch random_tree(uint64_t seed) {
    Draws draws(seed);
    TestBatch batch;
    const int64_t rows = 1 + draws.below(9);
    for (int64_t r = 0; r < rows; r++) {
        std::vector<int32_t> row;
        if (r > 0 && draws.below(4) > 0) {
            const std::vector<int32_t> & before = batch.rows[static_cast<size_t>(draws.below(r))];
            const int64_t taken = draws.below(3) == 0 ? static_cast<int64_t>(before.size()) : draws.below(static_cast<int64_t>(before.size()) + 1);
            row.assign(before.begin(), before.begin() + taken);
        }
        const std::vector<int32_t> more = some_tokens(draws, row.empty() ? 1 + draws.below(60) : draws.below(40));
        row.insert(row.end(), more.begin(), more.end());
        if (row.empty()) row.push_back(1);
        if (row.size() > 200) row.resize(200);
        batch.rows.push_back(row);
    }
    weigh(batch, draws);
    return batch;
}

TestBatch batch_of(std::vector<std::vector<int32_t>> rows) {
    TestBatch batch{std::move(rows), {}};
    Draws draws(77);
    weigh(batch, draws);
    return batch;
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t> & b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

/** Every row's tokens must lie on one path of its pass, each at its own position, and no other token may be computed. */
void check_packing(const TestBatch & batch, const std::vector<int64_t> & needed, int64_t most, bool share, const char * what) {
    const Rows rows = rows_of(batch);
    const Packing packing = pack(rows, needed, most, share);
    std::set<size_t> seen;
    for (const Pass & pass : packing.passes) {
        const AttentionPlan plan(pass.batch.segments);
        std::vector<bool> used(static_cast<size_t>(pass.batch.count()));
        CHECK(pass.batch.count() <= most || pass.rows.size() == 1, "%s: %lld tokens of at most %lld", what, static_cast<long long>(pass.batch.count()), static_cast<long long>(most));
        int64_t last = 0;
        for (const auto & [r, segment] : pass.rows) {
            CHECK(segment >= last, "%s: rows must stand in the order of their last segments", what);
            last = segment;
            CHECK(seen.insert(r).second, "%s: row %zu twice", what, r);
            size_t first = 0;
            for (size_t before = 0; before < r; before++) first += batch.rows[before].size();
            std::vector<int64_t> path;
            for (const Span & span : plan.paths[static_cast<size_t>(segment)].spans)
                for (int64_t i = 0; i < span.length; i++) path.push_back(span.begin + i);
            CHECK(static_cast<int64_t>(path.size()) == needed[r], "%s: row %zu has a path of %zu tokens", what, r, path.size());
            for (size_t i = 0; i < batch.rows[r].size(); i++) {
                const int64_t place = packing.places[first + i];
                if (static_cast<int64_t>(i) >= needed[r]) {
                    CHECK(place == -1, "%s: row %zu token %zu is not needed", what, r, i);
                    continue;
                }
                const auto at = static_cast<size_t>(place);
                used[at] = true;
                CHECK(pass.batch.tokens[at] == batch.rows[r][i] && pass.batch.positions[at] == static_cast<int32_t>(i) && path[i] == place, "%s: row %zu token %zu", what, r, i);
            }
        }
        for (bool token : used) CHECK(token, "%s: a token that belongs to no row", what);
    }
    for (size_t r = 0; r < needed.size(); r++) CHECK(seen.count(r) == (needed[r] > 0 ? 1u : 0u), "%s: row %zu", what, r);
}

void test_packing() {
    for (uint64_t seed = 0; seed < repetitions(300); seed++) {
        const TestBatch batch = random_tree(seed);
        std::vector<int64_t> needed = all_needed(batch);
        for (bool share : {true, false})
            for (int64_t most : {40, 128, 1024}) check_packing(batch, needed, most, share, "random");
        Draws draws(seed + 1000);
        for (int64_t & tokens : needed) tokens = draws.below(tokens + 1);
        check_packing(batch, needed, 128, true, "random, parts needed");
    }
    Draws draws(5);
    const std::vector<int32_t> prompt = some_tokens(draws, 100);
    const auto computed = [](const TestBatch & batch) { return pack(rows_of(batch), all_needed(batch), 4096, true).tokens(); };
    std::vector<std::vector<int32_t>> group(8, prompt);
    CHECK(computed(batch_of(group)) == 100, "equal rows are one");
    for (std::vector<int32_t> & row : group) row = joined(prompt, some_tokens(draws, 30));
    CHECK(computed(batch_of(group)) == 100 + 8 * 30, "a group's prompt is computed once");
    group.push_back({prompt.begin(), prompt.begin() + 50});
    CHECK(computed(batch_of(group)) == 100 + 8 * 30, "a row within another costs nothing");
    // A single common first token, as tokenizers add it, is not worth a tree, so the rows keep their order.
    const TestBatch apart = batch_of({{1, 9, 9}, {1, 5, 5}, {1, 7, 7}});
    CHECK(pack(rows_of(apart), all_needed(apart), 4096, true).passes[0].batch.tokens == rows_of(apart).tokens, "order");
    CHECK(pack(rows_of(apart), all_needed(apart), 4096, true).passes[0].batch.segments.size() == 3, "three roots");
}

void gate_1(const std::string & model, const TestBatch & batch, int threads, int64_t most, const char * what) {
    const Parity p = shared_parity(model, batch, threads, most);
    CHECK(p.logprobs <= 1e-5 && p.entropies <= 1e-5 && p.log_sums <= 1e-5, "%s: %g %g %g", what, p.logprobs, p.entropies, p.log_sums);
    CHECK(p.gradients <= 1e-5, "%s: %g at %s", what, p.gradients, p.worst.c_str());
}

void test_gradients(const std::string & model) {
    for (uint64_t seed = 0; seed < repetitions(24); seed++) gate_1(model, random_tree(seed), 1 + static_cast<int>(seed % 3), seed % 2 == 0 ? 4096 : 100, "random");
    Draws draws(6);
    const std::vector<int32_t> prompt = some_tokens(draws, 90);
    gate_1(model, batch_of({prompt, prompt, prompt}), 2, 4096, "equal rows");
    gate_1(model, batch_of({prompt, {prompt.begin(), prompt.begin() + 40}, {prompt.begin(), prompt.begin() + 41}}), 2, 4096, "rows within another");
    gate_1(model, batch_of({joined(prompt, {3}), joined(prompt, {4}), joined(prompt, {4}), joined(prompt, {5})}), 2, 4096, "one position, several targets");
    gate_1(model, batch_of({some_tokens(draws, 30), some_tokens(draws, 20)}), 2, 4096, "nothing shared");
    // A branch every 16 tokens, up to a depth of 192.
    std::vector<std::vector<int32_t>> deep;
    std::vector<int32_t> trunk;
    for (int i = 0; i < 12; i++) {
        trunk = joined(trunk, some_tokens(draws, 16));
        deep.push_back(joined(trunk, some_tokens(draws, 5)));
    }
    gate_1(model, batch_of(deep), 2, 4096, "deep");
}

/** Compares the trainer's answers, in the order of the request, with those to one request per row. */
void test_answers(const std::string & model) {
    Draws draws(8);
    const std::vector<int32_t> prompt = some_tokens(draws, 64);
    std::vector<std::vector<int32_t>> rows;
    for (int i = 0; i < 6; i++) {
        rows.push_back(joined(prompt, some_tokens(draws, 20)));
        rows.push_back(some_tokens(draws, 33));
    }
    const TestBatch batch = batch_of(rows);
    const Rows all = rows_of(batch);
    LossWeights weights;
    std::vector<LossWeights> alone(rows.size());
    for (size_t r = 0; r < rows.size(); r++)
        for (const LossCoefficients & c : batch.coefficients[r]) {
            weights.weights.push_back(c.weight);
            alone[r].weights.push_back(c.weight);
        }
    Trainer trainer;
    trainer.open(model, 2, 0);
    trainer.create_adapter("a", AdapterShape{4, 8, 9, {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down}});
    const Trainer::Losses together = trainer.forward("a", all, weights);
    CHECK(together.computed_tokens < static_cast<int64_t>(all.tokens.size()) - 5 * 64, "%lld tokens computed", static_cast<long long>(together.computed_tokens));
    size_t at = 0;
    for (size_t r = 0; r < rows.size(); r++) {
        const Rows one{rows[r], {static_cast<int32_t>(rows[r].size())}};
        const std::vector<float> logprobs = trainer.forward("a", one, alone[r]).logprobs;
        for (size_t i = 0; i < rows[r].size(); i++) CHECK(std::abs(together.logprobs[at + i] - logprobs[i]) <= 1e-5f, "row %zu token %zu", r, i);
        at += rows[r].size();
    }
    // A group samples from one computed prompt the same tokens that each row samples from its own.
    const SampleOptions options{12, {0, 0, 1, 0}, 3, {}};
    const Rows group{joined(joined(prompt, prompt), joined(prompt, {9, 8})), {64, 64, 66}};
    const Trainer::Samples sampled = trainer.sample("a", std::nullopt, group, options);
    CHECK(sampled.computed_tokens == 66, "%lld", static_cast<long long>(sampled.computed_tokens));
    CHECK(sampled.rows[0].tokens == trainer.sample("a", std::nullopt, Rows{prompt, {64}}, options).rows[0].tokens, "greedy from a shared prompt");
    CHECK(sampled.rows[2].tokens == trainer.sample("a", std::nullopt, Rows{joined(prompt, {9, 8}), {66}}, options).rows[0].tokens, "greedy from a longer one");
}

/** Four threads, however many cores there are: the order in which they run must not matter. */
void test_same_to_the_bit(const std::string & path) {
    Transformer model(path, 4);
    const TestBatch batch = random_tree(2);
    const Packing packing = pack(rows_of(batch), all_needed(batch), 4096, true);
    CHECK(packing.tokens() < static_cast<int64_t>(rows_of(batch).tokens.size()), "this tree must share something");
    const Pass & pass = packing.passes[0];
    std::vector<Ask> asks;
    for (int64_t t = 0; t < pass.batch.count(); t++) asks.push_back({t, static_cast<int32_t>(t % vocabulary), {0.5f, 0, 0}, {}});
    std::vector<float> first;
    for (int run = 0; run < 6; run++) {
        Adapter a = random_adapter(model.shape(), {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down}, 3, 5, 5);
        model.forward_backward(pass.batch, a, asks);
        if (run == 0) first.assign(a.gradients.data(), a.gradients.data() + a.parameters);
        CHECK(std::memcmp(first.data(), a.gradients.data(), a.parameters * sizeof(float)) == 0, "run %d", run);
    }
}

} // namespace

int main(int, char ** arguments) {
    const std::string folder = arguments[1];
    test_packing();
    // Gemma's windows hide a part of a shared beginning from what follows it.
    for (const char * architecture : {"llama", "qwen3", "gemma3"}) test_gradients(tiny_model(folder, architecture, "f32"));
    test_answers(folder + "/tiny-q4_1.gguf");
    test_same_to_the_bit(folder + "/tiny-f32.gguf");
    return failed_checks == 0 ? 0 : 1;
}
