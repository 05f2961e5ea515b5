// A check between two steps: the dev questions answered greedily by the trainer itself, and graded. The sealed split is not
// part of a run's folder.
import type { SnapshotItem } from "../../contract/run-folder.ts";
import type { Tokenizer } from "../../engine/generator.ts";
import type { Trainer } from "../../engine/trainer.ts";
import type { CheckScore } from "./checkpoints.ts";
import type { DevPrompt } from "./rows.ts";
import { microBatches, spread } from "./schedule.ts";

/** Says whether an answer is right. Handed in: grading belongs to the evaluations. */
export type Grade = (answer: string, item: SnapshotItem) => { correct: boolean };

/** Score 0–100 of `right` among `n` with its 95 % interval. Handed in likewise. */
export type Interval = (right: number, n: number) => { score: number; low: number; high: number; n: number };

/** A short answer stands in the first words; more tokens would only be paid for. */
export const answerTokens = 48;
/** Items of one check at most, spread evenly over the split: a check must stay cheap beside the steps between two checks. */
const checkedItems = 200;

export interface DevCheck {
  trainer: Trainer;
  /** null: the base without adapter. */
  adapter: string | null;
  tokenizer: Tokenizer;
  prompts: readonly DevPrompt[];
  /** Tokens of one call, prompts and answers together. */
  maxTokens: number;
  grade: Grade;
  interval: Interval;
  /** Called after each call of the trainer; throws to leave. */
  onProgress(done: number, total: number): Promise<void>;
}

/** The share of right answers, 0–100, with its 95 % interval. */
export async function checkDev(check: DevCheck, step: number): Promise<CheckScore> {
  const prompts = spread(check.prompts, checkedItems);
  const calls = microBatches(
    prompts.map((_, index) => index),
    (index) => prompts[index]!.tokens.length + answerTokens,
    check.maxTokens,
  );
  let right = 0;
  let done = 0;
  for (const call of calls) {
    const asked = call.map((index) => prompts[index]!);
    const answers = await greedyAnswers(check, asked);
    right += asked.filter(({ item }, index) => check.grade(answers[index]!, item).correct).length;
    done += asked.length;
    await check.onProgress(done, prompts.length);
  }
  const { score, low, high, n } = check.interval(right, prompts.length);
  return { step, score, low, high, n };
}

async function greedyAnswers(check: DevCheck, asked: readonly DevPrompt[]): Promise<string[]> {
  const { eog } = check.tokenizer;
  const rows = {
    tokens: Int32Array.from(asked.flatMap((prompt) => prompt.tokens)),
    rowLengths: Int32Array.from(asked, (prompt) => prompt.tokens.length),
  };
  const sampled = await check.trainer.sample(check.adapter, rows, {
    maxTokens: answerTokens,
    temperature: 0,
    topK: 0,
    topP: 1,
    minP: 0,
    seed: 0,
    stopTokens: [...eog],
  });
  return sampled.map((row) => check.tokenizer.decode([...row.tokens].filter((token) => !eog.has(token))).trim());
}
