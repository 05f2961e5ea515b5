// What rows may be at most; `hello` tells both.
#pragma once
#include <cstdint>

namespace limits {
constexpr int64_t max_row_tokens = 32768;
constexpr int64_t max_batch_tokens = 262144;
} // namespace limits
