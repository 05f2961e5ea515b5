// Turns the rewards of sampled answers into advantages per token. A group consists of the answers to one prompt. A reward is null if it is
// unknown, because the judge or the rollout failed. Such an answer does not count as 0. It is left out of every mean and deviation, and
// gets no advantage.
import { invalid } from "../base/errors.ts";
import { medianOf } from "../base/statistics/median.ts";
import type { PlanLimits } from "./plan/state.ts";

const estimators = ["grpo", "dr_grpo", "rloo", "reinforce", "reinforce_plus_plus", "opo", "max_rl"] as const;
type Estimator = (typeof estimators)[number];

/** The `advantage` block of a configuration as given, without null values. */
export interface AdvantageBlock {
  estimator?: unknown;
  center?: unknown;
  normalize_std?: unknown;
  scope?: unknown;
  gamma?: unknown;
  skip_zero_advantage_groups?: unknown;
}

export interface AdvantagePlan {
  estimator: Estimator;
  /** The baseline that grpo, dr_grpo and reinforce subtract. */
  center: "mean" | "median" | "none";
  normalizeStd: boolean;
  /** Whether grpo divides by the deviation of the group or of the whole batch. Its baseline is always the group's. */
  scope: "group" | "batch";
  gamma: number;
  /** Whether groups in which every advantage is 0 are left out of a step. */
  skipsEqualGroups: boolean;
  /** Settings that change nothing. */
  ignored: PlanLimits["ignored"];
}

/** The estimators that read a setting. The other settings apply to all. */
const readBy: Record<string, readonly Estimator[]> = {
  center: ["grpo", "dr_grpo", "reinforce"],
  normalize_std: ["grpo"],
  scope: ["grpo"],
  gamma: ["reinforce_plus_plus"],
};

const refused = (field: string, message: string) => invalid(["config", "advantage", field], message);

function flag(field: string, value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw refused(field, "must be true or false");
}

/** Fills in every default. Throws a validation failure that names the field. */
export function resolveAdvantage(block: AdvantageBlock): AdvantagePlan {
  const { scope = "group", gamma = 1 } = block;
  const estimator = estimatorOf(block.estimator ?? "grpo");
  const normalizeStd = flag("normalize_std", block.normalize_std ?? false);
  if (scope !== "group" && scope !== "batch" && scope !== "global") throw refused("scope", "must be group or batch");
  if (!(typeof gamma === "number" && gamma > 0 && gamma <= 1))
    throw refused("gamma", "must be a number above 0 and at most 1");
  const ignored = Object.entries(readBy)
    .filter(([field, readers]) => Object.hasOwn(block, field) && !readers.includes(estimator))
    .map(([field]) => ({
      field: `advantage.${field}`,
      reason: `redundant: the estimator ${estimator} does not use it`,
    }));
  if (block.scope !== undefined && estimator === "grpo" && !normalizeStd)
    ignored.push({ field: "advantage.scope", reason: "redundant: only advantage.normalize_std uses it" });
  return {
    ...{ estimator, normalizeStd, gamma, ignored },
    center: centerOf(block.center ?? true),
    scope: scope === "global" ? "batch" : scope,
    skipsEqualGroups: flag("skip_zero_advantage_groups", block.skip_zero_advantage_groups ?? true),
  };
}

function estimatorOf(value: unknown): Estimator {
  if (value === "gae") throw refused("estimator", "gae needs a value model, which no base has here; use grpo or rloo");
  if ((estimators as readonly unknown[]).includes(value)) return value as Estimator;
  throw refused("estimator", `must be one of ${estimators.join(", ")}`);
}

function centerOf(value: unknown): AdvantagePlan["center"] {
  if (value === true) return "mean";
  if (value === false) return "none";
  if (value === "mean" || value === "median" || value === "none") return value;
  throw refused("center", "must be true, false, mean, median or none");
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

function baselineOf(center: AdvantagePlan["center"], rewards: readonly number[]): number {
  if (center === "none" || rewards.length === 0) return 0;
  return center === "mean" ? meanOf(rewards) : medianOf(rewards);
}

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
    const baseline = baselineOf(plan.center, all);
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
      const baseline = baselineOf(center, rewards);
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
