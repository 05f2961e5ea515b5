// A pass over a device's transformer: its memory, what is copied to the device before it begins and from it when it has ended, and the
// products that both directions consist of.
#pragma once
#include "cuda/device_transformer.h"

template <class Device, class T>
void DeviceTransformer<Device, T>::begin(const Batch & batch, const Adapter * adapter, const std::vector<Ask> & asks, const CachePlan * cache, Keep keep) {
    int64_t softs = 0;
    for (const Ask & ask : asks) softs += ask.soft.count;
    const auto rows = static_cast<int64_t>(batch.segments.size());
    // A pass with a cache has no asks, but the logits at the end of every segment may be wanted.
    const PassSize size = PassSize::of(batch.count(), rows, cache ? rows : static_cast<int64_t>(asks.size()), softs, keep);
    // This comes before the pass's memory, because the adapter may need the room that an earlier pass holds.
    copy_ = adapter ? &adapters_.of(*adapter) : nullptr;
    plan_ = plan_pass(shape(), adapter ? &adapter->shape : nullptr, size, number);
    if (plan_.total > arena_.bytes()) {
        release_scratch(); // before the new memory is allocated
        arena_ = DeviceMemory<Device>(*device_, plan_.total);
    }
    adapter_ = adapter;
    upload_tokens(batch, cache);
    upload_asks(asks);
    dropping_ = keep == Keep::activations && adapter->shape.dropout > 0;
    if (dropping_) upload_dropout(batch, *adapter, asks);
}

template <class Device, class T>
void DeviceTransformer<Device, T>::upload_tokens(const Batch & batch, const CachePlan * cache) {
    const auto t = static_cast<size_t>(plan_.size.tokens), real = static_cast<size_t>(batch.count());
    std::vector<int32_t> tokens = batch.tokens, positions = batch.positions, first(t), last(t), row_end(t), places(t, -1);
    tokens.resize(t);
    positions.resize(t);
    std::vector<Segment> rows = batch.segments;
    for (const Segment & row : rows)
        if (row.parent >= 0) throw Failure("internal", "a device without support for trees was given one", report_bug);
    // The tokens that fill the pass up to its size form a row whose results are not used.
    if (real < t) {
        rows.push_back({static_cast<int64_t>(real), static_cast<int64_t>(t - real), -1});
        for (size_t i = real; i < t; i++) positions[i] = static_cast<int32_t>(i - real);
    }
    std::vector<gpu::Tile> tiles;
    for (size_t r = 0; r < rows.size(); r++) {
        const auto begin_ = static_cast<int32_t>(rows[r].begin), end = static_cast<int32_t>(rows[r].begin + rows[r].length);
        for (int32_t i = begin_; i < end; i++) {
            first[static_cast<size_t>(i)] = begin_;
            last[static_cast<size_t>(i)] = i;
            row_end[static_cast<size_t>(i)] = end;
            if (cache && r < cache->write.size()) places[static_cast<size_t>(i)] = static_cast<int32_t>(cache->write[r] + i - begin_);
        }
        for (int32_t i = begin_; i < end; i += gpu::flash_rows) tiles.push_back({begin_, i, end});
        if (cache && r < cache->read.size()) {
            if (cache->read[r].spans.size() != 1) throw Failure("internal", "a row's places on a device must be one span", report_bug);
            first[static_cast<size_t>(begin_)] = static_cast<int32_t>(cache->read[r].spans[0].begin);
            last[static_cast<size_t>(begin_)] = static_cast<int32_t>(cache->read[r].spans[0].begin + cache->read[r].spans[0].length - 1);
        } else if (cache && !cache->read.empty()) {
            // A padding row of a decoding pass sees one place, whatever that holds.
            for (int32_t i = begin_; i < end; i++) first[static_cast<size_t>(i)] = last[static_cast<size_t>(i)] = static_cast<int32_t>(cache->read[0].spans[0].begin);
        }
    }
    tiles.resize(static_cast<size_t>(plan_.size.tiles), {0, 0, 0});
    upload(plan_.tokens, tokens);
    upload(plan_.positions, positions);
    upload(plan_.first, first);
    upload(plan_.last, last);
    upload(plan_.row_end, row_end);
    upload(plan_.places, places);
    upload(plan_.tiles, tiles);
}

template <class Device, class T>
void DeviceTransformer<Device, T>::upload_asks(const std::vector<Ask> & asks) {
    const auto count = static_cast<size_t>(plan_.size.asks);
    std::vector<int32_t> rows(count, -1), targets(count, -1), soft_begin(count + 1), soft_tokens;
    std::vector<float> coefficients(3 * count), soft_weights;
    for (size_t i = 0; i < count; i++) {
        if (i < asks.size()) {
            const Ask & ask = asks[i];
            rows[i] = static_cast<int32_t>(ask.position);
            targets[i] = ask.target;
            coefficients[3 * i] = ask.coefficients.weight;
            coefficients[3 * i + 1] = ask.coefficients.entropy;
            coefficients[3 * i + 2] = ask.coefficients.z;
            soft_tokens.insert(soft_tokens.end(), ask.soft.tokens, ask.soft.tokens + ask.soft.count);
            soft_weights.insert(soft_weights.end(), ask.soft.weights, ask.soft.weights + ask.soft.count);
        }
        soft_begin[i + 1] = static_cast<int32_t>(soft_tokens.size());
    }
    upload(plan_.ask_rows, rows);
    upload(plan_.targets, targets);
    upload(plan_.coefficients, coefficients);
    upload(plan_.soft_begin, soft_begin);
    if (soft_tokens.empty()) return;
    upload(plan_.soft_tokens, soft_tokens);
    upload(plan_.soft_weights, soft_weights);
}

template <class Device, class T>
void DeviceTransformer<Device, T>::upload_dropout(const Batch & batch, const Adapter & adapter, const std::vector<Ask> & asks) {
    std::vector<int64_t> origins = batch.origins;
    origins.resize(static_cast<size_t>(plan_.size.tokens));
    upload(plan_.origins, origins);
    std::vector<uint64_t> keys;
    for (const auto & groups : adapter.layers)
        for (const Group & group : groups) keys.push_back(adapter.dropout_key(group));
    keys.push_back(adapter.dropout_key(adapter.head));
    upload(plan_.dropout_keys, keys);
    std::vector<int64_t> of_asks(static_cast<size_t>(plan_.size.asks));
    for (size_t i = 0; i < asks.size(); i++) of_asks[i] = origins[static_cast<size_t>(asks[i].position)];
    upload(plan_.ask_origins, of_asks);
}

template <class Device, class T>
std::vector<TokenLoss> DeviceTransformer<Device, T>::losses(const std::vector<Ask> & asks) {
    std::vector<gpu::RowLoss> rows(asks.size());
    device_->read(rows.data(), at<gpu::RowLoss>(plan_.losses), static_cast<int64_t>(rows.size() * sizeof(gpu::RowLoss)));
    size_t softs = 0;
    for (const Ask & ask : asks) softs += static_cast<size_t>(ask.soft.count);
    std::vector<float> soft(softs);
    if (softs > 0) device_->read(soft.data(), at<float>(plan_.soft_logprobs), static_cast<int64_t>(softs * 4));
    std::vector<TokenLoss> result(asks.size());
    size_t at_soft = 0;
    for (size_t i = 0; i < asks.size(); i++) {
        result[i].logprob = static_cast<double>(rows[i].logprob);
        result[i].entropy = static_cast<double>(rows[i].entropy);
        result[i].log_sum = static_cast<double>(rows[i].log_sum);
        for (int64_t k = 0; k < asks[i].soft.count; k++) result[i].soft_logprobs.push_back(static_cast<double>(soft[at_soft++]));
    }
    return result;
}

template <class Device, class T>
T * DeviceTransformer<Device, T>::dense(std::initializer_list<const DeviceMatrix *> matrices) {
    T * to = at<T>(plan_.weights);
    for (const DeviceMatrix * m : matrices) {
        const int64_t count = m->rows * m->columns;
        with_type(m->type, [&](auto type) {
            gpu::with_chunk<T>(count, [&](auto n) { device_->launch(gpu::Dequantise<decltype(type)::value, T, decltype(n)::value>{m->data, count, to}, blocks(count, n * wide), 1, wide); });
        });
        to += count;
    }
    return at<T>(plan_.weights);
}

template <class Device, class T>
const T * DeviceTransformer<Device, T>::dropped(const Adapter & adapter, const Group & group, const T * x, int64_t tokens, int64_t origins) {
    if (!dropping_) return x;
    const Dropout d(adapter.shape.dropout);
    device_->launch(gpu::DropoutRows<T, T, false>{x, group.columns, at<uint64_t>(plan_.dropout_keys) + group.index, at<int64_t>(origins), d.below, d.scale, at<T>(plan_.dropped)},
                    blocks(group.columns, wide), tokens, wide);
    return at<T>(plan_.dropped);
}

template <class Device, class T>
void DeviceTransformer<Device, T>::lora(const Adapter & adapter, const Group & group, const T * x, int64_t tokens, T * u, const std::vector<Side> & outputs, int64_t origins) {
    if (group.sites.empty()) return;
    const T * w = copy_->narrow;
    x = dropped(adapter, group, x, tokens, origins);
    product(x, tokens, w + group.a, group.width, group.columns, 0, u, group.width, number);
    for (const Site & site : group.sites)
        for (const Side & y : outputs)
            if (y.target == site.target)
                device_->gemm({false, true, tokens, site.rows, adapter.shape.rank, adapter.scale(), u + site.u, group.width, w + site.b, adapter.shape.rank, 1, y.data, y.stride, number, y.kind});
}

template <class Device, class T>
void DeviceTransformer<Device, T>::lora_back(const Adapter & adapter, const Group & group, const T * x, int64_t tokens, const T * u, T * du, const std::vector<Side> & dys, void * dx, Number kind, int64_t origins) {
    if (group.sites.empty()) return;
    const T * w = copy_->narrow;
    float * g = copy_->gradients;
    const int64_t rank = adapter.shape.rank;
    for (const Site & site : group.sites)
        for (const Side & dy : dys)
            if (dy.target == site.target) {
                device_->gemm({false, false, tokens, rank, site.rows, adapter.scale(), dy.data, dy.stride, w + site.b, rank, 0, du + site.u, group.width, number, number});
                device_->gemm({true, false, site.rows, rank, tokens, adapter.scale(), dy.data, dy.stride, u + site.u, group.width, 1, g + site.b, rank, number, Number::f32});
            }
    if (dx && !dropping_)
        device_->gemm({false, false, tokens, group.columns, group.width, 1, du, group.width, w + group.a, group.columns, 1, dx, group.columns, number, kind});
    else if (dx)
        drop_back(adapter, group, tokens, du, dx, kind, origins);
    x = dropped(adapter, group, x, tokens, origins);
    device_->gemm({true, false, group.width, group.columns, tokens, 1, du, group.width, x, group.columns, 1, g + group.a, group.columns, number, Number::f32});
}

template <class Device, class T>
void DeviceTransformer<Device, T>::drop_back(const Adapter & adapter, const Group & group, int64_t tokens, const T * du, void * dx, Number kind, int64_t origins) {
    T * through = at<T>(plan_.through);
    device_->gemm({false, false, tokens, group.columns, group.width, 1, du, group.width, copy_->narrow + group.a, group.columns, 0, through, group.columns, number, number});
    const Dropout d(adapter.shape.dropout);
    const auto * key = at<uint64_t>(plan_.dropout_keys) + group.index;
    const auto * of = at<int64_t>(origins);
    const int64_t x = blocks(group.columns, wide);
    if (kind == Number::f32)
        device_->launch(gpu::DropoutRows<T, float, true>{through, group.columns, key, of, d.below, d.scale, static_cast<float *>(dx)}, x, tokens, wide);
    else
        device_->launch(gpu::DropoutRows<T, T, true>{through, group.columns, key, of, d.below, d.scale, static_cast<T *>(dx)}, x, tokens, wide);
}
