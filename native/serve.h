// The worker's loop: it reads a frame, lets the trainer answer it, and writes the answer.
#pragma once
#include "trainer.h"
#include "wire.h"

/**
 * Runs until the input ends. Throws a fatal Failure, for example when the next frame cannot be found, or io_error when nobody reads the
 * answers.
 */
void serve(Wire & wire, Trainer & trainer);
