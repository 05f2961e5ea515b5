// What people see of a run: pure figures from its events, and the presets they are asked for by.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { installation } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { phases, type RunEvent } from "../../src/contract/run-folder.ts";
import { type Estimate, type RunProgress, remainingMs, settled, take } from "../../src/domain/alignments/progress.ts";
import { readRecipes } from "../../src/domain/alignments/recipes.ts";

const start: RunProgress = { phase: "preparing", overall: 0, detail: null, metrics: {}, seen: 0 };
const event = (fields: Partial<RunEvent>): RunEvent => ({
  seq: 1,
  fence: 1,
  at: "",
  kind: "phase",
  phase: "preparing",
  ...fields,
});

test("the whole never falls and never reaches 100 by events alone, whatever they are", () => {
  const some = fc.record({
    kind: fc.constantFrom("phase", "progress", "step", "check", "resumed", "done") as fc.Arbitrary<RunEvent["kind"]>,
    phase: fc.constantFrom(...phases),
    done: fc.double({ min: -10, max: 1e9, noNaN: true }),
    total: fc.option(fc.double({ min: 0, max: 1e9, noNaN: true })),
  });
  fc.assert(
    fc.property(fc.array(some, { maxLength: 50 }), (events) => {
      let progress = start;
      for (const [index, fields] of events.entries()) {
        const next = take(progress, event({ ...fields, seq: index + 1 }));
        assert.ok(next.overall >= progress.overall && next.overall < 100);
        assert.equal(next.seen, index + 1);
        assert.equal(next.phase, fields.phase);
        progress = next;
      }
    }),
  );
});

test("details stay while the phase does, figures gather, text is left out", () => {
  let progress = take(start, event({ kind: "phase", phase: "training" }));
  assert.equal(progress.overall, 10);
  progress = take(progress, event({ kind: "progress", phase: "training", done: 5, total: 10, unit: "steps", rate: 2 }));
  assert.equal(progress.overall, 47.5);
  assert.deepEqual(progress.detail, {
    phase: "training",
    done: 5,
    total: 10,
    unit: "steps",
    rate: 2,
    seconds_left: null,
  });
  progress = take(progress, event({ kind: "step", phase: "training", metrics: { loss: 0.5, loss_hex: "3fe0" } }));
  progress = take(progress, event({ kind: "check", phase: "checking", metrics: { score: 40, n: 9 } }));
  assert.deepEqual(progress.metrics, { loss: 0.5, dev_score: 40, dev_n: 9 });
  assert.equal(progress.detail, null);
  assert.equal(progress.overall, 47.5);
});

test("time left is said once enough is done, and by the pace of this attempt", () => {
  assert.equal(remainingMs({ overall: 40, ms: 1000 }, { overall: 44, ms: 5000 }), null);
  assert.equal(remainingMs({ overall: 40, ms: 1000 }, { overall: 60, ms: 5000 }), 8000);
});

test("what is said of the end does not swing with each phase's pace, and comes to be what is so", () => {
  // The first estimates of a piece are a third or thrice of what it takes, in turn.
  let estimate: Estimate | null = null;
  let before: number | null = null;
  for (let second = 0; second <= 600; second++) {
    const trueLeft = (600 - second) * 1000;
    const said = second < 120 ? trueLeft * (second % 2 === 0 ? 1 / 3 : 3) : trueLeft;
    estimate = settled(estimate, said, second * 1000);
    if (before !== null)
      assert.ok(Math.abs(estimate.endMs - before) < 40_000, `${second}: ${before} → ${estimate.endMs}`);
    before = estimate.endMs;
  }
  assert.ok(Math.abs(estimate!.endMs - 600_000) < 1000, String(estimate!.endMs));
  // Never in the past.
  assert.equal(settled({ endMs: 1000, atMs: 0 }, 10, 5_000).endMs >= 5_000, true);
});

test("the presets are whole; a damaged one is named", async () => {
  const recipes = await readRecipes(join(installation, "config/recipes"));
  assert.deepEqual([...recipes.keys()].sort(), ["quick", "standard", "thorough"]);
  const folder = mkdtempSync(join(tmpdir(), "recipes-"));
  try {
    for (const [content, words] of [
      ["{", /odd\.json/],
      [JSON.stringify({ ...recipes.get("quick"), loss: { type: "dpo" } }), /odd\.json.*loss/],
    ] as const) {
      writeFileSync(join(folder, "odd.json"), content);
      await assert.rejects(
        readRecipes(folder),
        (error) => error instanceof Failure && error.code === "config_invalid" && words.test(error.message),
      );
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
