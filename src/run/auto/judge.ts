// The base as a judge of drawn answers: asked without an adapter, criterion by criterion, whether it holds. How often it errs is measured
// on dev's own answers before anything is paid by it.
import { join } from "node:path";
import type { SnapshotItem } from "../../contract/run-folder.ts";
import type { Trainer } from "../../engine/trainer.ts";
import { filled, ownOrEnglish } from "../../study/languages.ts";
import { asking } from "../choose.ts";
import type { Run } from "../context.ts";
import { choose } from "../guards/measure.ts";
import type { Judge, JudgeError, MeasuredJudge } from "../rewards/judged.ts";
import { json, stage } from "../stage.ts";
import { opening } from "../training.ts";
import { hoursSince } from "./check.ts";

/** As `llm_judge.judge_model` names it. */
export const baseJudgeName = "base";

/** Yes where that is likelier than no, per character as in every choice. `trainer`: open when it is asked. */
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

export interface JudgeRecord extends JudgeError {
  /** Answers that are right, and as many that are the right ones of other questions. */
  right: number;
  wrong: number;
}

/** Dev questions that a judge is tried on, at most. */
const mostTried = 100;

/** A judge's record, and the device hours that it took. */
type Tried = JudgeRecord & { hours: number };

/** Tries the base on what dev says is right and wrong by these criteria; kept, so that it is asked once. */
export function measuredJudge(run: Run, criteria: readonly string[], identity: string): Promise<Tried> {
  const measure = async (): Promise<Tried> => {
    const began = run.parts.clock.monotonicMs();
    const trainer = run.parts.startTrainer();
    try {
      await trainer.open(opening(run));
      const record = await measured(
        baseJudge(run, () => trainer),
        criteria,
        run.snapshot.dev.slice(0, mostTried),
        run,
      );
      return { ...record, hours: hoursSince(run, began) };
    } finally {
      await trainer.close();
    }
  };
  return stage(join(run.folder, "plan", "judge"), identity, measure, json());
}

/** Sensitivity and specificity; both 0 where there is nothing to try it on. */
export async function measured(
  judge: Judge,
  criteria: readonly string[],
  dev: readonly SnapshotItem[],
  { parts: { control } }: Pick<Run, "parts">,
): Promise<JudgeRecord> {
  const meets = async (item: SnapshotItem, answer: string): Promise<boolean> =>
    (await judge(criteria, item.instruction, answer, control.signal)).every((met) => met === true);
  let [right, met, wrong, unmet] = [0, 0, 0, 0];
  for (const [at, item] of dev.entries()) {
    right++;
    if (await meets(item, item.response)) met++;
    const other = otherAnswer(dev, at);
    if (other === null) continue;
    wrong++;
    if (!(await meets(item, other))) unmet++;
  }
  return { right, wrong, sensitivity: met / Math.max(1, right), specificity: unmet / Math.max(1, wrong) };
}

/** The answer of the next question that asks for something else. */
function otherAnswer(dev: readonly SnapshotItem[], at: number): string | null {
  const item = dev[at]!;
  const others = [...dev.slice(at + 1), ...dev.slice(0, at)];
  return (
    others.find(({ cluster, response }) => cluster !== item.cluster && response !== item.response)?.response ?? null
  );
}

export const asMeasured = (judge: Judge, { sensitivity, specificity }: JudgeRecord): MeasuredJudge => ({
  judge,
  sensitivity,
  specificity,
});
