import assert from "node:assert/strict";
import { test } from "node:test";
import { compareScores } from "../../src/engine/train/adapter-check.ts";

const rows = (count: number, of: (i: number) => number): Float64Array[] => [
  Float64Array.from({ length: count / 2 }, (_, i) => of(i)),
  Float64Array.from({ length: count / 2 }, (_, i) => of(i + count / 2)),
];
const truth = (i: number): number => -1 - (i % 7);
/** A difference with a mean of a twentieth of its size, negated. */
const noise = (i: number, size: number): number => (i % 2 === 0 ? size : -size) * (0.5 + (i % 10) / 10);
const trainer = { base: rows(600, truth), aligned: rows(600, truth) };
const generatorWith = (aligned: (i: number) => number, base = (i: number) => truth(i) + noise(i, 0.04)) => ({
  base: rows(600, base),
  aligned: rows(600, aligned),
});

test("noise like the base's is faithful on a quantised base, and not on an F32 one", () => {
  const generator = generatorWith((i) => truth(i) + noise(i, 0.042));
  const verdict = compareScores({ trainer, generator, quantised: true });
  assert.equal(verdict.faithful, true, verdict.message);
  assert.equal(verdict.tokens, 600);
  assert.equal(compareScores({ trainer, generator, quantised: false }).faithful, false);
});

test("a shifted mean, a wider difference, too few tokens and a number that is none are found", () => {
  const of = (generator: typeof trainer) => compareScores({ trainer, generator, quantised: true }).message;
  assert.match(of(generatorWith((i) => truth(i) + noise(i, 0.04) + 0.03)), /mean shifts/);
  assert.match(of(generatorWith((i) => truth(i) + noise(i, 0.06))), /median/);
  assert.match(of(generatorWith((i) => (i === 3 ? Number.NaN : truth(i)))), /finite/);
  const few = { base: rows(100, truth), aligned: rows(100, truth) };
  assert.match(compareScores({ trainer: few, generator: few, quantised: true }).message, /100 tokens/);
});

test("a mean that few rows shift by chance is faithful, and one that all rows shift is not", () => {
  const parted = (of: (i: number, row: number) => number): Float64Array[] =>
    Array.from({ length: 12 }, (_, row) => Float64Array.from({ length: 50 }, (_, i) => of(i, row)));
  const trained = parted(truth);
  const verdictOf = (offset: (row: number) => number) =>
    compareScores({
      trainer: { base: trained, aligned: trained },
      generator: {
        base: parted((i) => truth(i) + noise(i, 0.1)),
        aligned: parted((i, row) => truth(i) + noise(i, 0.1) + offset(row)),
      },
      quantised: true,
    });
  // The noise has a mean of -0.005, so the rows' means are 0.06 and -0.01, with a standard error of 0.035 / √12.
  const spread = verdictOf((row) => (row % 2 === 0 ? 0.065 : -0.005));
  assert.equal(spread.faithful, true, spread.message);
  assert.ok(
    Math.abs(spread.meanShift + 0.025) < 1e-9 && Math.abs(spread.meanShiftError - 0.035 / Math.sqrt(12)) < 1e-9,
  );
  assert.match(verdictOf(() => 0.03).message, /the mean shifts/);
});

test("F32 asks every token for 1e-3 nats, or for what half precision does to the base alone", () => {
  const off = (size: number) => (i: number) => truth(i) + (i === 5 ? size : 0);
  const faithful = (aligned: number, base: number) =>
    compareScores({ trainer, generator: generatorWith(off(aligned), off(base)), quantised: false }).faithful;
  assert.equal(faithful(9e-4, 0), true);
  assert.equal(faithful(1.1e-3, 0), false);
  assert.equal(faithful(9.9e-3, 8e-3), true);
  assert.equal(faithful(1.1e-2, 8e-3), false);
  assert.equal(faithful(2.1e-2, 2e-2), false);
});

test("scores of different tokens are a mistake of the caller", () => {
  assert.throws(
    () => compareScores({ trainer, generator: { base: rows(600, truth), aligned: rows(598, truth) }, quantised: true }),
    RangeError,
  );
});
