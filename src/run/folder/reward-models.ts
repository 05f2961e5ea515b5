// The models, other than the base, that judge answers for the reward of an auto-align: a judge and a preference model. The appliance looks
// them up before a run is queued. During the run, the run sends its questions to the appliance, which asks the models.
import { invalid } from "../../base/errors.ts";
import type { AutoAlignRequest } from "../../contract/auto-align.ts";

/** The models' names as given, or their ids once they are looked up. */
export interface RewardModels {
  /** A model of this appliance or, where a provider is named, of that upstream. */
  judge: { model: string; provider: string | null } | null;
  preferenceModel: string | null;
}

/** Value of `llm_judge.judge_model` that names the run's base, which is also the judge if none is named. */
export const baseJudgeName = "base";

export const rewardFields = {
  judge: ["config", "reward", "llm_judge", "judge_model"],
  provider: ["config", "reward", "llm_judge", "judge_provider"],
  preferenceModel: ["config", "reward", "preference_model_ref"],
};

/** The fields of the reward block that name models. */
interface Block {
  llm_judge?: object | null;
  preference_model_ref?: string | null;
}

/** Reads the models from the reward block. Throws a validation failure that names the field. */
export function rewardModelsOf(reward: Block | null | undefined): RewardModels {
  const { judge_model = null, judge_provider = null } = (reward?.llm_judge ?? {}) as Record<string, unknown>;
  const judge = nameOf(judge_model, rewardFields.judge);
  const provider = nameOf(judge_provider, rewardFields.provider);
  if (provider !== null && judge === null)
    throw invalid(
      rewardFields.judge,
      "must name one of the upstream's models, because judge_provider names an upstream",
    );
  const isBase = provider === null && (judge === null || judge === baseJudgeName);
  return {
    judge: isBase ? null : { model: judge!, provider },
    preferenceModel: nameOf(reward?.preference_model_ref ?? null, rewardFields.preferenceModel),
  };
}

/**
 * Whether this request can have a reinforce phase. Otherwise its reward models are not looked up, so that a wrong name in an unused setting
 * does not fail the request.
 */
export function mayReinforce({ method, sequencing, config }: AutoAlignRequest): boolean {
  if (config?.loss?.type === "cross_entropy") return false;
  if (sequencing != null) return sequencing.includes("reinforce");
  const arms = (method ?? "auto").split("+").map((name) => name.trim());
  return arms.includes("auto") || arms.includes("reinforce");
}

function nameOf(value: unknown, field: string[]): string | null {
  if (value === null || (typeof value === "string" && value.trim() !== "")) return value;
  throw invalid(field, "must be a name");
}
