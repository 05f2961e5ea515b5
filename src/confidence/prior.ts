// Chooses the prior calibrator for a base: that of the base's own family if one was fitted, else SmolLM2's, and the score's
// reason says so. Priors are config/confidence/<family>-prior.json, made by `plumbline fit-prior`.

import type { GgufHeader } from "../engine/gguf/header.ts";
import type { Prior } from "./calibration.ts";

export interface ChosenPrior {
  prior: Prior;
  isOwnFamily: boolean;
}

/** Family whose prior is used for bases without a prior of their own family. */
const otherwise = "smollm2";

/** By the base's name in its header (general.basename, else general.name), ignoring spaces, dashes, underscores and case. */
export function priorFor(priors: readonly Prior[], { values }: Pick<GgufHeader, "values">): ChosenPrior {
  const called = String(values.get("general.basename") ?? values.get("general.name") ?? "");
  const plain = called.toLowerCase().replaceAll(/[\s_-]/g, "");
  const own = priors.find(({ family }) => plain.startsWith(family));
  const prior = own ?? priors.find(({ family }) => family === otherwise);
  if (prior === undefined) throw new RangeError(`There is no prior of ${otherwise}`);
  return { prior, isOwnFamily: own !== undefined };
}
