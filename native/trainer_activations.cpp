// Representations: mean activations over groups of places, what a direction reads of a matrix that writes to the residual stream, and edits
// of such matrices added to an adapter.
#include <cmath>
#include <cstring>

#include "base/failure.h"
#include "trainer.h"

namespace {

[[noreturn]] void bad(const std::string & what) { throw Failure("bad_request", what, "See activations in protocol.md."); }

void check_layer(const ModelShape & model, int64_t layer) {
    if (layer < 0 || layer >= model.layers) bad("layer " + std::to_string(layer) + ", the model has " + std::to_string(model.layers));
}

/** How many places each group has. Throws when a group has none. */
std::vector<double> sizes_of(const ActivationAsk & ask) {
    std::vector<double> sizes(static_cast<size_t>(ask.count()), 0);
    for (int32_t group : ask.groups) sizes[static_cast<size_t>(group)]++;
    for (size_t group = 0; group < sizes.size(); group++)
        if (sizes[group] == 0) bad("groups: no place belongs to group " + std::to_string(group));
    return sizes;
}

void check_ask(const ModelShape & model, const Rows & rows, const ActivationAsk & ask) {
    if (ask.places.empty() || ask.places.size() != ask.groups.size()) bad("places and groups must have the same number of values, at least one");
    for (int32_t place : ask.places)
        if (place < 0 || place >= static_cast<int64_t>(rows.tokens.size())) bad("place " + std::to_string(place) + " is not the index of a token");
    for (int32_t group : ask.groups)
        if (group < 0 || group >= static_cast<int64_t>(ask.groups.size())) bad("group " + std::to_string(group) + " must be at least 0 and less than the number of places");
    for (int64_t layer : ask.layers) check_layer(model, layer);
}

/** Index of a token in the request, and the group whose mean it joins. */
struct Place {
    int64_t token;
    int32_t group;
};

std::vector<std::vector<Place>> by_row(const Rows & rows, const ActivationAsk & ask) {
    std::vector<size_t> row_of;
    for (size_t row = 0; row < rows.lengths.size(); row++) row_of.insert(row_of.end(), static_cast<size_t>(rows.lengths[row]), row);
    std::vector<std::vector<Place>> places(rows.lengths.size());
    for (size_t p = 0; p < ask.places.size(); p++) places[row_of[static_cast<size_t>(ask.places[p])]].push_back({ask.places[p], ask.groups[p]});
    return places;
}

} // namespace

int64_t Trainer::stream_width(Stream stream) {
    const ModelShape & m = model().shape();
    return stream == Stream::residual ? m.embedding : stream == Stream::attn_output ? m.heads * m.head_values : m.feed_forward;
}

Trainer::Activations Trainer::activations(const std::optional<std::string> & name, const Rows & rows, const ActivationAsk & ask) {
    const Adapter * with = adapter_or_base(name);
    check_rows(rows, 0);
    check_ask(model().shape(), rows, ask);
    const std::vector<double> sizes = sizes_of(ask);
    const std::vector<std::vector<Place>> places = by_row(rows, ask);
    // The tokens after a row's last place are not computed.
    std::vector<int64_t> needed;
    int64_t first = 0;
    for (size_t row = 0; row < places.size(); row++) {
        needed.push_back(0);
        for (const Place & place : places[row]) needed.back() = std::max(needed.back(), place.token - first + 1);
        first += rows.lengths[row];
    }
    const auto values_of = [&](Stream stream) { return ask.layers.size() * sizes.size() * static_cast<size_t>(stream_width(stream)); };
    int64_t bytes = 0;
    for (Stream stream : ask.streams) bytes += static_cast<int64_t>(values_of(stream) * (sizeof(double) + sizeof(float)));
    Packing packing = cut(rows, needed, with, Keep::nothing, bytes, 0);
    make_room(bytes);
    std::vector<std::vector<double>> sums; // for each stream [layers, groups, width]
    for (Stream stream : ask.streams) sums.emplace_back(values_of(stream));
    for (const Pass & pass : packing.passes)
        model_->watch(pass.batch, with, {ask.layers, [&](int64_t layer, const LayerSeen & seen) {
            const auto at = std::lower_bound(ask.layers.begin(), ask.layers.end(), layer);
            for (size_t s = 0; s < ask.streams.size(); s++) {
                const Stream stream = ask.streams[s];
                const float * values = stream == Stream::residual ? seen.residual : stream == Stream::attn_output ? seen.attn_output : seen.ffn_down;
                const int64_t width = stream_width(stream);
                double * of_layer = sums[s].data() + (at - ask.layers.begin()) * static_cast<int64_t>(sizes.size()) * width;
                for (const Pass::Row & row : pass.rows)
                    for (const Place & place : places[row.index]) {
                        const float * from = values + packing.places[static_cast<size_t>(place.token)] * width;
                        double * sum = of_layer + place.group * width;
                        for (int64_t i = 0; i < width; i++) sum[i] += static_cast<double>(from[i]);
                    }
            }
        }});
    Activations result{{}, packing.tokens()};
    for (size_t s = 0; s < sums.size(); s++) {
        const auto width = static_cast<size_t>(stream_width(ask.streams[s]));
        std::vector<float> means(sums[s].size());
        for (size_t i = 0; i < means.size(); i++) {
            means[i] = static_cast<float>(sums[s][i] / sizes[i / width % sizes.size()]);
            if (!std::isfinite(means[i])) not_finite("an activation of layer " + std::to_string(ask.layers[i / width / sizes.size()]));
        }
        result.streams.push_back(std::move(means));
    }
    return result;
}

Projected Trainer::project(const std::optional<std::string> & name, int64_t layer, Target target, const std::vector<float> & unit) {
    Adapter * with = adapter_or_base(name);
    check_layer(model().shape(), layer);
    if (static_cast<int64_t>(unit.size()) != model().shape().embedding) bad("vector must have the embedding's " + std::to_string(model().shape().embedding) + " values");
    double squares = 0;
    for (float value : unit) squares += static_cast<double>(value) * static_cast<double>(value);
    if (!(std::abs(squares - 1) <= 1e-4)) bad("vector must have length 1");
    if (with) model().fetch(*with);
    return model().project(with, layer, target, unit);
}

namespace {

/** The adapter's site for a layer's matrix; null when it adapts no such matrix. */
const Site * site_of(const Adapter & adapter, int64_t layer, Target target) {
    for (const Group & group : adapter.layers[static_cast<size_t>(layer)])
        for (const Site & site : group.sites)
            if (site.target == target) return &site;
    return nullptr;
}

/** Copies A and B of one adapter's site into the first ranks of another adapter's wider site. */
void copy_site(const Adapter & from, const Site & site, Adapter & to, const Site & wider) {
    const int64_t rank = from.shape.rank, all = to.shape.rank;
    std::memcpy(to.weights.data() + wider.a, from.weights.data() + site.a, static_cast<size_t>(rank * site.columns) * sizeof(float));
    for (int64_t r = 0; r < site.rows; r++)
        std::memcpy(to.weights.data() + wider.b + r * all, from.weights.data() + site.b + r * rank, static_cast<size_t>(rank) * sizeof(float));
}

} // namespace

const Adapter & Trainer::stack_adapter(const std::string & name, const std::string & from_name, int64_t rank, const std::vector<EditedSite> & sites, const std::vector<float> & a,
                                       const std::vector<float> & b) {
    Adapter & from = adapter(from_name);
    AdapterShape shape = from.shape;
    shape.rank += rank;
    if (shape.rank > limits::max_rank) bad("rank: " + std::to_string(shape.rank) + " together, at most " + std::to_string(limits::max_rank));
    shape.alpha = from.shape.alpha / static_cast<double>(from.shape.rank) * static_cast<double>(shape.rank); // keeps the scale
    size_t a_count = 0, b_count = 0;
    for (const EditedSite & edited : sites) {
        check_layer(model().shape(), edited.layer);
        shape.first_layer = std::min(shape.first_layer, edited.layer);
        if (!shape.has(edited.target)) shape.targets.insert(std::upper_bound(shape.targets.begin(), shape.targets.end(), edited.target), edited.target);
        a_count += static_cast<size_t>(rank * stream_width(edited.target == attn_output ? Stream::attn_output : Stream::ffn_down));
        b_count += static_cast<size_t>(rank * model().shape().embedding);
    }
    for (size_t i = 0; i < sites.size(); i++)
        for (size_t j = 0; j < i; j++)
            if (sites[i].layer == sites[j].layer && sites[i].target == sites[j].target) bad("sites names layer " + std::to_string(sites[i].layer) + "'s " + target_names[sites[i].target] + " twice");
    if (a.size() != a_count || b.size() != b_count) bad("a must have " + std::to_string(a_count) + " values and b " + std::to_string(b_count));
    for (const std::vector<float> * values : {&a, &b})
        for (float value : *values)
            if (!std::isfinite(value)) bad("a and b must be finite");
    create_adapter(name, shape);
    Adapter & to = adapter(name);
    model_->fetch(from);
    std::memset(to.weights.data(), 0, to.parameters * sizeof(float));
    for (int64_t layer = from.shape.first_layer; layer < model().shape().layers; layer++)
        for (Target target : from.shape.targets)
            if (target != output_head) copy_site(from, *site_of(from, layer, target), to, *site_of(to, layer, target));
    for (size_t i = 0; i < from.head.sites.size(); i++) copy_site(from, from.head.sites[i], to, to.head.sites[i]);
    const float * next_a = a.data();
    const float * next_b = b.data();
    const float inverse = 1 / to.scale();
    for (const EditedSite & edited : sites) {
        const Site & site = *site_of(to, edited.layer, edited.target);
        std::memcpy(to.weights.data() + site.a + from.shape.rank * site.columns, next_a, static_cast<size_t>(rank * site.columns) * sizeof(float));
        for (int64_t r = 0; r < site.rows; r++)
            for (int64_t k = 0; k < rank; k++) to.weights.data()[site.b + static_cast<size_t>(r * shape.rank + from.shape.rank + k)] = inverse * next_b[r * rank + k];
        next_a += rank * site.columns;
        next_b += site.rows * rank;
    }
    model_->store(to);
    return to;
}
