// Parses JSON from outside. Deep nesting would overflow the stack, because JSON values are destroyed, copied and printed recursively.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

constexpr int deepest_json = 16; // limit for the nesting of lists and objects

/** The value between two iterators, or a discarded one if it is no JSON. Calls refuse(what), which must throw, if it nests too deep. */
template <class Iterator, class Refuse> nlohmann::json parse_shallow(Iterator begin, Iterator end, const Refuse & refuse) {
    const nlohmann::json::parser_callback_t shallow = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json &) {
        if (depth > deepest_json) refuse("may nest " + std::to_string(deepest_json) + " levels deep");
        return true;
    };
    return nlohmann::json::parse(begin, end, shallow, false);
}
