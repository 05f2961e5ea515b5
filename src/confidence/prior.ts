// Chooses the prior calibrator for a base model: the prior of its own family if one was fitted, otherwise SmolLM2's, which the score's
// reason then mentions. Priors are config/confidence/<family>-prior.json, made by `plumbline fit-prior`.

import type { GgufHeader } from "../engine/gguf/header.ts";
import type { Prior } from "./calibration.ts";

export interface ChosenPrior {
  prior: Prior;
  isOwnFamily: boolean;
}

/** Family whose prior is used for bases without a prior of their own family. */
const otherwise = "smollm2";

/**
 * Finds the prior by the base model's name in its header (general.basename, otherwise general.name), ignoring spaces, dashes, underscores
 * and case.
 */
export function priorFor(priors: readonly Prior[], { values }: Pick<GgufHeader, "values">): ChosenPrior {
  const called = String(values.get("general.basename") ?? values.get("general.name") ?? "");
  const plain = called.toLowerCase().replaceAll(/[\s_-]/g, "");
  const own = priors.find(({ family }) => plain.startsWith(family));
  const prior = own ?? priors.find(({ family }) => family === otherwise);
  if (prior === undefined) throw new RangeError(`There is no prior of ${otherwise}`);
  return { prior, isOwnFamily: own !== undefined };
}
