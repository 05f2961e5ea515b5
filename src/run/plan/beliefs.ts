// What an arm is believed to achieve: it closes a share of each class of deficits, with diminishing returns in its
// steps. Its strength and speed on these documents are a posterior over a grid, from a prior, the owner's earlier
// alignments and this run's phases.
import { type Headroom, type HeadroomClass, headroomClasses } from "./deficits.ts";
import { pairedDifference } from "./evidence.ts";
import type { Arm, PlanState } from "./state.ts";
import { accident, clustersOf, effortOf, effortOn, newRegressions, type Standing, type Survey } from "./survey.ts";

type Efficacy = Partial<Record<HeadroomClass, number>>;

/** Share of what unlimited effort would close that one unit of effort closes: 1 − 1/e. */
const firstUnit = 1 - Math.exp(-1);

/**
 * Share of a class that one unit of effort closes. Derived from published results, not measured here, which is why the
 * run's own phases soon outweigh it: facts by supervised rows .3 (EntiGraph, arXiv 2409.07431; Knowledge-Instruct,
 * arXiv 2504.05571), sampled answers by reinforcement .4, forgotten ones by on-policy distillation .5 and more.
 */
const usualEfficacy: Record<Arm, Efficacy> = {
  supervised: { knowledge: 0.3, elicitation: 0.2, format: 0.3, reading: 0.03, forgotten: 0.3 },
  reinforce: { elicitation: 0.4, format: 0.3, reading: 0.1, forgotten: 0.1, abstention: 0.5 },
  represent: { format: 0.3 },
  distil: { forgotten: 0.5 },
  scale: {},
};

/**
 * The same for supervised rows where a data set shows how such questions are answered. On sums a first phase of two
 * units closed 64 % of what was wrong and a second two thirds of the rest (test/e2e/RESULTS.md).
 */
const byExamples: Efficacy = { knowledge: 0.5, elicitation: 0.5, format: 0.5, reading: 0.5, forgotten: 0.3 };

const efficacyOf = ({ diagnosis }: Pick<PlanState, "diagnosis">, arm: Arm): Efficacy =>
  arm === "supervised" && diagnosis.has_examples ? byExamples : usualEfficacy[arm];

/** Points that a unit of effort costs each suite, before this run's phases say otherwise. */
const usualHarm: Record<Arm, number> = { supervised: 1.2, reinforce: 0.5, represent: 0.4, distil: 0, scale: 0 };

/** One hypothesis about an arm: its strength relative to `efficacy`, and how many times more effort a unit takes. */
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
  const ran = survey.standings.filter(({ phase }) => phase?.arm === arm && phase.steps_run > 0);
  const past = state.past.filter((phase) => phase.arm === arm && phase.headroom > 0);
  const seen = ran.map((standing) => observationOf(state, standing, arm));
  // Logarithms are added up, because products of many small densities underflow.
  const points = strengths.flatMap((strength) =>
    slownesses.map((slowness) => ({ strength, slowness, weight: logPrior(strength, slowness) })),
  );
  for (const point of points) {
    // Earlier alignments had other documents: four of their phases weigh as much as the prior.
    for (const { headroom, gain } of past)
      point.weight += logDensity(gain / (headroom * mainEfficacy(state, arm)), point.strength, 2 * strengthSd);
    for (const one of seen) point.weight += logLikelihood(state, point, arm, one);
  }
  const most = Math.max(...points.map(({ weight }) => weight));
  const total = points.reduce((sum, { weight }) => sum + Math.exp(weight - most), 0);
  for (const point of points) point.weight = Math.exp(point.weight - most) / total;
  return { points, harm: harmOf(state, survey, arm, ran), risk: riskOf(ran) };
}

/** What a phase of the arm gained, and from which state. */
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
    effort: effortOf(state, phase!),
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
 * Points in the classes that the arm can close in part; the owner's later auto-aligns compare the arm's gain with them.
 */
export const reachOf = (state: PlanState, arm: Arm, headroom: Headroom): number =>
  headroomClasses.reduce((sum, one) => sum + (efficacyOf(state, arm)[one] === undefined ? 0 : headroom[one]), 0);

const mainEfficacy = (state: PlanState, arm: Arm): number => Math.max(...Object.values(efficacyOf(state, arm)), 0.01);

/** The usual harm weighs as much as one observed unit of effort. */
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

/** Prior of one regression in ten phases, with the weight of two observed phases. */
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
    // The deficits left include what the arm cannot close; that part grows with what it has closed.
    gain += headroom[one] * reach * ((share * left) / (1 - share * (1 - left)));
  }
  return gain;
}
