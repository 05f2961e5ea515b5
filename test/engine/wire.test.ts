// The wire from outside: the frames of native/protocol.md against the real worker, and everything a caller can do wrong.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { installation } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { type Child, type Ended, startProcess } from "../../src/base/processes.ts";
import { startTrainer } from "../../src/engine/train/trainer-process.ts";
import { type Answer, encodeRequest, readAnswers, WireError, wireLimits, write } from "../../src/engine/train/wire.ts";
import {
  executable,
  openWorker,
  rowsOf,
  scratch,
  silentLog,
  startWorker,
  tinyModel,
  tinyShape,
} from "./trainer-fixture.ts";

interface Exchange {
  head: Record<string, unknown>;
  arrays: number[][];
  expected: Record<string, unknown>;
}

/** The `>` and `<` lines of the protocol's examples. */
function exampleFrames(): Exchange[] {
  const lines = readFileSync(join(installation, "native/protocol.md"), "utf8").split("\n");
  const exchanges: Exchange[] = [];
  for (const line of lines.map((text) => text.trim())) {
    if (line.startsWith("> {")) {
      const end = line.indexOf("} [");
      const head = end < 0 ? line.slice(2) : line.slice(2, end + 1);
      const arrays = end < 0 ? [] : (JSON.parse(`[${line.slice(end + 2).replaceAll("] [", "],[")}]`) as number[][]);
      exchanges.push({ head: JSON.parse(head), arrays, expected: {} });
    }
    if (line.startsWith("< {")) exchanges.at(-1)!.expected = JSON.parse(line.slice(2));
  }
  return exchanges;
}

class RawWorker {
  readonly child: Child = startProcess(executable, []);
  readonly answers: Answer[] = [];
  readonly done: Promise<void>;

  constructor() {
    this.child.stderr.resume();
    this.done = readAnswers(this.child.stdout, (answer) => void this.answers.push(answer));
  }

  send(bytes: string | Uint8Array): Promise<void> {
    return write(this.child.stdin, [Buffer.from(bytes)]);
  }

  /** Closes stdin and waits for the end. */
  async finish(): Promise<Ended> {
    this.child.stdin.end();
    await this.done;
    return this.child.ended;
  }

  errorOf(index: number): Record<string, unknown> {
    return this.answers[index]?.fields.error as Record<string, unknown>;
  }
}

/** Every field that is expected, field by field. */
function assertContains(actual: unknown, expected: unknown, where: string): void {
  if (typeof expected !== "object" || expected === null) {
    assert.deepEqual(actual, expected, where);
    return;
  }
  for (const [name, value] of Object.entries(expected))
    assertContains((actual as Record<string, unknown> | undefined)?.[name], value, `${where}.${name}`);
}

test("the example frames of the protocol", async () => {
  const exchanges = exampleFrames();
  assert.ok(exchanges.length >= 10);
  const worker = new RawWorker();
  for (const { head, arrays } of exchanges) {
    const line = JSON.stringify(head).replace("$MODEL", tinyModel("tiny-f32"));
    const heads = (head.payload ?? []) as { dtype: string; count: number }[];
    const payload = heads.map(({ dtype, count }, i) => {
      assert.equal(arrays[i]!.length, count);
      const values = dtype === "f32" ? Float32Array.from(arrays[i]!) : Int32Array.from(arrays[i]!);
      return Buffer.from(values.buffer);
    });
    await worker.send(Buffer.concat([Buffer.from(`${line}\n`), ...payload]));
  }
  assert.deepEqual(await worker.finish(), { code: 0, signal: null });
  assert.equal(worker.answers.length, exchanges.length);
  for (const [i, { expected }] of exchanges.entries()) {
    const { id, fields, payload } = worker.answers[i]!;
    const heads = Object.entries(payload).map(([name, values]) => ({
      name,
      dtype: values instanceof Float32Array ? "f32" : "i32",
      count: values.length,
    }));
    assertContains({ id, ...fields, payload: heads }, expected, `frame ${i + 1}`);
  }
});

const fatal: [name: string, bytes: string | Uint8Array, code: string, id: number][] = [
  ["garbage", "\u0000\u0001garbage\n", "bad_frame", 0],
  ["bytes that are not UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d, 0x0a]), "bad_frame", 0],
  ["a line that is no object", "[1,2]\n", "bad_frame", 0],
  ["an object without id", '{"verb":"hello","protocol":1}\n', "bad_frame", 0],
  ["an id that is no number", '{"id":"1","verb":"hello","protocol":1}\n', "bad_frame", 0],
  ["a verb that is no string", '{"id":4,"verb":7}\n', "bad_frame", 4],
  ["a header cut short", '{"id":1,"verb":"hel', "bad_frame", 0],
  ["a header without end", "x".repeat(wireLimits.maxHeaderBytes + 10), "frame_too_large", 0],
  [
    "a payload cut short",
    '{"id":3,"verb":"score","adapter":null,"payload":[{"name":"tokens","dtype":"i32","count":5}]}\nabc',
    "bad_frame",
    3,
  ],
  [
    "a payload over the limit",
    '{"id":3,"verb":"score","adapter":null,"payload":[{"name":"tokens","dtype":"i32","count":67108865}]}\n',
    "frame_too_large",
    3,
  ],
  [
    "a count that overflows",
    '{"id":3,"verb":"score","adapter":null,"payload":[{"name":"tokens","dtype":"i32","count":4611686018427387905}]}\n',
    "frame_too_large",
    3,
  ],
  ["a negative count", '{"id":3,"verb":"score","payload":[{"name":"a","dtype":"i32","count":-1}]}\n', "bad_frame", 3],
  ["an unknown dtype", '{"id":3,"verb":"score","payload":[{"name":"a","dtype":"f64","count":1}]}\n', "bad_frame", 3],
];

for (const [name, bytes, code, id] of fatal)
  test(`${name} is answered, and the worker leaves with status 2`, { timeout: 20_000 }, async () => {
    const worker = new RawWorker();
    await worker.send(bytes);
    assert.deepEqual(await worker.finish(), { code: 2, signal: null });
    assert.equal(worker.answers.length, 1);
    assert.equal(worker.answers[0]!.id, id);
    assertContains(worker.errorOf(0), { code, fatal: true }, name);
  });

test("a request that is wrong leaves the worker as it was", { timeout: 20_000 }, async () => {
  const worker = new RawWorker();
  const open = { path: tinyModel("tiny-f32"), threads: 1, memory_bytes: 0 };
  const sampling = { temperature: 0, top_k: 0, top_p: 1, min_p: 0, seed: 1, stop_tokens: [], max_tokens: 2 };
  const one = { tokens: Int32Array.of(1, 2), row_lengths: Int32Array.of(2) };
  const unwritten = join(scratch(), "adapter.gguf");
  const cases: [string, Record<string, unknown>, Record<string, Int32Array | Float32Array>, string, RegExp][] = [
    ["hello", { protocol: 2 }, {}, "bad_request", /protocol/],
    ["hello", {}, {}, "bad_request", /protocol is missing/],
    ["hello", { protocol: 1, extra: 1 }, {}, "bad_request", /extra is unknown/],
    ["open", { ...open, threads: 0 }, {}, "bad_request", /threads/],
    ["open", { ...open, threads: 1.5 }, {}, "bad_request", /threads/],
    ["open", { ...open, path: 7 }, {}, "bad_request", /path/],
    ["open", { ...open, path: "/nowhere.gguf" }, {}, "io_error", /nowhere/],
    ["open", { ...open, path: join(installation, "package.json") }, {}, "invalid_model", /GGUF/],
    ["open", { ...open, path: tinyModel("refused-gemma2") }, {}, "unsupported_architecture", /gemma2/],
    ["open", { ...open, memory_bytes: 1000 }, {}, "out_of_memory", /MiB/],
    ["score", { adapter: null }, { ...one, prompt_lengths: Int32Array.of(1) }, "not_open", /open/],
    ["open", open, {}, "", /./],
    ["open", open, {}, "already_open", /already/],
    ["adapter_create", { adapter: "a", ...tinyShape, rank: 0 }, {}, "bad_request", /rank/],
    ["adapter_create", { adapter: "a", ...tinyShape, alpha: 0 }, {}, "bad_request", /alpha/],
    ["adapter_create", { adapter: "a", ...tinyShape, targets: ["head"] }, {}, "bad_request", /targets.*head/],
    ["adapter_create", { adapter: "a", ...tinyShape, targets: ["attn_q", "attn_q"] }, {}, "bad_request", /targets/],
    ["score", { adapter: "b" }, { ...one, prompt_lengths: Int32Array.of(1) }, "unknown_adapter", /b/],
    ["score", { adapter: null }, one, "bad_request", /prompt_lengths is missing/],
    ["score", { adapter: null }, { ...one, prompt_lengths: Int32Array.of(3) }, "bad_request", /prompt_lengths/],
    ["score", { adapter: null }, { ...one, prompt_lengths: Float32Array.of(1) }, "bad_request", /i32/],
    ["sample", { adapter: null, ...sampling, stray: 1 }, one, "bad_request", /stray/],
    ["sample", { adapter: null, ...sampling }, { ...one, more: Int32Array.of(1) }, "bad_request", /more/],
    ["sample", { adapter: null, ...sampling, max_tokens: 511 }, one, "row_too_long", /513/],
    ["sample", { adapter: null, ...sampling, top_p: 2 }, one, "bad_request", /top_p/],
    [
      "sample",
      { adapter: null, ...sampling },
      { tokens: Int32Array.of(-1), row_lengths: Int32Array.of(1) },
      "token_out_of_range",
      /-1/,
    ],
    [
      "sample",
      { adapter: null, ...sampling },
      { tokens: Int32Array.of(), row_lengths: Int32Array.of() },
      "bad_request",
      /row_lengths/,
    ],
    ["adapter_create", { adapter: "a", ...tinyShape }, {}, "", /./],
    ["export", { adapter: "a", path: unwritten, format: "zip", metadata: {} }, {}, "bad_request", /format/],
    [
      "export",
      { adapter: "a", path: unwritten, format: "gguf", metadata: { "general.type": "x" } },
      {},
      "bad_request",
      /metadata/,
    ],
    ["export", { adapter: "a", path: "/nowhere/x", format: "gguf", metadata: {} }, {}, "io_error", /nowhere/],
    ["save", { adapter: "a", path: "/nowhere/x" }, {}, "io_error", /nowhere/],
    ["load", { adapter: "a", path: "/nowhere/x" }, {}, "io_error", /nowhere/],
    ["sample", { adapter: null, ...sampling }, one, "", /./],
  ];
  let id = 0;
  for (const [verb, fields, payload] of cases)
    await write(worker.child.stdin, encodeRequest(++id, verb, fields, payload));
  assert.deepEqual(await worker.finish(), { code: 0, signal: null });
  for (const [i, [verb, fields, , code, message]] of cases.entries()) {
    const error = worker.errorOf(i) ?? { code: "", message: "fine" };
    assert.equal(error.code, code, `${verb} ${JSON.stringify(fields)}: ${JSON.stringify(error)}`);
    assert.match(String(error.message), message);
  }
});

test("a batch over the limit is refused", async (t) => {
  const trainer = await openWorker(t, tinyModel("tiny-f32"));
  const { limits } = await trainer.hello();
  const rows = {
    tokens: new Int32Array(limits.maxBatchTokens + 1),
    rowLengths: new Int32Array(limits.maxBatchTokens + 1).fill(1),
  };
  await assert.rejects(trainer.score(null, rows, new Int32Array(rows.rowLengths.length)), /batch_too_large/);
});

test("a request that would be too large never reaches the worker", () => {
  assert.throws(() => encodeRequest(1, "x", { path: "x".repeat(wireLimits.maxHeaderBytes) }), WireError);
  assert.throws(
    () => encodeRequest(1, "x", {}, { tokens: new Int32Array(wireLimits.maxPayloadBytes / 4 + 1) }),
    WireError,
  );
});

test("a worker killed in the middle of calls rejects all of them, and later ones", { timeout: 30_000 }, async (t) => {
  const trainer = await openWorker(t, tinyModel("tiny-f32"));
  await trainer.createAdapter("a", tinyShape);
  const rows = rowsOf(Array(64).fill(60), 1);
  const calls = Array.from({ length: 20 }, () => trainer.forwardBackward("a", rows));
  const died = (error: unknown): boolean => error instanceof Failure && error.code === "trainer_died";
  const settled = Promise.all(calls.map((call) => assert.rejects(call, died)));
  // Closing without grace is kill -9.
  await trainer.close(0);
  await settled;
  assert.equal((await trainer.ended).signal, "SIGKILL");
  await assert.rejects(trainer.hello(), died);
});

test("a worker that leaves by itself rejects every pending call with its status", { timeout: 20_000 }, async () => {
  const trainer = startTrainer({ executable: "/bin/false", log: silentLog });
  const died = (error: unknown): boolean =>
    error instanceof Failure && error.code === "trainer_died" && /code 1/.test(error.message);
  await Promise.all([assert.rejects(trainer.hello(), died), assert.rejects(trainer.profile(), died)]);
});

test("a worker that cannot be started says why", { timeout: 20_000 }, async () => {
  const trainer = startTrainer({ executable: "/nowhere/trainer", log: silentLog });
  await assert.rejects(
    trainer.hello(),
    (error: unknown) => error instanceof Failure && error.code === "trainer_died" && /ENOENT/.test(error.message),
  );
});

test("the worker leaves when its input closes", { timeout: 20_000 }, async (t) => {
  const worker = new RawWorker();
  assert.deepEqual(await worker.finish(), { code: 0, signal: null });
  const trainer = startWorker(t);
  await trainer.hello();
  await trainer.close();
  assert.deepEqual(await trainer.ended, { code: 0, signal: null, lastLog: "" });
});

test("frames larger than a pipe go through whole, both ways", async (t) => {
  const trainer = await openWorker(t, tinyModel("tiny-f32"));
  const rows = rowsOf(Array(1500).fill(40), 5);
  const [a, b] = await Promise.all([trainer.forward(null, rows), trainer.forward(null, rows)]);
  assert.equal(a.logprobs.length, 60_000);
  assert.deepEqual(a, b);
});
