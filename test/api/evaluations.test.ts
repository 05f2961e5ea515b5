// Evaluations from request to score, around a real store, queue, runner and grading thread; the engine is one that looks its
// answers up, in the same groups as the real one.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { createLog } from "../../src/base/log.ts";
import { sleep, systemClock } from "../../src/base/time.ts";
import { noTraces } from "../../src/base/traces.ts";
import type { Caller, Endpoint } from "../../src/contract/endpoint.ts";
import { evaluations as promises } from "../../src/contract/evaluations.ts";
import { compile } from "../../src/contract/validate.ts";
import type { BenchmarkItem } from "../../src/domain/evaluations/asking.ts";
import { createGrading } from "../../src/domain/evaluations/grading.ts";
import { createEvaluations } from "../../src/domain/evaluations/index.ts";
import { createEvaluateWorker, type EvaluatedModel } from "../../src/domain/evaluations/job.ts";
import { headlineOf } from "../../src/domain/evaluations/results.ts";
import { prepareEvaluations } from "../../src/domain/evaluations/store.ts";
import type { EvaluatedAnswer, EvaluateRequest, Generator } from "../../src/engine/generator.ts";
import { createQueue } from "../../src/jobs/queue.ts";
import { createRunner } from "../../src/jobs/runner.ts";
import { openStore } from "../../src/store/open.ts";
import { calibrationWith, modelOf } from "../helpers/calibration.ts";
import { letters } from "../helpers/letters.ts";

const ada: Caller = { userId: "user_ada", userName: "ada", keyId: "key_ada" };
const bob: Caller = { userId: "user_bob", userName: "bob", keyId: "key_bob" };

const tokenizer = letters({
  bos: 1,
  vocabulary: 70_000,
  chatTemplate: "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>",
});

const calibration = calibrationWith({ model: modelOf("logprob_mean", 0) });

/** 20 items: 1–4 dev, 5–18 sealed, 19 and 20 retention. The gold of item n is its number times 10. */
const items: BenchmarkItem[] = Array.from({ length: 20 }, (_, index) => ({
  sample_num: index + 1,
  instruction: `What is the value of thing ${index + 1}?`,
  response: String(10 * (index + 1)),
  aliases: [],
  cluster: `item ${index + 1}`,
  split: index < 4 ? "dev" : index < 18 ? "sealed" : "retention",
  type: "short",
  tolerance: null,
  choices: [],
  rubric: [],
}));

/** What a model says to item n. */
type Says = (sampleNum: number) => string;

interface Engine {
  /** Items that were answered, in order, over all starts. */
  asked: number[];
  leased: number;
  /** Dies before this item, once. */
  failsAt: { item: number; error: unknown } | null;
  /** Waits before each group until told. */
  gate: Promise<void> | null;
  /** Waits before this item until told. */
  pause: { item: number; until: Promise<void> } | null;
}

/** What a model finds likely: the log-prob of a text after a prompt. */
type Likes = (prompt: string, text: string) => number;

function fakeGenerator(engine: Engine, says: Record<string, Says>, likes: Likes): Generator {
  const answerOf = (text: string): EvaluatedAnswer => ({
    text,
    tokens: tokenizer.encode(text, false),
    steps: [...text].map(() => ({
      logprob: -0.5,
      top: { tokens: new Int32Array(64), logits: new Float32Array(64) },
    })),
    finishReason: "stop",
    seconds: 0.01,
  });
  async function evaluate({ model, prompts, startAt, signal, onItem }: EvaluateRequest): Promise<void> {
    assert.equal(startAt % 8, 0);
    for (let first = startAt; first < prompts.length; first += 8) {
      await engine.gate;
      await sleep(2);
      signal.throwIfAborted();
      const group = prompts.slice(first, first + 8);
      if (engine.failsAt && engine.failsAt.item <= first + group.length) {
        const { error } = engine.failsAt;
        engine.failsAt = null;
        throw error;
      }
      for (const [offset, prompt] of group.entries()) {
        const number = Number(/thing (\d+)/.exec(tokenizer.decode(prompt))![1]);
        if (engine.pause?.item === number) await engine.pause.until;
        engine.asked.push(number);
        onItem(first + offset, answerOf(says[model.adapter?.id ?? model.baseId]!(number)));
      }
    }
  }
  const score: Generator["score"] = async (_, rows) =>
    rows.map(({ tokens, promptLength }) => {
      const text = tokenizer.decode(tokens.slice(promptLength));
      const logprob = likes(tokenizer.decode(tokens.slice(0, promptLength)), text);
      return new Float64Array(text.length).fill(logprob / text.length);
    });
  return { evaluate, score, tokenizer: () => tokenizer } as unknown as Generator;
}

const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

const right: Says = (n) => `It is ${10 * n}.`;

async function evaluationsHouse(says: Record<string, Says>, asked = items, likes: Likes = () => -1) {
  const data = mkdtempSync(join(tmpdir(), "plumbline-evaluations-"));
  folders.push(data);
  const engine: Engine = { asked: [], leased: 0, failsAt: null, gate: null, pause: null };
  const generator = fakeGenerator(engine, says, likes);
  let parts = build();
  seed(parts.store, asked);

  function build(engineName = "fake 1") {
    const log = createLog("error", () => {});
    const store = openStore(join(data, "db"));
    const queue = createQueue({ store, clock: systemClock, log });
    const runner = createRunner({ queue, log, traces: noTraces });
    const sql = prepareEvaluations(store);
    const grading = createGrading();
    const findModel = (ownerId: string, id: string): EvaluatedModel & { modelId: string; baseId: string } => {
      if (!(id in says) || (id !== "model_base" && ownerId !== ada.userId)) throw new Failure("not_found");
      const ref = { baseId: "model_base", basePath: "/b" };
      const files = { baseSha256: "b", adapterSha256: id === "model_base" ? null : "a" };
      if (id === "model_base") return { modelId: id, baseId: id, ref, calibration: null, ...files };
      return { modelId: id, baseId: "model_base", ref: { ...ref, adapter: { id, path: "/a" } }, calibration, ...files };
    };
    const room = createEvaluations({
      store,
      sql,
      queue,
      clock: systemClock,
      wake: runner.wake,
      findModel,
      findBenchmark: (ownerId, id) => {
        if (id !== "benchmark_ada" || ownerId !== ada.userId) throw new Failure("not_found");
        return { name: "things" };
      },
      itemsOf: () => asked,
      answeredOf: (id) => evaluate.answered(id),
      waitingFor: (id) => evaluate.waitingFor(id),
      stopAnswering: (id) => evaluate.stop(id),
      audit: () => {},
    });
    const evaluate = createEvaluateWorker({
      store,
      sql,
      queue,
      clock: systemClock,
      generator,
      grading,
      engine: engineName,
      // Of the fourth thing the documents are not sure to speak.
      drift: { of: async (_, question) => ({ outOfDomain: /thing 4\b/.test(question) ? 0.5 : 0 }) },
      itemsOf: () => asked,
      findModel,
      lease: async () => {
        engine.leased++;
        return { release: async () => void engine.leased-- };
      },
    });
    queue.recover();
    runner.start({ evaluate });
    const close = async () => {
      await runner.stop();
      await grading.close();
      store.close();
    };
    return { store, queue, room, close };
  }

  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
  const call = async (name: keyof typeof promises, given: object, caller = ada): Promise<any> => {
    const endpoint: Endpoint = promises[name];
    const checked = endpoint.body ? compile(endpoint.body)(given) : null;
    if (checked?.ok === false) throw new Failure("validation", undefined, { details: checked.details });
    const input = checked ? { body: checked.value, keepReply: () => {} } : { params: given };
    const handler = parts.room.handlers[name] as (input: unknown, caller: Caller) => Promise<unknown>;
    const reply = await handler(input, caller);
    const kept = compile(endpoint.reply)(structuredClone(reply));
    assert.ok(kept.ok, JSON.stringify(kept));
    return reply;
  };
  return {
    engine,
    call,
    get parts() {
      return parts;
    },
    async evaluate(model_id: string, more: object = {}) {
      const body = { model_id, benchmark_id: "benchmark_ada", ...more };
      const { evaluation_id } = await call("evaluations.create", body);
      return evaluation_id as string;
    },
    // biome-ignore lint/suspicious/noExplicitAny: likewise
    async until(evaluation_id: string, status: string): Promise<any> {
      for (let tries = 0; tries < 1000; tries++) {
        const found = await call("evaluations.get", { evaluation_id });
        assert.ok(found.n_samples_completed <= found.n_samples);
        if (found.status === status) return found;
        await sleep(10);
      }
      assert.fail(`never ${status}: ${JSON.stringify(await call("evaluations.get", { evaluation_id }))}`);
    },
    async restart(engineName?: string) {
      await parts.close();
      parts = build(engineName);
    },
    close: () => parts.close(),
  };
}

function seed(store: ReturnType<typeof openStore>, items: readonly BenchmarkItem[]): void {
  for (const { userId, userName } of [ada, bob])
    store.prepare<[string, string]>("INSERT INTO user VALUES(?, ?, '')").run(userId, userName);
  store
    .prepare(
      "INSERT INTO base_model VALUES('model_base', 'b', 'llama', 64, 1, 'F32', 1, 1, 1, NULL, NULL, 'a', '/b', 1, '', 'text', 0)",
    )
    .run();
  store
    .prepare(
      "INSERT INTO document VALUES('d', 'user_ada', 'benchmark', 'b', 'text/plain', 1, 1, 'x', 'x', 1, '', NULL, NULL, NULL)",
    )
    .run();
  store
    .prepare(
      "INSERT INTO benchmark(id, owner_id, document_id, name, sha256, created_seq, created_at, updated_at) VALUES('benchmark_ada', 'user_ada', 'd', 'things', 'x', 1, '', '')",
    )
    .run();
  const add = store.prepare<[number, string, string, string, string, string]>(
    `INSERT INTO benchmark_item(benchmark_id, sample_num, instruction, response, aliases_json, cluster, split, choices_json)
     VALUES('benchmark_ada', ?, ?, ?, '[]', ?, ?, ?)`,
  );
  for (const { sample_num, instruction, response, cluster, split, choices } of items)
    add.run(sample_num, instruction, response, cluster, split, JSON.stringify(choices));
}

const fails =
  (status: number, words: RegExp = /./) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof Failure, String(error));
    assert.equal(error.status, status, error.message);
    assert.match(error.message, words);
    return true;
  };

test("what is refused: models and benchmarks of others or unknown, and results before the end", async () => {
  const house = await evaluationsHouse({ model_base: right, model_mine: right });
  const gate = Promise.withResolvers<void>();
  house.engine.gate = gate.promise;
  try {
    const create = (model_id: string, benchmark_id: string, caller = ada) =>
      house.call("evaluations.create", { model_id, benchmark_id }, caller);
    await assert.rejects(create("model_none", "benchmark_ada"), fails(404));
    await assert.rejects(create("model_mine", "benchmark_none"), fails(404));
    await assert.rejects(create("model_mine", "benchmark_ada", bob), fails(404));
    await assert.rejects(create("model_base", "benchmark_ada", bob), fails(404));
    await assert.rejects(house.call("evaluations.create", { model_id: "model_mine" }), fails(422));
    const id = await house.evaluate("model_mine");
    await assert.rejects(house.call("evaluations.get", { evaluation_id: id }, bob), fails(404));
    await assert.rejects(house.call("evaluations.results", { evaluation_id: id }, bob), fails(404));
    const live = await house.until(id, "PROCESSING");
    assert.equal(live.eta_seconds, null);
    assert.equal(live.completed_at, null);
    assert.equal(live.progress_detail.total, 20);
    await assert.rejects(house.call("evaluations.results", { evaluation_id: id }), fails(409, /PROCESSING/));
    gate.resolve();
    await house.until(id, "READY");
  } finally {
    gate.resolve();
    await house.close();
  }
});

test("progress counts every answer, also while its group is not written", async () => {
  const house = await evaluationsHouse({ model_base: right, model_mine: right });
  const { promise: until, resolve } = Promise.withResolvers<void>();
  house.engine.pause = { item: 12, until };
  try {
    const id = await house.evaluate("model_mine");
    const get = () => house.call("evaluations.get", { evaluation_id: id });
    // The first group is written a moment after it is answered.
    let last = { done: 0, written: 0 };
    for (let tries = 0; last.done < 11 || last.written < 8; tries++) {
      assert.ok(tries < 3000, JSON.stringify(last));
      const { progress_detail, n_samples_completed } = await get();
      const now = { done: progress_detail?.done ?? 0, written: n_samples_completed };
      assert.ok(now.done >= last.done && now.done >= now.written, JSON.stringify([last, now]));
      last = now;
      await sleep(10);
    }
    assert.deepEqual([last, (await get()).progress], [{ done: 11, written: 8 }, 55]);
    resolve();
    assert.equal((await house.until(id, "READY")).n_samples_completed, 20);
  } finally {
    resolve();
    await house.close();
  }
});

test("an evaluation to its scores, item by item", async () => {
  const wrong = new Set([2, 6, 7, 19]);
  const house = await evaluationsHouse({
    model_base: right,
    // Item 7 is answered with another item's gold beside the right one.
    model_mine: (n) => (n === 7 ? "70 or 80" : n === 6 ? "" : wrong.has(n) ? "No idea" : right(n)),
  });
  try {
    const id = await house.evaluate("model_mine");
    const done = await house.until(id, "READY");
    assert.equal(done.progress, 100);
    assert.equal(done.evaluation_name, "model_mine on things");
    assert.ok(done.avg_time_per_sample > 0 && done.completed_at !== null && done.progress_detail === null);
    const results = await house.call("evaluations.results", { evaluation_id: id });
    assert.deepEqual([results.n, results.splits.dev.n, results.splits.retention.n], [14, 4, 2]);
    assert.ok(Math.abs(results.score - (100 * 12) / 14) < 1e-9 && results.low < results.score);
    assert.equal(results.splits.dev.score, 75);
    assert.equal(results.paired, null);
    assert.equal(results.items.length, 20);
    for (const item of results.items) {
      assert.equal(item.correct, !wrong.has(item.sample_num), JSON.stringify(item));
      assert.equal(item.confidence_score, item.answer === "" ? 0 : item.sample_num === 4 ? 25 : 50);
      assert.match(item.prompt_sha256, /^[0-9a-f]{64}$/);
    }
    assert.equal(results.settings.max_tokens, 48);
    assert.match(results.settings.template_sha256, /^[0-9a-f]{64}$/);
    assert.equal(house.engine.leased, 0);
    assert.deepEqual(house.parts.room.ofModel("model_mine")[0], {
      evaluation_id: id,
      benchmark_id: "benchmark_ada",
      status: "READY",
      result: { score: results.score, low: results.low, high: results.high, n: 14 },
    });
  } finally {
    await house.close();
  }
});

test("the comparison with the base: sealed items alone, and also when the base comes later", async () => {
  const house = await evaluationsHouse({
    // Of the sealed items the base has 5 and 6 right, the aligned model all but 5.
    model_base: (n) => (n === 5 || n === 6 || n <= 4 ? right(n) : "No idea"),
    model_mine: (n) => (n === 5 ? "No idea" : right(n)),
  });
  try {
    const early = await house.evaluate("model_mine");
    await house.until(early, "READY");
    assert.equal((await house.call("evaluations.results", { evaluation_id: early })).paired, null);
    const base = await house.evaluate("model_base");
    await house.until(base, "READY");
    const ofBase = await house.call("evaluations.results", { evaluation_id: base });
    assert.deepEqual([ofBase.headline, ofBase.paired], [null, null]);
    assert.ok(ofBase.items.every((item: { confidence_score: unknown }) => item.confidence_score === null));
    const late = await house.evaluate("model_mine");
    await house.until(late, "READY");
    for (const id of [early, late]) {
      const { paired, headline } = await house.call("evaluations.results", { evaluation_id: id });
      assert.equal(headline, "A gain of 78.6 points over the base, more than chance explains");
      assert.equal(paired.compared_with, "model_base");
      assert.equal(paired.evaluation_id, base);
      assert.deepEqual([paired.gained, paired.lost], [12, 1]);
      assert.ok(Math.abs(paired.difference - (100 * 11) / 14) < 1e-9);
      assert.ok(Math.abs(paired.p_value - (2 * 14) / 2 ** 13) < 1e-12);
      assert.ok(paired.minimum_detectable > 0);
    }
  } finally {
    await house.close();
  }
});

test("a model that is no better than its base is said first to be none to deploy, and what fell is named", async () => {
  const house = await evaluationsHouse({ model_base: right, model_mine: right, model_bit: right });
  const said = async (id: string) => (await house.call("evaluations.results", { evaluation_id: id })).headline;
  try {
    await house.until(await house.evaluate("model_base"), "READY");
    const same = await house.evaluate("model_mine");
    await house.until(same, "READY");
    assert.equal(await said(same), "No gain: do not deploy");
    const first = Object.keys(await house.call("evaluations.results", { evaluation_id: same }))[0];
    assert.equal(first, "headline");
  } finally {
    await house.close();
  }
  const paired = { compared_with: "b", evaluation_id: "e", difference: 3, p_value: 0.3, minimum_detectable: 12.34 };
  const items = (lost: number) =>
    Array.from({ length: lost }, (_, at) => ({ item: `${at}`, text: "", base: 1, aligned: 0 }));
  const guard = (name: string, lost: number) => ({ name, n: 50, base: 80, aligned: 70, items: items(lost) });
  assert.equal(
    headlineOf(paired as never, [
      guard("retention", 9),
      guard("format", 2),
      { ...guard("kl", 0), aligned: 0.6, most: 0.5 },
    ]),
    "No gain beyond chance: do not deploy. A true gain of 12.3 points would probably have been detected; the model got worse at what the base could do: retention, kl",
  );
});

test("going down in the middle: it goes on at a group's border, and no item is answered twice", async () => {
  const house = await evaluationsHouse({ model_base: right, model_mine: (n) => (n % 3 === 0 ? "No idea" : right(n)) });
  try {
    const alone = await house.evaluate("model_mine");
    await house.until(alone, "READY");
    const expected = await house.call("evaluations.results", { evaluation_id: alone });
    house.engine.asked.length = 0;

    // Answers the first group, and then waits.
    const gate = Promise.withResolvers<void>();
    let passed = false;
    Object.defineProperty(house.engine, "gate", {
      get: () => {
        if (passed) return gate.promise;
        passed = true;
        return null;
      },
    });
    const id = await house.evaluate("model_mine");
    while ((await house.call("evaluations.get", { evaluation_id: id })).n_samples_completed < 8) await sleep(10);
    const down = house.restart();
    gate.resolve();
    await down;
    await house.until(id, "READY");
    assert.deepEqual(
      house.engine.asked,
      Array.from({ length: 20 }, (_, index) => index + 1),
    );
    const found = await house.call("evaluations.results", { evaluation_id: id });
    // What the first did to the sealed split is on record beside the second.
    assert.equal(found.sealed_touches.n, expected.sealed_touches.n + 1);
    const same = { evaluation_id: "", sealed_touches: null };
    assert.deepEqual({ ...found, ...same }, { ...expected, ...same });
    assert.equal(house.parts.queue.of(id, "evaluate")!.fence, 2);
  } finally {
    await house.close();
  }
});

test("another engine in the middle would make one score of two things: it fails", async () => {
  const house = await evaluationsHouse({ model_base: right });
  try {
    const gate = Promise.withResolvers<void>();
    let passed = false;
    Object.defineProperty(house.engine, "gate", {
      get: () => {
        if (passed) return gate.promise;
        passed = true;
        return null;
      },
    });
    const id = await house.evaluate("model_base");
    while ((await house.call("evaluations.get", { evaluation_id: id })).n_samples_completed < 8) await sleep(10);
    const down = house.restart("fake 2");
    gate.resolve();
    await down;
    const found = await house.until(id, "FAILED");
    assert.match(found.error, /changed during this evaluation/);
    assert.ok(found.completed_at !== null);
    await assert.rejects(house.call("evaluations.results", { evaluation_id: id }), fails(409, /FAILED/));
  } finally {
    await house.close();
  }
});

test("an engine that fails is the evaluation's error, and the model is given back", async () => {
  const house = await evaluationsHouse({ model_base: right });
  try {
    house.engine.failsAt = { item: 12, error: new Failure("out_of_memory", "No room for the model") };
    const id = await house.evaluate("model_base");
    const found = await house.until(id, "FAILED");
    assert.equal(found.error, "No room for the model");
    assert.equal(found.n_samples_completed, 8);
    assert.equal(house.engine.leased, 0);
    assert.equal(house.parts.room.ofModel("model_base")[0]!.result, null);
  } finally {
    await house.close();
  }
});

const typed = (sample_num: number, more: Partial<BenchmarkItem>): BenchmarkItem => ({
  ...items[4]!,
  sample_num,
  instruction: `What is the value of thing ${sample_num}?`,
  cluster: `item ${sample_num}`,
  split: "sealed",
  ...more,
});

const rubric: BenchmarkItem["rubric"] = [
  { id: "r1", text: "Names the pier", weight: 3, level: "essential" },
  { id: "r2", text: "Names the hour", weight: 1, level: "important" },
];

/** Two of each type, in an order that no group has. */
const ofAllTypes: BenchmarkItem[] = [
  typed(1, { type: "choice", response: "the north pier", choices: ["a", "the north pier", "south"] }),
  typed(2, { type: "long", response: "At the pier, at six.", rubric }),
  typed(3, { type: "short", response: "Ada" }),
  typed(4, { type: "numeric", response: "40 km", tolerance: 0.5 }),
  typed(5, { type: "refusal", response: "Not stated in the documents." }),
  typed(6, { type: "choice", response: "south", choices: ["a", "the north pier", "south"] }),
  typed(7, { type: "long", response: "At the gate, at seven.", rubric }),
  typed(8, { type: "numeric", response: "12" }),
  typed(9, { type: "refusal", response: "Not stated in the documents." }),
  typed(10, { type: "short", response: "Lovelace" }),
];

test("each type is answered and graded its own way, and the record of each item says how", async () => {
  const answers: Record<number, string> = {
    2: "At the pier.",
    3: "It is Ada.",
    4: "40.4 kilometres",
    5: "I'm sorry, the documents do not say.",
    7: "At six",
    8: "13",
    9: "It is 5 euros.",
    10: "Ada",
  };
  // Item 1: the long choice is less likely as a whole, and more likely by character. Of item 6 it is wrong both ways.
  const likes = (prompt: string, text: string): number => {
    if (/Requirement: (.*)\n/.test(prompt)) {
      const [, answer, requirement] = /to be checked: (.*)\nRequirement: Names the (.*)\n/.exec(prompt)!;
      const met = requirement === "pier" ? answer!.includes("pier") : /six|seven/.test(answer!);
      return (text === "Yes") === met ? -0.1 : -3;
    }
    return text === "a" ? -2 : text === "south" ? -12 : -14 * 0.5;
  };
  const house = await evaluationsHouse({ model_base: right, model_mine: (n) => answers[n]! }, ofAllTypes, likes);
  try {
    const id = await house.evaluate("model_mine");
    await house.until(id, "READY");
    const results = await house.call("evaluations.results", { evaluation_id: id });
    // biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
    const byNumber = new Map<number, any>(results.items.map((item: any) => [item.sample_num, item]));
    const scores = Array.from({ length: 10 }, (_, index) => byNumber.get(index + 1).score);
    assert.deepEqual(scores, [1, 0.75, 1, 1, 1, 0, 0.25, 0, 0, 0]);
    assert.deepEqual(
      ofAllTypes.map(({ sample_num }) => byNumber.get(sample_num).correct),
      [true, false, true, true, true, false, false, false, false, false],
    );
    const { graded_by } = byNumber.get(1);
    assert.deepEqual(
      [graded_by.by, graded_by.chosen, graded_by.chosen_unnormalised, graded_by.seed],
      ["likelihood", 1, 0, null],
    );
    assert.deepEqual(graded_by.logprobs.map(Math.round), [-2, -7, -12]);
    assert.equal(byNumber.get(1).confidence_score, null);
    assert.deepEqual(
      byNumber.get(2).graded_by.points.map(({ id, met }: { id: string; met: boolean }) => [id, met]),
      [
        ["r1", true],
        ["r2", false],
      ],
    );
    assert.equal(byNumber.get(5).graded_by.reason, "declined");
    assert.equal(byNumber.get(4).graded_by.reason, "within_tolerance");
    assert.equal(byNumber.get(2).graded_by.max_tokens, 256);
    // Of four points that references meet, the judge misses the pier of item 7; what other items say, it finds to lack all four.
    const { judge } = results;
    assert.deepEqual([judge.model_id, judge.same_base], ["model_base", true]);
    assert.deepEqual([judge.sensitivity.score, judge.sensitivity.n], [75, 4]);
    assert.deepEqual([judge.specificity.score, judge.specificity.n], [100, 4]);
    assert.equal(judge.observed, 50);
    assert.equal(judge.corrected, null, "four points show nothing of a judge");
    assert.equal(results.method, "cluster_bootstrap");
    // biome-ignore lint/suspicious/noExplicitAny: likewise
    const choice = results.types.find(({ type }: any) => type === "choice");
    assert.deepEqual([choice.score, choice.n, Math.round(choice.chance)], [50, 2, 33]);
    assert.deepEqual(results.settings.judge, { model_id: "model_base" });
    assert.equal(house.engine.leased, 0);
  } finally {
    await house.close();
  }
});

test("a judge's errors are measured on references to other facts than the item's own", async () => {
  const pier = { cluster: "the pier", response: "At the pier, at six." };
  const gate = { cluster: "the gate", response: "At the gate, at seven." };
  const asked = [pier, pier, gate].map((fact, at) => typed(at + 1, { ...fact, type: "long", rubric: [rubric[0]!] }));
  // The requirement is met if the answer is the item's own reference.
  const likes = (prompt: string, text: string): number => {
    const [, reference, answer] = /Reference answer: (.*)\nAnswer to be checked: (.*)\n/.exec(prompt)!;
    return (text === "Yes") === (answer === reference) ? -0.1 : -3;
  };
  const house = await evaluationsHouse({ model_base: right }, asked, likes);
  try {
    const id = await house.evaluate("model_base");
    await house.until(id, "READY");
    const { judge } = await house.call("evaluations.results", { evaluation_id: id });
    assert.deepEqual([judge.sensitivity.score, judge.sensitivity.n], [100, 3]);
    assert.deepEqual([judge.specificity.score, judge.specificity.n], [100, 3]);
  } finally {
    await house.close();
  }
});

test("the dev split alone leaves the sealed one untouched; each use of that is on record", async () => {
  const house = await evaluationsHouse({ model_base: right, model_mine: right });
  try {
    const dev = await house.evaluate("model_mine", { splits: ["dev"] });
    await house.until(dev, "READY");
    const early = await house.call("evaluations.results", { evaluation_id: dev });
    assert.deepEqual([early.items.length, early.n, early.splits.dev.n, early.sealed_touches.n], [4, 0, 4, 0]);
    assert.equal(early.minimum_detectable, 100);
    await assert.rejects(house.evaluate("model_mine", { splits: [] }), fails(422));
    await assert.rejects(house.evaluate("model_mine", { splits: ["test"] }), fails(422));

    const [mine, base] = [await house.evaluate("model_mine"), await house.evaluate("model_base")];
    for (const id of [mine, base]) await house.until(id, "READY");
    await house.call("evaluations.compare", {
      model_id: "model_mine",
      compared_with: "model_base",
      benchmark_id: "benchmark_ada",
    });
    const { sealed_touches, minimum_detectable } = await house.call("evaluations.results", { evaluation_id: mine });
    assert.deepEqual([sealed_touches.n, sealed_touches.models], [4, 2]);
    assert.deepEqual(
      sealed_touches.latest.map(({ purpose, model_id }: Record<string, string>) => [purpose, model_id]),
      [
        ["comparison", "model_base"],
        ["comparison", "model_mine"],
        ["evaluation", "model_base"],
        ["evaluation", "model_mine"],
      ],
    );
    assert.ok(minimum_detectable > 30, "14 items show only large differences");
    assert.throws(() => house.parts.store.prepare("DELETE FROM sealed_touch").run(), /append-only/);
  } finally {
    await house.close();
  }
});

test("two models side by side, item by item; what cannot be compared says why", async () => {
  const house = await evaluationsHouse({
    model_base: (n) => (n % 2 === 0 ? right(n) : "No idea"),
    model_mine: (n) => (n === 6 ? "No idea" : right(n)),
    model_other: right,
  });
  const compare = (model_id: string, compared_with: string, caller = ada) =>
    house.call("evaluations.compare", { model_id, compared_with, benchmark_id: "benchmark_ada" }, caller);
  try {
    await assert.rejects(compare("model_mine", "model_none"), fails(404));
    await assert.rejects(compare("model_mine", "model_base", bob), fails(404));
    await assert.rejects(compare("model_mine", "model_base"), fails(409, /model_mine has no finished evaluation/));
    for (const id of [await house.evaluate("model_mine"), await house.evaluate("model_base")])
      await house.until(id, "READY");
    const dev = await house.evaluate("model_other", { splits: ["dev"] });
    await house.until(dev, "READY");
    const found = await compare("model_mine", "model_base");
    const { sealed } = found.splits;
    // Of 14 sealed items, 5 to 18, the base has the 7 even ones.
    assert.deepEqual([sealed.n, sealed.gained, sealed.lost, sealed.method], [14, 7, 1, "mcnemar"]);
    assert.ok(Math.abs(sealed.difference - (100 * 6) / 14) < 1e-9 && sealed.low < sealed.difference);
    assert.ok(Math.abs(sealed.p_value - (2 * 9) / 2 ** 8) < 1e-12);
    assert.equal(found.items.length, 20);
    // biome-ignore lint/suspicious/noExplicitAny: likewise
    const six = found.items.find(({ sample_num }: any) => sample_num === 6);
    assert.deepEqual([six.outcome, six.model.answer, six.compared.answer], ["lost", "No idea", "It is 60."]);
    assert.ok(found.scores.sealed.score > found.compared_scores.sealed.score);
    // One that was only asked dev items has no sealed evaluation.
    await assert.rejects(compare("model_other", "model_base"), fails(409, /model_other/));
  } finally {
    await house.close();
  }
});

test("one that is being answered can be stopped: the engine is free at once, and it can be deleted", async () => {
  const house = await evaluationsHouse({ model_base: right });
  try {
    const go = Promise.withResolvers<void>();
    house.engine.gate = go.promise;
    const id = await house.evaluate("model_base");
    const queued = await house.evaluate("model_base");
    await house.until(id, "PROCESSING");
    await assert.rejects(house.call("evaluations.delete", { evaluation_id: id }), fails(409));
    await assert.rejects(house.call("evaluations.stop", { evaluation_id: id }, bob), fails(404));
    assert.equal((await house.call("evaluations.stop", { evaluation_id: queued })).status, "FAILED");
    await house.call("evaluations.stop", { evaluation_id: id });
    go.resolve();
    const { error, stopped, waiting_for } = await house.until(id, "FAILED");
    assert.deepEqual([error, stopped, waiting_for], ["The evaluation was stopped", true, null]);
    assert.deepEqual([house.engine.asked, house.engine.leased], [[], 0]);
    await assert.rejects(house.call("evaluations.stop", { evaluation_id: id }), fails(409, /has already ended/));
    assert.throws(() => house.parts.room.stopAny("evaluation_none"), fails(404));
    await house.call("evaluations.delete", { evaluation_id: id });
    // The next one is not held up.
    house.engine.gate = null;
    await house.until(await house.evaluate("model_base"), "READY");
  } finally {
    await house.close();
  }
});

test("one that others leave no memory for goes back to the queue, says so, and goes on where it was", async () => {
  const house = await evaluationsHouse({ model_base: right });
  const full = (fitsAlone: boolean): Failure =>
    new Failure("out_of_memory", "evaluation:model_base needs 400 MiB; 3 MiB of 800 MiB are free", {
      context: { fitsAlone },
    });
  try {
    house.engine.failsAt = { item: 12, error: full(true) };
    const id = await house.evaluate("model_base");
    let waited = "";
    for (let tries = 0; tries < 500 && waited === ""; tries++) {
      await sleep(10);
      const { status, waiting_for } = await house.call("evaluations.get", { evaluation_id: id });
      if (waiting_for !== null) waited = `${status}: ${waiting_for}`;
    }
    assert.match(waited, /^QUEUED: .*3 MiB of 800 MiB are free/);
    const done = await house.until(id, "READY");
    assert.equal(done.waiting_for, null);
    assert.deepEqual(
      house.engine.asked,
      items.map(({ sample_num }) => sample_num),
    );
    // What would not fit if it were alone waits for nothing.
    house.engine.failsAt = { item: 1, error: full(false) };
    assert.match((await house.until(await house.evaluate("model_base"), "FAILED")).error, /400 MiB/);
  } finally {
    await house.close();
  }
});
