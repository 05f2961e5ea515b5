// The least certain word of answers written out by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { leastCertainSpan } from "../../src/confidence/least-certain.ts";
import type { Tokenizer } from "../../src/engine/generator.ts";

type Part = [piece: string | Uint8Array, logprob: number, isForced?: boolean];

function spanOf(parts: Part[], shown = Number.POSITIVE_INFINITY, isTrimmed = false) {
  const bytesOf = (token: number): Uint8Array => {
    const piece = parts[token]![0];
    return typeof piece === "string" ? Buffer.from(piece) : piece;
  };
  const steps = parts.map(([, logprob, isForced = false], token) => ({ token, logprob, isForced }));
  const span = leastCertainSpan(steps, { bytesOf } as Tokenizer, shown, isTrimmed);
  return span && { ...span, probability: Number(span.probability.toFixed(6)) };
}

test("the word around the least probable token, with all its tokens", () => {
  const parts: Part[] = [
    ["It", -0.1],
    [" was", -0.2],
    [" Har", -1],
    ["wick", -0.5],
    ["!", -0.25],
    [" Yes", -0.3],
  ];
  assert.deepEqual(spanOf(parts), { text: "Harwick!", start: 7, end: 15, probability: 0.173774 });
});

test("an end without text, what a stop string cut off, and what was forced are no part of it", () => {
  assert.deepEqual(
    spanOf([
      ["so", -0.1],
      [" be", -0.2],
      ["", -9],
    ])!.text,
    "be",
  );
  assert.deepEqual(
    spanOf(
      [
        ["so", -0.1],
        [" END", -5],
      ],
      2,
    )!.text,
    "so",
  );
  assert.deepEqual(
    spanOf([
      ["<think>", -7, true],
      [" so", -0.1],
    ])!.text,
    "so",
  );
  assert.equal(spanOf([["", -1]]), null);
  assert.equal(spanOf([]), null);
});

test("offsets count code points, also of one that came in pieces", () => {
  const smile = Buffer.from("😀");
  const span = spanOf([
    ["é ", -0.1],
    [smile.subarray(0, 2), -2],
    [smile.subarray(2), -0.5],
    [" ok", -0.2],
  ]);
  assert.deepEqual(span, { text: "😀", start: 2, end: 3, probability: 0.082085 });
});

test("offsets leave out the white space at the beginning if the client gets the text without it", () => {
  const parts: Part[] = [
    ["\n\n", -0.1],
    [" é", -0.2],
    [" ok", -1],
  ];
  const offsetsOf = (isTrimmed: boolean) => {
    const { start, end } = spanOf(parts, undefined, isTrimmed)!;
    return [start, end];
  };
  assert.deepEqual(offsetsOf(false), [5, 7]);
  assert.deepEqual(offsetsOf(true), [2, 4]);
});

test("without blanks the token stands alone", () => {
  const sentence = "文".repeat(30);
  const span = spanOf([
    [sentence, -0.1],
    ["字", -3],
    [sentence, -0.1],
  ]);
  assert.deepEqual(span, { text: "字", start: 30, end: 31, probability: 0.049787 });
});
