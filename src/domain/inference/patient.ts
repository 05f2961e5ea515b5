// Waits with a question until its model can answer it. Background work asks thousands of questions, and an upstream that is
// overloaded for a few minutes must not end it.
import type { Failure, FailureCode } from "../../base/errors.ts";
import { createPatience, type PatienceParts } from "../../base/patience.ts";
import type { Say } from "./say.ts";
import { mayAnswerLater } from "./upstream-refusals.ts";

/** Failures of installed models and limits of upstreams that pass. */
const passing: ReadonlySet<FailureCode> = new Set([
  "engine_busy",
  "load_cooling",
  "out_of_memory",
  "too_many_requests",
]);

const mayPass = (failure: Failure): boolean => passing.has(failure.code) || mayAnswerLater(failure);

/** Returns a `say` that asks again while the model cannot answer. All its callers share the patience with a model. */
export function patient(say: Say, parts: Omit<PatienceParts, "mayPass">): Say {
  const patience = createPatience({ ...parts, mayPass });
  return (ownerId, by, content, options) => {
    const whom = by.provider === null ? by.model : `${by.provider}/${by.model}`;
    return patience(whom, () => say(ownerId, by, content, options), options.signal);
  };
}
