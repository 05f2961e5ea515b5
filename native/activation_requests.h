// The verbs activations, project and adapter_stack of protocol.md.
#pragma once
#include "requests.h"

Answer activations(Trainer & trainer, Fields & fields);
Answer project(Trainer & trainer, Fields & fields);
Answer adapter_stack(Trainer & trainer, Fields & fields);
