// Checks the checkpoints of an auto-align. Every adapter answers the same dev questions and regression suites, and its
// divergence is measured on the same prose, once each.
import type { Divergence, GuardResults } from "../../contract/run-folder.ts";
import { type AskedSuite, asking, askSuites, type BaseSaid, devAnswers, penaltyOf, suiteOf } from "../choose.ts";
import type { Run } from "../context.ts";
import type { DevAnswer } from "../dev-check.ts";
import { divergence, type ProseSaid } from "../guards/measure.ts";
import type { CheckedCheckpoint, GuardCheck } from "../plan/state.ts";
import type { DevPrompt } from "../rows.ts";
import type { OpenedBase } from "../training.ts";
import { sampledShares } from "./diagnose.ts";

/** Result of a check, as it is kept. */
export interface Checked {
  answers: DevAnswer[];
  /** Share of drawn answers that are right, by item; null where no phase may reinforce. */
  sampled: number[] | null;
  /** Empty when the preset has no guards. */
  suites: AskedSuite[];
  drift: Divergence | null;
  hours: number;
  /** The hours without those of the process's start, from which later checks are forecast. Absent in older folders. */
  check_hours?: number;
}

export interface Checker {
  check(adapter: string): Promise<Checked>;
}

/** Creates the checker. `draws`: whether answers are also sampled, which the planner needs if phases may reinforce. */
export function createChecker(
  run: Run,
  { trainer }: OpenedBase,
  {
    dev,
    base,
    prose,
    draws,
  }: { dev: readonly DevPrompt[]; base: BaseSaid; prose: () => Promise<ProseSaid>; draws: boolean },
): Checker {
  const limits = run.request.recipe.guards;
  const asked = asking(run, trainer);
  return {
    async check(adapter) {
      await run.enter("checking");
      const began = run.parts.clock.monotonicMs();
      const answers = await devAnswers(run, { trainer, prompts: dev, adapter });
      return {
        answers,
        sampled: draws ? await sampledShares(run, { trainer, adapter }, dev) : null,
        suites: limits === undefined ? [] : await askSuites(run, { ...asked, adapter }, base),
        drift: limits === undefined ? null : await divergence({ ...asked, adapter }, await prose()),
        hours: hoursSince(run, began),
      };
    },
  };
}

export const hoursSince = (run: Run, beganMs: number): number => (run.parts.clock.monotonicMs() - beganMs) / 3_600_000;

/** The checkpoint in the form that the planner takes. */
export function checkpointOf(run: Run, id: string, parent: string, checked: Checked): CheckedCheckpoint {
  const limits = run.request.recipe.guards;
  return {
    id,
    parent,
    dev: checked.answers.map(run.points),
    sampled: checked.sampled,
    guards: gatingSuites(run, checked.suites),
    divergence_penalty: checked.drift === null ? 0 : penaltyOf({ suites: [], drift: checked.drift }, limits!),
  };
}

/**
 * For each suite in which a loss counts, whether each question was answered right. Empty when the preset has no guards.
 */
export function gatingSuites({ request: { recipe } }: Run, suites: readonly AskedSuite[]): GuardCheck[] {
  const { guards: limits } = recipe;
  if (limits === undefined) return [];
  return suites
    .filter(({ gates }) => gates)
    .map(({ name, aligned }) => ({ name, correct: aligned, tolerance: limits.max_loss }));
}

/** Guard results in the form that the report shows; null when the preset has no guards. */
export const guardsOf = ({ suites, drift }: Checked): GuardResults | null =>
  drift === null ? null : { suites: suites.map(suiteOf), drift };
