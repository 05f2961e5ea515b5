// Decoding on a device: prompts go into a cache of keys and values, then every step adds one token to each row.
#pragma once
#include "cuda/device_transformer.h"

template <class Device, class T>
void DeviceTransformer<Device, T>::prefill(const Batch & batch, const Adapter * adapter, CachePlan & plan) {
    twice_when_short([&] {
        begin(batch, adapter, {}, &plan, Keep::nothing);
        forward_layers(adapter, static_cast<PlaceCache *>(plan.cache), false);
    });
}

template <class Device, class T>
void DeviceTransformer<Device, T>::decode(const Batch & batch, const Adapter * adapter, CachePlan & plan) {
    twice_when_short([&] {
        begin(batch, adapter, {}, &plan, Keep::nothing);
        forward_layers(adapter, static_cast<PlaceCache *>(plan.cache), true);
    });
}

template <class Device, class T>
void DeviceTransformer<Device, T>::each_logits(const std::vector<int64_t> & positions, const UseLogits & f) {
    std::vector<int32_t> rows(static_cast<size_t>(plan_.size.asks), -1);
    std::copy(positions.begin(), positions.end(), rows.begin());
    upload(plan_.ask_rows, rows);
    each_chunk_of_logits(static_cast<int64_t>(positions.size()), f);
}

template <class Device, class T>
void DeviceTransformer<Device, T>::keep_in_cache(const LayerOffsets & l, size_t layer, PlaceCache & cache) {
    const Heads h = heads(l);
    const int64_t width = kv_width();
    device_->launch(gpu::StoreCache<T>{h.k, h.v, h.k_stride, h.v_stride, width, at<int32_t>(plan_.places), cache.keys(layer, width), cache.values(layer, width)}, blocks(width, wide), tokens(), wide);
}

/** Attention for one token of each row, whose own key is in the cache already. */
template <class Device, class T>
void DeviceTransformer<Device, T>::attend_to_cache(const DeviceLayer & w, const LayerOffsets & l, size_t layer, const PlaceCache & cache) {
    const int64_t width = kv_width();
    gpu::AttentionInputs<T> in = inputs(w, heads(l));
    in.k = cache.keys(layer, width);
    in.v = cache.values(layer, width);
    in.k_stride = in.v_stride = width;
    attention_plain(*device_, in, tokens(), at<int32_t>(plan_.first), at<int32_t>(plan_.last), at<T>(l.attended), at<float>(l.lse));
}
