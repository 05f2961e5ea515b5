// A phase of edits over a small folder with the real trainer. The direction is planted into what the trainer tells of right answers: a model
// of random weights has none of its own.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { AutoAlignRequest } from "../../../src/contract/auto-align.ts";
import type { Trainer } from "../../../src/engine/train/trainer.ts";
import type { Grade } from "../../../src/run/dev-check.ts";
import type { DecisionCard } from "../../../src/run/plan/state.ts";
import { runAlignment } from "../../../src/run/run.ts";
import { brokenRules, claimAutoAlign, devItem, eventsOf, newRunFolder, overridden, partsOf } from "../run-harness.ts";

const options = {
  dev: Array.from({ length: 12 }, (_, at) =>
    devItem(at + 1, `How heavy is the lamp called Orla ${at}?`, `${3 + at} kg`),
  ),
};

async function autoFolder(request: Partial<AutoAlignRequest>): Promise<string> {
  const folder = await newRunFolder(options);
  claimAutoAlign(folder, { request: { target_score: 99, config: { training: { max_steps: 2 } }, ...request } });
  return folder;
}

/** Whatever was not said first counts as right, so that any edit that changes answers looks like a gain. */
function unlikeFirst(): Grade {
  const first = new Map<string, string>();
  return (answer, { instruction }) => {
    if (!first.has(instruction)) first.set(instruction, answer);
    return { correct: answer !== first.get(instruction) };
  };
}

const clock = { monotonicMs: () => 0, now: () => "2026-01-01T00:00:00.000Z" };

/** Of two means that follow each other the first, which is the right answer's, lies further along one axis. */
const planted = (trainer: Trainer): Trainer =>
  overridden(trainer, {
    activations: (async (adapter, rows, ask) => {
      const told = await trainer.activations(adapter, rows, ask);
      const groups = Math.max(...ask.groups) + 1;
      const { residual } = told.streams as { residual?: Float32Array };
      if (residual === undefined || groups !== rows.rowLengths.length) return told;
      const width = residual.length / groups / ask.layers.length;
      for (let at = 0; at < residual.length; at += 2 * width) residual[at + 5]! += 50;
      return told;
    }) as Trainer["activations"],
  });

const partsStill = (grade: Grade, wrap: (trainer: Trainer) => Trainer = planted) =>
  partsOf({ wrap, over: { clock, grade } });

const outcomesOf = (folder: string): string[] =>
  eventsOf(folder).flatMap(({ message }) => (message?.startsWith("Representations: ") ? [message] : []));

const cardsOf = (folder: string): DecisionCard[] =>
  eventsOf(folder).flatMap((event) => (event.card === undefined ? [] : [event.card as unknown as DecisionCard]));

test("an edit that questions which did not choose it confirm is kept, trained on and packaged", async () => {
  const grade = unlikeFirst();
  const folder = await autoFolder({ sequencing: ["represent", "supervised"], representations: "ablation" });
  const paused = await runAlignment(folder, partsStill(grade));
  assert.equal(paused.error, null);
  assert.equal(paused.auto_align!.phases, 2);
  const [outcome] = outcomesOf(folder);
  assert.match(
    outcome!,
    /^Representations: kept: ablation of layer.* points \(lower bound \+.* on \d dev questions that were not used to choose it/,
  );
  const cards = cardsOf(folder);
  assert.match(cards[1]!.because, /^represent ended: kept: ablation/);
  const phase = (number: number) =>
    JSON.parse(readFileSync(join(folder, "plan", `phase-${number}`, "phase.json"), "utf8"));
  assert.equal(phase(1).adapter.shape.rank, 5);
  assert.equal(phase(1).adapter.shape.alpha, 10);
  assert.ok(cards[0]!.bids.length > 0);
  assert.equal(phase(1).record.steps_run, phase(1).record.steps);
  // Training goes on with what was stacked.
  assert.equal(phase(2).adapter.shape.rank, 5);
  claimAutoAlign(folder, { stopping: true });
  const stopped = await runAlignment(folder, partsStill(grade));
  assert.equal(stopped.outcome, "completed");
  const config = JSON.parse(readFileSync(join(folder, "artefact", "peft", "adapter_config.json"), "utf8"));
  assert.equal(config.r, 5);
  const report = JSON.parse(readFileSync(join(folder, "artefact", "report.json"), "utf8")).auto_align;
  assert.match(report.profile, /^The differences within \d+ pairs of its own answers agree most after layer/);
  assert.match(report.course[1].outcome, /^kept/);
  assert.deepEqual(brokenRules(folder), []);
});

test("killed among its edits a phase goes on with those that are left, and makes the same adapter", async () => {
  const request = { sequencing: ["represent"], representations: "auto" };
  const whole = await autoFolder(request);
  let stacked = 0;
  const counting = (trainer: Trainer): Trainer => {
    const inner = planted(trainer);
    const stackAdapter: Trainer["stackAdapter"] = (...given) => {
      stacked++;
      return inner.stackAdapter(...given);
    };
    return overridden(inner, { stackAdapter });
  };
  const first = unlikeFirst();
  await runAlignment(whole, partsStill(first, counting));
  assert.ok(stacked > 6, `${stacked}`);
  const adapterOf = (folder: string) =>
    readFileSync(join(folder, "plan", "phase-1", "adapter.gguf")).toString("base64");
  for (const n of [3, stacked]) {
    const folder = await autoFolder(request);
    const grade = unlikeFirst();
    let calls = 0;
    const dying = (trainer: Trainer): Trainer => {
      const inner = planted(trainer);
      const stackAdapter: Trainer["stackAdapter"] = (...given) => {
        if (++calls === n) throw new Error("died");
        return inner.stackAdapter(...given);
      };
      return overridden(inner, { stackAdapter });
    };
    assert.equal((await runAlignment(folder, partsStill(grade, dying))).outcome, "failed");
    claimAutoAlign(folder, {});
    assert.equal((await runAlignment(folder, partsStill(grade))).outcome, "paused");
    assert.equal(adapterOf(folder), adapterOf(whole));
    assert.deepEqual(outcomesOf(folder).at(-1), outcomesOf(whole).at(-1));
    assert.deepEqual(brokenRules(folder), []);
  }
  // A model of edits alone: no tokens were trained, and the report says nothing of their pace.
  claimAutoAlign(whole, { stopping: true });
  assert.equal((await runAlignment(whole, partsStill(first))).outcome, "completed");
  const page = readFileSync(join(whole, "artefact", "report.html"), "utf8");
  assert.match(page, /\d+ steps over 0 tokens in 0\.0 minutes\.</);
});

test("edits that a killed process tried keep their hours", async () => {
  let ms = 0;
  const timed = { ...clock, monotonicMs: () => ms };
  const run = (folder: string, dies: number) => {
    let calls = 0;
    const wrap = (trainer: Trainer): Trainer => {
      const inner = planted(trainer);
      return overridden(inner, {
        stackAdapter: (...given) => {
          if (++calls === dies) throw new Error("died");
          return inner.stackAdapter(...given);
        },
        sample: (...given) => {
          // Drawing the material is quick, so that the phase's hours last.
          const { length } = given[1].rowLengths;
          ms += length > options.dev.length ? 1 : 1000 * length;
          return inner.sample(...given);
        },
      });
    };
    return runAlignment(folder, partsOf({ wrap, over: { clock: timed, grade: unlikeFirst() } }));
  };
  const recordOf = (folder: string) =>
    JSON.parse(readFileSync(join(folder, "plan", "phase-1", "phase.json"), "utf8")).record;
  const request = { sequencing: ["represent"], representations: "auto" };
  const [whole, killed] = [await autoFolder(request), await autoFolder(request)];
  await run(whole, 0);
  const { hours_run: hours, steps_run: steps } = recordOf(whole);
  assert.ok(hours > 0 && steps > 3, `${steps} steps in ${hours} hours`);
  assert.equal((await run(killed, 3)).outcome, "failed");
  claimAutoAlign(killed, {});
  assert.equal((await run(killed, 0)).error, null);
  assert.equal(recordOf(killed).steps_run, steps);
  assert.ok(Math.abs(recordOf(killed).hours_run - hours) < 1e-9, `${recordOf(killed).hours_run} of ${hours}`);
});

test("where the model has no right and wrong answers of its own, the phase says so and changes nothing", async () => {
  const folder = await autoFolder({ sequencing: ["represent"] });
  const result = await runAlignment(
    folder,
    partsStill(() => ({ correct: false })),
  );
  assert.equal(result.error, null);
  assert.match(
    outcomesOf(folder)[0]!,
    /^Representations: no usable direction: The model has both a correct and a wrong answer of its own to 0 study/,
  );
  const { record, adapter } = JSON.parse(readFileSync(join(folder, "plan", "phase-1", "phase.json"), "utf8"));
  assert.equal(record.steps_run, 0);
  assert.equal(adapter.shape.rank, 4);
});

test("edits that gain nothing on dev end without one, and the planner does not ask for them", async () => {
  const isDev = new Set(options.dev.map(({ instruction }) => instruction));
  const own = unlikeFirst();
  const grade: Grade = (answer, item) => (isDev.has(item.instruction) ? { correct: false } : own(answer, item));
  const folder = await autoFolder({ sequencing: ["represent"], representations: "ablation" });
  assert.equal((await runAlignment(folder, partsStill(grade))).error, null);
  assert.match(outcomesOf(folder)[0]!, /no usable direction: none of \d+ edits gains more on dev/);

  const planned = await autoFolder({ method: "represent+supervised", max_compute_hours: 100 });
  await runAlignment(planned, partsOf({ over: { clock, grade: () => ({ correct: false }) } }));
  const excluded = cardsOf(planned)[0]!.excluded.find(({ arm }) => arm === "represent")!;
  assert.match(excluded.reason, /^there is no usable direction: no dev question is wrong only in its form$/);
});
