// Chooses the attention kernels: tiles on the matrix units for bf16 and the usual head sizes, otherwise the plain ones.
#pragma once
#include <type_traits>

#include "kernels/cuda/attention_flash.h"

/** The queries of a pass and what each sees: first, last and row_end [tokens] for the plain kernels, tiles for the others. */
struct AttentionSpans {
    int64_t tokens, tiles;
    const int32_t *first, *last, *row_end;
    const gpu::Tile * tile_list;
};

constexpr int plain_threads = 128;

/** Calls f(head size as a constant). Returns false when there are no tiles of that size. */
template <class F> bool with_flash(int64_t d, const F & f) {
    switch (d) {
        case 64: f(std::integral_constant<int, 64>{}); return true;
        case 80: f(std::integral_constant<int, 80>{}); return true;
        case 96: f(std::integral_constant<int, 96>{}); return true;
        case 128: f(std::integral_constant<int, 128>{}); return true;
        case 256: f(std::integral_constant<int, 256>{}); return true;
        default: return false;
    }
}

template <class Device, class T>
void attention_plain(Device & device, const gpu::AttentionInputs<T> & in, int64_t tokens, const int32_t * first, const int32_t * last, T * out, float * lse) {
    device.launch(gpu::AttentionPlain<T>{in, first, last, out, lse}, tokens, in.heads, plain_threads, (2 * in.d + plain_threads) * 4);
}

template <class Device, class T> void attention_forward(Device & device, const gpu::AttentionInputs<T> & in, const AttentionSpans & s, T * out, float * lse) {
    if constexpr (std::is_same_v<T, gpu::Bf16>) {
        if (with_flash(in.d, [&](auto size) {
                constexpr int d = decltype(size)::value;
                device.launch(gpu::FlashForward<d>{in, s.tile_list + s.tiles - 1, out, lse}, s.tiles, in.heads, gpu::flash_threads, gpu::Flash<d>::forward_bytes);
            }))
            return;
    }
    attention_plain(device, in, s.tokens, s.first, s.last, out, lse);
}

/** Computes dq, dk and dv. delta [tokens, heads] is scratch; g.delta must point to it too. */
template <class Device, class T>
void attention_backward(Device & device, const gpu::AttentionInputs<T> & in, const AttentionSpans & s, const T * out, float * delta, const gpu::AttentionGradients<T> & g) {
    device.launch(gpu::AttentionDelta<T>{g.dout, out, in.heads, in.d, delta}, s.tokens, in.heads, 32);
    if constexpr (std::is_same_v<T, gpu::Bf16>) {
        if (with_flash(in.d, [&](auto size) {
                constexpr int d = decltype(size)::value;
                device.launch(gpu::FlashDq<d>{in, s.tile_list + s.tiles - 1, g}, s.tiles, in.heads, gpu::flash_threads, gpu::Flash<d>::backward_bytes);
                device.launch(gpu::FlashDkv<d>{in, s.tile_list, g}, s.tiles, in.heads / in.group, gpu::flash_threads, gpu::Flash<d>::backward_bytes);
            }))
            return;
    }
    device.launch(gpu::AttentionPlainDq<T>{in, s.first, s.last, g}, s.tokens, in.heads, plain_threads, (3 * in.d + plain_threads) * 4);
    device.launch(gpu::AttentionPlainDkv<T>{in, s.row_end, g}, s.tokens, in.heads / in.group, plain_threads, (4 * in.d + 2 * plain_threads) * 4);
}
