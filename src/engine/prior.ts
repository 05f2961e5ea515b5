// Which prior calibrator answers for which base: that of the base's own family where one was fitted, else SmolLM2's, and the answer
// says so. Priors are config/confidence/<family>-prior.json, made by `plumbline fit-prior`.
import type { Prior } from "./confidence.ts";
import type { GgufHeader } from "./gguf-header.ts";

export interface ChosenPrior {
  prior: Prior;
  isOwnFamily: boolean;
}

/** The family whose prior answers for all that have none of their own. */
const otherwise = "smollm2";

/** By what the makers call the base in its header (general.basename, else general.name), blanks, dashes and case aside. */
export function priorFor(priors: readonly Prior[], { values }: Pick<GgufHeader, "values">): ChosenPrior {
  const called = String(values.get("general.basename") ?? values.get("general.name") ?? "");
  const plain = called.toLowerCase().replaceAll(/[\s_-]/g, "");
  const own = priors.find(({ family }) => plain.startsWith(family));
  const prior = own ?? priors.find(({ family }) => family === otherwise);
  if (prior === undefined) throw new RangeError(`There is no prior of ${otherwise}`);
  return { prior, isOwnFamily: own !== undefined };
}
