// Computes the reward of each sampled answer of a step. Every part of the plan scores the answer, and the weighted sum of the scores is
// clipped and normalised.
import { availableParallelism } from "node:os";
import { Failure, invalid } from "../../base/errors.ts";
import { sideBySide } from "../../base/side-by-side.ts";
import { givingWay } from "../../base/time.ts";
import { Unanswered } from "../control.ts";
import type { RewardItem } from "./item.ts";
import { judgedReward, rubricReward, sigmoid } from "./judged.ts";
import { normalise, nothingYet, type Running } from "./normalise.ts";
import type { Means, RewardPart, RewardPlan, Scorer } from "./plan.ts";
import { judgeByProgram } from "./programs.ts";
import { makeBuiltin } from "./verifiers.ts";

export interface Sampled {
  /** Number of the prompt, the same for all answers to it. */
  group: number;
  item: RewardItem;
  answer: string;
}

export interface Paid {
  /** null means that the reward is unknown; it does not count as 0. */
  rewards: (number | null)[];
  /** Mean before clip and normalisation. */
  mean: number | null;
  unknown: number;
  /** Statistics for the next step. */
  running: Running;
}

/** Throws run_failed if a program or a model leaves a fifth of the answers unjudged, and the signal's reason when it is aborted. */
export async function rewardsOf(
  plan: RewardPlan,
  answers: readonly Sampled[],
  { means, signal, running = nothingYet }: { means: Means; signal: AbortSignal; running?: Running },
): Promise<Paid> {
  const scores: (number | null)[][] = [];
  for (const part of plan.parts) scores.push(await scoresOf(part, answers, means, signal));
  const sums = answers.map((_, at) =>
    weightedSum(
      plan.parts,
      scores.map((of) => of[at]!),
    ),
  );
  const clip = plan.clip ?? { low: 0, high: 1 };
  const clipped = sums.map((sum) => (sum === null ? null : Math.min(clip.high, Math.max(clip.low, sum))));
  const groups = answers.map(({ group }) => group);
  const normalised = normalise(plan.normalize, clipped, groups, running);
  return {
    ...normalised,
    mean: meanOf(sums),
    unknown: unknownIn(sums),
  };
}

/**
 * Returns a validation failure if a built-in verifier could judge no answer to any of these items, not even their own
 * references; otherwise null. A phase with such a reward could learn nothing.
 */
export function unjudgedBy(
  { parts }: RewardPlan,
  items: readonly RewardItem[],
  { declines }: Pick<Means, "declines">,
): Failure | null {
  if (items.length === 0) return null;
  for (const { name, scorer } of parts) {
    if (scorer.kind !== "builtin") continue;
    const verify = makeBuiltin(scorer, declines);
    if (items.every((item) => verify(item.reference ?? "", item) === null))
      return invalid(
        ["config", "reward", name === "verifier" ? "verifier_ref" : "composite"],
        `builtin:${scorer.verifier} finds nothing to judge by in any prompt. numeric needs an answer with exactly one number; choice needs a prompt that lists its options line by line, such as "A) red"; citation needs a passage`,
      );
  }
  return null;
}

function weightedSum(parts: readonly RewardPart[], scores: readonly (number | null)[]): number | null {
  let sum = 0;
  for (const [at, score] of scores.entries()) {
    if (score === null) return null;
    sum += parts[at]!.weight * score;
  }
  return sum;
}

function meanOf(scores: readonly (number | null)[]): number | null {
  const known = scores.filter((score) => score !== null);
  return known.length === 0 ? null : known.reduce((sum, score) => sum + score, 0) / known.length;
}

const unknownIn = (scores: readonly (number | null)[]): number => scores.filter((score) => score === null).length;

/** At this share of unknown rewards, the judging program or model is taken to be broken. */
const mostUnknown = 0.2;

async function scoresOf(
  { name, scorer }: RewardPart,
  answers: readonly Sampled[],
  means: Means,
  signal: AbortSignal,
): Promise<(number | null)[]> {
  signal.throwIfAborted();
  if (scorer.kind === "builtin") {
    const verify = makeBuiltin(scorer, means.declines);
    const giveWay = givingWay();
    const scores: (number | null)[] = [];
    for (const { answer, item } of answers) {
      scores.push(verify(answer, item));
      await giveWay();
      signal.throwIfAborted();
    }
    return scores;
  }
  const problems: string[] = [];
  const scores = await judged(scorer, answers, means, signal, problems);
  const called = scorer.kind === "program" ? `program:${scorer.program}` : name;
  refuseUnknown(`${called} could not give`, "rewards", { unknown: unknownIn(scores), of: answers.length, problems });
  return scores;
}

/** Throws run_failed if so many are unknown that whatever judges is taken to be broken. */
export function refuseUnknown(
  who: string,
  what: string,
  { unknown, of, problems }: { unknown: number; of: number; problems: readonly string[] },
): void {
  if (unknown === 0 || unknown < mostUnknown * of) return;
  const why = problems[0] === undefined ? "" : `; the first problem: ${problems[0]}`;
  throw new Failure("run_failed", `${who} ${unknown} of ${of} ${what}${why}`);
}

type Asked = Exclude<Scorer, { kind: "builtin" }>;

async function judged(
  scorer: Asked,
  answers: readonly Sampled[],
  means: Means,
  signal: AbortSignal,
  problems: string[],
): Promise<(number | null)[]> {
  switch (scorer.kind) {
    case "program":
      return sideBySide(answers, availableParallelism(), async ({ item, answer }) => {
        const { reward, problem } = await judgeByProgram(means.programs!.folder, scorer.program, item, answer, signal);
        if (problem !== null) problems.push(problem);
        return reward;
      });
    case "preference_model": {
      const score = means.preferenceModels.get(scorer.model)!;
      const rewards: (number | null)[] = answers.map(() => null);
      // Prompt by prompt, so that one without an answer leaves the others theirs.
      for (const [prompt, own] of Map.groupBy(answers.keys(), (at) => answers[at]!.item.prompt)) {
        const pairs = own.map((at) => ({ prompt, answer: answers[at]!.answer }));
        const scores = await unlessUnanswered(problems, () => score(pairs, signal));
        for (const [index, at] of own.entries()) rewards[at] = sigmoid(scores?.[index] ?? Number.NaN);
      }
      return rewards;
    }
    case "llm_judge": {
      const { judge } = means.judges.get(scorer.judge)!;
      return sideBySide(answers, mostAsked, ({ item, answer }) =>
        unlessUnanswered(problems, async () =>
          judgedReward(await judge(scorer.criteria, item.prompt, answer, signal), scorer),
        ),
      );
    }
    case "rubric": {
      const { judge } = means.judges.get(scorer.judge)!;
      return sideBySide(answers, mostAsked, async ({ item, answer }) => {
        const rubric = scorer.rubric === null ? item.rubric : means.rubrics.get(scorer.rubric)!;
        if (rubric.length === 0) return null;
        const criteria = rubric.map(({ text }) => text);
        return unlessUnanswered(problems, async () =>
          rubricReward(rubric, await judge(criteria, item.prompt, answer, signal), scorer),
        );
      });
    }
  }
}

/** Does the work. If the judging model gives no answer, adds the reason to `problems` and returns null. */
export async function unlessUnanswered<T>(problems: string[], work: () => Promise<T>): Promise<T | null> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error;
    problems.push(error.message);
    return null;
  }
}

/** Maximum number of questions to one judge at a time. This is enough for its engine to batch them. */
export const mostAsked = 16;
