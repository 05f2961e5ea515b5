// Compares activations with double precision, and tests edits made from them: an ablated direction is gone from what every matrix writes,
// an edit stacked on an adapter adds exactly B A, and invalid requests are refused.
// Usage: activations_test <folder of the tiny models> <architecture>
#include <functional>
#include <numeric>

#include "base/random.h"
#include "check.h"
#include "gates.h"
#include "reference_model.h"
#include "trainer.h"

namespace {

const std::vector<Target> all_targets = {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down};
const std::vector<Stream> all_streams = {Stream::residual, Stream::attn_output, Stream::ffn_down};
constexpr Target writers[] = {attn_output, ffn_down};

std::vector<int64_t> layers_of(const ModelShape & model) {
    std::vector<int64_t> layers(static_cast<size_t>(model.layers));
    std::iota(layers.begin(), layers.end(), 0);
    return layers;
}

/** Two rows with a common beginning, and another one. */
Rows test_rows() {
    std::vector<std::vector<int32_t>> rows = {{}, {}, {5, 9, 2}};
    for (int32_t i = 0; i < 40; i++) {
        rows[0].push_back(3 + i * 7 % 300);
        rows[1].push_back(i < 25 ? 3 + i * 7 % 300 : 250 - i);
    }
    Rows packed;
    for (const auto & row : rows) {
        packed.tokens.insert(packed.tokens.end(), row.begin(), row.end());
        packed.lengths.push_back(static_cast<int32_t>(row.size()));
    }
    return packed;
}

/** Groups of three tokens, of one token, and of tokens from two rows. */
ActivationAsk test_ask(const ModelShape & model) { return {layers_of(model), all_streams, {10, 11, 12, 39, 75, 2, 82, 70}, {0, 0, 0, 1, 2, 3, 3, 2}}; }

std::vector<double> expected_means(const std::vector<std::vector<ReferenceModel::Streams>> & by_row, const Rows & rows, const ActivationAsk & ask, size_t stream, size_t width) {
    std::vector<double> means(ask.layers.size() * static_cast<size_t>(ask.count()) * width), sizes(static_cast<size_t>(ask.count()));
    for (int32_t group : ask.groups) sizes[static_cast<size_t>(group)]++;
    for (size_t p = 0; p < ask.places.size(); p++) {
        size_t row = 0;
        auto at = static_cast<size_t>(ask.places[p]);
        while (at >= static_cast<size_t>(rows.lengths[row])) at -= static_cast<size_t>(rows.lengths[row++]);
        for (size_t l = 0; l < ask.layers.size(); l++) {
            const ReferenceModel::Streams & s = by_row[row][l];
            const std::vector<double> & values = stream == 0 ? s.residual : stream == 1 ? s.attn_output : s.ffn_down;
            for (size_t i = 0; i < width; i++)
                means[(l * static_cast<size_t>(ask.count()) + static_cast<size_t>(ask.groups[p])) * width + i] += values[at * width + i] / sizes[static_cast<size_t>(ask.groups[p])];
        }
    }
    return means;
}

/** A trainer that holds a random adapter "a", and the same adapter outside it. */
struct Opened {
    explicit Opened(const std::string & path) : reference(path), outside(random_adapter(reference.shape(), all_targets, 3, 5, 7)) {
        trainer.open(path, 2, 0);
        auto & inside = const_cast<Adapter &>(trainer.create_adapter("a", outside.shape));
        std::copy(outside.weights.data(), outside.weights.data() + outside.parameters, inside.weights.data());
    }
    ReferenceModel reference;
    Adapter outside;
    Trainer trainer;
};

void test_means(Opened & o, const std::string & name) {
    const Rows rows = test_rows();
    const ActivationAsk ask = test_ask(o.reference.shape());
    const std::vector<double> own(o.outside.weights.data(), o.outside.weights.data() + o.outside.parameters), none(o.outside.parameters, 0);
    for (const bool adapted : {false, true}) {
        std::vector<std::vector<ReferenceModel::Streams>> by_row;
        auto at = rows.tokens.begin();
        for (int32_t length : rows.lengths) {
            by_row.push_back(o.reference.streams({at, at + length}, o.outside, adapted ? own : none));
            at += length;
        }
        const Trainer::Activations seen = o.trainer.activations(adapted ? std::optional<std::string>("a") : std::nullopt, rows, ask);
        CHECK(seen.computed_tokens < 83, "shared beginnings and what follows the last place are not computed: %ld", seen.computed_tokens);
        for (size_t s = 0; s < all_streams.size(); s++) {
            const auto width = static_cast<size_t>(o.trainer.stream_width(all_streams[s]));
            const std::vector<double> expected = expected_means(by_row, rows, ask, s, width);
            CHECK(seen.streams[s].size() == expected.size(), "%zu values", seen.streams[s].size());
            const double error = relative_l2(seen.streams[s].data(), expected.data(), expected.size());
            std::printf("%s %s%s: relative error %.1e\n", name.c_str(), stream_names[s], adapted ? " with adapter" : "", error);
            CHECK(error <= 1e-5, "%g in %s", error, name.c_str());
        }
    }
}

/** A unit vector with a part in every coordinate. */
std::vector<float> planted(int64_t width) {
    std::vector<float> r(static_cast<size_t>(width));
    double squares = 0;
    for (size_t i = 0; i < r.size(); i++) {
        r[i] = static_cast<float>(2 * random_uniform(99, i) - 1);
        squares += static_cast<double>(r[i]) * static_cast<double>(r[i]);
    }
    for (float & value : r) value = static_cast<float>(static_cast<double>(value) / std::sqrt(squares));
    return r;
}

/** For every place, the part of the residual along r, divided by the residual's length. */
std::vector<double> along(const std::vector<float> & residual, const std::vector<float> & r) {
    std::vector<double> parts;
    for (size_t at = 0; at < residual.size(); at += r.size()) {
        double part = 0, squares = 0;
        for (size_t i = 0; i < r.size(); i++) {
            part += static_cast<double>(residual[at + i]) * static_cast<double>(r[i]);
            squares += static_cast<double>(residual[at + i]) * static_cast<double>(residual[at + i]);
        }
        parts.push_back(part / std::sqrt(squares));
    }
    return parts;
}

/** Ablates r with the given strength, (I − λ u uᵀ) W, in every matrix that writes to the stream, stacked on "a". */
void ablate(Trainer & trainer, const ModelShape & model, const std::vector<float> & r, float strength, const std::string & name) {
    std::vector<EditedSite> sites;
    std::vector<float> a, b;
    for (int64_t layer = 0; layer < model.layers; layer++)
        for (Target target : writers) {
            const Projected projected = trainer.project("a", layer, target, r);
            sites.push_back({layer, target});
            a.insert(a.end(), projected.row.begin(), projected.row.end());
            for (float value : projected.direction) b.push_back(-strength * value);
        }
    trainer.stack_adapter(name, "a", 1, sites, a, b);
}

void test_ablation(Opened & o, const std::string & name) {
    const ModelShape & m = o.reference.shape();
    const std::vector<float> r = planted(m.embedding);
    // Compared with the product in double precision.
    for (Target target : writers) {
        const Projected projected = o.trainer.project(std::nullopt, 1, target, r);
        std::vector<double> row(projected.row.size()), unit(projected.direction.begin(), projected.direction.end());
        reference::linear_backward(o.reference.matrix(1, target).data(), m.embedding, static_cast<int64_t>(row.size()), unit.data(), 1, row.data());
        CHECK(relative_l2(projected.row.data(), row.data(), row.size()) <= 1e-6, "%s", name.c_str());
    }
    for (const float strength : {0.5f, 1.0f}) {
        ablate(o.trainer, m, r, strength, "b");
        double worst = 0;
        for (int64_t layer = 0; layer < m.layers; layer++)
            for (Target target : writers) {
                const Projected before = o.trainer.project("a", layer, target, r), after = o.trainer.project("b", layer, target, r);
                std::vector<double> expected(before.row.begin(), before.row.end());
                double norm = 0, difference = 0;
                for (size_t i = 0; i < expected.size(); i++) {
                    norm += expected[i] * expected[i];
                    difference += std::pow(static_cast<double>(after.row[i]) - (1 - static_cast<double>(strength)) * expected[i], 2);
                }
                worst = std::max(worst, std::sqrt(difference / norm));
            }
        std::printf("%s: r'(W + BA) is %g of r'W but for %.1e\n", name.c_str(), 1 - static_cast<double>(strength), worst);
        CHECK(worst <= 1e-5, "%g", worst);
        if (strength == 1.0f) {
            // After every layer, the stream's part along r is then still that of the embedding.
            const Rows rows = test_rows();
            const ActivationAsk ask{layers_of(m), {Stream::residual}, {10, 39, 75}, {0, 1, 2}};
            const auto parts_of = [&](const char * adapter) { return along(o.trainer.activations(adapter, rows, ask).streams[0], r); };
            const std::vector<double> left = parts_of("b"), whole = parts_of("a");
            double moved = 0, planted_part = 0;
            const std::vector<float> residual = o.trainer.activations("b", rows, ask).streams[0];
            for (size_t p = 0; p < 3; p++) {
                double first = 0, last = 0, length = 0;
                const size_t d = r.size(), end = (static_cast<size_t>(m.layers) - 1) * 3 + p;
                for (size_t i = 0; i < d; i++) {
                    first += static_cast<double>(residual[p * d + i]) * static_cast<double>(r[i]);
                    last += static_cast<double>(residual[end * d + i]) * static_cast<double>(r[i]);
                    length += std::pow(static_cast<double>(residual[end * d + i]), 2);
                }
                moved = std::max(moved, std::abs(last - first) / std::sqrt(length));
                planted_part = std::max(planted_part, std::abs(whole[end] - left[end]));
            }
            std::printf("%s: what layers add along r: %.1e of the stream, %.1e without the edit\n", name.c_str(), moved, planted_part);
            CHECK(moved <= 1e-5, "%g", moved);
            CHECK(planted_part > 1e-3, "%g", planted_part);
        }
        o.trainer.drop_adapter("b");
    }
}

/** An edit stacked on an adapter with other targets adds B A to it, and keeps the scale of the adapter it is stacked on. */
void test_stack(const std::string & path) {
    Trainer trainer;
    const ModelShape & m = trainer.open(path, 1, 0);
    trainer.create_adapter("q", {2, 6, 1, {attn_q}, 0, 1});
    const Rows rows = test_rows();
    const ActivationAsk ask{{0}, {Stream::residual, Stream::ffn_down}, {10}, {0}};
    const Trainer::Activations before = trainer.activations("q", rows, ask);
    const auto d = static_cast<size_t>(m.embedding), ff = static_cast<size_t>(m.feed_forward);
    std::vector<float> a(2 * ff), b(d * 2);
    for (size_t i = 0; i < a.size(); i++) a[i] = static_cast<float>(random_uniform(3, i) - 0.5);
    for (size_t i = 0; i < b.size(); i++) b[i] = static_cast<float>(random_uniform(4, i) - 0.5);
    const Adapter & stacked = trainer.stack_adapter("s", "q", 2, {{0, ffn_down}}, a, b);
    CHECK(stacked.shape.rank == 4 && stacked.shape.alpha == 12, "rank %ld, alpha %g", stacked.shape.rank, stacked.shape.alpha);
    CHECK(stacked.shape.targets == (std::vector<Target>{attn_q, ffn_down}), "targets");
    CHECK(stacked.shape.first_layer == 0, "the edit lies below the adapter");
    const Trainer::Activations after = trainer.activations("s", rows, ask);
    std::vector<double> expected(d), added(d);
    for (size_t r = 0; r < d; r++) {
        for (size_t k = 0; k < 2; k++) {
            double u = 0;
            for (size_t c = 0; c < ff; c++) u += static_cast<double>(a[k * ff + c]) * static_cast<double>(before.streams[1][c]);
            expected[r] += static_cast<double>(b[r * 2 + k]) * u;
        }
        added[r] = static_cast<double>(after.streams[0][r]) - static_cast<double>(before.streams[0][r]);
    }
    const double error = relative_l2(added.data(), expected.data(), d);
    std::printf("stacked B A z: relative error %.1e\n", error);
    CHECK(error <= 1e-5, "%g", error);
}

void test_refusals(Opened & o) {
    const Rows rows = test_rows();
    const ActivationAsk sound{{0}, {Stream::residual}, {3}, {0}};
    const auto refused = [&](const std::function<void(ActivationAsk &)> & spoil, const char * code) {
        ActivationAsk ask = sound;
        spoil(ask);
        CHECK(code_of([&] { o.trainer.activations("a", rows, ask); }) == code, "%s", code);
    };
    refused([](ActivationAsk & ask) { ask.layers = {99}; }, "bad_request");
    refused([](ActivationAsk & ask) { ask.places = {83}; }, "bad_request");
    refused([](ActivationAsk & ask) { ask.places = {-1}; }, "bad_request");
    refused([](ActivationAsk & ask) { ask.groups = {1}; }, "bad_request");
    refused([](ActivationAsk & ask) { ask.groups = {0, 0}; }, "bad_request");
    CHECK(code_of([&] { o.trainer.activations("none", rows, sound); }) == "unknown_adapter", "adapter");
    const auto d = static_cast<size_t>(o.reference.shape().embedding), ff = static_cast<size_t>(o.reference.shape().feed_forward);
    CHECK(code_of([&] { o.trainer.project("a", 0, ffn_down, std::vector<float>(d, 1)); }) == "bad_request", "length");
    CHECK(code_of([&] { o.trainer.stack_adapter("s", "a", 1, {{0, ffn_down}}, {1}, {1}); }) == "bad_request", "sizes");
    CHECK(code_of([&] { o.trainer.stack_adapter("s", "a", 1, {{0, ffn_down}, {0, ffn_down}}, std::vector<float>(2 * ff), std::vector<float>(2 * d)); }) == "bad_request", "twice");
    CHECK(code_of([&] { o.trainer.stack_adapter("s", "none", 1, {{0, ffn_down}}, {}, {}); }) == "unknown_adapter", "from");
}

} // namespace

int main(int, char ** arguments) {
    const std::string folder = arguments[1], architecture = arguments[2];
    for (const char * kind : {"f32", "f32-untied", "q4_1", "bf16"}) {
        Opened opened(tiny_model(folder, architecture, kind));
        test_means(opened, architecture + " " + kind);
        test_ablation(opened, architecture + " " + kind);
        if (kind == std::string("f32")) test_refusals(opened);
    }
    if (architecture != "gemma3") test_stack(tiny_model(folder, architecture, "q4_1"));
    return failed_checks == 0 ? 0 : 1;
}
