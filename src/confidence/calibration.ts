// Fits and computes the probability that an answer is right, from the answer's features. All functions are pure, and a calibration is
// plain JSON.
//
//   features → standardise → logistic regression (L2) → p → (1 − π) · p → calibrator → score 0–100
//
// π is the probability that the question is out of domain, that is, not about the documents (drift.ts). An answer to such a question
// counts as wrong, because no benchmark covers it. The calibrator is Platt's scaling for fewer than 2,000 labels (their effective number,
// see worthOf), and a centred isotonic curve from there on. It is fitted on the log-odds of (1 − π) · p of answers that the regression
// had not seen. It is applied last to correct for questions about the documents whose π is above 0, which makes (1 − π) · p too low. If π
// is not known, a second calibrator is used, which is fitted on p. If the grounding of answers in the documents is known (grounding.ts),
// the regression uses the features of grounding in addition to those of the tokens. With too few labels, nothing is fitted: a prior is
// used (prior.ts), and the score says that it is not calibrated.
import { sha256 } from "../base/files.ts";
import {
  brierScore,
  brierSkill,
  debiasedCalibrationError,
  expectedCalibrationError,
  perfectScoreBand,
} from "../base/statistics/calibration.ts";
import { designEffect } from "../base/statistics/intervals.ts";
import { type Curve, fitCentredIsotonic, interpolate } from "../base/statistics/isotonic.ts";
import { fitLogistic, fitPlatt, type Logistic, marginOf, type Platt, sigmoid } from "../base/statistics/logistic.ts";
import { aurocOf, predictionRejectionRatio } from "../base/statistics/ranking.ts";
import type { DriftReference } from "./drift.ts";
import { type GroundingReference, groundingFeatureNames, groundingSpace } from "./grounding.ts";

/** A graded answer, with its features in the order of `featureNames`. */
export interface LabelledAnswer {
  features: readonly number[];
  correct: boolean;
  /**
   * Answers about one fact share a cluster, which is never split between fitting and testing. An answer without `cluster` forms a cluster
   * of its own.
   */
  cluster?: string;
  /** π of the question; given for all answers or for none. */
  outOfDomain?: number;
  /** In the order of `groundingFeatureNames`; given for all answers or for none. */
  grounding?: readonly number[];
}

/** A change in any of these makes a calibration void. */
export interface ConfidenceIdentity {
  base_sha256: string;
  adapter_sha256: string;
  template_sha256: string;
  /** A stands for the 64 raw logits that the step loop returns for each token. */
  feature_source: "A";
  /** The inference library with its version, because its kernels determine the last digits of a logit. */
  engine: string;
}

/** Maps log-odds to a probability. */
export interface Calibrator {
  platt: Platt;
  /** If present, used instead of `platt`. */
  isotonic?: Curve;
}

/** The fitted numbers, without the identity of the model they belong to. */
export interface CalibratorModel extends Logistic, Calibrator {
  /** Names of the features used, in order. */
  features: string[];
  /** Calibrator for the log-odds of (1 − π) · p. */
  mixed?: Calibrator;
}

/** How well scores separate right from wrong answers, on answers that were not used in the fit. A figure is null if it is undefined. */
export interface CalibrationStatistics {
  /** Number of graded answers behind these figures. */
  n: number;
  accuracy: number | null;
  auroc: number | null;
  brier: number | null;
}

/** How right graded answers are at each score. The scores come from calibrators that had not seen the answers. */
export interface HeldOut {
  /** Number of answers at each rounded score 0 … 100, and how many of them were right. */
  counts: { n: number[]; right: number[] };
  prr: number | null;
  brier_skill: number | null;
  /** Over ten bins of equal mass; `perfect_…` is the error that perfectly calibrated scores show by chance. */
  calibration_error: number;
  perfect_calibration_error: { mean: number; p95: number };
  debiased_calibration_error: number;
}

export interface Prior {
  format: 1;
  family: string;
  about: string;
  model: CalibratorModel;
  statistics: CalibrationStatistics;
}

export interface Calibration {
  format: 4;
  identity: ConfidenceIdentity;
  /** If false, `model` is the prior's, and `reason` says why. */
  calibrated: boolean;
  reason: string | null;
  /** Uses the token features, and the grounding features if `grounding` is not null. */
  model: CalibratorModel;
  statistics: CalibrationStatistics;
  /** Null without graded answers. */
  held_out: HeldOut | null;
  /** Used if the calibration is void. */
  prior: { family: string; is_own_family: boolean; about: string; model: CalibratorModel };
  /** What questions about the documents look like; null if unknown, in which case `drift_reason` says why. */
  drift: DriftReference | null;
  drift_reason: string | null;
  /** The words of the documents' passages; null if there is no text of documents or nothing was fitted. */
  grounding: GroundingReference | null;
  date: string;
}

/** What formats 1 to 3 have in common. They call π's coefficients `foreign`. */
type FormerCalibration = Omit<Calibration, "format" | "drift" | "grounding"> & {
  drift: (Omit<DriftReference, "out_of_domain"> & { foreign: DriftReference["out_of_domain"] }) | null;
};

/**
 * A calibration in any format that artefacts and the store may contain. Format 1 had no grounding. Format 2 had a separate model for
 * grounding, with other features. Format 3 is format 4 with grounding called `support`.
 */
export type StoredCalibration =
  | Calibration
  | (FormerCalibration & { format: 1 })
  | (FormerCalibration & { format: 2; supported: CalibratorModel | null; support: unknown })
  | (FormerCalibration & { format: 3; support: GroundingReference | null });

/**
 * Converts a calibration from any known format to the current one. If it was fitted on features that are no longer computed, it becomes
 * uncalibrated. Throws RangeError for an unknown format.
 */
export function readCalibration(stored: StoredCalibration): Calibration {
  if (stored.format === 4) return stored;
  if (![1, 2, 3].includes(stored.format))
    throw new RangeError(`format: calibrations of format ${(stored as { format: unknown }).format} are not supported`);
  const drift = stored.drift && currentDrift(stored.drift);
  if (stored.format === 1) return { ...stored, format: 4, drift, grounding: null };
  if (stored.format === 3) {
    const { support: grounding, model, ...rest } = stored;
    const features = model.features.map((name) => name.replace(/^support_/, "grounding_"));
    return { ...rest, format: 4, model: { ...model, features }, drift, grounding };
  }
  const { supported, support: _, ...rest } = stored;
  const read: Calibration = { ...rest, format: 4, drift, grounding: null };
  if (supported === null) return read;
  const { family, is_own_family: isOwnFamily, model } = stored.prior;
  const reason = `Calibrated by an earlier version with features that no longer exist; ${priorText(family, isOwnFamily)}`;
  return { ...read, calibrated: false, reason, model };
}

const currentDrift = ({ foreign, ...rest }: NonNullable<FormerCalibration["drift"]>): DriftReference => ({
  ...rest,
  out_of_domain: foreign,
});

export interface ConfidenceScore {
  /** 0–100, whole. */
  score: number;
  calibrated: boolean;
  reason: string | null;
  /** Number of graded answers that the calibrator was fitted on; 0 if a prior was used. */
  n: number;
  /** When the model was calibrated; null if a prior was used. */
  date: string | null;
}

/**
 * With fewer labels, nothing is fitted. Below `allFeatures`, only the first six token features and those of grounding are used. The
 * thresholds are a judgement. They apply to the effective number of answers (worthOf), because answers to five wordings of a question
 * that are all right or all wrong tell hardly more than one answer.
 */
export const leastLabels = 100;
const allFeatures = 300;
const fewFeatures = 6;
/** From this effective number of labels on, an isotonic curve is as good as Platt's scaling, and better with more (by simulation). */
export const isotonicFrom = 2000;
/** Minimum number of right answers, and of wrong answers, that a regression needs. */
const leastOfEachKind = 10;
/** L2 penalties to try, on the weights of standardised features and relative to the summed loss. The best on held-out answers is used. */
const penalties = [1, 3, 10, 30, 100, 300, 1000];
const folds = 10;

export interface CalibrationInput {
  answers: readonly LabelledAnswer[];
  featureNames: readonly string[];
  prior: Prior;
  /** Whether the prior was fitted on the base's own family. */
  isOwnFamily: boolean;
  identity: ConfidenceIdentity;
  drift: { reference: DriftReference } | { missing: string };
  /** The words of passages with which the answers' grounding was measured; null without grounding. */
  grounding: GroundingReference | null;
  date: string;
}

export function fitCalibration(input: CalibrationInput): Calibration {
  const { answers, featureNames, prior, isOwnFamily, identity, drift, grounding, date } = input;
  const { family, about } = prior;
  const common = {
    format: 4 as const,
    identity,
    prior: { family, is_own_family: isOwnFamily, about, model: prior.model },
    drift: "reference" in drift ? drift.reference : null,
    drift_reason: "missing" in drift ? drift.missing : null,
    date,
  };
  const labels = answers.map((answer) => answer.correct);
  const reason = reasonNotToFit(answers);
  if (reason !== null) {
    const scores = answers.map((answer) => probability(prior.model, featureNames, answer.features, answer.outOfDomain));
    return {
      ...common,
      calibrated: false,
      reason: `${reason}; ${priorText(family, isOwnFamily)}`,
      model: prior.model,
      grounding: null,
      statistics: statisticsOf(scores, labels),
      held_out: heldOutOf(scores, labels),
    };
  }
  const { model, statistics, scores } = fitModel(answers, featureNames);
  return {
    ...common,
    calibrated: true,
    reason: null,
    model,
    grounding,
    statistics,
    held_out: heldOutOf(scores, labels),
  };
}

const priorText = (family: string, isOwnFamily: boolean): string =>
  `the prior of ${family}${isOwnFamily ? "" : ", another model family,"} is used`;

function reasonNotToFit(answers: readonly LabelledAnswer[]): string | null {
  if (answers.length === 0) return "No benchmark";
  const worth = worthOf(answers);
  if (worth < leastLabels) {
    const alike = worth < answers.length ? `, which count as ${worth} independent ones,` : "";
    return `${answers.length} graded answers${alike} are too few for a calibration; ${leastLabels} are needed`;
  }
  const right = answers.filter((answer) => answer.correct).length;
  if (Math.min(right, answers.length - right) < leastOfEachKind)
    return `${right} of ${answers.length} graded answers are correct; at least ${leastOfEachKind} correct and ${leastOfEachKind} wrong answers are needed`;
  return null;
}

/**
 * Effective number of independent answers, rounded down. It can be less than the number of answers, because answers about one fact tend
 * to be right or wrong together.
 */
function worthOf(answers: readonly LabelledAnswer[]): number {
  const groups = [...clustersOf(answers).values()].map((members) => members.map((at) => Number(answers[at]!.correct)));
  return groups.length < 2 ? groups.length : Math.floor(answers.length / designEffect(groups));
}

/** Indices of the answers in each cluster, in order of appearance. */
const clustersOf = (answers: readonly LabelledAnswer[]): Map<string, number[]> =>
  Map.groupBy(answers.keys(), (at) => {
    const { cluster } = answers[at]!;
    return cluster === undefined ? `#${at}` : `=${cluster}`;
  });

/**
 * Fits the regression and the calibrator, with the grounding features if all answers have them. Each of `scores` comes from a regression
 * and a calibrator that had not seen the answer, so that every answer can be used both for fitting and for testing without bias.
 */
export function fitModel(
  answers: readonly LabelledAnswer[],
  featureNames: readonly string[],
): { model: CalibratorModel; statistics: CalibrationStatistics; scores: number[] } {
  const worth = worthOf(answers);
  const used = worth < allFeatures ? Math.min(fewFeatures, featureNames.length) : featureNames.length;
  const isGrounded = answers.every(({ grounding }) => grounding !== undefined);
  const rows = answers.map(({ features, grounding = [] }) => [...features.slice(0, used), ...grounding]);
  const labels = answers.map((answer) => answer.correct);
  const fold = foldsOf(answers);
  const curved = worth >= isotonicFrom;
  const heldOut = <T>(fit: (isIn: (at: number) => boolean) => (at: number) => T): T[] => {
    const found = new Array<T>(rows.length);
    for (let held = 0; held < folds; held++) {
      const say = fit((at) => fold[at] !== held);
      for (const at of rows.keys()) if (fold[at] === held) found[at] = say(at);
    }
    return found;
  };
  const marginsUnder = (penalty: number): number[] =>
    heldOut((isIn) => {
      const part = fitLogistic(
        rows.filter((_, at) => isIn(at)),
        labels.filter((_, at) => isIn(at)),
        penalty,
      );
      return (at) => marginOf(part, rows[at]!);
    });
  const { penalty, margins } = penalties
    .map((value) => ({ penalty: value, margins: marginsUnder(value) }))
    .reduce((best, one) => (logLoss(one.margins, labels) < logLoss(best.margins, labels) ? one : best));
  const isMixed = answers.every(({ outOfDomain }) => outOfDomain !== undefined);
  const served = isMixed ? margins.map((margin, at) => mix(margin, answers[at]!.outOfDomain!)) : margins;
  const scores = heldOut((isIn) => {
    const part = fitCalibrator(
      served.filter((_, at) => isIn(at)),
      labels.filter((_, at) => isIn(at)),
      curved,
    );
    return (at) => calibrated(part, served[at]!);
  });
  const model: CalibratorModel = {
    features: [...featureNames.slice(0, used), ...(isGrounded ? groundingFeatureNames : [])],
    ...fitLogistic(rows, labels, penalty),
    ...fitCalibrator(margins, labels, curved),
    ...(isMixed && { mixed: fitCalibrator(served, labels, curved) }),
  };
  return { model, statistics: statisticsOf(scores, labels), scores };
}

/**
 * The log-odds of (1 − π) · p, given those of p. The odds are clamped to a million to one, so that a single answer cannot bend a curve.
 */
function mix(margin: number, outOfDomain: number): number {
  const p = Math.min(1 - 1e-6, Math.max(1e-6, (1 - outOfDomain) * sigmoid(margin)));
  return Math.log(p / (1 - p));
}

const fitCalibrator = (margins: readonly number[], labels: readonly boolean[], curved: boolean): Calibrator => ({
  platt: fitPlatt(margins, labels),
  ...(curved && { isotonic: fitCentredIsotonic(margins, labels.map(Number)) }),
});

const calibrated = ({ platt, isotonic }: Calibrator, margin: number): number =>
  isotonic ? interpolate(isotonic, margin) : sigmoid(platt.a * margin + platt.b);

/** The mean of −ln p of the observed outcomes. */
const logLoss = (margins: readonly number[], labels: readonly boolean[]): number =>
  mean(margins.map((margin, at) => Math.log1p(Math.exp(labels[at] ? -margin : margin))));

/**
 * Returns the fold of each answer. Each whole cluster goes to the next fold in turn. Clusters with mostly right answers and the other
 * clusters are dealt out separately, so that the folds are alike.
 */
function foldsOf(answers: readonly LabelledAnswer[]): number[] {
  const fold = new Array<number>(answers.length);
  const seen = { true: 0, false: 0 };
  for (const members of clustersOf(answers).values()) {
    const right = members.filter((at) => answers[at]!.correct).length;
    const chosen = seen[`${2 * right > members.length}`]++ % folds;
    for (const at of members) fold[at] = chosen;
  }
  return fold;
}

/**
 * Computes the confidence score of an answer. `outOfDomain` is π of the question, or null if unknown. `said` holds the texts of the
 * question and the answer, which a calibration with `grounding` needs. `voided` says why the calibration cannot be trusted, in which case
 * the prior is used; null if it can be trusted.
 */
export function scoreConfidence(
  calibration: Calibration,
  featureNames: readonly string[],
  features: readonly number[],
  {
    outOfDomain = null,
    said = null,
    voided = null,
  }: { outOfDomain?: number | null; said?: { question: string; answer: string } | null; voided?: string | null } = {},
): ConfidenceScore {
  const isTrusted = calibration.calibrated && voided === null;
  const { prior, model, grounding } = calibration;
  const [names, row] =
    isTrusted && grounding !== null && said !== null
      ? [
          [...featureNames, ...groundingFeatureNames],
          [...features, ...groundingSpace(grounding).about(said.question)(said.answer)],
        ]
      : [featureNames, features];
  const p = probability(isTrusted ? model : prior.model, names, row, outOfDomain);
  return {
    score: Math.round(100 * p),
    calibrated: isTrusted,
    reason: voided === null ? calibration.reason : `${voided}; ${priorText(prior.family, prior.is_own_family)}`,
    n: isTrusted ? calibration.statistics.n : 0,
    date: isTrusted ? calibration.date : null,
  };
}

/** Says which parts of the identity differ from those that the calibration was made with. Null if none differ. */
export function voidReason(calibration: Calibration, now: Partial<ConfidenceIdentity>): string | null {
  const keys = Object.keys(now) as (keyof ConfidenceIdentity)[];
  const changed = keys.filter((key) => calibration.identity[key] !== now[key]);
  return changed.length === 0 ? null : `Calibrated with another ${changed.join(", ")}`;
}

/**
 * As `voidReason`, for a served model: compares its files, its chat template and the engine. A model with a calibration always has an
 * `adapterSha256`.
 */
export function servedVoidReason(
  calibration: Calibration,
  model: { baseSha256: string; adapterSha256: string | null },
  { chatTemplate }: { readonly chatTemplate: string | null },
  engine: string,
): string | null {
  return voidReason(calibration, {
    base_sha256: model.baseSha256,
    adapter_sha256: model.adapterSha256!,
    template_sha256: sha256(chatTemplate ?? ""),
    feature_source: "A",
    engine,
  });
}

/**
 * Probability in [0, 1] that an answer with these features is right. `outOfDomain` is π of its question, or null if unknown. Throws
 * RangeError if `featureNames` lacks a feature of the model.
 */
export function probability(
  model: CalibratorModel,
  featureNames: readonly string[],
  features: readonly number[],
  outOfDomain: number | null = null,
): number {
  const row = model.features.map((name) => {
    const at = featureNames.indexOf(name);
    if (at < 0) throw new RangeError(`The calibrator needs the feature ${name}, which is not computed here`);
    return features[at]!;
  });
  const margin = marginOf(model, row);
  if (outOfDomain === null) return calibrated(model, margin);
  // A model without `mixed`, such as a prior, was fitted without π, so π is applied to its result.
  return model.mixed
    ? calibrated(model.mixed, mix(margin, outOfDomain))
    : (1 - outOfDomain) * calibrated(model, margin);
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

function statisticsOf(scores: readonly number[], labels: readonly boolean[]): CalibrationStatistics {
  if (scores.length === 0) return { n: 0, accuracy: null, auroc: null, brier: null };
  return {
    n: scores.length,
    accuracy: mean(labels.map(Number)),
    auroc: aurocOf(scores, labels),
    brier: brierScore(scores, labels),
  };
}

function heldOutOf(scores: readonly number[], labels: readonly boolean[]): HeldOut | null {
  if (scores.length === 0) return null;
  const counts = { n: new Array<number>(101).fill(0), right: new Array<number>(101).fill(0) };
  for (const [at, score] of scores.entries()) {
    counts.n[Math.round(100 * score)]!++;
    if (labels[at]) counts.right[Math.round(100 * score)]!++;
  }
  return {
    counts,
    prr: predictionRejectionRatio(scores, labels),
    brier_skill: brierSkill(scores, labels),
    calibration_error: expectedCalibrationError(scores, labels),
    perfect_calibration_error: perfectScoreBand(scores),
    debiased_calibration_error: debiasedCalibrationError(scores, labels),
  };
}
