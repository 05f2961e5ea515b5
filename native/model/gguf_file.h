// A GGUF file as the worker reads it: it is mapped, types of metadata are checked, and every tensor is checked to lie inside the file
// before anything reads it.
#pragma once
#include <gguf.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/matrix.h"

namespace refuse {
/** Throws invalid_model. */
[[noreturn]] void invalid(const std::string & what);
/** Throws unsupported_architecture. */
[[noreturn]] void unsupported(const std::string & what);
} // namespace refuse

class MappedFile {
public:
    /** Throws io_error, or invalid_model for an empty file. */
    explicit MappedFile(const std::string & path);
    ~MappedFile();
    MappedFile(const MappedFile &) = delete;
    MappedFile & operator=(const MappedFile &) = delete;

    const std::string path;
    const uint8_t * data() const { return data_; }
    size_t bytes() const { return bytes_; }

private:
    const uint8_t * data_ = nullptr;
    size_t bytes_ = 0;
};

/**
 * The header. It must not outlive the mapping. Getters throw invalid_model for a key of another type, and for a missing key if they have no
 * fallback.
 */
class GgufFile {
public:
    /** Throws invalid_model or unsupported_architecture. */
    explicit GgufFile(const MappedFile & mapped);

    struct Tensor {
        Matrix matrix;
        int64_t bytes() const { return matrix.rows * static_cast<int64_t>(ggml_row_size(matrix.type, matrix.columns)); }
    };
    std::map<std::string, Tensor> tensors;

    const gguf_context * context() const { return context_.get(); }

    bool has(const std::string & key) const { return gguf_find_key(context(), key.c_str()) >= 0; }
    std::string text(const std::string & key) const;
    int64_t whole(const std::string & key, int64_t least, int64_t most) const;
    int64_t whole_or(const std::string & key, int64_t fallback, int64_t least, int64_t most) const {
        return has(key) ? whole(key, least, most) : fallback;
    }
    double number_or(const std::string & key, double fallback) const;
    bool flag(const std::string & key) const;
    bool is_array(const std::string & key) const;
    /** An array of `count` booleans or 32-bit numbers. */
    std::vector<bool> flags(const std::string & key, int64_t count) const;

private:
    std::unique_ptr<gguf_context, void (*)(gguf_context *)> context_;
};

/** The first tensor, by name, that holds a NaN or an infinity; empty if there is none. Reads the whole file. */
std::string tensor_not_finite(const MappedFile & mapped);
