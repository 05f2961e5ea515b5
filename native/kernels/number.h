// The precision of a product's inputs. Its sums are always in single precision.
#pragma once
#include <cstdint>

enum class Number { f32, bf16 };
inline int64_t bytes_of(Number number) { return number == Number::f32 ? 4 : 2; }
