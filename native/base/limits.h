// What rows may be at most, and what a device computes at the same time where there is memory for it; `hello` tells all.
#pragma once
#include <cstdint>

namespace limits {
constexpr int64_t max_row_tokens = 32768;
constexpr int64_t max_batch_tokens = 262144;
constexpr int64_t cpu_pass_tokens = 1024;
constexpr int64_t gpu_pass_tokens = 16384;
constexpr int64_t max_rank = 1024;
} // namespace limits
