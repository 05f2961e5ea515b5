// Access to an emulated GPU, in the form that the trainer takes.
#pragma once
#include <memory>

#include "devices.h"

struct Mishaps;

/** Makes a new device on every open. All of them count in `mishaps` and fail as it says. */
GpuWay emulated_gpu(const std::shared_ptr<Mishaps> & mishaps);
