// Looks up the models that an auto-align's reward names before anything is queued, so that a model that cannot be used
// is refused with the name of its field.
import { invalid } from "../../../base/errors.ts";
import type { AutoAlignRequest } from "../../../contract/auto-align.ts";
import type { Caller } from "../../../contract/endpoint.ts";
import { mayReinforce, type RewardModels, rewardFields, rewardModelsOf } from "../../../run/folder/reward-models.ts";

/** The reward models by id, and the id of the API key in whose name an upstream is asked. */
export interface KeptRewardModels extends RewardModels {
  key_id: string;
}

export interface RewardModelsLookup {
  /** Finds a model of this appliance by id or name; null if the owner has none of that name. */
  describeModel: (ownerId: string, model: string) => { modelId: string; kind: string } | null;
  hasUpstream: (name: string) => boolean;
}

/**
 * Looks up the reward models of the request. Returns null if the request has no reinforcement phase, or if its reward
 * asks no model other than the base. Throws a validation failure that names the field.
 */
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
    if (found.kind !== kind) throw invalid(field, `${name} is not a ${what}: its kind is ${found.kind}`);
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
