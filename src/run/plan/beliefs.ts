// What an arm is believed to achieve. An arm closes a share of each class of deficits, with diminishing returns in its
// steps. Its strength and speed on these documents are a posterior over a grid, computed from a prior, the owner's
// earlier alignments and this run's phases.
import { type Headroom, type HeadroomClass, headroomClasses } from "./deficits.ts";
import { pairedDifference } from "./evidence.ts";
import type { Arm, PlanState } from "./state.ts";
import {
  accident,
  clustersOf,
  effortOf,
  effortOn,
  isWithoutStep,
  newRegressions,
  type Standing,
  type Survey,
} from "./survey.ts";

type Efficacy = Partial<Record<HeadroomClass, number>>;

/** One unit of effort closes this share of what unlimited effort would close: 1 − 1/e. */
const firstUnit = 1 - Math.exp(-1);

/**
 * Share of a class that one unit of effort closes. The values come from published results and were not measured here,
 * so the run's own phases soon outweigh them. Supervised rows close .3 of missing facts (EntiGraph, arXiv 2409.07431;
 * Knowledge-Instruct, arXiv 2504.05571), reinforcement .4 of answers that are right in some samples, and on-policy
 * distillation .5 or more of forgotten answers.
 */
const usualEfficacy: Record<Arm, Efficacy> = {
  supervised: { knowledge: 0.3, elicitation: 0.2, format: 0.3, reading: 0.03, forgotten: 0.3 },
  reinforce: { elicitation: 0.4, format: 0.3, reading: 0.1, forgotten: 0.1, abstention: 0.5 },
  represent: { format: 0.3 },
  distil: { forgotten: 0.5 },
  scale: {},
};

/**
 * The same for supervised rows where a data set shows how such questions are answered. On sums, a first phase of two
 * units closed 64 % of what was wrong, and a second phase two thirds of the rest (test/e2e/RESULTS.md).
 */
const byExamples: Efficacy = { knowledge: 0.5, elicitation: 0.5, format: 0.5, reading: 0.5, forgotten: 0.3 };

const efficacyOf = ({ diagnosis }: Pick<PlanState, "diagnosis">, arm: Arm): Efficacy =>
  arm === "supervised" && diagnosis.has_examples ? byExamples : usualEfficacy[arm];

/** Points that a unit of effort is assumed to cost each suite, before this run's phases are counted. */
const usualHarm: Record<Arm, number> = { supervised: 1.2, reinforce: 0.5, represent: 0.4, distil: 0, scale: 0 };

/**
 * One hypothesis about an arm: its strength, a factor on the usual efficacy, and its slowness, a factor on the effort
 * that a unit takes.
 */
interface Point {
  strength: number;
  slowness: number;
  /** Probability of the hypothesis; all add up to 1. */
  weight: number;
}

const strengths = [0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5];
const slownesses = [0.33, 0.57, 1, 1.75, 3];
const strengthSd = 0.5;
const slownessSd = 0.5;

export interface Belief {
  points: Point[];
  /** Points that a unit of effort costs each suite. */
  harm: number[];
  /** Probability that a phase ends in a confirmed regression. */
  risk: number;
}

export type Beliefs = Record<Arm, Belief>;

export function beliefsOf(state: PlanState, survey: Survey): Beliefs {
  const of = (arm: Arm): Belief => beliefOf(state, survey, arm);
  return {
    supervised: of("supervised"),
    distil: of("distil"),
    reinforce: of("reinforce"),
    represent: of("represent"),
    scale: of("scale"),
  };
}

function beliefOf(state: PlanState, survey: Survey, arm: Arm): Belief {
  const made = survey.standings.filter(({ phase }) => phase?.arm === arm);
  const ran = made.filter(({ phase }) => phase!.steps_run > 0);
  const withoutStep = made.filter(({ phase }) => isWithoutStep(phase!));
  const past = state.past.filter((phase) => phase.arm === arm && phase.headroom > 0);
  const seen = [...ran, ...withoutStep].map((standing) => observationOf(state, standing, arm));
  // Weights are logarithms at first, because products of many small densities underflow.
  const points = strengths.flatMap((strength) =>
    slownesses.map((slowness) => ({ strength, slowness, weight: logPrior(strength, slowness) })),
  );
  for (const point of points) {
    // Earlier alignments had other documents, so four of their phases together weigh as much as the prior.
    for (const { headroom, gain } of past)
      point.weight += logDensity(gain / (headroom * mainEfficacy(state, arm)), point.strength, 2 * strengthSd);
    for (const one of seen) point.weight += logLikelihood(state, point, arm, one);
  }
  const most = Math.max(...points.map(({ weight }) => weight));
  const total = points.reduce((sum, { weight }) => sum + Math.exp(weight - most), 0);
  for (const point of points) point.weight = Math.exp(point.weight - most) / total;
  return { points, harm: harmOf(state, survey, arm, ran), risk: riskOf(ran) };
}

/** What a phase of the arm gained, and the state in which it began. */
interface Observation {
  headroom: Headroom;
  before: number;
  effort: number;
  difference: number;
  error: number;
}

function observationOf(state: PlanState, { checkpoint, parent, phase }: Standing, arm: Arm): Observation {
  return {
    headroom: parent!.headroom,
    before: effortOn(state, parent!, arm),
    // A phase that found nothing to learn from would have gained nothing in all its steps.
    effort: effortOf(state, isWithoutStep(phase!) ? { ...phase!, steps_run: phase!.steps } : phase!),
    ...pairedDifference(checkpoint.dev, parent!.checkpoint.dev, clustersOf(state)),
  };
}

/** Standard deviation, in points, of a gain around what a hypothesis predicts, apart from the error of its check. */
const misfit = 1.5;

function logLikelihood(
  state: PlanState,
  point: Point,
  arm: Arm,
  { headroom, before, effort, difference, error }: Observation,
): number {
  const gain = gainAt(state, point, { arm, headroom, before, effort });
  const usual = Math.exp(logDensity(difference, gain, Math.hypot(error, misfit)));
  const gone = Math.exp(logDensity(difference, gain, accident.sd));
  return Math.log((1 - accident.chance) * usual + accident.chance * gone);
}

/** Log density of a normal distribution, up to a constant. */
const logDensity = (x: number, mean: number, sd: number): number => -0.5 * ((x - mean) / sd) ** 2 - Math.log(sd);

const logPrior = (strength: number, slowness: number): number =>
  logDensity(strength, 1, strengthSd) + logDensity(Math.log(slowness), 0, slownessSd);

/**
 * Points missed in the classes that the arm can partly close. The owner's later auto-aligns compare the arm's gain with
 * this number.
 */
export const reachOf = (state: PlanState, arm: Arm, headroom: Headroom): number =>
  headroomClasses.reduce((sum, one) => sum + (efficacyOf(state, arm)[one] === undefined ? 0 : headroom[one]), 0);

const mainEfficacy = (state: PlanState, arm: Arm): number => Math.max(...Object.values(efficacyOf(state, arm)), 0.01);

/** Points that a unit of effort costs each suite. The usual harm counts as much as one observed unit of effort. */
function harmOf(state: PlanState, survey: Survey, arm: Arm, ran: readonly Standing[]): number[] {
  return survey.base.losses.map((_, at) => {
    let [points, units] = [usualHarm[arm], 1];
    for (const { phase, losses, parent } of ran) {
      points += losses[at]! - parent!.losses[at]!;
      units += effortOf(state, phase!);
    }
    return Math.max(0, points / units);
  });
}

/**
 * Probability that a phase ends in a confirmed regression. The prior is one in ten, with the weight of two observed
 * phases.
 */
const riskOf = (ran: readonly Standing[]): number =>
  (0.2 + ran.filter((standing) => newRegressions(standing).length > 0).length) / (2 + ran.length);

/**
 * Points of dev that a phase gains if the hypothesis holds. `before`: units of the arm's effort in the checkpoint so
 * far.
 */
export function gainAt(
  state: Pick<PlanState, "diagnosis">,
  { strength, slowness }: Point,
  { arm, headroom, before, effort }: { arm: Arm; headroom: Headroom; before: number; effort: number },
): number {
  const efficacy = efficacyOf(state, arm);
  const [left, reach] = [Math.exp(-before / slowness), 1 - Math.exp(-effort / slowness)];
  let gain = 0;
  for (const one of headroomClasses) {
    const share = Math.min(0.95, ((efficacy[one] ?? 0) / firstUnit) * strength);
    // The deficits left include a part that the arm cannot close. The more the arm has closed, the larger is that
    // part's share.
    gain += headroom[one] * reach * ((share * left) / (1 - share * (1 - left)));
  }
  return gain;
}
