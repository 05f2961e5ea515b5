// What a processor has that some do not, and functions compiled for each kind that gains by them, chosen when the program starts.
#pragma once

#ifdef PLUMBLINE_AVX2_ALONE // as on a processor without AVX-512: kernels of both kinds can be measured on one machine
#define PROCESSOR_HAS(feature) false
#else
#define PROCESSOR_HAS(feature) __builtin_cpu_supports(feature)
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(PLUMBLINE_AVX2_ALONE)
#define PER_PROCESSOR // the choice is made before the sanitizer is ready for it
#else
#define PER_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "default")))
#endif
