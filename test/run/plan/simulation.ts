// The planner in a world: it is asked, its answer is carried out, what a check or a look then shows goes into its state, until it ends.
import type { AutoAlignRequest } from "../../../src/contract/auto-align.ts";
import { limitsOf } from "../../../src/run/plan/limits.ts";
import type { CheckedCheckpoint, Decision, PhasePlan, PlanState } from "../../../src/run/plan/state.ts";
import { nextDecision } from "../../../src/run/plan.ts";
import {
  baseOf,
  type Checkpoint,
  check,
  diagnose,
  look,
  runPhase,
  suites,
  tolerance,
  trueLoss,
  trueScore,
  type World,
} from "./worlds.ts";

export interface Outcome {
  decisions: Decision[];
  state: PlanState;
  checkpoint: Checkpoint;
  status: "REACHED" | "BUDGET_SPENT" | "PAUSED";
  /** The longest step of any phase. */
  stepHours: number;
  /** Regressions: confirmed ones, those of them that are none in truth, phases that truly lost much, and those of them confirmed. */
  regressions: { confirmed: number; false: number; large: number; largeConfirmed: number };
}

/** Decisions after which a run that has not ended never will. */
const mostDecisions = 200;

const checked = (world: World, checkpoint: Checkpoint): CheckedCheckpoint => {
  const found = check(world, checkpoint);
  return {
    id: checkpoint.id,
    parent: checkpoint.parent?.id ?? null,
    dev: found.correct.map(Number),
    sampled: found.sampled.map((right) => right / 8),
    guards: suites.map((name) => ({ name, correct: found.suites[name], tolerance: tolerance[name] })),
    divergence_penalty: 0,
  };
};

export function startState(world: World, request: Partial<AutoAlignRequest> = {}): PlanState {
  const probes = diagnose(world);
  return {
    seed: world.index,
    limits: limitsOf({ target_score: world.target, max_compute_hours: world.budgetHours, ...request }),
    diagnosis: {
      items: probes.map((probe, at) => ({
        cluster: world.dev.cluster[at]!,
        closed_book: Number(probe.closedBook),
        open_book: Number(probe.openBook),
        sampled: probe.sampled / 8,
        format_only: probe.formatOnly,
        disputed: probe.disputed,
      })),
      has_usable_direction: world.cosine >= 0.3,
      has_examples: false,
      profile: null,
    },
    checkpoints: [checked(world, baseOf(world))],
    history: [],
    looks: [],
    hours: world.profileHours,
    costs: {
      supervised: costOf(world, "supervised"),
      distil: costOf(world, "distil"),
      reinforce: costOf(world, "reinforce"),
      represent: costOf(world, "represent"),
      scale: costOf(world, "scale"),
    },
    check_hours: world.checkHours,
    look_hours: world.lookHours,
    past: world.past,
    resumes: [],
  };
}

function costOf({ forecast }: World, arm: PhasePlan["arm"]): PlanState["costs"][PhasePlan["arm"]] {
  const { steps, hoursPerStep, setupHours } = forecast[arm];
  return { steps, hours_per_step: hoursPerStep, setup_hours: setupHours };
}

/** `between`: what is done to the state before each decision; nothing, unless a test says otherwise. */
export function simulate(
  world: World,
  start: PlanState = startState(world),
  between: (state: PlanState) => PlanState = (state) => state,
): Outcome {
  const known = new Map<string, Checkpoint>([["base", baseOf(world)]]);
  const decisions: Decision[] = [];
  let state = start;
  const seen = { stepHours: 0, regressions: { confirmed: 0, false: 0, large: 0, largeConfirmed: 0 } };
  while (decisions.length < mostDecisions) {
    state = between(state);
    const decision = nextDecision(state);
    decisions.push(decision);
    if (decisions.at(-2)?.next.kind === "phase") tallyRegressions(world, known, state, decision, seen.regressions);
    const { next } = decision;
    if (next.kind === "end")
      return { decisions, state, checkpoint: known.get(next.checkpoint)!, status: next.status, ...seen };
    if (next.kind === "look") {
      const { correct, clusters } = look(world, known.get(next.checkpoint)!, next.third);
      const record = { checkpoint: next.checkpoint, third: next.third, scores: correct.map(Number), clusters };
      state = { ...state, looks: [...state.looks, record], hours: state.hours + world.lookHours };
    } else {
      const ran = runPhase(world, known.get(next.phase.from)!, phaseOf(next.phase));
      known.set(ran.checkpoint.id, ran.checkpoint);
      seen.stepHours = Math.max(seen.stepHours, ran.longestStepHours);
      state = {
        ...state,
        checkpoints: [...state.checkpoints, checked(world, ran.checkpoint)],
        history: [
          ...state.history,
          {
            ...next.phase,
            checkpoint: ran.checkpoint.id,
            steps_run: ran.steps,
            hours_run: ran.hours - ran.setupHours,
            setup_hours: ran.setupHours,
          },
        ],
        hours: state.hours + ran.hours + world.checkHours,
      };
    }
  }
  throw new Error(`world ${world.index} does not end`);
}

const phaseOf = ({ arm, steps, hours, rate_factor, scale }: PhasePlan) => ({
  arm,
  steps,
  hours,
  rateFactor: rate_factor,
  ...(scale === null ? {} : { scale }),
});

/** Points that dev or a suite beyond its tolerance has lost by a phase, from which on it is a large regression. */
const large = 10;

/** Holds what the card says of the latest checkpoint against the truth. */
function tallyRegressions(
  world: World,
  known: ReadonlyMap<string, Checkpoint>,
  state: PlanState,
  { card }: Decision,
  seen: Outcome["regressions"],
): void {
  const latest = known.get(state.history.at(-1)!.checkpoint)!;
  const parent = latest.parent!;
  const fall = trueScore(world, parent) - trueScore(world, latest);
  const excess = suites.map((suite) => trueLoss(world, latest, suite) - tolerance[suite]);
  const fresh = suites.map((suite) => trueLoss(world, latest, suite) - trueLoss(world, parent, suite));
  if (fall >= large || excess.some((points, at) => Math.min(points, fresh[at]!) >= large)) {
    seen.large++;
    if (card.regressions.length > 0) seen.largeConfirmed++;
  }
  const lostBeyond = (name: string): number => Math.max(...excess.filter((_, at) => suites[at] === name));
  for (const { suite } of card.regressions) {
    seen.confirmed++;
    const points = suite === "dev" ? fall : lostBeyond(suite);
    if (points <= 0) seen.false++;
  }
}

/**
 * Points below the target that a true score must be at to be told from it by a look at this many items: two-sided at 5 %, in 80 % of
 * cases (2.8 standard errors, Miller, arXiv 2411.00640).
 */
export const smallestVisibleMiss = (target: number, n: number): number =>
  2.8 * Math.sqrt((target * (100 - target)) / n);
