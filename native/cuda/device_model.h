// A frozen base on a device: matrices as they are stored; norms, biases and the ropes' tables in single precision.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "base/failure.h"
#include "cuda/device_memory.h"
#include "cuda/plan.h"
#include "kernels/cuda/block.h"

struct DeviceMatrix {
    const uint8_t * data;
    ggml_type type;
    int64_t rows, columns;
};

struct DeviceLayer {
    const float *attn_norm, *ffn_norm, *attn_post_norm, *ffn_post_norm, *q_norm, *k_norm, *qkv_bias; // null if there is none
    DeviceMatrix attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down;
    int64_t window; // 0 = none
    size_t rope;
};

/** T is the type of matrices whose stored type has no kernel. */
template <class Device, class T> class DeviceModel {
public:
    static constexpr Number number = sizeof(T) == 2 ? Number::bf16 : Number::f32;

    /** memory: bytes that the device has. Throws out_of_memory before anything is copied. */
    DeviceModel(Device & device, const GgufModel & model, int64_t memory) : device_(device) {
        const int64_t needed = device_model_bytes(model, number);
        if (needed > memory)
            throw Failure("out_of_memory", "the model needs " + std::to_string(needed >> 20) + " MiB on the device, which has " + std::to_string(memory >> 20) + " MiB",
                          "Use a smaller quantisation, free the device, or open with device cpu.");
        memory_ = DeviceMemory<Device>(device, needed);
        embedding = put(model.token_embd);
        head = model.shape.tied ? embedding : put(model.head);
        output_norm = put(model.output_norm);
        for (const LayerWeights & l : model.layers)
            layers.push_back({put(l.attn_norm), put(l.ffn_norm), put(l.attn_post_norm), put(l.ffn_post_norm), put(l.q_norm), put(l.k_norm), put(qkv_bias_of(model.shape, l)),
                              put(l.attn_q), put(l.attn_k), put(l.attn_v), put(l.attn_output), put(l.ffn_gate), put(l.ffn_up), put(l.ffn_down), l.window == no_window ? 0 : l.window, l.rope});
        for (const Rope & rope : model.ropes) ropes.push_back(put(table_of(rope, model.shape)));
    }

    DeviceMatrix embedding, head;
    const float * output_norm;
    std::vector<DeviceLayer> layers;
    std::vector<const float *> ropes; // [device_rope_positions, d/2] of (cos, sin)

private:
    static std::vector<float> table_of(const Rope & rope, const ModelShape & shape) {
        std::vector<float> table;
        for (int64_t p = 0; p < device_rope_positions(shape); p++)
            for (int64_t i = 0; i < shape.head_values / 2; i++) {
                const double angle = static_cast<double>(p) * rope.frequencies[static_cast<size_t>(i)];
                table.push_back(static_cast<float>(std::cos(angle) * rope.magnitude));
                table.push_back(static_cast<float>(std::sin(angle) * rope.magnitude));
            }
        return table;
    }

    DeviceMatrix put(const Matrix & m) {
        auto * to = memory_.template at<uint8_t>(at_);
        at_ += device_matrix_bytes(m, number);
        if (device_reads(m.type)) {
            device_.write(to, m.data, m.rows * static_cast<int64_t>(ggml_row_size(m.type, m.columns)));
            return {to, m.type, m.rows, m.columns};
        }
        std::vector<float> row(static_cast<size_t>(m.columns));
        std::vector<T> narrowed(row.size());
        for (int64_t r = 0; r < m.rows; r++) {
            m.read(r, 0, m.columns, row.data());
            for (size_t i = 0; i < row.size(); i++) gpu::put(narrowed[i], row[i]);
            device_.write(to + r * m.columns * bytes_of(number), narrowed.data(), m.columns * bytes_of(number));
        }
        return {to, number == Number::bf16 ? GGML_TYPE_BF16 : GGML_TYPE_F32, m.rows, m.columns};
    }

    const float * put(const std::vector<float> & v) {
        if (v.empty()) return nullptr;
        auto * to = memory_.template at<float>(at_);
        const auto bytes = static_cast<int64_t>(v.size() * sizeof(float));
        device_.write(to, v.data(), bytes);
        at_ += device_aligned(bytes);
        return to;
    }

    Device & device_;
    DeviceMemory<Device> memory_;
    int64_t at_ = 0; // bytes of memory_ that are taken
};
