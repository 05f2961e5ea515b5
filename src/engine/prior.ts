// Which prior calibrator answers for which base: its family's own where there is one, else the first there is, and that is said.
import type { Prior } from "./confidence.ts";
import type { GgufHeader } from "./gguf-header.ts";

export interface ChosenPrior {
  prior: Prior;
  isOwnFamily: boolean;
}

/** By the header of the base: its family is what the makers call it (general.basename, else general.name). */
export function priorFor(priors: readonly Prior[], { values }: Pick<GgufHeader, "values">): ChosenPrior {
  const called = String(values.get("general.basename") ?? values.get("general.name") ?? "").toLowerCase();
  const own = priors.find((prior) => called.replaceAll(/[\s_-]/g, "").includes(prior.family));
  return { prior: own ?? priors[0]!, isOwnFamily: own !== undefined };
}
