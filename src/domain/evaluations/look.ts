// Scores a checkpoint of an auto-align on some sealed items (a look). The items are answered on the serving engine and graded as in
// an evaluation, or scored by the reward if the auto-align's target is a reward. Only the scores are returned, and only the use of
// the sealed split is stored, so an interrupted look is simply repeated.
import { type Clock, givingWay } from "../../base/time.ts";
import type { AutoAlignRequest } from "../../contract/auto-align.ts";
import type { Generator, ModelRef } from "../../engine/generator.ts";
import {
  type Asking,
  answerTokens,
  type BenchmarkItem,
  briefTypes,
  chosenAnswers,
  gradedItem,
  groupSize,
  longAnswerTokens,
  promptOf,
} from "./asking.ts";
import { competition } from "./grade.ts";
import type { Grading } from "./grading.ts";
import { createJudge, rubricScore } from "./judge.ts";
import type { EvaluationsSql } from "./store.ts";

export interface LookParts {
  sql: EvaluationsSql;
  clock: Clock;
  generator: Generator;
  grading: Grading;
  /** The benchmark's items, in item order. */
  itemsOf: (benchmarkId: string) => BenchmarkItem[];
  /**
   * Scoring function of the reward, if the auto-align's target is a reward. Null if the target is the share of right answers.
   */
  rewardOf: (config: AutoAlignRequest["config"]) => Promise<RewardScore | null>;
  /** Loads the model and keeps it loaded until released. Throws what loading throws. */
  lease: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
}

export interface AskedLook {
  ref: ModelRef;
  benchmarkId: string;
  samples: readonly number[];
  config: AutoAlignRequest["config"];
  autoAlignId: string;
  checkpoint: string;
  signal: AbortSignal;
}

type RewardScore = (answer: string, item: BenchmarkItem) => number;

/** Returns the scores in [0, 1], in the order of the samples, and the hours that answering and scoring took. */
export type ScoreLook = (look: AskedLook) => Promise<{ scores: number[]; hours: number }>;

export function createLook(parts: LookParts): ScoreLook {
  const { sql, clock, generator } = parts;

  return async ({ ref, benchmarkId, samples, config, autoAlignId, checkpoint, signal }) => {
    const reward = await parts.rewardOf(config);
    const all = parts.itemsOf(benchmarkId);
    const rivals = competition(all);
    const places = new Map(all.map(({ sample_num }, index) => [sample_num, index]));
    const items = samples.map((sample) => all[places.get(sample)!]!);
    const asking: Asking = { generator, ref, rivalsOf: (item) => rivals(places.get(item.sample_num)!) };
    // The base judges long answers, as in an evaluation that names no judge.
    const judge: ModelRef = { baseId: ref.baseId, basePath: ref.basePath };
    const leases = [await parts.lease(ref)];
    try {
      if (reward === null && items.some(({ type }) => type === "long")) leases.push(await parts.lease(judge));
      const began = clock.monotonicMs();
      // Recorded before the first answer, because an interrupted look has used the split too.
      sql.touch.run({
        benchmarkId,
        evaluation_id: autoAlignId,
        model_id: `${autoAlignId}.${checkpoint}`,
        purpose: "look",
        at: clock.now(),
      });
      const scores = new Map(
        reward === null
          ? await gradedScores(parts, asking, judge, items, signal)
          : await rewardScores(reward, asking, items, signal),
      );
      signal.throwIfAborted();
      return {
        scores: samples.map((sample) => scores.get(sample)!),
        hours: (clock.monotonicMs() - began) / 3_600_000,
      };
    } finally {
      for (const lease of leases) await lease.release();
    }
  };
}

type Scored = [sample: number, score: number][];

/** Answers and scores the items as the run does with dev items, regardless of their type. */
async function rewardScores(
  reward: RewardScore,
  asking: Asking,
  items: readonly BenchmarkItem[],
  signal: AbortSignal,
): Promise<Scored> {
  const answers = await answered(asking, items, answerTokens, signal);
  const giveWay = givingWay();
  const scores: Scored = [];
  for (const [at, item] of items.entries()) {
    scores.push([item.sample_num, reward(answers[at]!, item)]);
    await giveWay();
  }
  return scores;
}

const gradedScores = async (
  parts: LookParts,
  asking: Asking,
  judge: ModelRef,
  items: readonly BenchmarkItem[],
  signal: AbortSignal,
): Promise<Scored> => [
  ...(await briefScores(parts, asking, items, signal)),
  ...(await longScores(asking, judge, items, signal)),
  ...(await choiceScores(asking, items, signal)),
];

async function briefScores(
  { grading }: LookParts,
  asking: Asking,
  all: readonly BenchmarkItem[],
  signal: AbortSignal,
): Promise<Scored> {
  const items = all.filter(({ type }) => briefTypes.includes(type));
  const answers = await answered(asking, items, answerTokens, signal);
  const tasks = items.map((item, at) => ({ answer: answers[at]!, item: gradedItem(asking, item) }));
  const grades = tasks.length === 0 ? [] : await grading.grade(tasks);
  return items.map(({ sample_num }, at) => [sample_num, grades[at]!.correct ? 1 : 0]);
}

async function longScores(
  asking: Asking,
  judge: ModelRef,
  all: readonly BenchmarkItem[],
  signal: AbortSignal,
): Promise<Scored> {
  const items = all.filter(({ type }) => type === "long");
  const scores: Scored = [];
  for (const group of groups(items)) {
    const answers = await answered(asking, group, longAnswerTokens, signal);
    const judged = group.map((item, at) => ({ item, answer: answers[at]! }));
    const verdicts = await createJudge(asking.generator, judge).judge(judged, signal);
    for (const [at, { sample_num, rubric }] of group.entries())
      scores.push([sample_num, rubricScore(rubric, verdicts[at]!)]);
  }
  return scores;
}

async function choiceScores(asking: Asking, all: readonly BenchmarkItem[], signal: AbortSignal): Promise<Scored> {
  const scores: Scored = [];
  for (const group of groups(all.filter(({ type }) => type === "choice")))
    for (const { item, text } of await chosenAnswers(asking, group, signal))
      scores.push([item.sample_num, text === item.response ? 1 : 0]);
  return scores;
}

const groups = <Item>(items: readonly Item[]): Item[][] =>
  Array.from({ length: Math.ceil(items.length / groupSize) }, (_, at) =>
    items.slice(at * groupSize, (at + 1) * groupSize),
  );

/** Returns greedy answers, in the engine's fixed batch shape. */
async function answered(
  asking: Asking,
  items: readonly BenchmarkItem[],
  maxTokens: number,
  signal: AbortSignal,
): Promise<string[]> {
  if (items.length === 0) return [];
  const answers: string[] = [];
  await asking.generator.evaluate({
    model: asking.ref,
    prompts: items.map((item) => promptOf(asking, item)),
    maxTokens,
    signal,
    onItem: (index, { text }) => {
      answers[index] = text;
    },
    startAt: 0,
  });
  signal.throwIfAborted();
  return answers;
}
