// Tests for features that only some processors have, and functions that are compiled for each kind of processor and chosen at start-up.
#pragma once

#ifdef PLUMBLINE_AVX2_ALONE // treats every processor as one without AVX-512, so that kernels of both kinds can be measured on one machine
#define PROCESSOR_HAS(feature) false
#else
#define PROCESSOR_HAS(feature) __builtin_cpu_supports(feature)
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(PLUMBLINE_AVX2_ALONE)
#define PER_PROCESSOR // under the sanitizer the choice would be made before the sanitizer is ready
#else
#define PER_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "default")))
#endif
