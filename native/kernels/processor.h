// A function compiled for each kind of processor that gains by it, and chosen when the program starts.
#pragma once

#ifdef __SANITIZE_ADDRESS__
#define PER_PROCESSOR // the choice is made before the sanitizer is ready for it
#else
#define PER_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "default")))
#endif
