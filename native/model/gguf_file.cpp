#include "model/gguf_file.h"

#include <fcntl.h>    // open
#include <sys/mman.h> // mmap
#include <sys/stat.h> // fstat
#include <unistd.h>   // close

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/failure.h"
#include "model/architecture.h"

void refuse::invalid(const std::string & what) { throw Failure("invalid_model", what, "Export or download the file again."); }

void refuse::unsupported(const std::string & what) {
    std::string names;
    for (const Architecture & architecture : architectures) names += std::string(names.empty() ? "" : ", ") + architecture.name;
    throw Failure("unsupported_architecture", what, "Dense models of these architectures can be trained: " + names + ".");
}

using refuse::invalid;
using refuse::unsupported;

MappedFile::MappedFile(const std::string & path_) : path(path_) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info {};
    if (fd < 0 || ::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        const int error = fd < 0 ? errno : EINVAL;
        if (fd >= 0) ::close(fd);
        throw Failure("io_error", "cannot open " + path + ": " + std::strerror(error), "Check the path and its rights.");
    }
    bytes_ = static_cast<size_t>(info.st_size);
    void * const mapping = bytes_ == 0 ? MAP_FAILED : ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
    ::close(fd);
    if (mapping == MAP_FAILED) invalid(path + " is empty or cannot be mapped");
    data_ = static_cast<const uint8_t *>(mapping);
}

MappedFile::~MappedFile() { ::munmap(const_cast<uint8_t *>(data_), bytes_); }

namespace {

/** While the header is parsed, a failed assertion of the library refuses the file instead of ending the worker. */
class AbortAsRefusal {
public:
    AbortAsRefusal() : before_(ggml_set_abort_callback([](const char * message) { invalid(message); })) {}
    ~AbortAsRefusal() { ggml_set_abort_callback(before_); }

private:
    ggml_abort_callback_t before_;
};

GgufFile::Tensor tensor_at(const gguf_context * file, int64_t index, const MappedFile & mapped) {
    const std::string name = gguf_get_tensor_name(file, index);
    const size_t data = gguf_get_data_offset(file), offset = gguf_get_tensor_offset(file, index), size = gguf_get_tensor_size(file, index);
    if (data > mapped.bytes() || offset > mapped.bytes() - data || size > mapped.bytes() - data - offset)
        invalid("tensor " + name + " ends outside the file of " + std::to_string(mapped.bytes()) + " bytes: it is cut short");
    if ((data + offset) % 8 != 0) invalid("tensor " + name + " is not aligned");
    const int64_t * ne = gguf_get_tensor_ne(file, index);
    const ggml_type type = gguf_get_tensor_type(file, index);
    if (ne[2] != 1 || ne[3] != 1) unsupported("tensor " + name + " has more than two dimensions");
    if (type != GGML_TYPE_F32 && (ggml_get_type_traits(type) == nullptr || ggml_get_type_traits(type)->to_float == nullptr))
        unsupported("tensor " + name + " has type " + ggml_type_name(type) + ", which cannot be dequantised");
    return {Matrix{mapped.data() + data + offset, type, ne[1], ne[0]}};
}

} // namespace

GgufFile::GgufFile(const MappedFile & mapped) : context_(nullptr, gguf_free) {
    const AbortAsRefusal refusing;
    context_.reset(gguf_init_from_buffer(mapped.data(), mapped.bytes(), gguf_init_params{true, nullptr}));
    if (!context_) invalid(mapped.path + " is not a GGUF file or its header is damaged");
    for (int64_t i = 0; i < gguf_get_n_tensors(context()); i++) tensors[gguf_get_tensor_name(context(), i)] = tensor_at(context(), i, mapped);
}

std::string GgufFile::text(const std::string & key) const {
    const int64_t at = gguf_find_key(context(), key.c_str());
    if (at < 0 || gguf_get_kv_type(context(), at) != GGUF_TYPE_STRING) invalid("metadata " + key + " must be a string");
    return gguf_get_val_str(context(), at);
}

int64_t GgufFile::whole(const std::string & key, int64_t least, int64_t most) const {
    const gguf_context * file = context();
    const int64_t at = gguf_find_key(file, key.c_str());
    int64_t value = -1;
    if (at >= 0) switch (gguf_get_kv_type(file, at)) {
            case GGUF_TYPE_UINT16: value = gguf_get_val_u16(file, at); break;
            case GGUF_TYPE_UINT32: value = gguf_get_val_u32(file, at); break;
            case GGUF_TYPE_INT32: value = gguf_get_val_i32(file, at); break;
            case GGUF_TYPE_UINT64: value = static_cast<int64_t>(std::min<uint64_t>(gguf_get_val_u64(file, at), INT64_MAX)); break;
            case GGUF_TYPE_ARRAY: unsupported(key + " differs between layers");
            default: break;
        }
    if (value < least || value > most)
        invalid("metadata " + key + " must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return value;
}

double GgufFile::number_or(const std::string & key, double fallback) const {
    const int64_t at = gguf_find_key(context(), key.c_str());
    if (at < 0) return fallback;
    if (gguf_get_kv_type(context(), at) != GGUF_TYPE_FLOAT32 || !std::isfinite(gguf_get_val_f32(context(), at)))
        invalid("metadata " + key + " must be a finite float");
    return gguf_get_val_f32(context(), at);
}

bool GgufFile::flag(const std::string & key) const {
    const int64_t at = gguf_find_key(context(), key.c_str());
    if (at < 0 || gguf_get_kv_type(context(), at) != GGUF_TYPE_BOOL) invalid("metadata " + key + " must be true or false");
    return gguf_get_val_bool(context(), at);
}

bool GgufFile::is_array(const std::string & key) const {
    return has(key) && gguf_get_kv_type(context(), gguf_find_key(context(), key.c_str())) == GGUF_TYPE_ARRAY;
}

std::vector<bool> GgufFile::flags(const std::string & key, int64_t count) const {
    const int64_t at = gguf_find_key(context(), key.c_str());
    const gguf_type type = is_array(key) ? gguf_get_arr_type(context(), at) : GGUF_TYPE_STRING;
    const size_t width = type == GGUF_TYPE_BOOL ? 1 : type == GGUF_TYPE_UINT32 || type == GGUF_TYPE_INT32 ? 4 : 0;
    if (width == 0 || gguf_get_arr_n(context(), at) != static_cast<size_t>(count))
        invalid("metadata " + key + " must be an array of " + std::to_string(count) + " flags");
    const auto * data = static_cast<const uint8_t *>(gguf_get_arr_data(context(), at));
    std::vector<bool> flags;
    for (size_t i = 0; i < static_cast<size_t>(count); i++)
        flags.push_back(std::any_of(data + i * width, data + (i + 1) * width, [](uint8_t byte) { return byte != 0; }));
    return flags;
}

std::string tensor_not_finite(const MappedFile & mapped) {
    std::vector<float> row;
    const GgufFile file(mapped);
    for (const auto & [name, tensor] : file.tensors) {
        const Matrix & w = tensor.matrix;
        row.resize(static_cast<size_t>(w.columns));
        for (int64_t r = 0; r < w.rows; r++) {
            w.read(r, 0, w.columns, row.data());
            if (!std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); })) return name;
        }
    }
    return "";
}
