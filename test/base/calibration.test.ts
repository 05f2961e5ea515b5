// Rankings, calibration curves and their errors against scikit-learn, uncertainty-calibration and numpy (the fixture names the
// versions), and against what can be worked out by hand.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  brierScore,
  brierSkill,
  debiasedCalibrationError,
  expectedCalibrationError,
  perfectScoreBand,
  reliability,
} from "../../src/base/statistics/calibration.ts";
import { fitCentredIsotonic, fitIsotonic, interpolate } from "../../src/base/statistics/isotonic.ts";
import { fitLogistic, fitPlatt, marginOf, sigmoid } from "../../src/base/statistics/logistic.ts";
import { seeded } from "../../src/base/statistics/random.ts";
import { accuracyRejectionArea, auroc, aurocOf, predictionRejectionRatio } from "../../src/base/statistics/ranking.ts";

const known = JSON.parse(readFileSync(join(import.meta.dirname, "../fixtures/calibration.json"), "utf8")) as {
  features: number[][];
  labels: boolean[];
  scores: number[];
  coarse: number[];
  grid: number[];
  isotonic: number[];
  isotonic_coarse: number[];
  centred: number[];
  platt: { a: number; b: number };
  logistic: { weights: number[]; bias: number };
  auroc: number;
  auroc_coarse: number;
  brier: number;
  prr: number;
  auarc: number;
  ece: number;
  debiased: number;
};
const { features, labels, scores, coarse, grid } = known;
const outcomes = labels.map(Number);

const close = (found: number | null, expected: number, within = 1e-9): void =>
  assert.ok(found !== null && Math.abs(found - expected) <= within, `${found} is not ${expected}`);
const allClose = (found: readonly number[], expected: readonly number[], within?: number): void => {
  assert.equal(found.length, expected.length);
  for (const [at, value] of found.entries()) close(value, expected[at]!, within);
};

test("isotonic regression is scikit-learn's, with ties and without", () => {
  const curve = fitIsotonic(scores, outcomes);
  allClose(
    grid.map((x) => interpolate(curve, x)),
    known.isotonic,
  );
  const tied = fitIsotonic(coarse, outcomes);
  allClose(
    grid.map((x) => interpolate(tied, x)),
    known.isotonic_coarse,
  );
});

test("its centred form has a knot at the centre of each of scikit-learn's steps, and rises between them", () => {
  const curve = fitCentredIsotonic(scores, outcomes);
  allClose(
    grid.map((x) => interpolate(curve, x)),
    known.centred,
  );
  for (let at = 1; at < curve.xs.length; at++) assert.ok(curve.xs[at]! > curve.xs[at - 1]!);
  // Four points, the middle two in the wrong order: one knot at their centre; the ends stay where they are.
  assert.deepEqual(fitCentredIsotonic([1, 2, 3, 4], [0, 1, 0, 1]), { xs: [1, 2.5, 4], ys: [0, 0.5, 1] });
  // A step at 0 stays wide: nothing below it is known to be impossible only in its middle.
  assert.deepEqual(fitCentredIsotonic([1, 2, 3], [0, 0, 0.5]), { xs: [1, 2, 3], ys: [0, 0, 0.5] });
});

test("logistic regression and Platt's scaling are scikit-learn's", () => {
  const model = fitLogistic(features, labels, 1);
  allClose(model.weights, known.logistic.weights, 1e-6);
  close(model.bias, known.logistic.bias, 1e-6);
  const platt = fitPlatt(
    scores.map((p) => Math.log(p / (1 - p))),
    labels,
  );
  close(platt.a, known.platt.a, 1e-4);
  close(platt.b, known.platt.b, 1e-4);
  const row = features[0]!;
  const byHand = model.weights.reduce(
    (sum, weight, at) => sum + (weight * (row[at]! - model.means[at]!)) / model.scales[at]!,
    model.bias,
  );
  close(marginOf(model, row), byHand);
  assert.deepEqual([sigmoid(-800), sigmoid(800), sigmoid(0)], [0, 1, 0.5]);
});

test("AUROC, PRR and AUARC are those of scikit-learn and of LM-Polygraph's definition", () => {
  close(aurocOf(scores, labels), known.auroc);
  close(aurocOf(coarse, labels), known.auroc_coarse);
  close(predictionRejectionRatio(scores, labels), known.prr);
  close(accuracyRejectionArea(scores, labels), known.auarc);
});

test("a perfect order, an inverted one, ties, and answers of one kind", () => {
  assert.equal(auroc([3, 4], [1, 2]), 1);
  assert.equal(auroc([1, 1], [1, 1]), 0.5);
  assert.equal(auroc([1, 2], []), null);
  assert.equal(predictionRejectionRatio([4, 3, 2, 1], [true, true, false, false]), 1);
  assert.ok(predictionRejectionRatio([1, 2, 3, 4], [true, true, false, false])! < 0);
  close(predictionRejectionRatio([1, 1, 1, 1], [true, true, false, false]), 0);
  assert.equal(predictionRejectionRatio([1, 2], [true, true]), null);
  assert.equal(predictionRejectionRatio([1, 2], [true, false]), null);
  assert.equal(predictionRejectionRatio([1, 2, 3], [true, false, true]), null);
});

test("calibration errors are those of the references, and a planted error is seen", () => {
  close(expectedCalibrationError(scores, labels), known.ece);
  close(debiasedCalibrationError(scores, labels), known.debiased);
  close(brierScore(scores, labels), known.brier);
  const accuracy = labels.filter(Boolean).length / labels.length;
  close(brierSkill(scores, labels), 1 - known.brier / (accuracy * (1 - accuracy)));
  assert.equal(brierSkill([0.4, 0.6], [true, true]), null);

  const random = seeded(3);
  const right = Array.from({ length: 1000 }, () => random());
  const drawn = right.map((p) => random() < p);
  const band = perfectScoreBand(right);
  assert.ok(expectedCalibrationError(right, drawn) <= band.p95);
  const boasting = right.map((p) => Math.min(1, p + 0.08));
  assert.ok(expectedCalibrationError(boasting, drawn) > perfectScoreBand(boasting).p95);
  close(debiasedCalibrationError(boasting, drawn), 0.08, 0.02);
});

test("the band of a perfect score is what the binomial says", () => {
  // Ten bins of 100 fair coins: the mean distance of a share from 1/2 is √(2/π) · 0.5 / √100.
  const fair = new Array<number>(1000).fill(0.5);
  const band = perfectScoreBand(fair, { draws: 4000 });
  close(band.mean, Math.sqrt(2 / Math.PI) * 0.05, 0.001);
  // 200,000 draws of numpy's binomial.
  close(band.p95, 0.056, 0.0015);
  assert.deepEqual(perfectScoreBand(fair, { seed: 5 }), perfectScoreBand(fair, { seed: 5 }));
});

test("reliability bins hold all answers, in order of their scores", () => {
  const bins = reliability(scores, labels, 7);
  assert.equal(
    bins.reduce((sum, bin) => sum + bin.n, 0),
    scores.length,
  );
  for (let at = 1; at < bins.length; at++) assert.ok(bins[at]!.low >= bins[at - 1]!.high);
  assert.equal(reliability([0.2, 0.4], [true, false], 10).length, 2);
  assert.deepEqual(reliability([], [], 10), []);
});
