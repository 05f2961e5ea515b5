// The calibrator on simulated answers whose true chance of being right is known.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  auroc,
  type ConfidenceIdentity,
  fitCalibration,
  fitModel,
  type LabelledAnswer,
  leastLabels,
  type Prior,
  probability,
  scoreConfidence,
  voidReason,
} from "../../src/engine/confidence.ts";

const names = ["a", "b", "c", "d", "e", "f", "g", "h"];

/** A small seeded generator of numbers in [0, 1). */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

/** Answers with eight features of unequal scales; feature a and g speak of the truth, the others do not. */
function simulate(count: number, seed: number): (LabelledAnswer & { truth: number })[] {
  const random = randomFrom(seed);
  return Array.from({ length: count }, () => {
    const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const values = names.map(normal);
    const truth = 1 / (1 + Math.exp(-(0.4 + 1.6 * values[0]! + 0.8 * values[6]!)));
    const features = values.map((value, at) => 100 * at + value * 10 ** (at - 3));
    return { features, correct: random() < truth, truth };
  });
}

const prior: Prior = {
  format: 1,
  family: "test",
  about: "",
  model: {
    features: ["a"],
    means: [0],
    scales: [1],
    weights: [1],
    bias: 0,
    platt: { a: 1, b: 0 },
  },
  statistics: { n: 0, accuracy: null, auroc: null, brier: null },
};
const identity: ConfidenceIdentity = {
  base_sha256: "1",
  adapter_sha256: "2",
  template_sha256: "3",
  feature_source: "A",
  engine: "4",
};
const fit = (answers: readonly LabelledAnswer[]) =>
  fitCalibration({ answers, featureNames: names, prior, identity, date: "2026-01-01T00:00:00.000Z" });

test("scores are close to the true chance, on answers the fit has not seen", () => {
  const { model, statistics } = fitModel(simulate(1000, 1), names);
  assert.deepEqual(model.features, names);
  const fresh = simulate(4000, 2);
  const scores = fresh.map((answer) => probability(model, names, answer.features));
  const off = scores.reduce((sum, score, at) => sum + Math.abs(score - fresh[at]!.truth), 0) / fresh.length;
  assert.ok(off < 0.05, `mean distance from the truth ${off}`);
  const found = auroc(
    scores.filter((_, at) => fresh[at]!.correct),
    scores.filter((_, at) => !fresh[at]!.correct),
  )!;
  assert.ok(Math.abs(found - statistics.auroc!) < 0.04, `${found} against ${statistics.auroc} out of fold`);
});

test("few labels use the first six features, fewer still the prior, and say so", () => {
  assert.deepEqual(fit(simulate(200, 3)).model.features, names.slice(0, 6));
  const few = fit(simulate(leastLabels - 1, 4));
  assert.equal(few.calibrated, false);
  assert.match(few.reason!, /99 graded answers are too few/);
  assert.deepEqual(few.model, prior.model);
  assert.equal(few.statistics.n, 99);
  const score = scoreConfidence(few, names, simulate(1, 5)[0]!.features);
  assert.equal(score.calibrated, false);
  assert.equal(score.n, 0);
  assert.match(fit([]).reason!, /No benchmark/);
  const oneSided = simulate(200, 6).map((answer) => ({ ...answer, correct: true }));
  assert.match(fit(oneSided).reason!, /at least 10 of each kind/);
});

test("a perfect separation and a feature that never varies stay finite", () => {
  const answers = Array.from({ length: 120 }, (_, at) => ({
    features: [at, 5, 0, 0, 0, 0, 0, 0],
    correct: at >= 60,
  }));
  const calibration = fit(answers);
  const low = scoreConfidence(calibration, names, answers[0]!.features).score;
  const high = scoreConfidence(calibration, names, answers[119]!.features).score;
  assert.ok(low >= 0 && low < 10 && high > 90 && high <= 100);
  assert.ok(calibration.statistics.auroc! > 0.99);
});

test("the same answers give the same artefact", () => {
  assert.deepEqual(fit(simulate(400, 7)), fit(simulate(400, 7)));
});

test("any change of what it was fitted on voids a calibration", () => {
  const calibration = fit(simulate(200, 8));
  assert.equal(voidReason(calibration, identity), null);
  assert.match(voidReason(calibration, { ...identity, engine: "5" })!, /engine/);
});

test("a calibrator refuses features it was not made for", () => {
  const calibration = fit(simulate(200, 9));
  assert.throws(() => scoreConfidence(calibration, ["a", "b"], [1, 2]), /wants feature c/);
});

test("auroc counts ties half", () => {
  assert.equal(auroc([3, 4], [1, 2]), 1);
  assert.equal(auroc([1, 1], [1, 1]), 0.5);
  assert.equal(auroc([1, 2], []), null);
});
