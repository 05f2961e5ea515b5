// The models beside the base that the reward of an auto-align asks: a judge of another name than `base`, and a preference model. The
// appliance looks them up before a run is queued and asks them for it; the run asks the appliance.
import { invalid } from "../../base/errors.ts";
import type { AutoAlignRequest } from "../../contract/auto-align.ts";

/** As they are named, or the ids that the names stand for. */
export interface RewardModels {
  /** Of this appliance, or where a provider is named of that upstream. */
  judge: { model: string; provider: string | null } | null;
  preferenceModel: string | null;
}

/** As `llm_judge.judge_model` names the base of the run, which judges where no other is named. */
export const baseJudgeName = "base";

export const rewardFields = {
  judge: ["config", "reward", "llm_judge", "judge_model"],
  provider: ["config", "reward", "llm_judge", "judge_provider"],
  preferenceModel: ["config", "reward", "preference_model_ref"],
};

/** What of the reward block says so. */
interface Block {
  llm_judge?: object | null;
  preference_model_ref?: string | null;
}

/** Throws a validation failure that names the field. */
export function rewardModelsOf(reward: Block | null | undefined): RewardModels {
  const { judge_model = null, judge_provider = null } = (reward?.llm_judge ?? {}) as Record<string, unknown>;
  const judge = nameOf(judge_model, rewardFields.judge);
  const provider = nameOf(judge_provider, rewardFields.provider);
  if (provider !== null && judge === null)
    throw invalid(rewardFields.judge, "must name one of the upstream's models where judge_provider names an upstream");
  const isBase = provider === null && (judge === null || judge === baseJudgeName);
  return {
    judge: isBase ? null : { model: judge!, provider },
    preferenceModel: nameOf(reward?.preference_model_ref ?? null, rewardFields.preferenceModel),
  };
}

/** Whether a phase of this request may be paid: only then are its models asked, and a setting that nothing reads refuses nothing. */
export function mayReinforce({ method, config }: AutoAlignRequest): boolean {
  const arms = (method ?? "auto").split("+").map((name) => name.trim());
  return (arms.includes("auto") || arms.includes("reinforce")) && config?.loss?.type !== "cross_entropy";
}

function nameOf(value: unknown, field: string[]): string | null {
  if (value === null || (typeof value === "string" && value.trim() !== "")) return value;
  throw invalid(field, "must be a name");
}
