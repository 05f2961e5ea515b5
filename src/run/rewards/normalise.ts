// Brings rewards to one scale before advantages are computed. Unknown rewards stay unknown and are not part of any mean.
export const normalisations = ["none", "group", "batch", "running"] as const;

/**
 * none      unchanged
 * group     minus the mean of the answers to the same prompt, divided by their deviation
 * batch     minus the mean of all answers of the step, divided by their deviation
 * running   minus the mean of all answers of the run so far, including this step's, divided by their deviation
 *
 * Rewards become 0 if all those that the mean is taken over are equal.
 */
export type Normalisation = (typeof normalisations)[number];

/** Statistics of a run so far, kept in its checkpoints. `squares` is the sum of the squared distances from the mean. */
export interface Running {
  count: number;
  mean: number;
  squares: number;
}

export const nothingYet: Running = { count: 0, mean: 0, squares: 0 };

/** Deviation below which rewards count as equal, so that differences in the last bits do not matter. */
const smallestDeviation = 1e-6;

/** Normalises rewards. `groups` has for each reward the prompt that it belongs to. `running` includes this step's rewards. */
export function normalise(
  by: Normalisation,
  rewards: readonly (number | null)[],
  groups: readonly number[],
  before: Running,
): { rewards: (number | null)[]; running: Running } {
  const known = rewards.filter((reward) => reward !== null);
  const running = joined(before, summaryOf(known));
  if (by === "none") return { rewards: [...rewards], running };
  const batch = summaryOf(known);
  const places = Map.groupBy(rewards.keys(), (at) => groups[at]!);
  const ofGroup = new Map(
    [...places].map(([group, own]) => [
      group,
      summaryOf(own.map((at) => rewards[at]!).filter((reward) => reward !== null)),
    ]),
  );
  const scaleOf = (group: number): Running => (by === "group" ? ofGroup.get(group)! : by === "batch" ? batch : running);
  return {
    rewards: rewards.map((reward, at) => (reward === null ? null : scaled(reward, scaleOf(groups[at]!)))),
    running,
  };
}

function scaled(reward: number, { count, mean, squares }: Running): number {
  const deviation = count < 2 ? 0 : Math.sqrt(squares / (count - 1));
  return deviation <= smallestDeviation ? 0 : (reward - mean) / deviation;
}

function summaryOf(values: readonly number[]): Running {
  const mean = values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
  return { count: values.length, mean, squares: values.reduce((sum, value) => sum + (value - mean) ** 2, 0) };
}

/** Combines two statistics (Chan, Golub and LeVeque, 1979). */
function joined(a: Running, b: Running): Running {
  const count = a.count + b.count;
  if (count === 0) return nothingYet;
  const apart = b.mean - a.mean;
  return {
    count,
    mean: a.mean + (apart * b.count) / count,
    squares: a.squares + b.squares + (apart ** 2 * a.count * b.count) / count,
  };
}
