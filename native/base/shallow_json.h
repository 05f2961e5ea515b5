// Parses JSON from outside. Deep nesting would overflow the stack, because JSON values are destroyed, copied and printed recursively.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

constexpr int deepest_json = 16; // limit for the nesting of lists and objects

/**
 * The value between two iterators, or a discarded one if it is no JSON. Calls refuse(what), which must throw, if it nests too deep. The depth
 * is counted before the text is parsed: the library's own callback takes quadratic time where a list has many objects.
 */
template <class Iterator, class Refuse> nlohmann::json parse_shallow(Iterator begin, Iterator end, const Refuse & refuse) {
    int depth = 0;
    bool quoted = false;
    for (Iterator at = begin; at != end; ++at) {
        const char c = static_cast<char>(*at);
        if (quoted) {
            if (c == '\\' && ++at == end) break;
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (++depth > deepest_json) refuse("may nest " + std::to_string(deepest_json) + " levels deep");
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return nlohmann::json::parse(begin, end, nullptr, false);
}
