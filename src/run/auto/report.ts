// The auto-align's part of report.json: the dev score by hours, the forecast and the measured gain of each phase, what
// became of each class of wrong answers, and why the run ended.
import { scoreOf } from "../../base/statistics/intervals.ts";
import type { RunResult } from "../../contract/run-folder.ts";
import { type DeficitClass, deficitClasses, deficitOf, isRight } from "../plan/deficits.ts";
import { pairedDifference } from "../plan/evidence.ts";
import { judgeLook } from "../plan/looks.ts";
import type { PlanState } from "../plan/state.ts";
import { clustersOf } from "../plan/survey.ts";
import type { Metric } from "../rewards/metric.ts";

export type AutoAlignReport = ReturnType<typeof autoAlignReport>;

/**
 * Returns that part of the report. `hours`: hours spent by the time each checkpoint was checked, the base first. `why`:
 * reason for the last decision.
 */
export function autoAlignReport(
  state: PlanState,
  told: NonNullable<RunResult["auto_align"]>,
  { hours, why, metric }: { hours: readonly number[]; why: string; metric: Metric },
) {
  const clusters = clustersOf(state);
  const made = new Map(state.history.map((phase) => [phase.checkpoint, phase]));
  const byId = new Map(state.checkpoints.map((checkpoint) => [checkpoint.id, checkpoint]));
  return {
    target_score: state.limits.target_score,
    /** Metric of the target, the dev scores and the looks. */
    metric,
    status: told.status,
    confirmed: told.confirmed,
    checkpoint: told.checkpoint,
    why,
    hours: { spent: state.hours, most: state.limits.max_compute_hours },
    ignored: state.limits.ignored,
    /** What the profile of the base's representations found; null where no edit was allowed. */
    profile: state.diagnosis.profile,
    looks: state.looks.map((look) => judgeLook(look, state.limits.target_score)),
    /** Dev score of every checkpoint with its 95 % interval, by the hours spent until then. */
    course: state.checkpoints.map(({ id, parent, dev }, at) => {
      const { score, low, high, n } = scoreOf(dev, clusters);
      const phase = made.get(id) ?? null;
      return {
        ...{ checkpoint: id, from: parent, arm: phase?.arm ?? null, hours: hours[at]!, score, low, high, n },
        ...(phase && {
          steps: phase.steps_run,
          outcome: phase.outcome?.told ?? null,
          ...forecastOf(phase.forecast, dev, byId.get(parent!)!.dev, clusters),
        }),
      };
    }),
    /**
     * Number of dev items by the reason why the base had them wrong (`right` if it had them right), and how many of
     * each are right at the chosen checkpoint.
     */
    flow: flowOf(state, byId.get(told.checkpoint)!.dev),
  };
}

/** Normal quantile such that 80 % of outcomes should lie between `least` and `most`. */
const z80 = 1.2816;

function forecastOf(
  { gain, sd }: { gain: number; sd: number },
  dev: readonly number[],
  before: readonly number[],
  clusters: readonly string[],
) {
  const { difference, error } = pairedDifference(dev, before, clusters);
  const spread = z80 * Math.hypot(sd, error);
  return { forecast: { gain, least: gain - spread, most: gain + spread }, gained: difference };
}

type Flow = Record<DeficitClass | "right", { items: number; right: number }>;

function flowOf({ diagnosis, checkpoints }: PlanState, chosen: readonly number[]): Flow {
  const none = () => ({ items: 0, right: 0 });
  const flow = Object.fromEntries([...deficitClasses, "right"].map((name) => [name, none()])) as Flow;
  for (const [at, item] of diagnosis.items.entries()) {
    const place = isRight(checkpoints[0]!.dev[at]!, item.declining)
      ? "right"
      : deficitOf(diagnosis, item, item.sampled);
    flow[place].items++;
    if (isRight(chosen[at]!, item.declining)) flow[place].right++;
  }
  return flow;
}
