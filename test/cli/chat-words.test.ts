// Words of an answer as they arrive, and how sure the model was of each.
import assert from "node:assert/strict";
import { test } from "node:test";
import { withoutHidden } from "../../src/base/visible.ts";
import { confidenceText, type Said } from "../../src/cli/chat/answer.ts";
import { onTerminal } from "../../src/cli/chat/rendering.ts";
import { createWords, type Rendering, type Token } from "../../src/cli/chat/words.ts";

const marking: Rendering = {
  word: ({ text, probability }) => (probability !== null && probability < 0.5 ? `[${text}]` : text),
  space: (one) => one,
};
const token = (text: string, probability: number): Token => ({ token: text, logprob: Math.log(probability) });

function shown(parts: [string, Token[]][]): { text: string; least: string[] } {
  const words = createWords(marking);
  const text = parts.map(([content, tokens]) => words.add(content, tokens)).join("") + words.end();
  return { text, least: words.leastCertain(2).map(({ text }) => text) };
}

test("a word is as sure as the least probable of its tokens, whichever parts it comes in", () => {
  const parts: [string, Token[]][] = [
    ["The", [token("The", 0.9)]],
    [" Har", [token(" Har", 0.9)]],
    ["bour opens", [token("bour", 0.3), token(" opens", 0.8)]],
    [" at\nsix.", [token(" at", 0.1), token("\nsix.", 0.7)]],
  ];
  assert.deepEqual(shown(parts), { text: "The [Harbour] opens [at]\nsix.", least: ["at", "Harbour"] });
});

test("nothing of a word is shown before its last token is known", () => {
  const words = createWords(marking);
  assert.equal(words.add(" Har", [token(" Har", 0.9)]), " ");
  assert.equal(words.add("bour", [token("bour", 0.3)]), "");
  assert.equal(words.add(" ", [token(" ", 0.9)]), "[Harbour] ");
});

test("where tokens are parts of a character all they gave is as sure as the least; without probabilities nothing is marked", () => {
  const halves = [token("bytes:\\xe2\\x82", 0.9), token("bytes:\\xac", 0.2)];
  assert.deepEqual(shown([["5 €", halves]]), { text: "[5] [€]", least: ["5", "€"] });
  assert.deepEqual(shown([["five euros", []]]), { text: "five euros", least: [] });
});

test("on a terminal nothing of an answer steers it", () => {
  const hostile = ["\u001b[2J\u001b]0;x\u0007", "a\rb", "one\ttwo", "line\nend", "\u202egnp.exe", "\u2028"];
  const words = createWords(onTerminal);
  const text = hostile.map((part) => words.add(`${part} `, [])).join("") + words.end();
  assert.equal(withoutHidden(text.replaceAll("\n", "")), text.replaceAll("\n", ""), JSON.stringify(text));
  assert.ok(text.includes("\\u001b[2J") && text.includes("one    two") && text.includes("line\nend"));
});

test("the line on an answer's confidence says what stands behind it", () => {
  const said: Said = {
    answer: "At six",
    finish_reason: "stop",
    confidence_score: 71.6,
    confidence: {
      ...{ calibrated: true, n: 120, reason: null, date: null, drift: { p_value: 0.01, reason: null } },
      ...{ least_certain: null, sources: [{ document_id: "d", start: 0, end: 1, grounding: 1, deleted: false }] },
    },
    usage: null,
    least_certain: [{ text: "six", probability: 0.314 }],
  };
  assert.equal(
    confidenceText(said),
    "confidence 72 of 100, calibrated on 120 answers; the question is unlike the documents; one passage supports it; least certain: six 31 %",
  );
  const base = { ...said, confidence_score: null, confidence: null, least_certain: [], finish_reason: "length" };
  assert.equal(confidenceText(base), "no confidence: this is a base model; cut off at the maximum length");
});
