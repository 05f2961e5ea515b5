// What tests share: a check that reports a failure and goes on, what a call failed with, a scratch folder, and the error that the gates
// compare.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib> // mkdtemp
#include <functional>
#include <string>
#include <vector>

#include "base/failure.h"

inline int failed_checks = 0;

/** How often a test repeats what it draws. Sanitizers look for faults of memory, which a few repetitions show, and take many times as long. */
constexpr int repetitions(int count) {
#ifdef __SANITIZE_ADDRESS__
    return count / 5;
#else
    return count;
#endif
}

#define CHECK(condition, ...)                                              \
    do {                                                                   \
        if (!(condition)) {                                                \
            failed_checks++;                                               \
            std::fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            std::fprintf(stderr, __VA_ARGS__);                             \
            std::fprintf(stderr, "\n");                                    \
        }                                                                  \
    } while (0)

/** The code and message of the Failure that f throws. */
inline std::string failure_of(const std::function<void()> & f) {
    try {
        f();
    } catch (const Failure & failure) {
        return failure.code + ": " + failure.what();
    }
    return "no failure";
}

/** The code alone. */
inline std::string code_of(const std::function<void()> & f) {
    const std::string failure = failure_of(f);
    return failure.substr(0, failure.find(':'));
}

inline bool begins(const std::string & text, const std::string & start) { return text.rfind(start, 0) == 0; }

inline std::string scratch_folder() {
    char name[] = "/tmp/plumbline-test-XXXXXX";
    return ::mkdtemp(name);
}

/** ‖a − reference‖ / ‖reference‖. If the reference is all zeros, a must be too. */
template <class A, class B> double relative_l2(const A * a, const B * reference, size_t count) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = static_cast<double>(a[i]) - static_cast<double>(reference[i]);
        difference += d * d;
        norm += static_cast<double>(reference[i]) * static_cast<double>(reference[i]);
    }
    if (norm == 0) return difference == 0 ? 0 : INFINITY;
    return std::sqrt(difference / norm);
}
