// The frame of protocol.md: one JSON object on one line, then raw arrays.
#pragma once
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace limits {
constexpr int64_t max_header_bytes = 1048576;
constexpr int64_t max_payload_bytes = 268435456;
} // namespace limits

struct Array {
    std::string name;
    bool is_float; // else i32
    std::vector<uint8_t> bytes;

    static Array of(std::string name, const std::vector<float> & values);
    static Array of(std::string name, const std::vector<int32_t> & values);
    template <class T> std::vector<T> values() const {
        std::vector<T> result(bytes.size() / sizeof(T));
        if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
        return result;
    }
};

struct Frame {
    int64_t id = 0;
    std::string verb;
    nlohmann::json fields = nlohmann::json::object(); // without id, verb and payload
    std::vector<Array> payload;
};

class Wire {
public:
    /** The caller closes both descriptors. */
    Wire(int in, int out) : in_(in), out_(out) {}
    Wire(const Wire &) = delete;
    Wire & operator=(const Wire &) = delete;

    /**
     * Reads the next request; returns nothing at the end of the input. Throws a fatal Failure; last_id() is then the frame's id, or 0 if it
     * was not read.
     */
    std::optional<Frame> read();
    int64_t last_id() const { return last_id_; }

    /** Throws io_error when the reader is gone. */
    void answer(int64_t id, nlohmann::json fields, const std::vector<Array> & payload);
    void refuse(int64_t id, const std::string & code, const std::string & message, const std::string & hint, bool fatal);

private:
    std::optional<std::string> read_line();
    void read_bytes(uint8_t * to, size_t count);
    bool fill();
    void write_bytes(const void * data, size_t bytes);

    int in_, out_;
    std::vector<char> buffer_ = std::vector<char>(1 << 16);
    size_t begin_ = 0, end_ = 0; // the part of buffer_ that was read but not used yet
    int64_t last_id_ = 0;
};
