// Access to a GPU, whether or not this build has kernels for one: either cuda_backend.cu or without_kernels.cpp is linked.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "cuda/gemm.h"
#include "model/backend.h"

/** The reason why no GPU can be used; empty when one can. */
std::string why_no_gpu();

/**
 * Multiplications and additions per second that the first GPU reaches in products of a model's size. Takes 0.2 s. Nothing when no GPU
 * can be used now: there is none, or others fill or hold it.
 */
std::optional<double> gpu_gemm_rate(Number precision);

/** Whether passes whose sizes come again are recorded and repeated. Without it, a test sees the same work launched kernel by kernel. */
enum class Replays { recorded, none };

/** Opens the model on the first GPU. Throws out_of_memory, with both figures, when it does not fit. */
std::unique_ptr<Backend> open_on_gpu(const ModelSource & source, int threads, Number precision, Replays replays = Replays::recorded);
