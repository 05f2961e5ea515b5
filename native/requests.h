// Answers every verb of protocol.md: checks the fields, calls the trainer, and puts the result into an answer.
#pragma once
#include <nlohmann/json.hpp>
#include <vector>

#include "fields.h"
#include "trainer.h"
#include "wire.h"

struct Answer {
    nlohmann::json fields = nlohmann::json::object();
    std::vector<Array> payload;
};

/** Fields that many verbs have. */
Rows rows_of(Fields & fields);
std::string name_of(Fields & fields);

/** Throws Failure. */
Answer answer_request(Trainer & trainer, const Frame & frame);
