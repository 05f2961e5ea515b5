// The calculator tool: arithmetic against JavaScript's own, and what is none.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { calculated, NotArithmetic } from "../../../src/run/environment/calculator.ts";

test("known results, with the usual order of operations", () => {
  const known: [string, string][] = [
    ["2 + 3 * 4", "14"],
    ["(2+3)*4", "20"],
    ["2 - 3 - 4", "-5"],
    ["12 / 4 / 3", "1"],
    ["2^3^2", "512"],
    ["-2^2", "-4"],
    ["2^-1", "0.5"],
    ["2 * -3", "-6"],
    ["0.1 + 0.2", "0.3"],
    ["1.5e3 × 2 ÷ 4 − 1", "749"],
    [".5 + 1", "1.5"],
    [" 7 ", "7"],
  ];
  for (const [expression, result] of known) assert.equal(calculated(expression), result, expression);
});

test("sums, products and brackets are what JavaScript makes of them", () => {
  const { expression } = fc.letrec<{ expression: string }>((tie) => ({
    expression: fc.oneof(
      { depthSize: "small" },
      fc.nat({ max: 99 }).map(String),
      fc
        .tuple(tie("expression"), fc.constantFrom("+", "-", "*"), tie("expression"))
        .map(([a, sign, b]) => `(${a} ${sign} ${b})`),
      tie("expression").map((inner) => `-(${inner})`),
    ),
  }));
  fc.assert(
    fc.property(expression, (text) => {
      fc.pre(text.length <= 200);
      const reference = new Function(`return ${text}`) as () => number;
      const expected = Number(reference().toPrecision(12)) + 0;
      assert.equal(Number(calculated(text)) + 0, expected);
    }),
  );
});

test("what is no arithmetic is refused with what is wrong", () => {
  const refused: [string, RegExp][] = [
    ["", /ends too early/],
    ["2 +", /ends too early/],
    ["(2 + 3", /bracket/],
    ["2 3", /3 is out of place/],
    [")", /\) is out of place/],
    ["1/0", /division by 0/],
    ["9^999", /not a number/],
    ["process.exit()", /"process\.ex" is not arithmetic/],
    ["1".repeat(201), /200 characters/],
  ];
  for (const [expression, message] of refused)
    assert.throws(
      () => calculated(expression),
      (error: Error) => error instanceof NotArithmetic && message.test(error.message),
      expression,
    );
});
