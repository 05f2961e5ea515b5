// The models that the reward of an auto-align names, looked up before anything is queued: what cannot be asked is refused by its field.
import { invalid } from "../../../base/errors.ts";
import type { AutoAlignRequest } from "../../../contract/auto-align.ts";
import type { Caller } from "../../../contract/endpoint.ts";
import { mayReinforce, type RewardModels, rewardFields, rewardModelsOf } from "../../../run/folder/reward-models.ts";

/** By their ids, and the key in whose name an upstream is asked. */
export interface KeptRewardModels extends RewardModels {
  key_id: string;
}

export interface RewardModelsLookup {
  /** What a model of this appliance is for; null when the owner has none of that name. */
  describeModel: (ownerId: string, model: string) => { modelId: string; kind: string } | null;
  hasUpstream: (name: string) => boolean;
}

/** null where the reward asks none but the base. Throws a validation failure that names the field. */
export function foundRewardModels(
  { describeModel, hasUpstream }: RewardModelsLookup,
  request: AutoAlignRequest,
  { userId, keyId }: Caller,
): KeptRewardModels | null {
  if (!mayReinforce(request)) return null;
  const { judge, preferenceModel } = rewardModelsOf(request.config?.reward);
  const idOf = (name: string, kind: string, what: string, field: string[]): string => {
    const found = describeModel(userId, name);
    if (found === null) throw invalid(field, `there is no model ${name} here`);
    if (found.kind !== kind) throw invalid(field, `${name} is no ${what}: its kind is ${found.kind}`);
    return found.modelId;
  };
  if (judge === null && preferenceModel === null) return null;
  if (judge !== null && judge.provider !== null && !hasUpstream(judge.provider))
    throw invalid(rewardFields.provider, `no upstream ${judge.provider} is configured`);
  const isHere = judge !== null && judge.provider === null;
  return {
    judge: isHere
      ? { model: idOf(judge.model, "text", "model that answers questions", rewardFields.judge), provider: null }
      : judge,
    preferenceModel: preferenceModel && idOf(preferenceModel, "rerank", "cross-encoder", rewardFields.preferenceModel),
    key_id: keyId,
  };
}
