// Turns the rewards of sampled answers into advantages per token. A group consists of the answers to one prompt. A reward is null if it is
// unknown, because the judge or the rollout failed. Such an answer does not count as 0. It is left out of every mean and deviation, and
// gets no advantage.
import { invalid } from "../base/errors.ts";

const estimators = ["grpo", "dr_grpo", "rloo", "reinforce", "reinforce_plus_plus", "opo", "max_rl"] as const;

export interface AdvantageBlock {
  estimator?: string;
  center?: boolean;
  normalize_std?: boolean;
  scope?: string;
  gamma?: number;
}

export interface AdvantagePlan {
  estimator: (typeof estimators)[number];
  center: boolean;
  normalizeStd: boolean;
  /** Whether grpo divides by the deviation of the group or of the whole batch. Its baseline is always the group's mean. */
  scope: "group" | "batch";
  gamma: number;
}

/** Fills in every default. Throws a validation failure that names the field. */
export function resolveAdvantage(block: AdvantageBlock): AdvantagePlan {
  const estimator = block.estimator ?? "grpo";
  if (estimator === "gae")
    throw invalid(["advantage", "estimator"], "gae needs a value model, which no base has here; use grpo or rloo");
  if (!(estimators as readonly string[]).includes(estimator))
    throw invalid(["advantage", "estimator"], `must be one of ${estimators.join(", ")}`);
  const scope = block.scope === "global" ? "batch" : (block.scope ?? "group");
  if (scope !== "group" && scope !== "batch") throw invalid(["advantage", "scope"], "must be group or batch");
  const gamma = block.gamma ?? 1;
  if (!(gamma > 0 && gamma <= 1)) throw invalid(["advantage", "gamma"], "must be a number above 0 and at most 1");
  return {
    estimator: estimator as AdvantagePlan["estimator"],
    center: block.center ?? true,
    normalizeStd: block.normalize_std ?? false,
    scope,
    gamma,
  };
}

export interface Rewarded {
  /** null if the reward is unknown. */
  reward: number | null;
  /** Tokens of the answer. */
  length: number;
}

/** Rewards that differ by no more than this count as equal. */
const sameReward = 1e-6;
/** Avoids division by a deviation of 0. */
const epsilon = 1e-6;
/** Added under the root of a variance over tokens (REINFORCE++). */
const varianceEpsilon = 1e-8;

const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Sample standard deviation, with divisor n − 1; 0 for fewer than two values. */
function deviationOf(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const mean = meanOf(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1));
}

/** Returns the advantages [group][answer][token of the answer]; null where the reward is unknown. */
export function advantagesOf(plan: AdvantagePlan, groups: readonly (readonly Rewarded[])[]): (Float64Array | null)[][] {
  const all = groups.flatMap((group) => known(group).map(({ reward }) => reward));
  const constant = ({ length }: Rewarded, value: number) => new Float64Array(length).fill(value);
  if (plan.estimator === "reinforce_plus_plus") return whitenedReturns(plan.gamma, groups);
  if (plan.estimator === "reinforce") {
    const baseline = plan.center && all.length > 0 ? meanOf(all) : 0;
    return groups.map((group) =>
      group.map((answer) => (answer.reward === null ? null : constant(answer, answer.reward - baseline))),
    );
  }
  return groups.map((group) => {
    const of = groupAdvantage(plan, known(group), deviationOf(all));
    return group.map((answer) => (answer.reward === null ? null : constant(answer, of(answer.reward))));
  });
}

const known = (group: readonly Rewarded[]): (Rewarded & { reward: number })[] =>
  group.filter((answer): answer is Rewarded & { reward: number } => answer.reward !== null);

/**
 * Returns the function from reward to advantage within one group. With a single answer or equal rewards, every advantage is 0, because
 * such a group carries no information.
 */
function groupAdvantage(
  { estimator, center, normalizeStd, scope }: AdvantagePlan,
  group: readonly (Rewarded & { reward: number })[],
  batchDeviation: number,
): (reward: number) => number {
  const rewards = group.map(({ reward }) => reward);
  if (rewards.length < 2 || Math.max(...rewards) - Math.min(...rewards) <= sameReward) return () => 0;
  const mean = meanOf(rewards);
  switch (estimator) {
    case "rloo": // the baseline is the mean of the others
      return (reward) => (rewards.length / (rewards.length - 1)) * (reward - mean);
    case "opo": {
      const tokens = group.reduce((sum, { length }) => sum + length, 0);
      const baseline = group.reduce((sum, { length, reward }) => sum + length * reward, 0) / tokens;
      return (reward) => reward - baseline;
    }
    case "max_rl":
      return (reward) => (Math.abs(mean) <= sameReward ? 0 : (reward - mean) / mean);
    default: {
      const baseline = center ? mean : 0;
      const divide = estimator === "grpo" && normalizeStd;
      const by = divide ? (scope === "batch" ? batchDeviation : deviationOf(rewards)) + epsilon : 1;
      return (reward) => (reward - baseline) / by;
    }
  }
}

/** REINFORCE++: discounts each token's return from the answer's end, and whitens the returns over all tokens of the step. */
function whitenedReturns(gamma: number, groups: readonly (readonly Rewarded[])[]): (Float64Array | null)[][] {
  const returns = groups.map((group) =>
    group.map(({ reward, length }) =>
      reward === null ? null : Float64Array.from({ length }, (_, t) => reward * gamma ** (length - 1 - t)),
    ),
  );
  const tokens = returns.flatMap((group) => group.flatMap((answer) => [...(answer ?? [])]));
  const mean = tokens.length > 0 ? meanOf(tokens) : 0;
  const variance = deviationOf(tokens) ** 2;
  const by = Math.sqrt(variance + varianceEpsilon);
  return returns.map((group) =>
    group.map((answer) => (answer === null ? null : answer.map((value) => (value - mean) / by))),
  );
}
