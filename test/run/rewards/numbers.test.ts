// Numbers as people and models write them, read without knowing their country.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { numbersIn } from "../../../src/base/numbers.ts";
import { paid, timed } from "./items.ts";

/** Of each number its values. */
const valuesIn = (text: string): number[][] =>
  numbersIn(text).map(({ readings }) => readings.map(({ value }) => value).sort((a, b) => a - b));

const locales = ["en-US", "de-DE", "fr-FR", "de-CH", "en-IN", "sv-SE", "pt-BR", "hi-IN"];

test("what Intl writes for a country is read back, to any of its readings", () => {
  const anyAmount = fc.integer({ min: -999_999_999, max: 999_999_999 }).map((cents) => cents / 100);
  fc.assert(
    fc.property(anyAmount, fc.constantFrom(...locales), (amount, locale) => {
      const written = new Intl.NumberFormat(locale, { minimumFractionDigits: 2 }).format(amount);
      const found = valuesIn(`x: ${written} EUR`);
      assert.equal(found.length, 1, written);
      assert.deepEqual(found[0], [amount === 0 ? 0 : amount], `${written} in ${locale}`);
    }),
  );
});

test("a whole number of a country is among its readings", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 40 }), fc.constantFrom(...locales), (whole, locale) => {
      const written = new Intl.NumberFormat(locale).format(whole);
      assert.ok(valuesIn(written)[0]?.includes(whole), `${written} in ${locale}`);
    }),
  );
});

test("what JavaScript writes for a number is that number", () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
      const text = String(value);
      // Three decimals after a point may as well be thousands.
      assert.ok(valuesIn(text)[0]?.includes(value === 0 ? Number(text) : value), text);
    }),
  );
});

const written: [string, number[][]][] = [
  ["1,234,567", [[1234567]]],
  ["1.234.567,89", [[1234567.89]]],
  ["1 234 567", [[1234567]]],
  ["12,34,567", [[1234567]]],
  ["1,234", [[1.234, 1234]]],
  ["0,125", [[0.125]]],
  ["1234,567", [[1234.567]]],
  ["1,234 and 5.5", [[1234], [5.5]]],
  ["1,234 and 5,5", [[1.234], [5.5]]],
  [".5", [[0.5]]],
  ["-.5", [[-0.5]]],
  ["the end.5", [[5]]],
  ["−3,5 °C", [[-3.5]]],
  ["-$5", [[-5]]],
  ["1.2e-4", [[0.00012]]],
  ["1.2 × 10^-4", [[0.00012]]],
  ["6.02 \\times 10^{23}", [[6.02e23]]],
  ["3·10⁸ m/s", [[3e8]]],
  ["3/4", [[0.75]]],
  ["١٢٣", [[123]]],
  ["１２３", [[123]]],
  ["in 2019 300 people", [[2019], [300]]],
  ["500 t CO2", [[500]]],
  ["10 m2 and 3 m^2", [[10], [3]]],
  ["COVID-19", [[19]]],
  ["10-20", []],
  ["2019-03-12", []],
  ["12/03/2019", []],
  ["at 10:30", []],
  ["version 3.5.1", []],
  ["5 - 10 = -5", [[5], [10], [-5]]],
  ["第5条 12人", [[5], [12]]],
  ["1'234 567,5", []],
  ["1e999", []],
  ["1/0", []],
  ["none", []],
];
for (const [text, values] of written) test(`numbers of: ${text}`, () => assert.deepEqual(valuesIn(text), values));

const judged: [string, string, string, number | null][] = [
  ["builtin:numeric", "42", "The answer is 42.", 1],
  ["builtin:numeric", "42", "6 × 7 = 42", 1],
  ["builtin:numeric", "42", "42 or 43", 0],
  ["builtin:numeric?read=only", "42", "6 times 7 is 42", 0],
  ["builtin:numeric?read=only", "42", "42, that is 42.0", 1],
  ["builtin:numeric?tolerance=0.5", "10", "10.5 km", 1],
  ["builtin:numeric?tolerance=0.5", "10", "10.51 km", 0],
  ["builtin:numeric?relative=0.01", "200", "198", 1],
  ["builtin:numeric?relative=0.01", "200", "197.9", 0],
  ["builtin:numeric?tolerance=0.1", "0.3", "0.2", 1],
  ["builtin:numeric", "$1,500", "1500 dollars", 1],
  ["builtin:numeric", "1.5", "1,500", 0],
  ["builtin:numeric", "1,5", "1.500", 0],
  ["builtin:numeric", "1500", "1.500", 1],
  ["builtin:numeric?decimal=.", "1500", "1.500", 0],
  ["builtin:numeric?decimal=,", "1500", "1.500", 1],
  ["builtin:numeric", "12 EUR per m2", "EUR 12", 1],
  ["builtin:numeric", "-5", "5", 0],
  ["builtin:numeric", "5", "it is unclear", 0],
  ["builtin:numeric", "between 5 and 7", "6", null],
  ["builtin:numeric", "several", "6", null],
];
for (const [verifier, reference, answer, reward] of judged)
  test(`${verifier} pays ${reward} for "${answer}" where ${reference} is right`, () =>
    assert.equal(paid(verifier, answer, { reference }), reward));

test("an item's own tolerance counts where the verifier has none, and its aliases are as good", () => {
  assert.equal(paid("builtin:numeric", "10.4", { reference: "10", tolerance: 0.5 }), 1);
  assert.equal(paid("builtin:numeric?tolerance=0", "10.4", { reference: "10", tolerance: 0.5 }), 0);
  assert.equal(paid("builtin:numeric", "2 dozen", { reference: "24", aliases: ["2 dozen"] }), 1);
  assert.equal(paid("builtin:numeric", "3"), null);
});

test("a wider tolerance never pays less", () => {
  const amount = fc.double({ min: -1e6, max: 1e6, noNaN: true });
  fc.assert(
    fc.property(amount, amount, fc.double({ min: 0, max: 1e6, noNaN: true }), (said, right, tolerance) => {
      const reward = (within: number) =>
        paid("builtin:numeric", `${said}`, { reference: `${right}`, tolerance: within });
      assert.ok(reward(tolerance)! >= reward(0)!);
      assert.ok(reward(Math.abs(said - right)) === 1);
    }),
  );
});

test("100 kB of anything are read in a moment", () => {
  const n = 100_000;
  for (const piece of ["1", "1,", "1.1,", "1 ", "111 ", "1/", "-", "a", "1e", "1×10^", "².", "١", " .5", "1'"]) {
    const answer = piece.repeat(Math.ceil(n / piece.length));
    assert.ok(timed(() => paid("builtin:numeric", answer, { reference: "3" })) < 5000, piece);
  }
});
