// A check between two steps. The trainer itself answers the dev questions greedily, and the answers are graded. The sealed split is not
// used: a run's folder does not contain it.
import { spread } from "../base/spread.ts";
import type { SnapshotItem } from "../contract/run-folder.ts";
import type { Tokenizer } from "../engine/generator.ts";
import type { Trainer, TrainerSampling } from "../engine/train/trainer.ts";
import type { CheckScore } from "./checkpoints.ts";
import { type DevPrompt, packed } from "./rows.ts";
import { microBatches } from "./schedule.ts";

/** Returns whether an answer is right. It is passed in, because grading belongs to the evaluations. */
export type Grade = (answer: string, item: SnapshotItem) => { correct: boolean };

/** Returns the score, 0–100, of `right` answers among `n`, with its 95 % interval. It is passed in for the same reason. */
export type Interval = (right: number, n: number) => { score: number; low: number; high: number; n: number };

/** Maximum number of tokens of an answer. The answer to a dev question is in the first words, so more tokens would only cost time. */
export const answerTokens = 48;
/** Maximum number of items of one check, so that it stays cheap compared with the steps between two checks. */
const checkedItems = 200;

export interface DevCheck {
  trainer: Trainer;
  /** null for the base without an adapter. */
  adapter: string | null;
  tokenizer: Tokenizer;
  prompts: readonly DevPrompt[];
  /** Maximum number of tokens of one call, prompts and answers together. */
  maxTokens: number;
  grade: Grade;
  interval: Interval;
  /** Called after each call of the trainer. It may throw to end the check. */
  onProgress(done: number, total: number): Promise<void>;
}

/** A dev question with its graded answer. */
export interface DevAnswer {
  item: SnapshotItem;
  answer: string;
  correct: boolean;
}

/**
 * Asks some of the questions, spread evenly over all. Returns the share of right answers, 0–100, with its 95 %
 * interval.
 */
export async function checkDev(check: DevCheck, step: number): Promise<CheckScore> {
  return scoreOf(await answerDev({ ...check, prompts: spread(check.prompts, checkedItems) }), check, step);
}

/** Computes the same score from answers that exist already, using only those to the questions that a check would ask. */
export function scoreOf(given: readonly DevAnswer[], check: Pick<DevCheck, "interval">, step: number): CheckScore {
  const answers = spread(given, checkedItems);
  const right = answers.filter((one) => one.correct).length;
  const { score, low, high, n } = check.interval(right, answers.length);
  return { step, score, low, high, n };
}

/** How answers are drawn. */
export type Draw = Pick<TrainerSampling, "temperature" | "seed">;
const greedy: Draw = { temperature: 0, seed: 0 };

/** Asks all questions, greedily unless another draw is given, and grades the answers. */
export async function answerDev(check: Omit<DevCheck, "interval">, draw: Draw = greedy): Promise<DevAnswer[]> {
  const { prompts } = check;
  const calls = microBatches(
    prompts.map((_, index) => index),
    (index) => prompts[index]!.tokens.length + answerTokens,
    check.maxTokens,
  );
  const given: DevAnswer[] = [];
  for (const call of calls) {
    const asked = call.map((index) => prompts[index]!);
    const answers = await answersTo(check, asked, draw);
    for (const [index, { item }] of asked.entries()) {
      const answer = answers[index]!;
      given.push({ item, answer, correct: check.grade(answer, item).correct });
    }
    await check.onProgress(given.length, prompts.length);
  }
  return given;
}

async function answersTo(
  check: Pick<DevCheck, "tokenizer" | "trainer" | "adapter">,
  asked: readonly DevPrompt[],
  draw: Draw,
): Promise<string[]> {
  const { eog } = check.tokenizer;
  const rows = packed(asked.map((prompt) => prompt.tokens));
  const sampled = await check.trainer.sample(check.adapter, rows, {
    ...draw,
    maxTokens: answerTokens,
    topK: 0,
    topP: 1,
    minP: 0,
    stopTokens: [...eog],
  });
  return sampled.map((row) => answerText(check.tokenizer, row.tokens));
}

/** Returns the text of a sampled row, without its end tokens. */
export const answerText = (tokenizer: Pick<Tokenizer, "decode" | "eog">, tokens: Int32Array): string =>
  tokenizer.decode([...tokens].filter((token) => !tokenizer.eog.has(token))).trim();
