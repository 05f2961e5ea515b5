// Reads a request's fields one by one and checks their type and range. A field that was never read is unknown, and is refused by name.
#pragma once
#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "base/failure.h"
#include "wire.h"

class Fields {
public:
    explicit Fields(const Frame & frame) : frame_(frame) {}

    std::string text(const char * name, size_t most = 4096) {
        const nlohmann::json & value = at(name);
        if (!value.is_string()) bad(name, "must be a string");
        std::string result = value.get<std::string>();
        if (result.empty() || result.size() > most || result.find('\0') != std::string::npos) bad(name, "must have 1 to " + std::to_string(most) + " bytes, none of them 0");
        return result;
    }
    std::optional<std::string> text_or_null(const char * name) {
        if (at(name).is_null()) return std::nullopt;
        return text(name);
    }
    int64_t whole(const char * name, int64_t least, int64_t most) {
        const nlohmann::json & value = at(name);
        if (!value.is_number_integer() || value < least || value > most) bad(name, "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
        return value.get<int64_t>();
    }
    bool flag(const char * name) {
        const nlohmann::json & value = at(name);
        if (!value.is_boolean()) bad(name, "must be true or false");
        return value.get<bool>();
    }
    double number(const char * name, double least, double most) {
        const nlohmann::json & value = at(name);
        const double number = value.is_number() ? value.get<double>() : NAN;
        if (!(number >= least && number <= most)) bad(name, "must be a number from " + std::to_string(least) + " to " + std::to_string(most));
        return number;
    }
    const nlohmann::json & list(const char * name) {
        const nlohmann::json & value = at(name);
        if (!value.is_array()) bad(name, "must be a list");
        return value;
    }
    const nlohmann::json & object(const char * name) {
        const nlohmann::json & value = at(name);
        if (!value.is_object()) bad(name, "must be an object");
        return value;
    }
    bool has(const char * name) const { return frame_.fields.contains(name); }

    std::vector<int32_t> integers(const char * name) { return array(name, false).values<int32_t>(); }
    std::vector<float> floats(const char * name) { return array(name, true).values<float>(); }
    /** Empty when the request has no such array. */
    std::vector<int32_t> integers_if_any(const char * name) { return has_array(name) ? integers(name) : std::vector<int32_t>(); }
    std::vector<float> floats_if_any(const char * name) { return has_array(name) ? floats(name) : std::vector<float>(); }

    /** Call this after the last field was read: any field or array that is left is unknown, for example a misspelt option. */
    void expect_no_more() const {
        for (const auto & [name, value] : frame_.fields.items())
            if (!taken_.count(name)) bad(name, "is unknown to " + frame_.verb);
        for (const Array & array : frame_.payload)
            if (!arrays_.count(array.name)) bad("payload " + array.name, "is unknown to " + frame_.verb);
        if (arrays_.size() != frame_.payload.size()) bad("payload", "names an array twice");
    }

    [[noreturn]] static void bad(const std::string & name, const std::string & what) {
        throw Failure("bad_request", name + " " + what, "See the verb's fields in protocol.md.");
    }

private:
    const nlohmann::json & at(const char * name) {
        if (!frame_.fields.contains(name)) bad(name, "is missing");
        taken_.insert(name);
        return frame_.fields[name];
    }
    bool has_array(const char * name) const {
        return std::any_of(frame_.payload.begin(), frame_.payload.end(), [&](const Array & array) { return array.name == name; });
    }
    const Array & array(const char * name, bool is_float) {
        for (const Array & array : frame_.payload)
            if (array.name == name) {
                if (array.is_float != is_float) bad(std::string("payload ") + name, is_float ? "must be f32" : "must be i32");
                arrays_.insert(name);
                return array;
            }
        bad(std::string("payload ") + name, "is missing");
    }

    const Frame & frame_;
    std::set<std::string> taken_, arrays_;
};
