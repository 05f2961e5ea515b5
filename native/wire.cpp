#include "wire.h"

#include <unistd.h> // read, write

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/failure.h"
#include "base/shallow_json.h"

using nlohmann::json;

namespace {

constexpr size_t most_said = 2000; // bytes of an error message, which may quote the input

[[noreturn]] void bad_frame(const std::string & what) { throw Failure("bad_frame", what, "See the frame in protocol.md.", true); }
[[noreturn]] void too_large(const std::string & what, int64_t limit) {
    throw Failure("frame_too_large", what + " is over the limit of " + std::to_string(limit) + " bytes", "Send less at once.", true);
}

Array array_of(std::string name, bool is_float, const void * data, size_t bytes) {
    Array array{std::move(name), is_float, std::vector<uint8_t>(bytes)};
    if (bytes) std::memcpy(array.bytes.data(), data, bytes);
    return array;
}

/** The arrays that a header announces, with room for their bytes. */
std::vector<Array> announced(const json & header) {
    std::vector<Array> arrays;
    if (!header.contains("payload")) return arrays;
    if (!header["payload"].is_array()) bad_frame("payload must be a list");
    int64_t total = 0;
    for (const json & entry : header["payload"]) {
        const bool sound = entry.is_object() && entry.size() == 3 && entry.contains("name") && entry["name"].is_string() && entry.contains("dtype") &&
                           (entry["dtype"] == "i32" || entry["dtype"] == "f32") && entry.contains("count") && entry["count"].is_number_unsigned();
        if (!sound) bad_frame("an entry of payload must be {name, dtype: i32 or f32, count}");
        const uint64_t count = entry["count"].get<uint64_t>();
        if (count > static_cast<uint64_t>(limits::max_payload_bytes) / 4 || (total += static_cast<int64_t>(count) * 4) > limits::max_payload_bytes)
            too_large("the payload", limits::max_payload_bytes);
        arrays.push_back(Array{entry["name"].get<std::string>(), entry["dtype"] == "f32", std::vector<uint8_t>(static_cast<size_t>(count) * 4)});
    }
    return arrays;
}

} // namespace

Array Array::of(std::string name, const std::vector<float> & values) { return array_of(std::move(name), true, values.data(), values.size() * 4); }
Array Array::of(std::string name, const std::vector<int32_t> & values) { return array_of(std::move(name), false, values.data(), values.size() * 4); }

bool Wire::fill() {
    for (;;) {
        const ssize_t got = ::read(in_, buffer_.data(), buffer_.size());
        if (got < 0 && errno == EINTR) continue;
        begin_ = 0;
        end_ = got > 0 ? static_cast<size_t>(got) : 0;
        return got > 0;
    }
}

std::optional<std::string> Wire::read_line() {
    std::string line;
    for (;;) {
        const char * from = buffer_.data() + begin_;
        const char * newline = static_cast<const char *>(std::memchr(from, '\n', end_ - begin_));
        const size_t part = newline ? static_cast<size_t>(newline - from) : end_ - begin_;
        if (static_cast<int64_t>(line.size() + part) >= limits::max_header_bytes) too_large("the line", limits::max_header_bytes);
        line.append(from, part);
        begin_ += part + (newline ? 1 : 0);
        if (newline) return line;
        if (!fill()) {
            if (line.empty()) return std::nullopt;
            bad_frame("the input ended within a line");
        }
    }
}

void Wire::read_bytes(uint8_t * to, size_t count) {
    while (count > 0) {
        if (begin_ == end_ && !fill()) bad_frame("the input ended within the payload");
        const size_t part = std::min(count, end_ - begin_);
        std::memcpy(to, buffer_.data() + begin_, part);
        begin_ += part;
        to += part;
        count -= part;
    }
}

std::optional<Frame> Wire::read() {
    last_id_ = 0;
    const std::optional<std::string> line = read_line();
    if (!line) return std::nullopt;
    json header = parse_shallow(line->begin(), line->end(), [](const std::string & what) { bad_frame("a line " + what); });
    if (!header.is_object()) bad_frame("a line must be one JSON object");
    if (!header.contains("id") || !header["id"].is_number_unsigned() || header["id"] < 1 || header["id"] > int64_t{1} << 53)
        bad_frame("id must be an integer from 1 on");
    Frame frame;
    frame.id = last_id_ = header["id"].get<int64_t>();
    frame.payload = announced(header);
    for (Array & array : frame.payload) read_bytes(array.bytes.data(), array.bytes.size());
    if (!header.contains("verb") || !header["verb"].is_string()) bad_frame("verb must be a string");
    frame.verb = header["verb"].get<std::string>();
    for (const char * name : {"id", "verb", "payload"}) header.erase(name);
    frame.fields = std::move(header);
    return frame;
}

void Wire::write_bytes(const void * data, size_t bytes) {
    const char * from = static_cast<const char *>(data);
    while (bytes > 0) {
        const ssize_t put = ::write(out_, from, bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) throw Failure("io_error", std::string("nobody reads the answers: ") + std::strerror(errno), "Read the worker's standard output until it ends.");
        from += put;
        bytes -= static_cast<size_t>(put);
    }
}

void Wire::answer(int64_t id, json fields, const std::vector<Array> & payload) {
    json head = {{"id", id}, {"ok", true}};
    head.update(fields);
    for (const Array & array : payload)
        head["payload"].push_back({{"name", array.name}, {"dtype", array.is_float ? "f32" : "i32"}, {"count", array.bytes.size() / 4}});
    const std::string line = head.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    write_bytes(line.data(), line.size());
    for (const Array & array : payload) write_bytes(array.bytes.data(), array.bytes.size());
}

void Wire::refuse(int64_t id, const std::string & code, const std::string & message, const std::string & hint, bool fatal) {
    const json head = {{"id", id}, {"ok", false}, {"error", {{"code", code}, {"message", message.substr(0, most_said)}, {"hint", hint}, {"fatal", fatal}}}};
    const std::string line = head.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    write_bytes(line.data(), line.size());
}
