// Limits of rows and adapters, and the tokens that a device computes at the same time if memory allows. `hello` reports all but max_rank.
#pragma once
#include <cstdint>

namespace limits {
constexpr int64_t max_row_tokens = 32768;
constexpr int64_t max_batch_tokens = 262144;
constexpr int64_t cpu_pass_tokens = 1024;
constexpr int64_t gpu_pass_tokens = 16384;
constexpr int64_t max_rank = 1024;
} // namespace limits
