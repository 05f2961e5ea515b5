// A model of a real shape without its file, to measure what training it costs. Its weights are one random pattern, repeated.
#pragma once
#include "model/gguf_model.h"

/** The shape of an architecture, with all that follows from its name filled in. Throws unsupported_architecture. */
ModelShape plain_shape(const std::string & architecture, int64_t embedding, int64_t heads, int64_t head_values);

/** The type with ggml's name in any case, such as "q4_k". Nothing when there is no such type, or it cannot be made and read. */
std::optional<ggml_type> stored_type(const std::string & name);

/**
 * Bytes of all tensors when matrices are of this type. Where its blocks do not divide a row, the type is the one that llama.cpp's quantiser
 * takes instead.
 */
int64_t stored_bytes(const ModelShape & shape, ggml_type type);
