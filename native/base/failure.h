// How every part of the worker reports an error: a code of protocol.md, what happened, and what to do about it.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

/** The hint for an error that should never happen. */
inline constexpr const char * report_bug = "Please report a bug.";

struct Failure : std::runtime_error {
    Failure(std::string code_, const std::string & message, std::string hint_, bool fatal_ = false)
        : std::runtime_error(message), code(std::move(code_)), hint(std::move(hint_)), fatal(fatal_) {}
    std::string code;
    std::string hint;
    bool fatal; // the worker cannot go on: the next frame cannot be found, or the GPU no longer answers
};

/** needed and limit are bytes. instead: what would need less. */
[[noreturn]] inline void out_of_memory(const std::string & what, int64_t needed, int64_t limit, const std::string & instead) {
    const auto mebibytes = [](int64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; };
    throw Failure("out_of_memory", what + " needs " + mebibytes(needed) + " in all, the limit is " + mebibytes(limit), "Allow more memory, or use " + instead + ".");
}

[[noreturn]] inline void not_finite(const std::string & what) {
    throw Failure("non_finite", what + " is not a finite number", "Lower the learning rate or the weights; go back to the last checkpoint.");
}
