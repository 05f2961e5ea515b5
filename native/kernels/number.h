// What the inputs of a product are in; its sums are in single precision.
#pragma once
#include <cstdint>

enum class Number { f32, bf16 };
inline int64_t bytes_of(Number number) { return number == Number::f32 ? 4 : 2; }
