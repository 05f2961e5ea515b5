// Faults that the negative tests plant to see their gate fail. They exist only in the library that is built for those tests: without
// PLUMBLINE_FAULTS, faulty() is false at compile time, and no request can change that.
#pragma once

enum class Fault { none, zero_key_gradient, see_the_future, see_a_sibling, scale_alpha_twice, ignore_window, skip_head_norm_backward };

#ifdef PLUMBLINE_FAULTS
inline Fault planted_fault = Fault::none;
inline bool faulty(Fault fault) { return planted_fault == fault; }
#else
constexpr bool faulty(Fault) { return false; }
#endif
