#include "model/adapter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/failure.h"
#include "base/random.h"

namespace {

constexpr GroupIndex group_of[] = {group_qkv, group_qkv, group_qkv, group_output, group_gate_up, group_gate_up, group_down};

struct Size {
    int64_t rows, columns;
};

Size size_of(const ModelShape & m, Target target) {
    const int64_t q = m.heads * m.head_values, kv = m.kv_heads * m.head_values;
    switch (target) {
        case attn_q: return {q, m.embedding};
        case attn_k:
        case attn_v: return {kv, m.embedding};
        case attn_output: return {m.embedding, q};
        case ffn_gate:
        case ffn_up: return {m.feed_forward, m.embedding};
        case ffn_down: return {m.embedding, m.feed_forward};
        case output_head: break;
    }
    return {m.vocabulary, m.embedding};
}

size_t count_parameters(const ModelShape & model, const AdapterShape & shape) {
    size_t count = 0;
    for (Target target : shape.targets) {
        const Size size = size_of(model, target);
        count += static_cast<size_t>(shape.rank * (size.rows + size.columns) * (target == output_head ? 1 : model.layers - shape.first_layer));
    }
    return count;
}

/** Number of values that are summed together. It is fixed, so that the norm does not depend on the number of threads. */
constexpr int64_t norm_chunk = 1 << 14;

double squared_norm(Pool & pool, const float * values, int64_t count) {
    std::vector<double> partial(static_cast<size_t>((count + norm_chunk - 1) / norm_chunk));
    pool.each(static_cast<int64_t>(partial.size()), [&](int64_t chunk, int) {
        const int64_t end = std::min(count, (chunk + 1) * norm_chunk);
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = chunk * norm_chunk; i < end; i++) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
        partial[static_cast<size_t>(chunk)] = sum;
    });
    double total = 0;
    for (double sum : partial) total += sum;
    return total;
}

} // namespace

void AdapterShape::check(const ModelShape & model) const {
    if (model.tied && has(output_head))
        throw Failure("tied_head", "targets has output, but this model's head is its token embedding: no adapter file can hold a change of the head alone",
                      "Leave output out (train_unembed: false).");
    if (first_layer < 0 || first_layer >= model.layers)
        throw Failure("bad_request", "first_layer is " + std::to_string(first_layer) + ", the model has " + std::to_string(model.layers) + " layers", "Name one of them, from 0.");
}

Adapter::Adapter(const ModelShape & model, const AdapterShape & shape_)
    : shape(shape_), parameters(count_parameters(model, shape_)), weights(parameters), gradients(parameters), first_moments(parameters),
      second_moments(parameters) {
    size_t at = 0;
    for (int64_t layer = 0; layer < model.layers; layer++) {
        layers.emplace_back();
        for (int g = 0; g < groups_per_layer; g++) {
            Group & group = layers.back()[static_cast<size_t>(g)];
            group.index = layer * groups_per_layer + g;
            for (Target target : shape.targets)
                if (layer >= shape.first_layer && target != output_head && group_of[target] == g) group.sites.push_back(Site{target, 0, 0, 0, 0, 0});
            at = lay_out(model, group, at);
        }
    }
    head.index = model.layers * groups_per_layer;
    if (shape.has(output_head)) head.sites.push_back(Site{output_head, 0, 0, 0, 0, 0});
    lay_out(model, head, at);
    for (Buffer<float> * buffer : {&weights, &gradients, &first_moments, &second_moments})
        std::memset(buffer->data(), 0, parameters * sizeof(float));
    each_site([&](const std::string & name, const Site & site) {
        const uint64_t key = random_key(shape.seed, hash_name(name + ".lora_a"));
        const double bound = 1 / std::sqrt(static_cast<double>(site.columns));
        const auto count = static_cast<size_t>(shape.rank * site.columns);
        for (size_t i = 0; i < count; i++) weights[site.a + i] = static_cast<float>((2 * random_uniform(key, i) - 1) * bound);
    });
}

/** Gives the group's sites their sizes and their places from `at` on. Returns the place after the last one. */
size_t Adapter::lay_out(const ModelShape & model, Group & group, size_t at) {
    group.a = at;
    for (Site & site : group.sites) {
        const Size size = size_of(model, site.target);
        site = Site{site.target, size.rows, size.columns, at, 0, group.width};
        group.columns = size.columns;
        group.width += shape.rank;
        at += static_cast<size_t>(shape.rank * size.columns);
    }
    for (Site & site : group.sites) {
        site.b = at;
        at += static_cast<size_t>(shape.rank * site.rows);
    }
    return at;
}

uint64_t Adapter::dropout_key(const Group & group) const {
    const uint64_t of_step = random_key(shape.seed, hash_name("dropout") + static_cast<uint64_t>(step));
    return random_key(of_step, static_cast<uint64_t>(group.index));
}

uint64_t Adapter::dropout_key(const Group & group, int64_t token) const { return random_key(dropout_key(group), static_cast<uint64_t>(token)); }

void Adapter::clear_gradients() {
    std::memset(gradients.data(), 0, parameters * sizeof(float));
    gradients_pending = false;
    step_tokens = 0;
}

Adapter::Stepped Adapter::optimise(Pool & pool, const AdamW & options) {
    const auto count = static_cast<int64_t>(parameters);
    const double norm = std::sqrt(squared_norm(pool, gradients.data(), count));
    if (!std::isfinite(norm)) {
        std::string first;
        const auto broken = [&](size_t start, int64_t values) {
            return std::any_of(gradients.data() + start, gradients.data() + start + values, [](float g) { return !std::isfinite(g); });
        };
        each_site([&](const std::string & name, const Site & site) {
            if (first.empty() && broken(site.a, shape.rank * site.columns)) first = name + ".lora_a";
            if (first.empty() && broken(site.b, shape.rank * site.rows)) first = name + ".lora_b";
        });
        clear_gradients();
        not_finite("the gradient of " + first);
    }
    const bool clipped = options.grad_clip_norm > 0 && norm > options.grad_clip_norm;
    const double scale = clipped ? options.grad_clip_norm / norm : 1;
    step++;
    version++;
    pool.split(count, 1024, [&](int64_t begin, int64_t end, int) {
        adamw(options, step, scale, end - begin, weights.data() + begin, gradients.data() + begin, first_moments.data() + begin,
              second_moments.data() + begin);
    });
    clear_gradients();
    return Stepped{norm, clipped};
}

void Adapter::average(Pool & pool, const Adapter & from, double decay) {
    version++;
    pool.split(static_cast<int64_t>(parameters), 1024,
               [&](int64_t begin, int64_t end, int) { ::average(decay, end - begin, weights.data() + begin, from.weights.data() + begin); });
}

int64_t Adapter::bytes(const ModelShape & model, const AdapterShape & shape) {
    return static_cast<int64_t>(count_parameters(model, shape) * sizeof(float) * 4);
}

std::string Adapter::base_name(int64_t layer, Target target) {
    if (target == output_head) return std::string(target_names[target]) + ".weight";
    return "blk." + std::to_string(layer) + "." + target_names[target] + ".weight";
}
