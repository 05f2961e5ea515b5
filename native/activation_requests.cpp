#include "activation_requests.h"

using nlohmann::json;

namespace {

/** Index of a name in a list of known names; `field` is the request's field that an error names. */
template <class Names> size_t place_of(const char * field, const Names & known, const json & name) {
    const auto found = std::find_if(known.begin(), known.end(), [&](const char * one) { return name == one; });
    if (found == known.end()) Fields::bad(field, "has an unknown entry " + name.dump());
    return static_cast<size_t>(found - known.begin());
}

int64_t layer_of(const char * field, const json & value) {
    if (!value.is_number_integer() || value < 0 || value > 1 << 20) Fields::bad(field, "must hold layers, from 0");
    return value.get<int64_t>();
}

/** Reads the name of a matrix that writes to the residual stream. */
Target writer_of(const char * field, const json & name) {
    const auto target = static_cast<Target>(place_of(field, target_names, name));
    if (target != attn_output && target != ffn_down) Fields::bad(field, "must be attn_output or ffn_down");
    return target;
}

} // namespace

Answer activations(Trainer & trainer, Fields & fields) {
    const std::optional<std::string> name = fields.text_or_null("adapter");
    ActivationAsk ask;
    for (const json & layer : fields.list("layers")) ask.layers.push_back(layer_of("layers", layer));
    if (ask.layers.empty() || std::adjacent_find(ask.layers.begin(), ask.layers.end(), std::greater_equal<>()) != ask.layers.end())
        Fields::bad("layers", "must name at least one layer, ascending");
    for (const json & stream : fields.list("streams")) {
        ask.streams.push_back(static_cast<Stream>(place_of("streams", stream_names, stream)));
        if (std::count(ask.streams.begin(), ask.streams.end(), ask.streams.back()) > 1) Fields::bad("streams", "must name each once");
    }
    if (ask.streams.empty()) Fields::bad("streams", "must not be empty");
    const Rows rows = rows_of(fields);
    ask.places = fields.integers("places");
    ask.groups = fields.integers("groups");
    fields.expect_no_more();
    int64_t values = 0;
    for (Stream stream : ask.streams) values += static_cast<int64_t>(ask.layers.size()) * ask.count() * trainer.stream_width(stream);
    if (values * static_cast<int64_t>(sizeof(float)) > limits::max_payload_bytes) Fields::bad("layers", "and groups make an answer larger than max_payload_bytes");
    const Trainer::Activations seen = trainer.activations(name, rows, ask);
    Answer answer{{{"computed_tokens", seen.computed_tokens}}, {}};
    for (size_t s = 0; s < ask.streams.size(); s++) answer.payload.push_back(Array::of(stream_names[static_cast<size_t>(ask.streams[s])], seen.streams[s]));
    return answer;
}

Answer project(Trainer & trainer, Fields & fields) {
    const std::optional<std::string> name = fields.text_or_null("adapter");
    const int64_t layer = fields.whole("layer", 0, 1 << 20);
    const Target target = writer_of("target", fields.text("target"));
    const std::vector<float> unit = fields.floats("vector");
    fields.expect_no_more();
    const Projected projected = trainer.project(name, layer, target, unit);
    return {json::object(), {Array::of("direction", projected.direction), Array::of("row", projected.row)}};
}

Answer adapter_stack(Trainer & trainer, Fields & fields) {
    const std::string name = name_of(fields), from = fields.text("from", 256);
    const int64_t rank = fields.whole("rank", 1, limits::max_rank);
    std::vector<EditedSite> sites;
    for (const json & site : fields.list("sites")) {
        if (!site.is_array() || site.size() != 2) Fields::bad("sites", "must hold pairs of layer and target");
        sites.push_back({layer_of("sites", site[0]), writer_of("sites", site[1])});
    }
    if (sites.empty() || sites.size() > 4096) Fields::bad("sites", "must name 1 to 4096 matrices");
    const std::vector<float> a = fields.floats("a"), b = fields.floats("b");
    fields.expect_no_more();
    const Adapter & adapter = trainer.stack_adapter(name, from, rank, sites, a, b);
    json targets = json::array();
    for (Target target : adapter.shape.targets) targets.push_back(target_names[target]);
    return {{{"rank", adapter.shape.rank},
             {"alpha", adapter.shape.alpha},
             {"targets", targets},
             {"first_layer", adapter.shape.first_layer},
             {"parameters", adapter.parameters},
             {"version", adapter.version}},
            {}};
}
