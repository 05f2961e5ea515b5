// The way to an emulated GPU, as the trainer takes it.
#pragma once
#include <memory>

#include "devices.h"

struct Mishaps;

/** A new device on every open; all of them count in `mishaps`, and fail by it. */
GpuWay emulated_gpu(const std::shared_ptr<Mishaps> & mishaps);
