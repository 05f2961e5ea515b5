// The calibrator on simulated answers whose true chance of being right is known.
import assert from "node:assert/strict";
import { test } from "node:test";
import { aurocOf } from "../../src/base/statistics/ranking.ts";
import {
  type Calibration,
  type ConfidenceIdentity,
  fitCalibration,
  fitModel,
  isotonicFrom,
  type LabelledAnswer,
  leastLabels,
  type Prior,
  probability,
  readCalibration,
  type StoredCalibration,
  scoreConfidence,
  voidReason,
} from "../../src/confidence/calibration.ts";
import { type GroundingReference, groundingFeatureNames, groundingReference } from "../../src/confidence/grounding.ts";

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
const fit = (answers: readonly LabelledAnswer[], isOwnFamily = true, grounding: GroundingReference | null = null) =>
  fitCalibration({
    answers,
    featureNames: names,
    prior,
    isOwnFamily,
    identity,
    drift: { missing: "No encoder" },
    grounding,
    date: "2026-01-01T00:00:00.000Z",
  });

test("scores are close to the true chance, on answers the fit has not seen", () => {
  const { model, statistics } = fitModel(simulate(1000, 1), names);
  assert.deepEqual(model.features, names);
  const fresh = simulate(4000, 2);
  const scores = fresh.map((answer) => probability(model, names, answer.features));
  const off = scores.reduce((sum, score, at) => sum + Math.abs(score - fresh[at]!.truth), 0) / fresh.length;
  assert.ok(off < 0.05, `mean distance from the truth ${off}`);
  const found = aurocOf(
    scores,
    fresh.map((answer) => answer.correct),
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
  assert.equal(fit([]).reason, "No benchmark; the prior of test is used");
  const oneSided = simulate(200, 6).map((answer) => ({ ...answer, correct: true }));
  assert.match(fit(oneSided).reason!, /at least 10 correct and 10 wrong/);
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
  assert.throws(() => scoreConfidence(calibration, ["a", "b"], [1, 2]), /needs the feature c/);
});

test("where it is void the prior answers, and says whose it is", () => {
  const calibration = fit(simulate(400, 10), false);
  const { features } = simulate(1, 11)[0]!;
  const trusted = scoreConfidence(calibration, names, features);
  assert.deepEqual([trusted.calibrated, trusted.n, trusted.date], [true, 400, "2026-01-01T00:00:00.000Z"]);
  const voided = scoreConfidence(calibration, names, features, { voided: "Calibrated with another engine" });
  assert.equal(voided.score, Math.round(100 * probability(prior.model, names, features)));
  assert.notEqual(voided.score, trusted.score);
  assert.deepEqual([voided.calibrated, voided.n, voided.date], [false, 0, null]);
  assert.equal(voided.reason, "Calibrated with another engine; the prior of test, another model family, is used");
});

test("a question that is out of domain has a low score, and those about the documents lose nothing by the doubt", () => {
  // The encoder takes every question for out of domain with some chance; none of these is.
  const random = randomFrom(12);
  const doubted = (count: number, seed: number) =>
    simulate(count, seed).map((answer) => ({ ...answer, outOfDomain: 0.5 * random() ** 2 }));
  const calibration = fit(doubted(1000, 13));
  const fresh = doubted(4000, 14);
  const scores = fresh.map(({ features, outOfDomain }) => probability(calibration.model, names, features, outOfDomain));
  const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  assert.ok(Math.abs(mean(scores) - mean(fresh.map(({ truth }) => truth))) < 0.03);
  const { features } = fresh[0]!;
  const at = (outOfDomain: number | null): number =>
    scoreConfidence(calibration, names, features, { outOfDomain }).score;
  assert.ok(at(0) >= at(0.5) && at(0.5) > at(0.99));
  assert.equal(at(1), 0);
  // Where π is not known, that of the same answers without it.
  const bare = fit(simulate(1000, 13).map(({ features, correct }) => ({ features, correct })));
  assert.equal(bare.model.mixed, undefined);
  assert.equal(at(null), Math.round(100 * probability(bare.model, names, features)));
  // A prior knows of no π: it takes its part at the end.
  assert.equal(probability(prior.model, names, features, 0.75), probability(prior.model, names, features) / 4);
});

test("Platt's two numbers below 2,000 labels, a curve that never falls from there on", () => {
  assert.equal(fit(simulate(isotonicFrom - 1, 14)).model.isotonic, undefined);
  const { model, statistics } = fitModel(simulate(isotonicFrom, 15), names);
  const { xs, ys } = model.isotonic!;
  assert.ok(xs.length > 10 && ys[0]! < 0.2 && ys.at(-1)! > 0.8);
  for (let at = 1; at < ys.length; at++) assert.ok(ys[at]! >= ys[at - 1]!);
  const fresh = simulate(4000, 16);
  const scores = fresh.map((answer) => probability(model, names, answer.features));
  const off = scores.reduce((sum, score, at) => sum + Math.abs(score - fresh[at]!.truth), 0) / fresh.length;
  assert.ok(off < 0.04, `mean distance from the truth ${off}`);
  const labels = fresh.map((answer) => answer.correct);
  assert.ok(Math.abs(statistics.auroc! - aurocOf(scores, labels)!) < 0.03);
});

test("answers of one fact are not parted: what only tells facts apart tells nothing of others", () => {
  // Feature a names the fact, and whether a fact is known is a coin's toss: to know the name is to know the toss.
  const random = randomFrom(17);
  const answers = Array.from({ length: 60 }, (_, fact) => {
    const correct = random() < 0.5;
    const place = random();
    return Array.from({ length: 5 }, (): LabelledAnswer => {
      const features = names.map((_, at) => (at < 6 ? Math.sin(place * 50 * (at + 1)) : 0));
      return { features, correct, cluster: String(fact) };
    });
  }).flat();
  const parted = answers.map(({ features, correct }) => ({ features, correct }));
  const apart = fitModel(answers, names).statistics.auroc!;
  assert.ok(apart < 0.6, `${apart} on facts that were not seen`);
  assert.ok(fitModel(parted, names).statistics.auroc! > apart + 0.05);
});

test("wordings of a fact that are right or wrong together count for one", () => {
  const answers = simulate(40, 19).flatMap((answer, fact) =>
    Array.from({ length: 5 }, (): LabelledAnswer => ({ ...answer, cluster: String(fact) })),
  );
  const few = fit(answers);
  assert.equal(few.calibrated, false);
  assert.match(few.reason!, /^200 graded answers, which count as 4\d independent ones, are too few for a calibration/);
  // Where wordings go their own ways, each is worth nearly one.
  const apart = simulate(200, 20).map((answer, at) => ({ ...answer, cluster: String(at % 40) }));
  assert.equal(fit(apart).calibrated, true);
});

test("features that say nothing leave every score near the accuracy", () => {
  const random = randomFrom(21);
  const answers = Array.from({ length: 150 }, () => ({ features: names.map(random), correct: random() < 0.5 }));
  const { scores, statistics } = fitModel(answers, names);
  const off = scores.map((score) => Math.abs(score - statistics.accuracy!));
  assert.ok(Math.max(...off) < 0.15, `${Math.max(...off)}`);
});

test("held-out figures: counts of every answer, and an error inside the band of a perfect score", () => {
  const { held_out: held, statistics } = fit(simulate(1000, 18));
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
  assert.equal(sum(held!.counts.n), 1000);
  assert.equal(sum(held!.counts.right) / 1000, statistics.accuracy);
  assert.ok(held!.calibration_error <= held!.perfect_calibration_error.p95);
  assert.ok(held!.prr! > 0.3 && held!.brier_skill! > 0.15);
  assert.equal(fit([]).held_out, null);
});

/** Token features that say nothing, and grounding that does: three right answers of four stand in the right passage, one wrong of four. */
function grounded(count: number, seed: number): LabelledAnswer[] {
  const random = randomFrom(seed);
  return Array.from({ length: count }, () => {
    const correct = random() < 0.5;
    const stands = random() < (correct ? 0.75 : 0.25);
    return { features: names.map(random), correct, grounding: stands ? [1, 1, 1] : [0, 0, 0] };
  });
}
const reference: GroundingReference = groundingReference(["The lamp costs 40 euros.", "The lamp weighs 7 kg."])!;

test("grounding tells answers apart whose tokens do not", () => {
  const answers = grounded(600, 22);
  const calibration = fit(answers, true, reference);
  const plain = fit(answers.map(({ grounding: _, ...answer }) => answer));
  // A yes or no that is right three times of four: AUROC 0.75 at best.
  assert.ok(plain.statistics.auroc! < 0.58, `${plain.statistics.auroc}`);
  assert.ok(Math.abs(calibration.statistics.auroc! - 0.75) < 0.04, `${calibration.statistics.auroc}`);
  assert.deepEqual(calibration.model.features, [...names, ...groundingFeatureNames]);
  assert.equal(calibration.grounding, reference);
  const meanAt = (answer: string): number => {
    const said = { question: "What does the lamp weigh?", answer };
    return (
      answers.reduce((sum, one) => sum + scoreConfidence(calibration, names, one.features, { said }).score, 0) / 600
    );
  };
  const [stands, stray] = [meanAt("7 kg"), meanAt("9 stones")];
  assert.ok(Math.abs(stands - 75) < 5 && Math.abs(stray - 25) < 5, `${stands} ${stray}`);
  assert.deepEqual(plain.model.features, names);
  const { features } = answers[0]!;
  const said = { question: "What does the lamp weigh?", answer: "7 kg" };
  assert.deepEqual(scoreConfidence(plain, names, features, { said }), scoreConfidence(plain, names, features));
});

test("few labels carry six features of tokens and those of grounding; fewer none, and the prior hears of no grounding", () => {
  const few = fit(grounded(200, 23), true, reference);
  assert.deepEqual(few.model.features, [...names.slice(0, 6), ...groundingFeatureNames]);
  const none = fit(grounded(leastLabels - 1, 24), true, reference);
  assert.equal(none.grounding, null);
  const { features } = simulate(1, 25)[0]!;
  for (const [calibration, voided] of [
    [none, null],
    [few, "Calibrated with another engine"],
  ] as const) {
    const scores = [{ question: "What does the lamp weigh?", answer: "7 kg" }, null].map((said) =>
      scoreConfidence(calibration, names, features, { said, voided }),
    );
    assert.deepEqual(scores[0], scores[1]);
    assert.equal(scores[0]!.score, Math.round(100 * probability(prior.model, names, features)));
  }
});

test("a calibration of the first format is read, and scores as it did", () => {
  const { grounding: _, ...rest } = fit(simulate(400, 26));
  const stored: StoredCalibration = { ...rest, format: 1, drift: null };
  const read = readCalibration(JSON.parse(JSON.stringify(stored)) as StoredCalibration);
  assert.deepEqual([read.format, read.calibrated, read.grounding], [4, true, null]);
  const { features } = simulate(1, 27)[0]!;
  assert.equal(
    scoreConfidence(read, names, features).score,
    Math.round(100 * probability(stored.model, names, features)),
  );
  assert.throws(() => readCalibration({ ...read, format: 5 } as unknown as Calibration), /^RangeError: format: .* 5 /);
});

test("one of the second format is read as it was without grounding; with it the prior serves, for its features are made no more", () => {
  const { grounding: _, ...rest } = fit(simulate(400, 28));
  const bare = readCalibration({ ...rest, format: 2, drift: null, supported: null, support: null });
  const { features } = simulate(1, 29)[0]!;
  assert.equal(
    scoreConfidence(bare, names, features).score,
    Math.round(100 * probability(rest.model, names, features)),
  );
  const read = readCalibration({ ...rest, format: 2, drift: null, supported: rest.model, support: { vectors: "" } });
  const { score, calibrated, reason } = scoreConfidence(read, names, features);
  assert.deepEqual([score, calibrated], [Math.round(100 * probability(prior.model, names, features)), false]);
  assert.match(reason!, /^Calibrated by an earlier version .*; the prior of /);
});

test("one of the third format is read under the names of today: calibrated as it was, with the same scores", () => {
  const answers = grounded(600, 30).map((answer) => ({ ...answer, outOfDomain: 0.1 }));
  const fitted = fit(answers, true, reference);
  const drift = { encoder_sha256: "5", dimensions: 1, exemplars: "", distances: [0.2], background: 1 };
  const made: Calibration = { ...fitted, drift: { ...drift, out_of_domain: { a: 2, b: -1 } } };
  const { grounding, model, ...rest } = made;
  const stored: StoredCalibration = {
    ...rest,
    format: 3,
    model: { ...model, features: [...names, "support_share", "support_about", "support_gap"] },
    drift: { ...drift, foreign: { a: 2, b: -1 } },
    support: grounding,
  };
  const read = readCalibration(JSON.parse(JSON.stringify(stored)) as StoredCalibration);
  assert.deepEqual(read, JSON.parse(JSON.stringify(made)));
  assert.ok(read.calibrated && voidReason(read, identity) === null);
  const said = { question: "What does the lamp weigh?", answer: "7 kg" };
  for (const { features } of answers.slice(0, 20))
    assert.deepEqual(
      scoreConfidence(read, names, features, { said, outOfDomain: 0.3 }),
      scoreConfidence(made, names, features, { said, outOfDomain: 0.3 }),
    );
});
