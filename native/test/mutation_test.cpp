// A few thousand damaged files and frames, made from a seed. The worker must answer each of them with a result or an error of protocol.md,
// and must go on unless it said that it cannot. The test is meant to run under sanitizers. The worker's own loop serves every case, through
// descriptors as from a pipe. A case that hangs, crashes or ends in `internal` fails the test by name.
// Usage: mutation_test <folder of the tiny models> [case]: with a number, runs only the file case and the frame case of that number
#include <fcntl.h>
#include <sys/mman.h>     // memfd_create
#include <sys/resource.h> // getrusage
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>

#include "base/durable_file.h"
#include "base/failure.h"
#include "base/random.h"
#include "check.h"
#include "model/gguf_file.h"
#include "serve.h"

using nlohmann::json;

namespace {

constexpr uint64_t seed = 20260101;
constexpr int file_cases = 2000, frame_cases = 1500;
constexpr unsigned case_seconds = 60; // enough for sanitizers on a busy machine
constexpr int64_t most_resident = int64_t{3} << 30;

std::string now_running;

void say_which(const char * how) {
    const std::string line = std::string(how) + " in " + now_running + "\n";
    if (::write(STDERR_FILENO, line.data(), line.size()) < 0) std::abort();
}

// ---- Random choices of one case

class Dice {
public:
    Dice(uint64_t stream, uint64_t number) : key_(random_key(seed + stream, number)) {}
    uint64_t below(uint64_t count) { return count == 0 ? 0 : mix64(key_ + ++at_ * 0x9e3779b97f4a7c15ull) % count; }
    bool chance(uint64_t of) { return below(of) == 0; }
    template <class T> T & any(std::vector<T> & values) { return values[below(values.size())]; }
    template <class T> const T & any(const std::vector<T> & values) { return values[below(values.size())]; }

private:
    uint64_t key_, at_ = 0;
};

// ---- Frames, written and read as a caller does

struct Request {
    json head;
    std::vector<Array> arrays;
};

std::string line_of(const Request & request) {
    json head = request.head;
    for (const Array & array : request.arrays)
        head["payload"].push_back({{"name", array.name}, {"dtype", array.is_float ? "f32" : "i32"}, {"count", array.bytes.size() / 4}});
    return head.dump() + "\n";
}
std::string payload_of(const Request & request) {
    std::string bytes;
    for (const Array & array : request.arrays) bytes.append(reinterpret_cast<const char *>(array.bytes.data()), array.bytes.size());
    return bytes;
}
std::string frame_of(const Request & request) { return line_of(request) + payload_of(request); }

struct Descriptor {
    int fd = ::memfd_create("frames", MFD_CLOEXEC);
    ~Descriptor() { ::close(fd); }
};

/** Serves the input to its end with a new worker. Returns the heads of its answers. */
std::vector<json> serve_bytes(const std::string & input) {
    const Descriptor in, out;
    if (::write(in.fd, input.data(), input.size()) != static_cast<ssize_t>(input.size())) std::abort();
    ::lseek(in.fd, 0, SEEK_SET);
    ::alarm(case_seconds);
    try {
        Wire wire(in.fd, out.fd);
        Trainer trainer;
        serve(wire, trainer);
    } catch (const Failure & failure) {
        CHECK(failure.fatal, "%s: left with %s", now_running.c_str(), failure.what());
    }
    ::alarm(0);
    std::string text(static_cast<size_t>(::lseek(out.fd, 0, SEEK_END)), '\0');
    if (::pread(out.fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) std::abort();
    std::vector<json> answers;
    for (size_t at = 0; at < text.size();) {
        const size_t end = text.find('\n', at);
        answers.push_back(json::parse(text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false));
        at = end + 1;
        if (answers.back().is_object() && answers.back().contains("payload"))
            for (const json & array : answers.back()["payload"]) at += 4 * array["count"].get<size_t>();
    }
    return answers;
}

const std::set<std::string> known_codes = {
    "bad_frame",       "frame_too_large", "unknown_verb",  "bad_request",        "not_open",     "already_open",    "invalid_model", "unsupported_architecture",
    "unknown_adapter", "adapter_exists",  "stale_version", "token_out_of_range", "row_too_long", "batch_too_large", "out_of_memory", "non_finite",
    "checkpoint_mismatch", "io_error",
};

std::map<std::string, int> endings;

/** Every answer must be a success or a known error. The last one must be fatal, or the answer to the hello that ends every input. */
void check_answers(const std::vector<json> & answers) {
    const bool any = !answers.empty();
    CHECK(any, "%s: no answer", now_running.c_str());
    if (!any) return;
    for (size_t i = 0; i < answers.size(); i++) {
        const json & answer = answers[i];
        if (answer.is_object() && answer.value("ok", json()) == true) continue;
        const json error = answer.is_object() ? answer.value("error", json()) : json();
        const bool sound = error.is_object() && error["code"].is_string() && error["message"].is_string() && !error["message"].get<std::string>().empty() && error["hint"].is_string() &&
                           !error["hint"].get<std::string>().empty() && error["fatal"].is_boolean() && known_codes.count(error["code"]);
        CHECK(sound, "%s: %s", now_running.c_str(), answer.dump().c_str());
        if (!sound) return;
        CHECK(error["fatal"] == false || i + 1 == answers.size(), "%s: went on after a fatal error", now_running.c_str());
        endings[error["code"]]++;
    }
    const json & last = answers.back();
    CHECK(last["ok"] == false ? last["error"]["fatal"] == true : last["id"] == 1000, "%s: ended with %s", now_running.c_str(), last.dump().c_str());
    if (last["ok"] == true) endings["went on"]++;
}

const json all_targets = {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"};

/**
 * Requests of all verbs but estimate and profile, on a model file in the working folder. Paths are relative, so that a damaged one stays
 * near.
 */
std::vector<Request> script(const std::string & model) {
    const std::vector<int32_t> tokens = {1, 5, 9, 40, 300, 7, 8, 2, 1, 30}, lengths = {6, 4};
    const std::vector<float> weights = {0, 1, 0.5f, 1, 1, 1, 0, 1, -1, 1}, extra = {0, 0.01f, 0, 0, 0.02f, 0, 0, 0, 0, 0};
    const Array t = Array::of("tokens", tokens), l = Array::of("row_lengths", lengths), w = Array::of("weights", weights);
    const std::vector<Array> weighted = {t, l, w, Array::of("entropy_weights", extra), Array::of("z_weights", extra)};
    return {
        {{{"id", 1}, {"verb", "hello"}, {"protocol", 1}}, {}},
        {{{"id", 2}, {"verb", "open"}, {"path", model}, {"threads", 1}, {"memory_bytes", 0}}, {}},
        {{{"id", 3}, {"verb", "adapter_create"}, {"adapter", "a"}, {"rank", 2}, {"alpha", 4}, {"seed", 1}, {"targets", all_targets}}, {}},
        {{{"id", 4}, {"verb", "forward_backward"}, {"adapter", "a"}}, weighted},
        {{{"id", 5}, {"verb", "optim_step"}, {"adapter", "a"}, {"learning_rate", 0.01}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0}, {"grad_clip_norm", 1}}, {}},
        {{{"id", 6}, {"verb", "forward"}, {"adapter", nullptr}, {"top_k", 3}}, weighted},
        {{{"id", 7}, {"verb", "score"}, {"adapter", "a"}}, {t, l, Array::of("prompt_lengths", std::vector<int32_t>{2, 0})}},
        {{{"id", 8}, {"verb", "sample"}, {"adapter", "a"}, {"version", 1}, {"max_tokens", 4}, {"temperature", 1}, {"top_k", 0}, {"top_p", 0.9}, {"min_p", 0}, {"seed", 3}, {"stop_tokens", {2}}, {"report_top", 2}, {"as_trained", true}}, {t, l}},
        {{{"id", 9}, {"verb", "save"}, {"adapter", "a"}, {"path", "checkpoint"}}, {}},
        {{{"id", 10}, {"verb", "load"}, {"adapter", "a"}, {"path", "checkpoint"}}, {}},
        {{{"id", 11}, {"verb", "export"}, {"adapter", "a"}, {"path", "adapter.gguf"}, {"format", "gguf"}, {"metadata", {{"plumbline.run", "r"}}}}, {}},
        {{{"id", 12}, {"verb", "export"}, {"adapter", "a"}, {"path", "peft"}, {"format", "peft"}, {"metadata", json::object()}}, {}},
        {{{"id", 13}, {"verb", "export"}, {"adapter", "a"}, {"path", "merged.gguf"}, {"format", "gguf_merged"}, {"weight_type", "f16"}, {"metadata", json::object()}}, {}},
        {{{"id", 14}, {"verb", "load"}, {"adapter", "a"}, {"path", "adapter.gguf"}}, {}},
        {{{"id", 15}, {"verb", "activations"}, {"adapter", "a"}, {"layers", {0, 1}}, {"streams", {"residual", "attn_output", "ffn_down"}}},
         {t, l, Array::of("places", std::vector<int32_t>{2, 8, 3}), Array::of("groups", std::vector<int32_t>{0, 1, 0})}},
        {{{"id", 16}, {"verb", "project"}, {"adapter", "a"}, {"layer", 1}, {"target", "ffn_down"}}, {Array::of("vector", std::vector<float>(64, 0.125f))}},
        {{{"id", 17}, {"verb", "adapter_stack"}, {"adapter", "b"}, {"from", "a"}, {"rank", 1}, {"sites", json::array({json::array({1, "attn_output"})})}},
         {Array::of("a", std::vector<float>(64, 0.1f)), Array::of("b", std::vector<float>(64, 0.2f))}},
        {{{"id", 18}, {"verb", "adapter_create"}, {"adapter", "c"}, {"rank", 2}, {"alpha", 4}, {"seed", 1}, {"targets", all_targets}}, {}},
        {{{"id", 19}, {"verb", "adapter_average"}, {"adapter", "c"}, {"from", "a"}, {"decay", 0.9}}, {}},
        {{{"id", 20}, {"verb", "adapter_drop"}, {"adapter", "a"}}, {}},
    };
}
const Request last_hello = {{{"id", 1000}, {"verb", "hello"}, {"protocol", 1}}, {}};

void clear_working_folder(const std::set<std::string> & keep) {
    for (const auto & entry : std::filesystem::directory_iterator("."))
        if (!keep.count(entry.path().filename().string())) std::filesystem::remove_all(entry.path());
}

// ---- GGUF files

/** A number within the header that states a length, a type or a place. */
struct Field {
    size_t at, bytes;
};
struct Span {
    size_t begin, end;
};
/** The place of everything in a sound GGUF file. */
struct Anatomy {
    std::vector<Field> numbers, types, offsets, strings; // strings: the places of their lengths
    std::vector<Span> pairs, infos;
    size_t header_end = 0, data = 0;

    explicit Anatomy(const std::string & file) : file_(file) {
        at_ = 8;
        const uint64_t tensors = number(8, numbers), keys = number(8, numbers);
        for (uint64_t i = 0; i < keys; i++) {
            const size_t begin = at_;
            text();
            value(number(4, types));
            pairs.push_back({begin, at_});
        }
        for (uint64_t i = 0; i < tensors; i++) {
            const size_t begin = at_;
            text();
            for (uint64_t left = number(4, numbers); left > 0; left--) number(8, numbers);
            number(4, types);
            number(8, offsets);
            infos.push_back({begin, at_});
        }
        header_end = at_;
        data = (at_ + 31) / 32 * 32;
    }

private:
    uint64_t number(size_t bytes, std::vector<Field> & kind) {
        kind.push_back({at_, bytes});
        uint64_t result = 0;
        std::memcpy(&result, &file_[at_], bytes);
        at_ += bytes;
        return result;
    }
    void text() { at_ += number(8, strings); }
    void value(uint64_t type) {
        constexpr size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
        if (type == 8) return text();
        if (type != 9) { // a scalar, mostly a dimension of the model
            number(sizes[type], numbers);
            return;
        }
        const uint64_t of = number(4, types), count = number(8, numbers);
        if (of != 8) at_ += sizes[of] * count;
        for (uint64_t i = 0; of == 8 && i < count; i++) text();
    }
    const std::string & file_;
    size_t at_ = 0;
};

void set_number(std::string & file, const Field & field, uint64_t value) { std::memcpy(&file[field.at], &value, field.bytes); }
uint64_t number_of(const std::string & file, const Field & field) {
    uint64_t value = 0;
    std::memcpy(&value, &file[field.at], field.bytes);
    return value;
}

uint64_t extreme(Dice & dice, uint64_t value) {
    const std::vector<uint64_t> extremes = {0,         1,         2,         3,         31,        33,        63,        64,        255,       value - 1, value + 1, value * 2,     value / 2,     1u << 16,
                                            1u << 20,  1u << 24,  1u << 30,  0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32, 1ull << 40, 1ull << 62, ~0ull / 4, ~0ull / 2, ~0ull / 2 + 1, ~0ull - 31, ~0ull};
    return dice.any(extremes);
}

/** Joins a header of changed length and the data, which begin at the next multiple of the alignment again. */
std::string with_header(const std::string & header, const std::string & file, const Anatomy & anatomy) {
    return header + std::string((32 - header.size() % 32) % 32, '\0') + file.substr(std::min(anatomy.data, file.size()));
}

void swap_spans(std::string & file, Span a, Span b) {
    if (b.begin < a.begin) std::swap(a, b);
    if (b.begin < a.end) return;
    const std::string first = file.substr(a.begin, a.end - a.begin), between = file.substr(a.end, b.begin - a.end), second = file.substr(b.begin, b.end - b.begin);
    file.replace(a.begin, b.end - a.begin, second + between + first);
}

std::string header_with(Dice & dice, const std::string & file, const Anatomy & x, const std::vector<Span> & parts, const Field & count) {
    std::string header = file.substr(0, x.header_end);
    const Span part = dice.any(parts), other = dice.any(parts);
    switch (dice.below(3)) {
        case 0: // one part twice
            header.insert(other.begin, file.substr(part.begin, part.end - part.begin));
            set_number(header, count, number_of(header, count) + 1);
            break;
        case 1:
            header.erase(part.begin, part.end - part.begin);
            set_number(header, count, number_of(header, count) - 1);
            break;
        default: swap_spans(header, part, other);
    }
    return with_header(header, file, x);
}

/** Writes numbers that no arithmetic survives somewhere into the weights. */
void spoil_weights(Dice & dice, std::string & file, const Anatomy & x) {
    const uint32_t patterns[] = {0x7fc00000, 0xffffffff, 0x7f800000, 0xff800000, 0x7f7fffff, 0x7c007c00, 0x00000001};
    const uint32_t pattern = patterns[dice.below(7)];
    size_t at = x.data + dice.below(file.size() - x.data - 64) / 4 * 4;
    for (uint64_t count = dice.chance(2) ? 1 : 16; count > 0; count--, at += 4) std::memcpy(&file[at], &pattern, 4);
}

std::string damaged_file(Dice & dice, const std::string & whole, const Anatomy & x) {
    std::string file = whole;
    const auto header_byte = [&]() -> char & { return file[dice.below(x.header_end)]; };
    switch (dice.below(13)) {
        case 0: header_byte() ^= static_cast<char>(1 << dice.below(8)); break;
        case 1:
            for (uint64_t i = 1 + dice.below(16); i > 0; i--) header_byte() ^= static_cast<char>(1 << dice.below(8));
            break;
        case 2: header_byte() = static_cast<char>(dice.below(256)); break;
        case 3: file.resize(dice.below(dice.chance(2) ? x.header_end : file.size())); break;
        case 4:
            for (uint64_t i = 1 + dice.below(2); i > 0; i--) {
                const Field & field = dice.any(x.numbers);
                set_number(file, field, extreme(dice, number_of(file, field)));
            }
            break;
        case 5: {
            const Field & field = dice.any(x.strings);
            set_number(file, field, extreme(dice, number_of(file, field)));
            break;
        }
        case 6: set_number(file, dice.any(x.types), dice.chance(4) ? extreme(dice, 8) : dice.below(64)); break;
        case 7: {
            const Field & field = dice.any(x.offsets);
            set_number(file, field, dice.chance(2) ? extreme(dice, number_of(file, field)) : number_of(file, dice.any(x.offsets)));
            break;
        }
        case 8: return header_with(dice, whole, x, x.pairs, {16, 8});
        case 9: return header_with(dice, whole, x, x.infos, {8, 8});
        case 10: { // a string longer by up to a mebibyte
            const Field & field = dice.any(x.strings);
            const uint64_t more = 1ull << dice.below(21);
            std::string header = whole.substr(0, x.header_end);
            header.insert(field.at + 8, std::string(more, 'x'));
            set_number(header, field, number_of(whole, field) + more);
            return with_header(header, whole, x);
        }
        case 11: spoil_weights(dice, file, x); break;
        default: // two tensors exchange their places, whatever their sizes are
            const Field &a = dice.any(x.offsets), &b = dice.any(x.offsets);
            const uint64_t of_a = number_of(file, a);
            set_number(file, a, number_of(file, b));
            set_number(file, b, of_a);
    }
    return file;
}

void write_plain(const std::string & path, const std::string & bytes) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
    ::close(fd);
}
std::string read_plain(const std::string & path) {
    const std::vector<uint8_t> bytes = read_whole_file(path, 1 << 30);
    return {bytes.begin(), bytes.end()};
}

/** Opens the file as a model, then trains, scores and samples with it. with_exports: exports it too. */
void try_model(bool with_exports) {
    std::string input;
    for (const Request & request : script("model.gguf"))
        if (with_exports || request.head["verb"] != "export") input += request.head["verb"] == "save" || request.head["verb"] == "load" ? "" : frame_of(request);
    check_answers(serve_bytes(input + frame_of(last_hello)));
}

/** Loads the file as an adapter of the sound model. */
void try_adapter() {
    std::vector<Request> requests = script("sound.gguf");
    requests[9].head["path"] = "model.gguf";
    check_answers(serve_bytes(frame_of(requests[1]) + frame_of(requests[2]) + frame_of(requests[9]) + frame_of(requests[6]) + frame_of(last_hello)));
}

struct Original {
    std::string name, bytes;
    bool adapter;
};

void run_file_case(const std::vector<Original> & originals, int number) {
    Dice dice(1, static_cast<uint64_t>(number));
    const Original & original = originals[static_cast<size_t>(number) % originals.size()];
    now_running = "file case " + std::to_string(number) + " of " + original.name;
    const Anatomy anatomy(original.bytes);
    write_plain("model.gguf", damaged_file(dice, original.bytes, anatomy));
    if (original.adapter)
        try_adapter();
    else
        try_model(number % 16 == 0);
    clear_working_folder({"sound.gguf"});
}

// ---- Frames

json hostile_value(Dice & dice) {
    switch (dice.below(14)) {
        case 0: return nullptr;
        case 1: return dice.chance(2);
        case 2: return -1;
        case 3: return 0;
        case 4: return 1.5;
        case 5: return dice.chance(2) ? 1e308 : -1e-308;
        case 6: return (int64_t{1} << 53) + 1;
        case 7: return extreme(dice, 8);
        case 8: return "";
        case 9: return std::string(1 + dice.below(9000), 'y');
        case 10: return std::string("a\0b", 3);
        case 11: return json::array({json::array({1}), json::object(), nullptr, "attn_q"});
        case 12: return json{{"plumbline.x", json::array({1, 2})}, {"general.type", "model"}};
        default: return static_cast<int64_t>(dice.below(1 << 20));
    }
}

void damage_array(Dice & dice, Array & array) {
    if (array.bytes.empty()) return;
    const uint32_t values[] = {0xffffffff, 0x7fffffff, 0x80000000, 320, 319, 0, 0x7f800000, 0x7fc00000, 0x7f7fffff, 1u << 30};
    for (uint64_t i = 1 + dice.below(3); i > 0; i--) std::memcpy(&array.bytes[dice.below(array.bytes.size() / 4) * 4], &values[dice.below(10)], 4);
}

/** A frame whose head says something untrue about the payload. */
std::string lying_frame(Dice & dice, const Request & request) {
    std::string line = line_of(request);
    json head = json::parse(line);
    if (head.contains("payload")) {
        json & entry = head["payload"][dice.below(head["payload"].size())];
        const uint64_t count = entry["count"];
        switch (dice.below(6)) {
            case 0: entry["count"] = extreme(dice, count); break;
            case 1: entry["count"] = hostile_value(dice); break;
            case 2: entry["dtype"] = dice.chance(2) ? json("f64") : json(entry["dtype"] == "f32" ? "i32" : "f32"); break;
            case 3: entry["name"] = hostile_value(dice); break;
            case 4: head["payload"].push_back(entry); break;
            default: head["payload"] = hostile_value(dice);
        }
    } else {
        head["payload"] = json::array({{{"name", "tokens"}, {"dtype", "i32"}, {"count", extreme(dice, 3)}}});
    }
    return head.dump() + "\n" + payload_of(request);
}

std::string hostile_line(Dice & dice) {
    switch (dice.below(9)) {
        case 0: return std::string((1 << 20) + dice.below(3) - 1, ' ') + "\n";
        case 1: return std::string(1 + dice.below(1000000), '[') + "\n";
        case 2: return "{\"id\":7,\"verb\":\"forward\",\"x\":" + std::string(400000, '[') + std::string(400000, ']') + "}\n";
        case 3: return "{\"id\":7,\"verb\":\"adapter_create\",\"adapter\":\"a\",\"rank\":1,\"alpha\":1,\"seed\":1,\"targets\":" + std::string(400000, '[') + std::string(400000, ']') + "}\n";
        case 4: return "\n";
        case 5: return "{\"id\":1}{\"id\":2}\n";
        case 6: return "{\"id\":9,\"id\":10,\"verb\":\"hello\",\"verb\":\"fly\",\"protocol\":1}\n";
        case 7: return "{\"id\":9,\"verb\":\"\xff\xfe\xc0\"}\n";
        default: {
            std::string bytes(1 + dice.below(200), '\0');
            for (char & byte : bytes) byte = static_cast<char>(dice.below(256));
            return bytes;
        }
    }
}

/** Damages a request's fields, verb or arrays. */
void damage_request(Dice & dice, Request & request) {
    std::vector<std::string> names;
    for (const auto & [name, value] : request.head.items()) names.push_back(name);
    const std::vector<std::string> verbs = {"hello", "open", "adapter_create", "adapter_drop", "forward", "forward_backward", "optim_step", "sample", "score", "activations", "project", "adapter_stack", "adapter_average", "save", "load", "export", "fly", ""};
    switch (dice.below(6)) {
        case 0: request.head[dice.any(names)] = hostile_value(dice); break;
        case 1: request.head.erase(dice.any(names)); break;
        case 2: request.head["unknown_field"] = hostile_value(dice); break;
        case 3: request.head["verb"] = dice.any(verbs); break;
        case 4:
            if (!request.arrays.empty()) damage_array(dice, dice.any(request.arrays));
            break;
        default:
            if (request.arrays.empty()) break;
            if (dice.chance(2))
                std::swap(dice.any(request.arrays), dice.any(request.arrays));
            else
                request.arrays.pop_back();
    }
}

std::string damaged_input(Dice & dice) {
    std::vector<Request> requests = script("sound.gguf");
    if (dice.chance(4)) // verbs in another order
        for (uint64_t i = 1 + dice.below(6); i > 0; i--) std::swap(dice.any(requests), dice.any(requests));
    if (dice.chance(8)) requests.push_back(dice.any(requests));
    const size_t victim = dice.below(requests.size());
    const uint64_t kind = dice.below(8);
    for (uint64_t i = 1 + dice.below(2); kind < 4 && i > 0; i--) damage_request(dice, dice.any(requests));
    std::string input;
    for (size_t i = 0; i < requests.size(); i++) {
        std::string frame = kind == 4 && i == victim ? lying_frame(dice, requests[i]) : frame_of(requests[i]);
        if (kind == 5 && i == victim) frame = hostile_line(dice);
        if (kind == 6 && i == victim) frame[dice.below(frame.size())] = static_cast<char>(dice.below(256));
        input += frame;
    }
    input += frame_of(last_hello);
    if (kind == 7) input.resize(1 + dice.below(input.size() - 1));
    return input;
}

/** A case may end with an answer, with a fatal error, or with the end of the input. */
void run_frame_case(int number) {
    Dice dice(2, static_cast<uint64_t>(number));
    now_running = "frame case " + std::to_string(number);
    const std::string input = damaged_input(dice);
    std::vector<json> answers = serve_bytes(input);
    // A wrong count may take the last frames for payload. The input then ends where a request could begin.
    const bool swallowed = !answers.empty() && answers.back().value("id", json()) != 1000 && answers.back().value("error", json::object()).value("fatal", false) == false;
    if (swallowed || answers.empty()) answers.push_back({{"id", 1000}, {"ok", true}});
    check_answers(answers);
    clear_working_folder({"sound.gguf"});
}

// ---- What the worker must report, beyond surviving

json answer_to(const std::vector<json> & answers, int64_t id) {
    for (const json & answer : answers)
        if (answer["id"] == id) return answer;
    return {};
}

/** A NaN in one weight of each tensor must be refused at once, or be named when it shows. */
void test_nan_is_named(const std::string & name, const std::string & whole) {
    write_plain("model.gguf", whole);
    const MappedFile mapped("model.gguf");
    const GgufFile sound(mapped);
    for (const auto & [tensor, at] : sound.tensors) {
        now_running = "a NaN in " + tensor + " of " + name;
        std::string file = whole;
        // If the tensor has a row per token, the NaN goes into the row of token 5, which the requests use.
        const size_t row = at.matrix.rows == 320 ? 5 * ggml_row_size(at.matrix.type, at.matrix.columns) : 0;
        // Blocks of Q4_1 and Q8_0 begin with their scale in half precision.
        const std::string pattern = at.matrix.type == GGML_TYPE_F32 ? std::string("\x00\x00\xc0\x7f", 4) : std::string("\x00\x7e", 2);
        file.replace(static_cast<size_t>(at.matrix.data - mapped.data()) + row, pattern.size(), pattern);
        write_plain("spoilt.gguf", file);
        std::vector<Request> requests = script("spoilt.gguf");
        requests[7].head["version"] = 0;
        const std::vector<json> answers = serve_bytes(frame_of(requests[1]) + frame_of(requests[5]) + frame_of(requests[2]) + frame_of(requests[3]) + frame_of(requests[7]) + frame_of(last_hello));
        check_answers(answers);
        const json opened = answer_to(answers, 2), forward = answer_to(answers, 6), both = answer_to(answers, 4), sampled = answer_to(answers, 8);
        const auto names_it = [&, tensor_name = tensor](const json & answer, const char * code) {
            return answer["ok"] == false && answer["error"]["code"] == code && answer["error"]["message"].get<std::string>().find(tensor_name) != std::string::npos;
        };
        const auto says = [](const json & answer, const char * what) { return answer["error"]["message"].get<std::string>().find(what) != std::string::npos; };
        const bool told = names_it(forward, "non_finite") && says(forward, "of row 0") && names_it(both, "non_finite") && names_it(sampled, "non_finite") && says(sampled, "a logit of row ");
        CHECK(names_it(opened, "invalid_model") || told, "%s: %s, %s, %s, %s", now_running.c_str(), opened.dump().c_str(), forward.dump().c_str(), both.dump().c_str(), sampled.dump().c_str());
    }
    clear_working_folder({"sound.gguf"});
}

/** Writes the model's header and as many bytes as its tensors take, when the embedding has this many rows. The data are a hole. */
void write_with_vocabulary(const std::string & whole, int64_t vocabulary, const char * path) {
    write_plain("model.gguf", whole);
    const MappedFile mapped("model.gguf");
    const GgufFile base(mapped);
    std::unique_ptr<gguf_context, void (*)(gguf_context *)> file(gguf_init_empty(), gguf_free);
    gguf_set_kv(file.get(), base.context());
    const std::unique_ptr<ggml_context, void (*)(ggml_context *)> room(ggml_init({ggml_tensor_overhead() * (base.tensors.size() + 1), nullptr, true}), ggml_free);
    for (const auto & [name, tensor] : base.tensors) {
        ggml_tensor * made = ggml_new_tensor_2d(room.get(), tensor.matrix.type, tensor.matrix.columns, name == "token_embd.weight" ? vocabulary : tensor.matrix.rows);
        ggml_set_name(made, name.c_str());
        gguf_add_tensor(file.get(), made);
    }
    const int64_t last = gguf_get_n_tensors(file.get()) - 1;
    const size_t bytes = gguf_get_meta_size(file.get()) + gguf_get_tensor_offset(file.get(), last) + gguf_get_tensor_size(file.get(), last);
    const bool written = gguf_write_to_file(file.get(), path, true) && ::truncate(path, static_cast<off_t>(bytes + 64)) == 0;
    CHECK(written, "could not make the file");
}

/** A sound file of a tebibyte, nearly all of it a hole. It is larger than any machine's memory, and the error must give both figures. */
void test_too_large(const std::string & whole) {
    now_running = "a model of a tebibyte";
    write_with_vocabulary(whole, (int64_t{1} << 40) / 4 / 64, "huge.gguf");
    const std::vector<json> answers = serve_bytes(frame_of(script("huge.gguf")[1]) + frame_of(last_hello));
    check_answers(answers);
    const json opened = answer_to(answers, 2);
    CHECK(opened["error"]["code"] == "out_of_memory", "%s", opened.dump().c_str());
    const std::string message = opened["error"]["message"];
    CHECK(message.find("needs 10") != std::string::npos && message.find(" MiB in all, the limit is ") != std::string::npos, "both figures: %s", message.c_str());
    clear_working_folder({"sound.gguf"});
}

void test_no_vocabulary(const std::string & whole) {
    now_running = "a model without tokens";
    write_with_vocabulary(whole, 2, "empty.gguf");
    std::string file = read_plain("empty.gguf"); // the library would write a matrix of 0 rows as one of a single row
    const std::string name = "token_embd.weight";
    set_number(file, {file.find(name) + name.size() + 4 + 8, 8}, 0);
    write_plain("empty.gguf", file);
    const std::vector<json> answers = serve_bytes(frame_of(script("empty.gguf")[1]) + frame_of(last_hello));
    check_answers(answers);
    CHECK(answer_to(answers, 2)["error"]["code"] == "invalid_model", "%s", answer_to(answers, 2).dump().c_str());
    clear_working_folder({"sound.gguf"});
}

/** JSON files nest only a few levels. Deeper ones are refused, because to copy what they hold would overflow the stack. */
void test_deep_files() {
    const std::string deep = std::string(400000, '[') + std::string(400000, ']');
    const auto header = [](const std::string & text) {
        const uint64_t length = text.size();
        return std::string(reinterpret_cast<const char *>(&length), sizeof length) + text;
    };
    const std::string config = R"({"peft_type":"LORA","r":2,"lora_alpha":4})";
    const std::vector<std::map<std::string, std::string>> folders = {
        {{"adapter_config.json", "{\"peft_type\":" + deep + "}"}, {"adapter_model.safetensors", header("{}")}},
        {{"adapter_config.json", config}, {"adapter_model.safetensors", header("{\"x\":{\"shape\":" + deep + "}}")}},
        {{"manifest.json", "{\"format\":" + deep + "}"}},
    };
    for (const auto & files : folders) {
        now_running = "a deep " + files.rbegin()->first;
        ::mkdir("deep", 0700);
        for (const auto & [name, bytes] : files) write_plain("deep/" + name, bytes);
        std::vector<Request> requests = script("sound.gguf");
        requests[9].head["path"] = "deep";
        const std::vector<json> answers = serve_bytes(frame_of(requests[1]) + frame_of(requests[2]) + frame_of(requests[9]) + frame_of(last_hello));
        check_answers(answers);
        const json error = answer_to(answers, 10)["error"];
        CHECK(error["code"] == "checkpoint_mismatch" && error["message"].get<std::string>().find("16 levels") != std::string::npos, "%s: %s", now_running.c_str(), error.dump().c_str());
        clear_working_folder({"sound.gguf"});
    }
}

/** A header of very many tensors is read in a time that grows with its length, and brackets within a text nest nothing. */
void test_wide_header() {
    now_running = "a wide header";
    std::string text = "{\"__metadata__\":{\"note\":\"" + std::string(40, '[') + "\\\"\"}";
    for (int i = 0; i < 300000; i++) text += ",\"" + std::to_string(i) + "\":{}";
    text += "}";
    const uint64_t length = text.size();
    ::mkdir("wide", 0700);
    write_plain("wide/adapter_config.json", R"({"peft_type":"LORA","r":2,"lora_alpha":4})");
    write_plain("wide/adapter_model.safetensors", std::string(reinterpret_cast<const char *>(&length), sizeof length) + text);
    std::vector<Request> requests = script("sound.gguf");
    requests[9].head["path"] = "wide";
    const std::vector<json> answers = serve_bytes(frame_of(requests[1]) + frame_of(requests[2]) + frame_of(requests[9]) + frame_of(last_hello));
    check_answers(answers);
    const json error = answer_to(answers, 10)["error"];
    CHECK(error["code"] == "checkpoint_mismatch" && error["message"].get<std::string>().find("two dimensions") != std::string::npos, "%s", error.dump().c_str());
    clear_working_folder({"sound.gguf"});
}

/** An answer whose line or payload would be over the limits of a frame is refused before anything is drawn. */
void test_large_samples() {
    const auto sampled = [](size_t rows, int64_t max_tokens) {
        now_running = std::to_string(rows) + " rows of " + std::to_string(max_tokens) + " tokens";
        Request request = script("sound.gguf")[7];
        request.head.update({{"adapter", nullptr}, {"max_tokens", max_tokens}, {"report_top", 0}});
        request.head.erase("version");
        request.arrays = {Array::of("tokens", std::vector<int32_t>(rows, 1)), Array::of("row_lengths", std::vector<int32_t>(rows, 1))};
        const std::vector<json> answers = serve_bytes(frame_of(script("sound.gguf")[1]) + frame_of(request) + frame_of(last_hello));
        check_answers(answers);
        for (const json & answer : answers) CHECK(static_cast<int64_t>(answer.dump().size()) < limits::max_header_bytes, "%s: a line of %zu bytes", now_running.c_str(), answer.dump().size());
        return answer_to(answers, 8);
    };
    const json many = sampled(116600, 1), large = sampled(100000, 400);
    CHECK(many["error"]["code"] == "bad_request" && large["error"]["code"] == "bad_request", "%s, %s", many["error"].dump().c_str(), large["error"].dump().c_str());
}

/** Every tiny model of the folder, and an adapter for the sound one. */
std::vector<Original> originals_of(const std::string & folder) {
    std::vector<Original> originals;
    std::vector<std::filesystem::path> paths;
    for (const auto & entry : std::filesystem::directory_iterator(folder))
        // The other models are refused anyway, so nothing after their headers would be reached.
        if (entry.path().extension() == ".gguf" && entry.path().filename().string().rfind("tiny-", 0) == 0) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const auto & path : paths) originals.push_back({path.filename(), read_plain(path), false});
    std::string input;
    for (size_t i : {1, 2, 3, 4, 10}) input += frame_of(script("sound.gguf")[i]);
    now_running = "making an adapter";
    check_answers(serve_bytes(input + frame_of(last_hello)));
    originals.push_back({"an adapter", read_plain("adapter.gguf"), true});
    clear_working_folder({"sound.gguf"});
    return originals;
}

} // namespace

// A failed allocation of any size must lead to our own refusal, not to the sanitizer's null. Aborts are reported with their stack.
extern "C" const char * __asan_default_options();
extern "C" const char * __asan_default_options() { return "handle_abort=1:max_allocation_size_mb=2048:hard_rss_limit_mb=3072"; }

int main(int count, char ** arguments) {
    const std::string folder = std::filesystem::absolute(arguments[1]).string();
    ::signal(SIGALRM, [](int) {
        say_which("no end");
        ::_exit(3);
    });
    ::signal(SIGPIPE, SIG_IGN);
    std::atexit([] {
        if (failed_checks != 0) say_which("failed; the last case was");
    });
    // In memory if the machine has that, because thousands of small files are written and synced.
    std::string scratch = std::filesystem::exists("/dev/shm") ? "/dev/shm/plumbline-test-XXXXXX" : "/tmp/plumbline-test-XXXXXX";
    if (!::mkdtemp(scratch.data())) return 2;
    std::filesystem::current_path(scratch);
    std::filesystem::copy_file(folder + "/tiny-q4_1.gguf", "sound.gguf");
    const int only = count > 2 ? std::atoi(arguments[2]) : -1;

    const std::vector<Original> originals = originals_of(folder);
    for (int i = 0; i < file_cases; i++)
        if (only < 0 || i == only) run_file_case(originals, i);
    for (int i = 0; i < frame_cases; i++)
        if (only < 0 || i == only) run_frame_case(i);
    for (const char * name : {"tiny-f32", "tiny-q4_1"}) test_nan_is_named(name, read_plain(folder + "/" + name + ".gguf"));
    test_too_large(read_plain(folder + "/tiny-f32.gguf"));
    test_no_vocabulary(read_plain(folder + "/tiny-f32.gguf"));
    test_deep_files();
    test_wide_header();
    test_large_samples();
    std::filesystem::current_path("/");
    std::filesystem::remove_all(scratch);

    for (const auto & [code, times] : endings) std::printf("%s %d\n", code.c_str(), times);
    struct rusage usage {};
    ::getrusage(RUSAGE_SELF, &usage);
    std::printf("%d files and %d frames, %ld MiB at most\n", file_cases, frame_cases, usage.ru_maxrss >> 10);
    CHECK(static_cast<int64_t>(usage.ru_maxrss) << 10 <= most_resident, "%ld KiB", usage.ru_maxrss);
    return failed_checks == 0 ? 0 : 1;
}
