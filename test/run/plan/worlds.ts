// Worlds in which a planner is tried: each has a benchmark, a base, and arms whose true effects only the world knows. Committed
// before the planner, which sees forecasts, checks and looks, never the truth. Everything is drawn from a seed, so that the same phase
// of the same checkpoint always gives the same result.
//
// A world follows notes on what such arms do: an arm closes a share of what is left of a class of deficits, with diminishing returns in
// its steps; it harms what nobody asked about; now and then a phase goes wrong. An item is right when its difficulty is below what the
// checkpoint masters of its class. Difficulty is partly the item's, partly its cluster's, partly redrawn as training goes on: two
// checkpoints of one path agree on most items, as real ones do.
import { seeded } from "../../../src/base/statistics/random.ts";

export const arms = ["supervised", "distil", "reinforce", "represent", "scale"] as const;
export type Arm = (typeof arms)[number];
export const suites = ["retention", "general", "format", "refusals"] as const;
export type Suite = (typeof suites)[number];
/** Points that each suite may lose. */
export const tolerance: Record<Suite, number> = { retention: 2, general: 2, format: 3, refusals: 1 };

/** Why an item is wrong; `known` items are right at first. */
const classes = ["known", "format", "elicitation", "knowledge", "reading", "suspect"] as const;
type Class = (typeof classes)[number];
const known = 0;
const format = 1;
const knowledge = 3;
const suspect = 5;

/** Share of a class's items that is right where nothing, and where everything, is mastered. */
const shareUntrained: Record<Class, number> = {
  known: 0.95,
  format: 0.08,
  elicitation: 0.1,
  knowledge: 0.03,
  reading: 0.05,
  suspect: 0.02,
};
const shareTrained = 0.95;

/** The truth of one arm. Effort is steps / stepsPerUnit. */
interface ArmTruth {
  /** Share of each class that endless effort masters. */
  ceiling: Record<Class, number>;
  stepsPerUnit: number;
  hoursPerStep: number;
  /** Of an arm's first phase: data are written, rewards are tried. */
  setupHours: number;
  /** Points that each suite loses a unit, and the share of known items that is forgotten. */
  harm: Record<Suite, number>;
  forgets: number;
  /** Share of what other arms mastered that is lost a unit. */
  undoes: number;
  /** Accidents a unit: a rate that is too high, a collapse. */
  accidents: number;
}

/** What is said of an arm before it has run. */
export interface Forecast {
  /** Steps of one unit of effort, a phase of usual length. */
  steps: number;
  hoursPerStep: number;
  setupHours: number;
}

/** A phase of an earlier alignment of the same owner: points that could be gained by the arm, and points that were. */
export interface PastPhase {
  arm: Arm;
  headroom: number;
  gain: number;
}

interface Items {
  class: Uint8Array;
  cluster: string[];
  /** What stays the same of an item at every checkpoint: standard normal, scaled by its share. */
  fixed: Float64Array;
}

export interface World {
  index: number;
  seed: number;
  hasWrongPriors: boolean;
  shares: Record<Class, number>;
  dev: Items;
  /** Three disjoint thirds by cluster. */
  sealed: Items[];
  suiteItems: Record<Suite, Items>;
  suiteBase: Record<Suite, number>;
  truth: Record<Arm, ArmTruth>;
  forecast: Record<Arm, Forecast>;
  past: PastPhase[];
  /** Of the pair differences of a profiled direction; below .3 none is usable. */
  cosine: number;
  /** Share of harm and of mastery that a scaled adapter keeps: powers of the scale. */
  scalePowers: { harm: number; mastery: number };
  target: number;
  /** null: no limit. */
  budgetHours: number | null;
  profileHours: number;
  checkHours: number;
  lookHours: number;
}

/** What a checkpoint truly is. */
export interface Checkpoint {
  id: string;
  parent: Checkpoint | null;
  /** By class, 0 to 1. */
  mastered: number[];
  /** Share of the knowledge class that is sometimes sampled. */
  available: number;
  /** Share of format's mastery that an edit gave, which later training takes away. */
  edited: number;
  forgotten: number;
  harm: Record<Suite, number>;
  /** Arms that have been set up on the way. */
  setUp: readonly Arm[];
  /** The part of each item's difficulty that training redraws. */
  devNoise: Float32Array;
  suiteNoise: Record<Suite, Float32Array>;
}

export interface Phase {
  arm: Arm;
  steps: number;
  /** The phase ends with the step in which they are used up. */
  hours: number;
  /** Of the learning rate; 1 is the usual one. */
  rateFactor?: number;
  /** Of the adapter, in a phase of `scale`. */
  scale?: number;
}

export interface Check {
  correct: boolean[];
  /** Right ones of eight samples. */
  sampled: number[];
  suites: Record<Suite, boolean[]>;
}

/** What an item of dev shows before any training. */
export interface Probe {
  closedBook: boolean;
  sampled: number;
  openBook: boolean;
  /** The content is right, the form is not. */
  formatOnly: boolean;
  /** Independent answers agree with each other, and not with the reference. */
  disputed: boolean;
}

/** Share of an item's difficulty that is its own, its cluster's, and redrawn; together 1. */
const variance = { cluster: 0.2, own: 0.62, redrawn: 0.18 };

type Random = () => number;

/** FNV-1a: a seed from what identifies a draw. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value;
}

const randomOf = (world: Pick<World, "seed">, what: string): Random => seeded(hash(`${world.seed} ${what}`));

/** Box and Muller 1958. */
const normal = (random: Random): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
const between = (random: Random, low: number, high: number): number => low + (high - low) * random();
const clamp = (value: number, low: number, high: number): number => Math.min(high, Math.max(low, value));
const near = (random: Random, mean: number, deviation: number): number =>
  clamp(mean + deviation * normal(random), 0, 0.97);
const byLog = (random: Random, low: number, high: number): number =>
  Math.exp(between(random, Math.log(low), Math.log(high)));

/** The normal quantile, to 1e-3 (Abramowitz and Stegun 26.2.23 has 4.5e-4). */
function quantile(p: number): number {
  if (p > 0.5) return -quantile(1 - p);
  const t = Math.sqrt(-2 * Math.log(Math.max(p, 1e-9)));
  return (
    (2.515517 + 0.802853 * t + 0.010328 * t * t) / (1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t) - t
  );
}

export function makeWorld(index: number): World {
  const seed = hash(`world ${index}`);
  const random = randomOf({ seed }, "world");
  const hasWrongPriors = index % 3 === 0;
  const hasClusters = random() < 0.5;
  const shares = drawShares(random);
  const n = Math.round(byLog(random, 40, 400));
  const size = byLog(random, 0.3, 3);
  const truth = drawTruth(random, size);
  const forecast = forecastOf(random, truth);
  // Wrong in two ways at once: what an arm does, how soon, or what it costs.
  if (hasWrongPriors) {
    const mistakes = [mistakeEfficacy, mistakeSpeed, mistakeCost];
    mistakes.splice(Math.floor(random() * mistakes.length), 1);
    for (const mistake of mistakes) mistake(random, truth, forecast);
  }
  const isUsable = random() < 0.3;
  if (!isUsable) truth.represent.ceiling.format = 0;
  const sealedItems = Math.round(1.5 * n);
  const suiteSizes: Record<Suite, number> = { retention: 200, general: 120, format: 60, refusals: 60 };
  const world: Omit<World, "target"> = {
    index,
    seed,
    hasWrongPriors,
    shares,
    dev: drawItems(random, n, shares, hasClusters),
    sealed: [0, 1, 2].map((third) => drawItems(random, Math.floor((sealedItems + third) / 3), shares, hasClusters)),
    suiteItems: eachSuite((suite) => drawItems(random, suiteSizes[suite], shares, false)),
    suiteBase: {
      retention: 0.98,
      general: between(random, 0.4, 0.8),
      format: between(random, 0.5, 0.95),
      refusals: between(random, 0.6, 0.95),
    },
    truth,
    forecast,
    past: drawPast(random, truth, hasWrongPriors),
    cosine: isUsable ? between(random, 0.28, 0.6) : between(random, 0, 0.34),
    scalePowers: { harm: between(random, 1.2, 2.2), mastery: between(random, 0.15, 0.9) },
    budgetHours: random() < 0.1 ? null : size * byLog(random, 1.5, 12),
    profileHours: size * between(random, 0.05, 0.2),
    checkHours: size * between(random, 0.01, 0.06),
    lookHours: size * between(random, 0.01, 0.05),
  };
  return { ...world, target: drawTarget(random, world) };
}

/** Some base meets it already, some are out of reach; most lie between. */
function drawTarget(random: Random, { shares, truth }: Omit<World, "target">): number {
  const scoreWith = (mastered: number[]): number => scoreOf(shares, mastered, 0);
  const base = scoreWith(classes.map(() => 0));
  const best = scoreWith(
    classes.map((one) =>
      Math.max(...(["supervised", "reinforce", "represent"] as const).map((arm) => truth[arm].ceiling[one])),
    ),
  );
  const kind = random();
  if (kind < 0.05) return clamp(base - between(random, 2, 15), 0, 99);
  if (kind < 0.25) return clamp(best + between(random, 2, 15), 0, 99);
  return clamp(base + (best - base) * between(random, 0.2, 0.95), 0, 99);
}

function drawShares(random: Random): Record<Class, number> {
  const weight: Record<Class, number> = {
    known: byLog(random, 0.1, 1),
    format: random() < 0.4 ? byLog(random, 0.05, 0.8) : 0.02,
    elicitation: byLog(random, 0.05, 0.8),
    knowledge: random() < 0.85 ? byLog(random, 0.2, 2) : 0.02,
    reading: byLog(random, 0.03, 0.3),
    suspect: byLog(random, 0.01, 0.08),
  };
  const total = classes.reduce((sum, one) => sum + weight[one], 0);
  for (const one of classes) weight[one] /= total;
  return weight;
}

const eachSuite = <T>(value: (suite: Suite) => T): Record<Suite, T> => ({
  retention: value("retention"),
  general: value("general"),
  format: value("format"),
  refusals: value("refusals"),
});

function drawItems(random: Random, n: number, shares: Record<Class, number>, hasClusters: boolean): Items {
  const items: Items = { class: new Uint8Array(n), cluster: [], fixed: new Float64Array(n) };
  const spread = Math.sqrt(hasClusters ? variance.own : variance.own + variance.cluster);
  for (let at = 0, left = 0, cluster = 0, shared = 0; at < n; at++, left--) {
    if (left === 0) {
      left = hasClusters ? 1 + Math.floor(4 * random()) : 1;
      cluster++;
      shared = hasClusters ? Math.sqrt(variance.cluster) * normal(random) : 0;
    }
    items.class[at] = drawClass(random, shares);
    items.cluster.push(`c${cluster}`);
    items.fixed[at] = shared + spread * normal(random);
  }
  return items;
}

function drawClass(random: Random, shares: Record<Class, number>): number {
  let left = random();
  for (const [at, one] of classes.entries()) {
    left -= shares[one];
    if (left < 0) return at;
  }
  return suspect;
}

/** `size`: hours of a usual supervised phase. */
function drawTruth(random: Random, size: number): Record<Arm, ArmTruth> {
  const nothing: Record<Class, number> = { known: 0, format: 0, elicitation: 0, knowledge: 0, reading: 0, suspect: 0 };
  const harms = (low: number, high: number): Record<Suite, number> =>
    eachSuite(() => Math.max(0, between(random, low, high)) * (random() < 0.5 ? 0.3 : 1));
  const arm = (
    steps: number,
    hours: number,
    setup: number,
  ): Pick<ArmTruth, "stepsPerUnit" | "hoursPerStep" | "setupHours"> => ({
    stepsPerUnit: Math.round(steps * byLog(random, 0.7, 1.4)),
    hoursPerStep: (size * hours * byLog(random, 0.7, 1.4)) / steps,
    setupHours: size * setup * byLog(random, 0.5, 2),
  });
  const undoes = (): number => (random() < 0.15 ? between(random, 0.15, 0.4) : between(random, 0, 0.08));
  return {
    supervised: {
      ...arm(300, 1, 0.2),
      ceiling: {
        ...nothing,
        knowledge: near(random, 0.6, 0.2),
        elicitation: near(random, 0.25, 0.12),
        format: near(random, 0.5, 0.2),
        reading: near(random, 0.04, 0.04),
      },
      harm: harms(0, 4),
      forgets: between(random, 0, 0.08),
      undoes: undoes(),
      accidents: between(random, 0.02, 0.12),
    },
    distil: {
      ...arm(60, 0.3, 0.03),
      ceiling: nothing,
      harm: harms(0, 0),
      forgets: 0,
      undoes: between(random, 0, 0.06),
      accidents: 0.02,
    },
    reinforce: {
      ...arm(100, 1.6, 0.1),
      ceiling: {
        ...nothing,
        elicitation: near(random, 0.6, 0.2),
        format: near(random, 0.6, 0.2),
        reading: near(random, 0.12, 0.08),
      },
      harm: harms(-0.5, 1.5),
      forgets: between(random, 0, 0.02),
      undoes: undoes(),
      accidents: between(random, 0.03, 0.15),
    },
    represent: {
      ...arm(30, 0.1, 0.02),
      ceiling: { ...nothing, format: near(random, 0.45, 0.2) },
      harm: harms(-1, 2),
      forgets: between(random, 0, 0.02),
      undoes: 0,
      accidents: 0,
    },
    scale: {
      stepsPerUnit: 1,
      hoursPerStep: 0,
      setupHours: 0,
      ceiling: nothing,
      harm: harms(0, 0),
      forgets: 0,
      undoes: 0,
      accidents: 0,
    },
  };
}

function forecastOf(random: Random, truth: Record<Arm, ArmTruth>): Record<Arm, Forecast> {
  const of = ({ stepsPerUnit, hoursPerStep, setupHours }: ArmTruth): Forecast => ({
    steps: Math.max(1, Math.round(stepsPerUnit * byLog(random, 0.8, 1.25))),
    hoursPerStep: hoursPerStep * byLog(random, 0.8, 1.25),
    setupHours: setupHours * byLog(random, 0.8, 1.25),
  });
  return {
    supervised: of(truth.supervised),
    distil: of(truth.distil),
    reinforce: of(truth.reinforce),
    represent: of(truth.represent),
    scale: { steps: 1, hoursPerStep: 0, setupHours: 0 },
  };
}

type Mistake = (random: Random, truth: Record<Arm, ArmTruth>, forecast: Record<Arm, Forecast>) => void;

/** What is thought to help does not, and the other way round. */
const mistakeEfficacy: Mistake = (random, { supervised, reinforce }) => {
  const factor = byLog(random, 0.1, 0.4);
  const weak = random() < 0.5 ? supervised : reinforce;
  for (const one of classes) weak.ceiling[one] *= factor;
  if (weak === supervised) reinforce.ceiling.elicitation = near(random, 0.85, 0.08);
  else supervised.ceiling.elicitation = near(random, 0.6, 0.15);
};

const mistakeSpeed: Mistake = (random, truth) => {
  for (const arm of ["supervised", "distil", "reinforce"] as const)
    truth[arm].stepsPerUnit = Math.max(1, Math.round(truth[arm].stepsPerUnit * (random() < 0.5 ? 3 : 1 / 3)));
};

const mistakeCost: Mistake = (random, _, forecast) => {
  for (const arm of ["supervised", "distil", "reinforce"] as const)
    forecast[arm].hoursPerStep *= random() < 0.5 ? 3 : 1 / 3;
};

/** Up to six phases of earlier runs. Those of wrong priors were of documents that are unlike these. */
function drawPast(random: Random, truth: Record<Arm, ArmTruth>, isWrong: boolean): PastPhase[] {
  const efficacy = {
    supervised: truth.supervised.ceiling.knowledge,
    reinforce: truth.reinforce.ceiling.elicitation,
  };
  return Array.from({ length: Math.floor(7 * random()) }, () => {
    const arm = random() < 0.6 ? "supervised" : "reinforce";
    const headroom = between(random, 10, 60);
    const share = isWrong ? random() : efficacy[arm] * 0.63;
    return { arm, headroom, gain: headroom * share + 4 * normal(random) };
  });
}

export function baseOf(world: World): Checkpoint {
  const random = randomOf(world, "base");
  const noise = (items: Items): Float32Array => Float32Array.from(items.class, () => normal(random));
  return {
    id: "base",
    parent: null,
    mastered: classes.map(() => 0),
    available: 0.05,
    edited: 0,
    forgotten: 0,
    harm: eachSuite(() => 0),
    setUp: [],
    devNoise: noise(world.dev),
    suiteNoise: eachSuite((suite) => noise(world.suiteItems[suite])),
  };
}

/** Runs a phase. Its hours are at most those given, the last step excepted. */
export function runPhase(
  world: World,
  parent: Checkpoint,
  phase: Phase,
): { checkpoint: Checkpoint; steps: number; hours: number; setupHours: number; longestStepHours: number } {
  const { arm, rateFactor = 1, scale = 1 } = phase;
  const id = `${parent.id} > ${arm} ${phase.steps} ${phase.hours.toFixed(6)} ${rateFactor} ${scale}`;
  const random = randomOf(world, id);
  const truth = world.truth[arm];
  const setupHours = parent.setUp.includes(arm) ? 0 : Math.min(phase.hours, truth.setupHours);
  const stepHours = truth.hoursPerStep * Math.exp(0.1 * normal(random));
  const steps =
    stepHours === 0
      ? phase.steps
      : Math.max(0, Math.min(phase.steps, Math.ceil((phase.hours - setupHours) / stepHours)));
  const made =
    arm === "scale"
      ? scaled(world, parent, scale)
      : trained(random, parent, { arm, truth, effort: (steps / truth.stepsPerUnit) * rateFactor ** 0.7, rateFactor });
  const churn = arm === "scale" ? 0.1 : Math.min(0.6, 0.1 + (0.2 * steps) / truth.stepsPerUnit);
  const redraw = (noise: Float32Array): Float32Array =>
    noise.map((value) => (random() < churn ? normal(random) : value));
  return {
    checkpoint: {
      ...made,
      id,
      parent,
      setUp: parent.setUp.includes(arm) ? parent.setUp : [...parent.setUp, arm],
      devNoise: redraw(parent.devNoise),
      suiteNoise: eachSuite((suite) => redraw(parent.suiteNoise[suite])),
    },
    steps,
    hours: setupHours + steps * stepHours,
    setupHours,
    longestStepHours: stepHours,
  };
}

type Made = Pick<Checkpoint, "mastered" | "available" | "edited" | "forgotten" | "harm">;

function trained(
  random: Random,
  parent: Checkpoint,
  { arm, truth, effort, rateFactor }: { arm: Arm; truth: ArmTruth; effort: number; rateFactor: number },
): Made {
  const reach = 1 - Math.exp(-effort);
  let { available } = parent;
  const mastered = parent.mastered.map((now, at) => {
    let ceiling = truth.ceiling[classes[at]!];
    // Reinforcement strengthens what is sometimes sampled; it teaches no fact.
    if (arm === "reinforce" && at === knowledge)
      ceiling = now + truth.ceiling.elicitation * Math.max(0, available - now);
    return now < ceiling ? now + (ceiling - now) * reach : now * Math.exp(-truth.undoes * effort);
  });
  if (arm === "supervised") {
    const ceiling = Math.min(0.97, 1.3 * truth.ceiling.knowledge);
    available += Math.max(0, ceiling - available) * (1 - Math.exp(-1.5 * effort));
  }
  let edited = parent.edited;
  if (arm === "represent") edited += Math.max(0, mastered[format]! - parent.mastered[format]!);
  else if (arm !== "distil") {
    const left = edited * Math.exp(-1.5 * effort);
    mastered[format] = Math.max(0, mastered[format]! - (edited - left));
    edited = left;
  }
  const mends = arm === "distil" ? Math.exp(-1.6 * effort) : 1;
  // A lower rate harms less for the same effort.
  const wear = effort * rateFactor ** 0.5;
  let forgotten = clamp((parent.forgotten + truth.forgets * wear) * mends, 0, 0.6);
  const harm = eachSuite((suite) => clamp((parent.harm[suite] + truth.harm[suite] * wear) * mends, 0, 60));
  if (random() < 1 - Math.exp(-truth.accidents * effort * rateFactor ** 1.5)) {
    const severity = between(random, 0.1, 0.4);
    for (const at of mastered.keys()) mastered[at]! *= 1 - severity;
    forgotten = clamp(forgotten + severity / 2, 0, 0.6);
    for (const suite of suites) harm[suite] += between(random, 0, 30) * severity;
  }
  return { mastered, available, edited, forgotten, harm };
}

function scaled({ scalePowers }: World, parent: Checkpoint, scale: number): Made {
  const [kept, harmed] = [scale ** scalePowers.mastery, scale ** scalePowers.harm];
  return {
    mastered: parent.mastered.map((share) => share * kept),
    available: Math.max(0.05, parent.available * kept),
    edited: parent.edited * kept,
    forgotten: parent.forgotten * harmed,
    harm: eachSuite((suite) => parent.harm[suite] * harmed),
  };
}

/** Shares of each class's items that are right, and that are sometimes sampled. */
function chances({ mastered, available, forgotten }: Checkpoint): { right: number[]; sampled: number[] } {
  const right = mastered.map((share, at) => chanceOf(at, share, forgotten));
  const sampled = right.map((chance, at) => {
    const reachable = at === knowledge ? available : classes[at] === "elicitation" ? 0.9 : chance + 0.05;
    return Math.min(0.98, Math.max(chance + 0.02, reachable));
  });
  return { right, sampled };
}

function chanceOf(at: number, share: number, forgotten: number): number {
  const floor = shareUntrained[classes[at]!];
  if (at === known) return floor * (1 - forgotten);
  return at === suspect ? floor : floor + (shareTrained - floor) * share;
}

const scoreOf = (shares: Record<Class, number>, mastered: readonly number[], forgotten: number): number =>
  100 * classes.reduce((sum, one, at) => sum + shares[one] * chanceOf(at, mastered[at]!, forgotten), 0);

/** Points over all items that could ever be asked. */
export const trueScore = ({ shares }: World, { mastered, forgotten }: Checkpoint): number =>
  scoreOf(shares, mastered, forgotten);

/** Points that a suite has truly lost against the base: harm is a share of what the base could do. */
export const trueLoss = ({ suiteBase }: World, { harm }: Checkpoint, suite: Suite): number =>
  Math.min(harm[suite], 100 * suiteBase[suite]);

/** What a run is worth: its score up to the target, less what suites lost beyond what they may. */
export const trueValue = (world: World, checkpoint: Checkpoint): number =>
  Math.min(world.target, trueScore(world, checkpoint)) -
  suites.reduce((sum, suite) => sum + Math.max(0, trueLoss(world, checkpoint, suite) - tolerance[suite]), 0);

const redrawnScale = Math.sqrt(variance.redrawn);

/** Chance of a sample to be right: of an item answered right, of one that is sometimes sampled, of any other. */
const sampleChance = { right: 0.85, sometimes: 0.3, never: 0.004 };

export function check(world: World, checkpoint: Checkpoint): Check {
  const random = randomOf(world, `check ${checkpoint.id}`);
  const { right, sampled } = chances(checkpoint);
  const [least, most] = [right.map(quantile), sampled.map(quantile)];
  const { dev } = world;
  const found: Check = { correct: [], sampled: [], suites: eachSuite(() => []) };
  for (const [at, one] of dev.class.entries()) {
    const difficulty = dev.fixed[at]! + redrawnScale * checkpoint.devNoise[at]!;
    const isRight = difficulty < least[one]!;
    const chance = isRight ? sampleChance.right : difficulty < most[one]! ? sampleChance.sometimes : sampleChance.never;
    let count = 0;
    for (let draw = 0; draw < 8; draw++) if (random() < chance) count++;
    found.correct.push(isRight);
    found.sampled.push(count);
  }
  for (const suite of suites) {
    const share = world.suiteBase[suite] - trueLoss(world, checkpoint, suite) / 100;
    const limit = quantile(clamp(share, 1e-6, 1 - 1e-6));
    const { fixed } = world.suiteItems[suite];
    const noise = checkpoint.suiteNoise[suite];
    found.suites[suite] = Array.from(fixed, (own, at) => own + redrawnScale * noise[at]! < limit);
  }
  return found;
}

/** One opening of a third of the sealed items. */
export function look(world: World, checkpoint: Checkpoint, third: number): { correct: boolean[]; clusters: string[] } {
  const random = randomOf(world, `look ${third} ${checkpoint.id}`);
  const limits = chances(checkpoint).right.map(quantile);
  const items = world.sealed[third]!;
  return {
    correct: Array.from(items.class, (one, at) => items.fixed[at]! + redrawnScale * normal(random) < limits[one]!),
    clusters: items.cluster,
  };
}

/** Open-book and format results of each class: shares. */
const openBook: Record<Class, number> = {
  known: 0.97,
  format: 0.1,
  elicitation: 0.9,
  knowledge: 0.85,
  reading: 0.15,
  suspect: 0.05,
};
const formatOnly: Record<Class, number> = {
  known: 0.01,
  format: 0.85,
  elicitation: 0.04,
  knowledge: 0.02,
  reading: 0.03,
  suspect: 0.02,
};

export function diagnose(world: World): Probe[] {
  const random = randomOf(world, "diagnosis");
  const { correct, sampled } = check(world, baseOf(world));
  return correct.map((closedBook, at) => {
    const one = classes[world.dev.class[at]!]!;
    return {
      closedBook,
      sampled: sampled[at]!,
      openBook: random() < openBook[one],
      formatOnly: !closedBook && random() < formatOnly[one],
      disputed: !closedBook && random() < (one === "suspect" ? 0.8 : 0.02),
    };
  });
}
