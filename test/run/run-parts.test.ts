// The parts of a run that stand alone: order and rate, the event log, commands, checkpoints.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { appendFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import fc from "fast-check";
import { isTemporary, removeTemporaries } from "../../src/base/files.ts";
import { systemClock } from "../../src/base/time.ts";
import type { Recipe } from "../../src/contract/recipe.ts";
import type { RunReply } from "../../src/contract/run-lines.ts";
import { type LoopState, openCheckpoints } from "../../src/run/checkpoints.ts";
import { stepToTake } from "../../src/run/choose.ts";
import { createRun, type Run } from "../../src/run/context.ts";
import { createControl, Stopped } from "../../src/run/control.ts";
import { type EventDraft, hexOfDouble, openEventLog } from "../../src/run/events.ts";
import { shapeOf } from "../../src/run/folder/adapter-shape.ts";
import { reportOf } from "../../src/run/report.ts";
import type { TrainingRow } from "../../src/run/rows.ts";
import {
  batchOf,
  learningRateAt,
  microBatches,
  ruleLearningRate,
  stepsPerEpoch,
  totalSteps,
} from "../../src/run/schedule.ts";
import { climb, rungsOf, step, type Training } from "../../src/run/training.ts";

const root = mkdtempSync(join(tmpdir(), "run-parts-"));
after(() => rmSync(root, { recursive: true, force: true }));
let made = 0;
const newFolder = (): string => {
  const folder = join(root, String(made++));
  mkdirSync(folder);
  return folder;
};

const training = (over: Partial<Recipe["training"]> = {}): Recipe["training"] => ({
  batch_size: 4,
  epochs: 3,
  max_steps: null,
  seed: 7,
  early_stopping: { enabled: false, metric: "score", patience: 1 },
  ...over,
});

const optimizer = (lr_schedule: "linear" | "cosine" | "constant", warmup_ratio: number): Recipe["optimizer"] => ({
  type: "adamw",
  learning_rate: null,
  beta1: 0.9,
  beta2: 0.95,
  eps: 1e-8,
  weight_decay: 0,
  grad_clip_norm: 1,
  lr_schedule,
  warmup_ratio,
});

/** A run whose clock the test moves, and what it tells. */
function toldRun(timers: { tick(ms: number): void }, lastSeq = 0, request: unknown = null) {
  let nowMs = 0;
  const told: EventDraft[] = [];
  const control = createControl(() => {});
  const run = createRun({
    request,
    parts: { control, clock: { ...systemClock, monotonicMs: () => nowMs }, log: () => {} },
    events: { append: async (...drafts: EventDraft[]) => void told.push(...drafts), lastSeq, close: async () => {} },
  } as never);
  const pass = (seconds: number): void => {
    for (let half = 0; half < 2 * seconds; half++) {
      nowMs += 500;
      timers.tick(500);
    }
  };
  return { run, told, control, pass, of: (kind: string) => told.filter((one) => one.kind === kind) };
}

test("a run is never silent for 10 seconds, whatever it does, except where it is paused or has ended", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const { run, of, control, pass } = toldRun(t.mock.timers);
  await run.enter("preparing");
  pass(30);
  const quiet = of("progress");
  assert.ok(quiet.length >= 3, String(quiet.length));
  assert.deepEqual([quiet[0]!.unit, quiet[0]!.total, quiet[0]!.seconds_left], ["seconds", null, null]);
  assert.ok(quiet[0]!.done! >= 8 && quiet[0]!.done! < 10, String(quiet[0]!.done));
  await run.progress(4, 8, "rows");
  pass(25);
  // What was told is told again: it went no further.
  const again = of("progress").slice(quiet.length);
  assert.deepEqual(
    again.map(({ done, total, unit }) => [done, total, unit]),
    again.map(() => [4, 8, "rows"]),
  );
  assert.ok(again.length >= 3);
  const before = of("progress").length;
  control.handle('{"seq":1,"command":"pause"}');
  pass(30);
  assert.equal(of("progress").length, before);
  control.handle('{"seq":2,"command":"resume"}');
  pass(10);
  assert.ok(of("progress").length > before);
  run.close();
  const last = of("progress").length;
  pass(60);
  assert.equal(of("progress").length, last);
});

test("the rate of a piece of work is its own: not that of work between, nor of what was done before a resumption", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const { run, of, pass } = toldRun(t.mock.timers);
  const latest = () => of("progress").at(-1)!;
  await run.enter("training");
  for (let step = 1; step <= 10; step++) {
    pass(2);
    await run.progress(step, 100, "steps");
    assert.deepEqual([latest().rate, latest().seconds_left], [0.5, 2 * (100 - step)]);
  }
  await run.enter("checking");
  pass(60);
  await run.progress(3, 3, "questions");
  await run.enter("training");
  for (let step = 11; step <= 20; step++) {
    pass(2);
    await run.progress(step, 100, "steps");
    assert.deepEqual([latest().rate, latest().seconds_left], [0.5, 2 * (100 - step)], `step ${step}`);
  }
  run.close();

  const later = toldRun(t.mock.timers, 7);
  await later.run.enter("training");
  later.pass(2);
  await later.run.progress(51, 100, "steps");
  assert.equal(later.of("progress").at(-1)!.seconds_left, null);
  later.pass(2);
  await later.run.progress(52, 100, "steps");
  assert.deepEqual([later.of("progress").at(-1)!.rate, later.of("progress").at(-1)!.seconds_left], [0.5, 96]);
  later.run.close();
});

test("the rate of training is that of its phase's steps, and what a step told is what is told again", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const loss = { type: "cross_entropy", token_reduction: "mean" };
  const recipe = { loss, dataset: {}, optimizer: optimizer("constant", 0) };
  const { run, of, pass } = toldRun(t.mock.timers, 0, { recipe });
  const trainer = {
    forwardBackward: async () => ({ loss: 1, logprobs: new Float32Array(2) }),
    optimStep: async () => {
      pass(2);
      return { gradNorm: 1 };
    },
  };
  const row = { kind: "cell", tokens: Int32Array.of(1, 2), weights: Float32Array.of(0, 1) } as unknown as TrainingRow;
  // Two phases of an auto-align, of which the second goes on with the count of the first.
  for (const before of [0, 500]) {
    const state = { ...stateAt(0), step: before, trainSeconds: 0 };
    const own = { trainer, state, rowTokens: 1, hello: { limits: { maxBatchTokens: 9 } } } as unknown as Training;
    await run.enter("training");
    const end = before + 5;
    for (let number = before + 1; number <= end; number++) {
      await step(run, own, [row], { rate: 1, end, began: run.parts.clock.monotonicMs() });
      const { done, rate, seconds_left } = of("progress").at(-1)!;
      assert.deepEqual([done, rate, seconds_left], [number, 0.5, 2 * (end - number)]);
    }
    const last = of("progress").at(-1)!;
    const told = of("progress").length;
    pass(30);
    const again = of("progress").slice(told);
    assert.ok(again.length >= 3);
    for (const one of again) assert.deepEqual(one, last);
    await run.enter("checking");
  }
  run.close();
});

test("every row is in each epoch exactly once, in another order each time", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 1, max: 20 }), (rows, batch_size) => {
      const plan = training({ batch_size });
      const perEpoch = stepsPerEpoch(rows, batch_size);
      assert.equal(totalSteps(rows, plan), 3 * perEpoch);
      const epochs = [0, 1, 2].map((epoch) =>
        Array.from({ length: perEpoch }, (_, at) => batchOf(epoch * perEpoch + at + 1, rows, plan)).flat(),
      );
      for (const epoch of epochs)
        assert.deepEqual(
          [...epoch].sort((a, b) => a - b),
          Array.from({ length: rows }, (_, row) => row),
        );
      if (rows > 20) assert.notDeepEqual(epochs[0], epochs[1]);
    }),
  );
  assert.notDeepEqual(batchOf(1, 50, training()), batchOf(1, 50, training({ seed: 8 })));
  assert.equal(totalSteps(50, training({ max_steps: 5 })), 5);
  assert.equal(totalSteps(5, training({ max_steps: 500 })), 6);
});

test("the learning rate rises over the warm-up, peaks, and falls without reaching zero", () => {
  for (const kind of ["linear", "cosine"] as const) {
    const rates = Array.from({ length: 100 }, (_, at) => learningRateAt(at + 1, 100, 1e-3, optimizer(kind, 0.05)));
    assert.ok(Math.abs(rates[0]! - 2e-4) < 1e-12);
    assert.equal(rates[4], 1e-3);
    assert.equal(rates[5], 1e-3);
    for (let at = 6; at < 100; at++) assert.ok(rates[at]! < rates[at - 1]! && rates[at]! > 0);
  }
  assert.equal(learningRateAt(100, 100, 1e-3, optimizer("constant", 0)), 1e-3);
  assert.equal(learningRateAt(1, 1, 1e-3, optimizer("linear", 0)), 1e-3);
  // Steps stand in place of the share, and never for more than there are.
  const steps = (warmup_steps: number) => ({ ...optimizer("linear", 0.5), warmup_steps });
  assert.equal(learningRateAt(2, 100, 1e-3, steps(4)), 5e-4);
  assert.equal(learningRateAt(4, 100, 1e-3, steps(4)), 1e-3);
  assert.equal(learningRateAt(2, 2, 1e-3, steps(4)), 1e-3);
});

test("the rule for the learning rate gives the published figures, and what was measured for bases as narrow as the starter", () => {
  assert.ok(Math.abs(ruleLearningRate("llama", 4096) - 2.9e-4) < 1e-5);
  assert.ok(Math.abs(ruleLearningRate("llama", 2048) - 4.9e-4) < 1e-5);
  assert.ok(Math.abs(ruleLearningRate("qwen3", 2560) - 4.9e-4) < 1e-5);
  assert.ok(Math.abs(ruleLearningRate("llama", 1024) - 8.4e-4) < 1e-5);
  assert.equal(ruleLearningRate("llama", 576), 3e-3);
  assert.equal(ruleLearningRate("granite", 999), 5e-4);
});

test("calls hold their rows in order and stay within the tokens, but for a row that is longer alone", () => {
  assert.deepEqual(
    microBatches([3, 1, 2, 0], (row) => [9, 2, 4, 5][row]!, 8),
    [[3, 1], [2], [0]],
  );
  assert.deepEqual(
    microBatches([], () => 1, 8),
    [],
  );
});

test("doubles keep their bits in hex", () => {
  assert.equal(hexOfDouble(1), "3ff0000000000000");
  assert.notEqual(hexOfDouble(0.1 + 0.2), hexOfDouble(0.3));
});

test("a resumed log drops a torn last line and counts on", async () => {
  const path = join(newFolder(), "events.jsonl");
  const first = await openEventLog(path, 1, systemClock);
  await Promise.all([
    first.append({ kind: "phase", phase: "preparing" }),
    first.append({ kind: "progress", phase: "preparing", done: 1 }, { kind: "phase", phase: "training" }),
  ]);
  await first.close();
  for (const torn of ['{"seq":4,"fence":1,"at', '{"seq":4\u0000\u0000}\n']) {
    appendFileSync(path, torn);
    const next = await openEventLog(path, 2, systemClock);
    assert.equal(next.lastSeq, 3);
    await next.close();
  }
  const last = await openEventLog(path, 2, systemClock);
  await last.append({ kind: "resumed", phase: "training", from_step: 0 });
  await last.close();
  const events = readFileSync(path, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    events.map((event) => [event.seq, event.fence]),
    [
      [1, 1],
      [2, 1],
      [3, 1],
      [4, 2],
    ],
  );
});

test("a log that is damaged in its middle is refused, not mended", async () => {
  const path = join(newFolder(), "events.jsonl");
  writeFileSync(path, '{"seq":1}\n{"seq":3}\n{"seq":4}\n');
  await assert.rejects(openEventLog(path, 1, systemClock), /event 2 is missing/);
});

test("commands are answered once each, and take effect between steps", async () => {
  const replies: RunReply[] = [];
  const control = createControl((reply) => replies.push(reply));
  await control.turn();
  control.handle('{"seq":1,"command":"pause"}');
  let passed = false;
  const waiting = control.turn().then(() => {
    passed = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(passed, false);
  control.handle('{"seq":2,"command":"resume"}');
  await waiting;
  control.handle("nonsense");
  control.handle('{"seq":3,"command":"dance"}');
  control.handle('{"seq":4,"command":"pause"}');
  const stopped = assert.rejects(control.turn(), Stopped);
  control.handle('{"seq":5,"command":"stop"}');
  await stopped;
  assert.ok(control.signal.aborted);
  assert.throws(() => control.close(), Stopped);
  assert.deepEqual(
    replies.map((reply) => [reply.kind, reply.seq]),
    [
      ["ack", 1],
      ["ack", 2],
      ["refused", undefined],
      ["refused", undefined],
      ["ack", 4],
      ["ack", 5],
    ],
  );
});

test("a run that has finished refuses to stop", () => {
  const replies: RunReply[] = [];
  const control = createControl((reply) => replies.push(reply));
  control.close();
  control.handle('{"seq":1,"command":"stop"}');
  assert.equal(replies[0]?.kind, "refused");
  assert.equal(control.signal.aborted, false);
});

const identity = { request_sha256: "a", rows_sha256: "b" };
const build = { plumbline: "1", trainer: "1", device: "OpenBLAS Haswell", threads: 1, memory_bytes: 8 };
const stateAt = (step: number): LoopState => ({
  step,
  best: null,
  checksWithoutGain: 0,
  checks: [],
  losses: Array.from({ length: step }, (_, at) => 1 / (at + 3)),
  trainedTokens: step,
  processedTokens: step,
  trainSeconds: 0.1,
  rung: { index: 0, from: 0, before: 0 },
  ended: null,
  repair: null,
});

test("rungs without gain do not end the training, for its rate has not fallen yet; nothing left to gain does", async () => {
  const after = async (index: number, before: number, score: number) => {
    const state: LoopState = {
      ...stateAt(30),
      best: { step: 30, score, low: 0, high: 100, n: 40 },
      rung: { index, from: 10 * index, before },
    };
    const run = {
      request: { recipe: { training: { max_steps: null } } },
      events: { append: async () => {} },
    } as unknown as Run;
    const rows = [0, 1, 2].map((rung) => ({ kind: "cell", messages: [{ role: "assistant", content: "four" }], rung }));
    await climb(run, { state, rungs: [[0], [1], [2]], prepared: { rows } } as unknown as Training, "steps");
    return state.ended ?? [state.rung.index, state.rung.before];
  };
  assert.deepEqual(await after(0, 0, 0), [1, 0]);
  assert.deepEqual(await after(0, 0, 20), [1, 20]);
  assert.deepEqual(await after(1, 20, 20), [2, 20]);
  assert.equal(await after(0, 0, 100), "solved");
  assert.equal(await after(2, 30, 40), "steps");
});

test("rungs are found however many rows there are", () => {
  // A call takes about 125,000 arguments.
  const rows = Array.from({ length: 150_000 }, (_, at) => ({ kind: "cell", rung: at % 3 }));
  const rungs = rungsOf([...rows, { kind: "replay", rung: 3 }]);
  assert.deepEqual(
    rungs.map((own) => own.length),
    [50_000, 50_000, 50_000],
  );
  assert.deepEqual(rungs[1]!.slice(0, 2), [1, 4]);
  assert.deepEqual(rungsOf([]), []);
});

test("a report finds which missed answers were trained, and reads the rows only once for all of them", (t) => {
  const long = 10_000;
  const row = (content: string) => ({ kind: "cell", messages: [{ role: "assistant", content }] });
  const rows = [...Array.from({ length: long }, (_, at) => row(`lamp ${at}`)), row("The Harbour office.")];
  const answers = ["harbour office", "the town hall"].map((response, at) => ({
    item: { sample_num: at, instruction: "Where?", response, aliases: ["the pier"] },
    answer: "no",
    correct: false,
  }));
  const normalised = t.mock.method(String.prototype, "normalize");
  const { learned } = reportOf(
    {
      request: { recipe: { optimizer: {} }, documents: [], dev: null },
      parts: { interval: (right: number, n: number) => ({ score: right, low: 0, high: 0, n }) },
    } as unknown as Run,
    {
      ...{ state: stateAt(1), hello: {}, model: {}, rungs: [[0]] },
      prepared: { rows, report: { study: { coverage: { documents: [] } }, teacher: null } },
    } as unknown as Training,
    { chosen: { base: answers, answers, guards: null, candidates: [], penalty: 0 } } as never,
    {} as never,
    { model: {}, drift: null } as never,
  );
  assert.deepEqual(
    learned.missed.map(({ taught }) => taught),
    [true, false],
  );
  assert.equal(normalised.mock.calls.filter((call) => String(call.this).length > long).length, 1);
});

test("the last check is taken unless an earlier one is better by more than a standard error", () => {
  const check = (step: number, score: number) => ({ step, score, low: 0, high: 100, n: 40 });
  const taken = (...scores: number[]): number => {
    const checks = scores.map((score, at) => check(10 * (at + 1), score));
    const best = checks.reduce((one, other) => (other.score >= one.score ? other : one));
    return stepToTake({ best, checks, step: 99 });
  };
  // A fifth of 40 questions: 100 √(0.2 × 0.8 / 40) = 6.32 points.
  assert.equal(taken(5, 20, 15), 30);
  assert.equal(taken(5, 20, 12.5), 20);
  assert.equal(taken(5, 20, 20), 30);
  assert.equal(taken(100, 97.5), 10);
  assert.equal(taken(0, 0), 20);
  assert.equal(stepToTake({ best: null, checks: [check(0, 5)], step: 99 }), 99);
});

/** What a trainer's save does: a folder with one file. */
const saveOf = (content: string) => async (folder: string) => {
  mkdirSync(folder);
  writeFileSync(join(folder, "adapter.bin"), content);
  return [
    {
      name: "adapter.bin",
      bytes: Buffer.byteLength(content),
      sha256: createHash("sha256").update(content).digest("hex"),
    },
  ];
};

test("the newest checkpoint that verifies is found; damaged and foreign ones are not used", async () => {
  const folder = join(newFolder(), "checkpoints");
  const checkpoints = openCheckpoints(folder, identity, build);
  assert.deepEqual(await checkpoints.newest(), { found: null, damaged: [] });
  for (const step of [2, 4, 10]) await checkpoints.write(stateAt(step), { trained: saveOf(`step ${step}`) });
  const newest = (await checkpoints.newest()).found!;
  assert.equal(newest.step, 10);
  assert.deepEqual(newest.state, stateAt(10));

  writeFileSync(join(folder, "10", "trainer", "adapter.bin"), "step 11");
  const afterDamage = await checkpoints.newest();
  assert.equal(afterDamage.found?.step, 4);
  assert.deepEqual(afterDamage.damaged, [10]);

  writeFileSync(join(folder, "4", "manifest.json"), "{");
  rmSync(join(folder, "2", "state.json"));
  assert.deepEqual(await checkpoints.newest(), { found: null, damaged: [4, 2] });

  await checkpoints.write(stateAt(2), { trained: saveOf("again") });
  const other = openCheckpoints(folder, { ...identity, rows_sha256: "c" }, build);
  assert.equal(await other.at(2), null);
  assert.equal((await checkpoints.at(2))?.step, 2);
});

test("a moving average is part of a checkpoint: one whose average is damaged is not used", async () => {
  const folder = join(newFolder(), "checkpoints");
  const checkpoints = openCheckpoints(folder, identity, build);
  for (const step of [1, 2])
    await checkpoints.write(stateAt(step), { trained: saveOf("policy"), average: saveOf(`average ${step}`) });
  const { averageFolder } = (await checkpoints.newest()).found!;
  assert.equal(readFileSync(join(averageFolder, "adapter.bin"), "utf8"), "average 2");
  writeFileSync(join(averageFolder, "adapter.bin"), "average 3");
  assert.deepEqual((await checkpoints.newest()).damaged, [2]);
});

test("pruning keeps the newest and the best, never fewer than two", async () => {
  const folder = join(newFolder(), "checkpoints");
  const checkpoints = openCheckpoints(folder, identity, build);
  for (const step of [1, 2, 3, 4, 5]) {
    await checkpoints.write(stateAt(step), { trained: saveOf(`step ${step}`) });
    await checkpoints.prune(2, 1);
  }
  assert.deepEqual(readdirSync(folder).sort(), ["1", "4", "5"]);
  await checkpoints.prune(1, null);
  assert.deepEqual(readdirSync(folder).sort(), ["4", "5"]);
});

test("a save that breaks off leaves a temporary and no checkpoint", async () => {
  const folder = join(newFolder(), "checkpoints");
  const checkpoints = openCheckpoints(folder, identity, build);
  const trained = async (): Promise<never> => {
    throw new Error("disk");
  };
  const broken = checkpoints.write(stateAt(1), { trained });
  await assert.rejects(broken, /disk/);
  assert.ok(readdirSync(folder).every(isTemporary));
  await removeTemporaries(folder);
  assert.deepEqual(readdirSync(folder), []);
});

test("a share of the layers, counted from the output, has an adapter", () => {
  const adapter = { mode: "lora", rank: 8, alpha: 8, train_attn: true, train_mlp: true } as const;
  const firstOf = (top_layers: number | undefined, layers: number) =>
    shapeOf({ adapter: { ...adapter, ...(top_layers && { top_layers }) }, training: training() }, layers).firstLayer;
  assert.deepEqual([firstOf(undefined, 30), firstOf(1, 30), firstOf(2 / 3, 30), firstOf(0.667, 30)], [0, 0, 10, 10]);
  assert.deepEqual([firstOf(0.01, 30), firstOf(0.5, 1)], [29, 0], "at least one layer");
});
