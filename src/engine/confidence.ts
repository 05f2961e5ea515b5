// From the features of an answer to the chance that it is right: fitting, and scoring. Pure; an artefact is plain JSON.
//
//   features → standardise → logistic regression (L2) → margin → Platt (two numbers, fitted on margins of answers that the
//   regression had not seen) → probability → score 0–100
//
// Platt serves at every size: centred isotonic is no better below 2,000 labels and gains 0.003 at 5,000 (simulated).
// Too few labels fit nothing: the base family's prior calibrator answers then, and says that it is not calibrated.

/** One graded answer; features in the order of `featureNames`. */
export interface LabelledAnswer {
  features: readonly number[];
  correct: boolean;
}

/** Any change of these voids the statistics. */
export interface ConfidenceIdentity {
  base_sha256: string;
  adapter_sha256: string;
  template_sha256: string;
  /** A: the 64 raw logits of the step loop. */
  feature_source: "A";
  /** Of the inference library; its kernels decide the last digits of a logit. */
  engine: string;
}

/** The fitted numbers, without what they belong to. */
export interface CalibratorModel {
  /** Names of the features used, in order. */
  features: string[];
  means: number[];
  scales: number[];
  weights: number[];
  bias: number;
  /** p = 1 / (1 + e^−(a·margin + b)) */
  platt: { a: number; b: number };
}

/** How well scores separate right from wrong answers, on answers the fit had not seen. null where it cannot be said. */
export interface CalibrationStatistics {
  /** Graded answers behind these figures. */
  n: number;
  accuracy: number | null;
  auroc: number | null;
  brier: number | null;
}

export interface Prior {
  format: 1;
  family: string;
  about: string;
  model: CalibratorModel;
  statistics: CalibrationStatistics;
}

export interface Calibration {
  format: 1;
  identity: ConfidenceIdentity;
  /** false: the prior's numbers; `reason` says why. */
  calibrated: boolean;
  reason: string | null;
  model: CalibratorModel;
  statistics: CalibrationStatistics;
  date: string;
}

export interface ConfidenceScore {
  /** 0–100, whole. */
  score: number;
  calibrated: boolean;
  reason: string | null;
  /** Graded answers behind the calibrator; 0 when it is the prior's. */
  n: number;
}

/** Below this nothing is fitted; below `allFeatures` only the first six features. Thresholds are judgement. */
export const leastLabels = 100;
const allFeatures = 300;
const fewFeatures = 6;
/** A regression needs some of both kinds. */
const leastOfEachKind = 10;
/** L2 penalty on standardised weights, on the sum of the loss. */
const penalty = 1;
const folds = 10;

export function fitCalibration(input: {
  answers: readonly LabelledAnswer[];
  featureNames: readonly string[];
  prior: Prior;
  identity: ConfidenceIdentity;
  date: string;
}): Calibration {
  const { answers, featureNames, prior, identity, date } = input;
  const reason = reasonNotToFit(answers);
  if (reason !== null) {
    const scores = answers.map((answer) => probability(prior.model, featureNames, answer.features));
    const statistics = statisticsOf(
      scores,
      answers.map((answer) => answer.correct),
    );
    return { format: 1, identity, calibrated: false, reason, model: prior.model, statistics, date };
  }
  const { model, statistics } = fitModel(answers, featureNames);
  return { format: 1, identity, calibrated: true, reason: null, model, statistics, date };
}

function reasonNotToFit(answers: readonly LabelledAnswer[]): string | null {
  if (answers.length === 0) return "No benchmark: the base family's prior is used";
  if (answers.length < leastLabels)
    return `${answers.length} graded answers are too few to calibrate on, ${leastLabels} are needed`;
  const right = answers.filter((answer) => answer.correct).length;
  if (Math.min(right, answers.length - right) < leastOfEachKind)
    return `${right} of ${answers.length} graded answers are right: at least ${leastOfEachKind} of each kind are needed`;
  return null;
}

/** Fits model and Platt; the statistics are of out-of-fold margins, so that every answer serves both without flattering. */
export function fitModel(
  answers: readonly LabelledAnswer[],
  featureNames: readonly string[],
): { model: CalibratorModel; statistics: CalibrationStatistics } {
  const used = answers.length < allFeatures ? Math.min(fewFeatures, featureNames.length) : featureNames.length;
  const rows = answers.map((answer) => answer.features.slice(0, used));
  const labels = answers.map((answer) => answer.correct);
  const fold = foldOf(labels);
  const margins = new Array<number>(rows.length);
  for (let held = 0; held < folds; held++) {
    const isIn = (_: unknown, index: number): boolean => fold[index] !== held;
    const part = fitLogistic(rows.filter(isIn), labels.filter(isIn));
    for (const [index, row] of rows.entries()) if (fold[index] === held) margins[index] = marginOf(part, row);
  }
  const platt = fitPlatt(margins, labels);
  const model = { features: featureNames.slice(0, used), ...fitLogistic(rows, labels), platt };
  const scores = margins.map((margin) => sigmoid(platt.a * margin + platt.b));
  return { model, statistics: statisticsOf(scores, labels) };
}

/** Folds in turn within right and within wrong answers, so that each fold has its share of both. */
function foldOf(labels: readonly boolean[]): number[] {
  const seen = { true: 0, false: 0 };
  return labels.map((label) => seen[`${label}`]++ % folds);
}

export function scoreConfidence(
  calibration: Calibration,
  featureNames: readonly string[],
  features: readonly number[],
): ConfidenceScore {
  const p = probability(calibration.model, featureNames, features);
  return {
    score: Math.round(100 * p),
    calibrated: calibration.calibrated,
    reason: calibration.reason,
    n: calibration.calibrated ? calibration.statistics.n : 0,
  };
}

/** What differs between where a calibration was made and where it shall serve; null when nothing does. */
export function voidReason(calibration: Calibration, now: ConfidenceIdentity): string | null {
  const keys = Object.keys(now) as (keyof ConfidenceIdentity)[];
  const changed = keys.filter((key) => calibration.identity[key] !== now[key]);
  return changed.length === 0 ? null : `Calibrated on another ${changed.join(", ")}`;
}

/** The chance that an answer with these features is right, in [0, 1]. */
export function probability(
  model: CalibratorModel,
  featureNames: readonly string[],
  features: readonly number[],
): number {
  const row = model.features.map((name) => {
    const at = featureNames.indexOf(name);
    if (at < 0) throw new RangeError(`The calibrator wants feature ${name}, which is not made here`);
    return features[at]!;
  });
  return sigmoid(model.platt.a * marginOf(model, row) + model.platt.b);
}

type Logistic = Pick<CalibratorModel, "means" | "scales" | "weights" | "bias">;

function marginOf(model: Logistic, row: readonly number[]): number {
  let margin = model.bias;
  for (const [index, value] of row.entries())
    margin += (model.weights[index]! * (value - model.means[index]!)) / model.scales[index]!;
  return margin;
}

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

/** L2 logistic regression on standardised features, by Newton's method (IRLS). The bias is not penalised. */
function fitLogistic(rows: readonly (readonly number[])[], labels: readonly boolean[]): Logistic {
  const width = rows[0]!.length;
  const columns = Array.from({ length: width }, (_, at) => rows.map((row) => row[at]!));
  const means = columns.map(mean);
  // A feature that never varies says nothing: scale 1 leaves it at 0.
  const scales = columns.map((column, at) => Math.sqrt(mean(column.map((value) => (value - means[at]!) ** 2))) || 1);
  const standard = rows.map((row) => [...row.map((value, at) => (value - means[at]!) / scales[at]!), 1]);
  const penalties = [...new Array<number>(width).fill(penalty), 0];
  const targets = labels.map(Number);
  const weights = newton(standard, targets, penalties);
  return { means, scales, weights: weights.slice(0, width), bias: weights[width]! };
}

/** Platt scaling with its smoothed targets, which keep a perfect separation finite. */
function fitPlatt(margins: readonly number[], labels: readonly boolean[]): { a: number; b: number } {
  const right = labels.filter(Boolean).length;
  const high = (right + 1) / (right + 2);
  const low = 1 / (labels.length - right + 2);
  const targets = labels.map((label) => (label ? high : low));
  const [a, b] = newton(
    margins.map((margin) => [margin, 1]),
    targets,
    [1e-9, 1e-9],
  );
  return { a: a!, b: b! };
}

/** Minimises Σ cross-entropy(target, σ(w·x)) + ½ Σ penalty·w². rows [n][d], targets [n] in [0, 1]; returns w [d]. */
function newton(rows: readonly number[][], targets: readonly number[], penalties: readonly number[]): number[] {
  const width = penalties.length;
  let weights = new Array<number>(width).fill(0);
  let loss = lossOf(rows, targets, penalties, weights);
  for (let round = 0; round < 100; round++) {
    const gradient = penalties.map((value, at) => value * weights[at]!);
    const hessian = penalties.map((value, at) => penalties.map((_, other) => (at === other ? value + 1e-12 : 0)));
    for (const [index, row] of rows.entries()) {
      const p = sigmoid(dot(row, weights));
      for (let i = 0; i < width; i++) {
        gradient[i]! += (p - targets[index]!) * row[i]!;
        for (let j = 0; j < width; j++) hessian[i]![j]! += p * (1 - p) * row[i]! * row[j]!;
      }
    }
    const direction = solve(hessian, gradient);
    // Newton's full step can overshoot where the curve is flat: halve it until the loss falls.
    let length = 1;
    let next = weights;
    let nextLoss = loss;
    do {
      next = weights.map((value, at) => value - length * direction[at]!);
      nextLoss = lossOf(rows, targets, penalties, next);
      length /= 2;
    } while (!(nextLoss <= loss) && length > 1e-6);
    if (!(nextLoss <= loss)) return weights;
    const gained = loss - nextLoss;
    weights = next;
    loss = nextLoss;
    if (gained < 1e-12 * (1 + Math.abs(loss))) break;
  }
  return weights;
}

function lossOf(
  rows: readonly number[][],
  targets: readonly number[],
  penalties: readonly number[],
  weights: readonly number[],
): number {
  let loss = 0;
  for (const [at, weight] of weights.entries()) loss += (penalties[at]! * weight * weight) / 2;
  for (const [index, row] of rows.entries()) {
    const margin = dot(row, weights);
    // ln(1 + e^m) − target·m, without overflow
    loss += Math.max(margin, 0) + Math.log1p(Math.exp(-Math.abs(margin))) - targets[index]! * margin;
  }
  return loss;
}

/** Solves a symmetric positive definite system by Gauss elimination with pivots. a [d][d] and b [d] are used up. */
function solve(a: number[][], b: number[]): number[] {
  const width = b.length;
  for (let column = 0; column < width; column++) {
    let pivot = column;
    for (let row = column + 1; row < width; row++)
      if (Math.abs(a[row]![column]!) > Math.abs(a[pivot]![column]!)) pivot = row;
    [a[column], a[pivot]] = [a[pivot]!, a[column]!];
    [b[column], b[pivot]] = [b[pivot]!, b[column]!];
    for (let row = column + 1; row < width; row++) {
      const factor = a[row]![column]! / a[column]![column]!;
      for (let k = column; k < width; k++) a[row]![k]! -= factor * a[column]![k]!;
      b[row]! -= factor * b[column]!;
    }
  }
  for (let row = width - 1; row >= 0; row--) {
    for (let k = row + 1; k < width; k++) b[row]! -= a[row]![k]! * b[k]!;
    b[row]! /= a[row]![row]!;
  }
  return b;
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const dot = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((sum, value, index) => sum + value * b[index]!, 0);

export function statisticsOf(scores: readonly number[], labels: readonly boolean[]): CalibrationStatistics {
  if (scores.length === 0) return { n: 0, accuracy: null, auroc: null, brier: null };
  return {
    n: scores.length,
    accuracy: mean(labels.map(Number)),
    auroc: auroc(
      scores.filter((_, index) => labels[index]),
      scores.filter((_, index) => !labels[index]),
    ),
    brier: mean(scores.map((score, index) => (score - Number(labels[index])) ** 2)),
  };
}

/** The chance that a positive's value is above a negative's, ties counted half; null when either is missing. */
export function auroc(positives: readonly number[], negatives: readonly number[]): number | null {
  if (positives.length === 0 || negatives.length === 0) return null;
  const all = [
    ...positives.map((value) => ({ value, positive: true })),
    ...negatives.map((value) => ({ value, positive: false })),
  ].sort((a, b) => a.value - b.value);
  let rankSum = 0;
  for (let from = 0; from < all.length; ) {
    let to = from;
    while (to < all.length && all[to]!.value === all[from]!.value) to++;
    // Equal values share the mean of their ranks, which count from 1.
    const rank = (from + 1 + to) / 2;
    rankSum += rank * all.slice(from, to).filter((entry) => entry.positive).length;
    from = to;
  }
  const least = (positives.length * (positives.length + 1)) / 2;
  return (rankSum - least) / (positives.length * negatives.length);
}
