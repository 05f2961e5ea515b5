// The way to a GPU, whether or not this build has kernels for one: cuda_backend.cu or without_kernels.cpp is linked.
#pragma once
#include <memory>
#include <string>

#include "cuda/gemm.h"
#include "model/backend.h"

/** Why no GPU can be used; empty when one can. */
std::string why_no_gpu();

/** The model on the first GPU. Throws out_of_memory with both figures when it does not fit. */
std::unique_ptr<Backend> open_on_gpu(const ModelSource & source, int threads, Number precision);
