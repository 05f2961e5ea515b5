// The worker's loop: reads a frame, lets the trainer answer it, writes the answer.
#pragma once
#include "trainer.h"
#include "wire.h"

/** Until the input ends. Throws Failure when the next frame cannot be found or nobody reads the answers. */
void serve(Wire & wire, Trainer & trainer);
