// States made by hand: a benchmark of 100 dev items of known kinds, and phases whose checks are said outright.
import type { AutoAlignRequest } from "../../../src/contract/auto-align.ts";
import { limitsOf } from "../../../src/run/plan/limits.ts";
import type {
  ArmCost,
  CheckedCheckpoint,
  Decision,
  PhasePlan,
  PhaseRecord,
  PlanState,
  ProbedItem,
} from "../../../src/run/plan/state.ts";
import { nextDecision } from "../../../src/run/plan.ts";

type Kind = "known" | "knowledge" | "elicitation" | "format" | "reading" | "disputed";

/** Items of each kind, in this order. */
export const usualKinds: Record<Kind, number> = {
  known: 20,
  knowledge: 40,
  elicitation: 25,
  format: 0,
  reading: 10,
  disputed: 5,
};

function itemsOf(kinds: Record<Kind, number>): ProbedItem[] {
  return (Object.keys(kinds) as Kind[])
    .flatMap((kind) => Array.from({ length: kinds[kind] }, () => kind))
    .map((kind, at) => ({
      cluster: `fact ${at}`,
      closed_book: Number(kind === "known"),
      open_book: Number(kind !== "reading" && kind !== "disputed" && kind !== "format"),
      sampled: { known: 0.9, elicitation: 0.25, knowledge: 0, format: 0, reading: 0, disputed: 0 }[kind],
      format_only: kind === "format",
      disputed: kind === "disputed",
    }));
}

const guardSize = 200;
const cost = (steps: number, hours: number, setup: number): ArmCost => ({
  steps,
  hours_per_step: hours / steps,
  setup_hours: setup,
});

export function stateOf(
  request: Partial<AutoAlignRequest> = {},
  { kinds = usualKinds, hasUsableDirection = false } = {},
): PlanState {
  const items = itemsOf(kinds);
  return {
    seed: 7,
    limits: limitsOf({ target_score: 85, max_compute_hours: 100, ...request }),
    diagnosis: { items, has_examples: false, has_usable_direction: hasUsableDirection, profile: null },
    checkpoints: [
      {
        id: "base",
        parent: null,
        dev: items.map((item) => item.closed_book),
        sampled: null,
        guards: guardsOf({}),
        divergence_penalty: 0,
      },
    ],
    history: [],
    looks: [],
    hours: 1,
    costs: {
      supervised: cost(300, 1, 0.2),
      distil: cost(60, 0.3, 0),
      reinforce: cost(100, 1.6, 0.1),
      represent: cost(30, 0.1, 0),
      scale: { steps: 1, hours_per_step: 0, setup_hours: 0 },
    },
    check_hours: 0.05,
    look_hours: 0.05,
    past: [],
    resumes: [],
  };
}

/** Points that each suite lost. */
const guardsOf = (lost: Record<string, number>): CheckedCheckpoint["guards"] =>
  ["retention", "general"].map((name) => ({
    name,
    tolerance: 2,
    correct: Array.from({ length: guardSize }, (_, at) => at >= ((lost[name] ?? 0) / 100) * guardSize),
  }));

/** What the check after a phase finds. */
export interface Found {
  /** Dev items that become right, and wrong; by number. */
  gained?: readonly number[];
  lost?: readonly number[];
  /** Points that suites have lost against the base. */
  suites?: Record<string, number>;
  /** Steps that ran; by default those that were planned. */
  steps?: number;
}

/** The state after a phase that ran as it was planned. */
export function afterPhase(
  state: PlanState,
  phase: PhasePlan,
  { gained = [], lost = [], suites = {}, steps = phase.steps }: Found,
): PlanState {
  const parent = state.checkpoints.find(({ id }) => id === phase.from)!;
  const id = `c${state.history.length + 1}`;
  const dev = parent.dev.map((score, at) => (gained.includes(at) ? 1 : lost.includes(at) ? 0 : score));
  const hours = steps * state.costs[phase.arm].hours_per_step;
  const record: PhaseRecord = { ...phase, checkpoint: id, steps_run: steps, hours_run: hours, setup_hours: 0 };
  return {
    ...state,
    checkpoints: [
      ...state.checkpoints,
      { id, parent: phase.from, dev, sampled: null, guards: guardsOf(suites), divergence_penalty: 0 },
    ],
    history: [...state.history, record],
    hours: state.hours + hours + state.check_hours,
  };
}

/** The state after a look of which so many of 50 answers are right. */
export function afterLook(state: PlanState, { next }: Decision, right: number): PlanState {
  if (next.kind !== "look") throw new Error(`${next.kind} is no look`);
  const scores = Array.from({ length: 50 }, (_, at) => Number(at < right));
  const record = { checkpoint: next.checkpoint, third: next.third, scores, clusters: scores.map((_, at) => `s${at}`) };
  return { ...state, looks: [...state.looks, record], hours: state.hours + state.look_hours };
}

export function phaseOf({ next, card }: Decision): PhasePlan {
  if (next.kind !== "phase") throw new Error(`${next.kind} is no phase: ${card.because}`);
  return next.phase;
}

/** A phase that somebody else planned. */
export const planned = (state: PlanState, change: Partial<PhasePlan>): PhasePlan => ({
  ...phaseOf(nextDecision({ ...state, limits: { ...state.limits, target_score: 99 } })),
  ...change,
});

export const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at);
