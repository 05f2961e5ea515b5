// A judge says, for each criterion, whether a drawn answer meets it. Before any reward depends on a judge, its error
// rates are measured on answers known to be right or wrong. The base judges without an adapter, by likelihood.
import { join } from "node:path";
import { sha256 } from "../../base/files.ts";
import type { Trainer } from "../../engine/train/trainer.ts";
import { filled, ownOrEnglish } from "../../study/languages.ts";
import { asking } from "../choose.ts";
import type { Run } from "../context.ts";
import { identityOf } from "../folder/request.ts";
import { choose } from "../guards/measure.ts";
import type { Judge, JudgeError } from "../rewards/judged.ts";
import { mostAsked, sideBySide } from "../rewards/pay.ts";
import { json, stage } from "../stage.ts";
import { opening } from "../training.ts";
import { hoursSince } from "./check.ts";

/**
 * Returns a judge that says yes where yes is likelier than no, per character as in every choice. The trainer must have
 * the base open when the judge is used.
 */
export function baseJudge(run: Run, trainer: () => Trainer): Judge {
  const { ask, yes, no } = ownOrEnglish(null, "judge");
  return (criteria, question, answer) =>
    choose(
      { ...asking(run, trainer()), adapter: null },
      criteria.map((criterion) => ({
        ask: filled(ask, { question, answer, criterion }),
        stem: "",
        choices: [yes, no],
      })),
    );
}

/** Runs `work` with the base as judge. The base is open in a separate trainer until `work` ends. */
export async function withBaseJudge<T>(run: Run, work: (judge: Judge) => Promise<T>): Promise<T> {
  const trainer = run.parts.startTrainer();
  try {
    await trainer.open(opening(run));
    return await work(baseJudge(run, () => trainer));
  } finally {
    await trainer.close();
  }
}

/**
 * A question that a judge is tried on. `right` meets all the criteria; `wrong`, the answer to another question, does
 * not.
 */
export interface Trial {
  prompt: string;
  criteria: readonly string[];
  right: string;
  /** null where every other question belongs to the same cluster or has the same answer. */
  wrong: string | null;
}

interface Answered {
  prompt: string;
  response: string;
  /** Questions that ask for the same thing share a cluster. */
  cluster: string;
}

/** Maximum number of questions that a judge is tried on. */
const mostTried = 100;

export function trialsOf(items: readonly Answered[], criteriaOf: (at: number) => readonly string[]): Trial[] {
  const tried = items.slice(0, mostTried);
  return tried.map(({ prompt, response, cluster }, at) => {
    const others = [...tried.slice(at + 1), ...tried.slice(0, at)];
    const other = others.find((one) => one.cluster !== cluster && one.response !== response);
    return { prompt, criteria: criteriaOf(at), right: response, wrong: other?.response ?? null };
  });
}

export interface JudgeRecord extends JudgeError {
  /**
   * Number of right and of wrong answers whose verdicts could be read. A wrong answer is the right answer to another
   * question.
   */
  right: number;
  wrong: number;
}

/**
 * Measures a judge once and keeps the result, with the device hours that it took. `withJudge` calls `work` with the
 * judge ready for use. `tell` is called with the result before it is kept, so that no kill can leave it untold.
 * `secondsBefore`: time that earlier processes took for verdicts that are kept.
 */
export function measuredJudge(
  run: Run,
  trials: readonly Trial[],
  {
    name,
    secondsBefore,
    withJudge,
    tell,
  }: {
    name: string;
    secondsBefore: number;
    withJudge: (work: (judge: Judge) => Promise<JudgeRecord>) => Promise<JudgeRecord>;
    tell: (record: JudgeRecord) => Promise<void>;
  },
): Promise<JudgeRecord & { hours: number }> {
  const identity = sha256(JSON.stringify([identityOf(run.request), name, trials]));
  const measure = async () => {
    const began = run.parts.clock.monotonicMs();
    const record = await withJudge((judge) => measured(judge, trials, run.parts.control.signal));
    const hours = secondsBefore / 3600 + hoursSince(run, began);
    await tell(record);
    return { ...record, hours };
  };
  return stage(join(run.folder, "plan", "judge"), identity, measure, json());
}

/** Measures a judge's sensitivity and specificity. A rate is 0 where there was no answer to measure it on. */
export async function measured(judge: Judge, trials: readonly Trial[], signal: AbortSignal): Promise<JudgeRecord> {
  const asked = trials.flatMap(({ prompt, criteria, right, wrong }) => [
    { prompt, criteria, answer: right, isRight: true },
    ...(wrong === null ? [] : [{ prompt, criteria, answer: wrong, isRight: false }]),
  ]);
  const verdicts = await sideBySide(asked, mostAsked, async ({ criteria, prompt, answer }) => {
    const said = await judge(criteria, prompt, answer, signal);
    return said.includes(null) ? null : said.every((met) => met === true);
  });
  const count = (isRight: boolean, isMet?: boolean): number =>
    verdicts.filter((met, at) => met !== null && asked[at]!.isRight === isRight && met === (isMet ?? met)).length;
  const [right, wrong] = [count(true), count(false)];
  return {
    right,
    wrong,
    sensitivity: count(true, true) / Math.max(1, right),
    specificity: count(false, false) / Math.max(1, wrong),
  };
}
