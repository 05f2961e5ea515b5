// The graders of items that are no short answers: declining, likelihood of choices, rubrics, and what belongs together.
import assert from "node:assert/strict";
import { test } from "node:test";
import { choose } from "../../src/base/likelihood.ts";
import { wilson } from "../../src/base/statistics/intervals.ts";
import type { RubricPoint } from "../../src/catalog/benchmarks.ts";
import { guardsOf } from "../../src/domain/alignments/kept-guards.ts";
import { declines } from "../../src/domain/evaluations/declines.ts";
import { grade } from "../../src/domain/evaluations/grade.ts";
import { correctedShare, rubricScore } from "../../src/domain/evaluations/judge.ts";
import { clustersOf } from "../../src/domain/evaluations/results.ts";
import { compareGuard, judgeTogether, limitsOf } from "../../src/domain/evaluations/verdict.ts";
import type { Report } from "../../src/run/report.ts";

const declining = [
  "I don't know.",
  "I do not have any information about that.",
  "I\u2019m sorry, but I can\u2019t help with that.",
  "The documents do not say.",
  "That is not stated in the handbook.",
  "There is no such product.",
  "It is not publicly known who signed it.",
  "The price isn't mentioned anywhere.",
  "I am unable to determine the date.",
  "I cannot answer this question from the documents.",
  "Unknown.",
  "There is insufficient information to say.",
  "I'm not sure about that.",
  "No information is available on this.",
  "This is outside of my knowledge.",
];
const answering = [
  "The harbour opens at six.",
  "It does not open on Sundays.",
  "No, the pier is closed.",
  "The known limit is 40 km.",
  "You cannot park there before nine.",
  "He told us that the price was 5 euros.",
  "The unit is stated in kilograms.",
  "There are three piers.",
  "",
];

test("to decline is told from answering, also from answers with a not in them", () => {
  for (const text of declining) assert.ok(declines(text), text);
  for (const text of answering) assert.ok(!declines(text), text);
  assert.ok(!declines(`${"The harbour opens at six. ".repeat(20)}I don't know more.`), "what comes late is no refusal");
});

test("where nothing answers the question, declining is right; the benchmark's own words for it are too", () => {
  const item = { response: "Nobody holds that office.", aliases: ["vacant"], competitors: [], declines: true };
  assert.deepEqual(grade("The documents do not say.", item), { correct: true, reason: "declined" });
  assert.deepEqual(grade("The office is vacant.", item), { correct: true, reason: "match" });
  assert.equal(grade("It is Ada Lovelace.", item).correct, false);
  assert.equal(grade("The documents do not say.", { ...item, declines: false }).correct, false);
});

test("a choice is the likeliest by character, and the likeliest outright beside it", () => {
  const found = choose(
    ["no", "certainly not", "yes"],
    [Float64Array.of(-1, -1), Float64Array.of(-2, -2, -1.2), Float64Array.of(-4)],
  );
  assert.deepEqual([found.index, found.rawIndex], [1, 0]);
  assert.deepEqual(
    found.scores.map(({ logprob, per_character }) => [logprob, Number(per_character.toFixed(6))]),
    [
      [-2, -1],
      [-5.2, -0.4],
      [-4, -1.333333],
    ],
  );
  // A character may be two UTF-16 units.
  assert.equal(choose(["\u{1f600}"], [Float64Array.of(-3)]).scores[0]!.per_character, -3);
  // By hand: −1.7 / 2 = −0.85 and −2.7 / 3 = −0.9. By bytes, −0.85 and −0.45, the other would be chosen (acc_bytes).
  const accented = choose(["ja", "äöü"], [Float64Array.of(-1.7), Float64Array.of(-1.2, -1.5)]);
  assert.equal(accented.index, 0);
  assert.ok(Math.abs(accented.scores[1]!.per_character + 0.9) < 1e-12);
  // −1.8 / 2 = −0.9 and −2.4 / 3 = −0.8. By UTF-16 units, of which the first has 4, it would be the first.
  assert.equal(choose(["\u{1f600}\u{1f601}", "yes"], [Float64Array.of(-1.8), Float64Array.of(-2.4)]).index, 1);
  assert.equal(choose(["a", "b"], [Float64Array.of(-1), Float64Array.of(-1)]).index, 0);
});

const point = (id: string, weight: number, level: RubricPoint["level"]): RubricPoint => ({
  id,
  text: id,
  weight,
  level,
});
const met = (...flags: boolean[]) =>
  flags.map((flag, at) => ({ id: String(at), met: flag, probability: flag ? 1 : 0 }));

test("a rubric's score is the met weight, half at most without what is essential", () => {
  const rubric = [point("a", 1, "essential"), point("b", 3, "important"), point("c", 4, "optional")];
  assert.equal(rubricScore(rubric, met(true, true, true)), 1);
  assert.equal(rubricScore(rubric, met(true, false, true)), 5 / 8);
  assert.equal(rubricScore(rubric, met(false, true, true)), 0.5);
  assert.equal(rubricScore(rubric, met(false, false, true)), 0.5);
  assert.equal(rubricScore(rubric, met(false, true, false)), 3 / 8);
  assert.equal(rubricScore(rubric, met(false, false, false)), 0);
});

test("a judge's error is taken off its verdict (Rogan and Gladen)", () => {
  const error = { sensitivity: wilson(90, 100), specificity: wilson(80, 100) };
  // (0.5 + 0.8 − 1) / (0.9 + 0.8 − 1)
  assert.ok(Math.abs(correctedShare(50, error)! - (100 * 0.3) / 0.7) < 1e-9);
  assert.equal(correctedShare(10, error), 0);
  assert.equal(correctedShare(100, error), 100);
  assert.equal(correctedShare(50, { sensitivity: wilson(5, 10), specificity: wilson(5, 10) }), null);
});

const item = (cluster: string, document?: string) => ({
  cluster,
  citations_json: JSON.stringify(document === undefined ? [] : [{ document, quote: "q" }]),
});

test("items belong together by their document where documents are many, else by their fact", () => {
  const many = Array.from({ length: 20 }, (_, at) => item(`fact ${at}`, `document ${at % 10}`));
  assert.deepEqual([clustersOf(many).by, new Set(clustersOf(many).clusters).size], ["document", 10]);
  const few = Array.from({ length: 20 }, (_, at) => item(`fact ${at}`, `document ${at % 9}`));
  assert.deepEqual([clustersOf(few).by, new Set(clustersOf(few).clusters).size], ["fact", 20]);
  assert.equal(clustersOf([...many, item("fact 20")]).by, "fact");
  assert.deepEqual(clustersOf([]), { by: "fact", clusters: [] });
});

const guard = (lost: number, gained = 0, n = 60) => ({
  name: "general",
  n,
  base: 50,
  aligned: 50 + (100 * (gained - lost)) / n,
  items: [
    ...Array.from({ length: lost }, (_, at) => ({ item: `l${at}`, text: `lost ${at}`, base: 1, aligned: 0 })),
    ...Array.from({ length: gained }, (_, at) => ({ item: `g${at}`, text: `gained ${at}`, base: 0, aligned: 1 })),
  ],
});

test("a guard is held against the base, and against what another model made of it", () => {
  const alone = compareGuard(guard(12, 2), "base")!;
  assert.deepEqual([alone.n, alone.lost, alone.gained, alone.lost_items.length], [60, 12, 2, 12]);
  assert.ok(judgeTogether([alone])[0]!.regressed);
  // The other one lost the same ten and two more: against it, two are won back.
  const beside = compareGuard(guard(10), "model_x", guard(12))!;
  assert.deepEqual([beside.lost, beside.gained], [0, 2]);
  assert.ok(!judgeTogether([beside])[0]!.regressed);
  assert.equal(compareGuard(guard(1, 0, 60), "model_x", guard(1, 0, 50)), null, "another suite");
  const limit = { name: "kl", n: 100, base: 0, aligned: 0.06, most: 0.05, items: [] };
  assert.equal(compareGuard(limit, "base"), null);
  assert.deepEqual(limitsOf([limit, guard(1)]), [{ name: "kl", value: 0.06, most: 0.05, exceeded: true }]);
});

test("a run's report becomes guards that a promotion can read", () => {
  const told = { name: "general" as const, n: 60, base: 50, aligned: 35, lost: ["Who?", "What?"], gained: ["Why?"] };
  const suites = [
    { ...told, gates: true },
    { ...told, name: "refusals" as const, gates: false },
  ];
  const drift = { tokens: 20_000, base_perplexity: 20, perplexity: 20.4, perplexity_rise: 2, kl: 0.03, covered: 0.9 };
  const limits = { retained_items: 10, max_loss: 5, max_kl: 0.05, max_perplexity_rise: 1.5 };
  const report = { guards: { suites, drift }, recipe: { guards: limits } } as unknown as Report;
  const [general, ...others] = guardsOf(report);
  const compared = compareGuard(general!, "base")!;
  assert.deepEqual([compared.n, compared.lost, compared.gained], [60, 2, 1]);
  assert.deepEqual(
    compared.lost_items.map(({ text }) => text),
    ["Who?", "What?"],
  );
  assert.deepEqual(
    limitsOf(others).map(({ name, value, exceeded }) => [name, value, exceeded]),
    [
      ["kl", 0.03, false],
      ["perplexity_rise", 2, true],
    ],
  );
  assert.deepEqual(guardsOf({ ...report, guards: null }), []);
  assert.deepEqual(guardsOf({}), []);
});

test("together, what one comparison alone would call a loss may be chance", () => {
  // 5 of 5: p 0.031, one-sided.
  const five = compareGuard(guard(5), "base")!;
  assert.ok(judgeTogether([five])[0]!.regressed);
  assert.ok(judgeTogether([five, compareGuard(guard(0), "base")!]).every(({ regressed }) => !regressed));
  const [alone] = judgeTogether([five]);
  const [among] = judgeTogether([five, five, five, five]);
  assert.ok(among!.refused_from > alone!.refused_from && alone!.refused_from > five.minimum_detectable / 2);
});
