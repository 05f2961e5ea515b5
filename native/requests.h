// Every verb of protocol.md: its fields checked one by one, handed to the trainer, and the answer put into words.
#pragma once
#include <nlohmann/json.hpp>
#include <vector>

#include "trainer.h"
#include "wire.h"

struct Answer {
    nlohmann::json fields = nlohmann::json::object();
    std::vector<Array> payload;
};

/** Throws Failure. */
Answer answer_request(Trainer & trainer, const Frame & frame);
