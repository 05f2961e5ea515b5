// What a finished run says first: whether it taught anything, why it says so, and what fell.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { GuardResults, SuiteResult } from "../../src/contract/run-folder.ts";
import { compile } from "../../src/contract/validate.ts";
import { runVerdict } from "../../src/contract/verdict.ts";
import { type Found, verdictOf } from "../../src/run/verdict.ts";

const limits = { max_kl: 0.5, max_perplexity_rise: 10 };
const named = (what: string, count: number): string[] => Array.from({ length: count }, (_, at) => `${what} ${at}`);

const suite = (name: SuiteResult["name"], lost: number, gained: number, gates = true): SuiteResult => ({
  name,
  n: 100,
  base: 80,
  aligned: 80 - lost + gained,
  gates,
  lost: named("lost", lost),
  gained: named("gained", gained),
});

const drift = { tokens: 10, kl: 0.1, base_perplexity: 10, perplexity: 10, perplexity_rise: 0 };
const guardsOf = (suites: SuiteResult[], over: Partial<typeof drift> = {}): GuardResults =>
  ({ suites, drift: { ...drift, ...over } }) as GuardResults;

function said(found: Partial<Found>) {
  const verdict = verdictOf({ dev: null, guards: null, limits: undefined, help: ["More documents."], ...found });
  assert.ok(compile(runVerdict)(structuredClone(verdict)).ok);
  return verdict;
}

const dev = (gained: number, lost: number, n = 40): Found["dev"] => ({
  n,
  base: 30,
  aligned: 30 + (100 * (gained - lost)) / n,
  gained,
  lost,
});

test("a run that taught nothing says first that it shall not be deployed, and by what figures", () => {
  for (const [gained, lost] of [
    [0, 0],
    [3, 3],
    [2, 9],
  ] as const) {
    const { outcome, headline, why, help } = said({ dev: dev(gained, lost) });
    assert.deepEqual([outcome, headline], ["no_gain", "No gain: do not deploy"]);
    assert.deepEqual(help, ["More documents."]);
    assert.match(why[0]!, new RegExp(`40 dev questions .* ${gained} answers became correct, ${lost} became wrong`));
  }
});

test("a gain that chance explains is not proven; one beyond it is a gain; without questions nothing is said", () => {
  assert.equal(said({ dev: dev(4, 0) }).outcome, "unproven");
  assert.match(said({ dev: dev(4, 0) }).headline, /^No gain beyond chance: do not deploy/);
  assert.equal(said({ dev: dev(5, 0) }).outcome, "gain");
  assert.equal(said({ dev: dev(12, 6) }).outcome, "unproven");
  assert.equal(said({ dev: dev(20, 6) }).outcome, "gain");
  assert.equal(said({}).outcome, "unmeasured");
  assert.equal(said({ dev: dev(0, 0, 0) }).outcome, "unmeasured");
});

test("suites that fell are named, in the first sentence where chance does not explain it", () => {
  const { headline, fell, why } = said({
    dev: dev(20, 0),
    guards: guardsOf([
      suite("retention", 12, 1),
      suite("format", 3, 2),
      suite("general", 30, 0, false),
      suite("refusals", 0, 4),
    ]),
    limits,
  });
  assert.match(headline, /^Gain .*; the model got worse at what the base could do: retention$/);
  assert.deepEqual(
    fell.map(({ name, beyond_chance }) => [name, beyond_chance]),
    [
      ["retention", true],
      ["format", false],
    ],
  );
  assert.match(
    why.join(" "),
    /retention went from 80\.0 to 69\.0\. format went from 80\.0 to 79\.0, which chance may explain too\./,
  );
  // What the recipe does not watch is not held against it.
  assert.deepEqual(said({ dev: dev(20, 0), guards: guardsOf([suite("retention", 12, 1)]) }).fell, []);
});

test("limits of divergence that are exceeded are named like suites, with their units", () => {
  const over = guardsOf([], { kl: 0.6, perplexity_rise: 12 });
  const { headline, why, fell } = said({ dev: dev(0, 0), guards: over, limits });
  assert.match(headline, /^No gain: .*: divergence from the base, perplexity on other prose$/);
  assert.deepEqual(why.slice(1), [
    `The divergence from the base is 0.600 nats per token; the recipe allows ${limits.max_kl}.`,
    `The perplexity on other prose rose by 12.0 %; the recipe allows ${limits.max_perplexity_rise} %.`,
  ]);
  assert.deepEqual(
    fell.map(({ name }) => name),
    ["kl", "perplexity_rise"],
  );
});
