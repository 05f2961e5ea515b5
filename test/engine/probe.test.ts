// Model files that nobody vouches for: refused with what is wrong, within the limits, whatever they contain.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { after, test } from "node:test";
import { readConfig } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { readGgufHeader } from "../../src/engine/gguf/header.ts";
import { probeModel } from "../../src/engine/serve/probe.ts";
import { type GgufParts, gguf, pair, text, u32, u64, withTemplate } from "./gguf-file.ts";

const model = readConfig({}).starterModel;
const folder = mkdtempSync(join(tmpdir(), "probe-"));
after(() => rmSync(folder, { recursive: true }));

let files = 0;
const file = (content: Buffer): string => {
  const path = join(folder, `${files++}.gguf`);
  writeFileSync(path, content);
  return path;
};

/** The message with which a file is refused; fails when it is not, or with another code. */
const refusal = async (work: () => unknown): Promise<string> => {
  try {
    await work();
  } catch (error) {
    assert.ok(error instanceof Failure, String(error));
    assert.equal(error.code, "model_invalid", error.message);
    return error.message;
  }
  return assert.fail("it was accepted");
};

const unsound: [string, GgufParts | Buffer, RegExp][] = [
  ["nothing", Buffer.alloc(0), /cut off/],
  ["bad magic", { magic: "GGML" }, /magic/],
  ["version 1", { version: 1 }, /version 1/],
  ["big-endian", { version: 0x03000000 }, /big-endian/],
  ["2^40 keys", { pairCount: 1n << 40n }, /number of keys/],
  ["2^63 keys", { pairCount: 1n << 63n }, /number of keys/],
  ["2^64−1 tensors", { tensorCount: (1n << 64n) - 1n }, /number of tensors/],
  ["more keys than there are", { pairCount: 3, pairs: [pair("a", 1)] }, /cut off/],
  ["a key of 2^30 bytes", { pairs: [u64(1 << 30)] }, /length of key 0/],
  ["a key of 2^31 bytes in 64", Buffer.concat([gguf({ pairCount: 1 }), u64(1n << 31n), Buffer.alloc(32)]), /key 0/],
  ["a text past the end", { pairs: [Buffer.concat([text("a"), u32(8), u64(1000)])] }, /cut off/],
  ["a text of 2^62 bytes", { pairs: [Buffer.concat([text("a"), u32(8), u64(1n << 62n)])] }, /length of "a"/],
  ["an array of 2^40", { pairs: [Buffer.concat([text("a"), u32(9), u32(4), u64(1n << 40n)])] }, /length of "a"/],
  ["nested arrays", { pairs: [Buffer.concat([text("a"), u32(9), u32(9), u64(1)])] }, /contains nested arrays/],
  ["an unknown type", { pairs: [Buffer.concat([text("a"), u32(13), u64(1)])] }, /unknown type 13/],
  ["a boolean of 2", { pairs: [Buffer.concat([text("a"), u32(7), Buffer.of(2)])] }, /neither true nor false/],
  ["a key twice", { pairs: [pair("a", 1), pair("a", 1)] }, /twice/],
  ["alignment 0", { pairs: [pair("general.alignment", 0)] }, /alignment/],
  ["alignment 3", { pairs: [pair("general.alignment", 3)] }, /alignment/],
  ["alignment 2^31", { pairs: [pair("general.alignment", 2 ** 31)] }, /alignment/],
  ["a tensor past the end", { tensors: [{ name: "t", shape: [32, 4] }], dataBytes: 500 }, /past the end/],
  [
    "an offset past the end",
    { tensors: [{ name: "t", shape: [8], offset: 1n << 63n }], dataBytes: 64 },
    /past the end/,
  ],
  ["overflowing axes", { tensors: [{ name: "t", shape: [1n << 32n, 1n << 32n] }], dataBytes: 64 }, /shape/],
  ["axes whose product wraps to 0", { tensors: [{ name: "t", shape: [1n << 63n, 2] }], dataBytes: 64 }, /shape/],
  ["an axis of 0", { tensors: [{ name: "t", shape: [0] }], dataBytes: 64 }, /shape/],
  ["five axes", { tensors: [{ name: "t", shape: [1, 1, 1, 1, 1] }], dataBytes: 64 }, /5 axes/],
  ["an unknown tensor type", { tensors: [{ name: "t", shape: [32], type: 99 }], dataBytes: 64 }, /unknown type 99/],
  ["a broken block", { tensors: [{ name: "t", shape: [33], type: 8 }], dataBytes: 64 }, /the 32 elements in a block/],
  ["a crooked offset", { tensors: [{ name: "t", shape: [1], offset: 4 }], dataBytes: 64 }, /not aligned/],
  [
    "overlapping tensors",
    { tensors: ["t", "u"].map((name, index) => ({ name, shape: [16], offset: index * 32 })), dataBytes: 96 },
    /overlaps/,
  ],
  ["a tensor twice", { tensors: ["t", "t"].map((name) => ({ name, shape: [1] })), dataBytes: 64 }, /twice/],
];

test("our own reader refuses every unsound header, and says why", async () => {
  for (const [name, content, expected] of unsound) {
    const path = file(Buffer.isBuffer(content) ? content : gguf(content));
    assert.match(await refusal(() => readGgufHeader(path)), expected, name);
  }
});

test("a sound file cut short anywhere is refused in little time", async () => {
  const whole = readFileSync(model);
  const headerEnd = whole.indexOf(Buffer.from("blk.29.ffn_up.weight")) + 64;
  const cuts = Array.from({ length: 40 }, (_, index) => Math.floor((headerEnd * index) / 40)).concat(whole.length - 1);
  for (const cut of cuts) await refusal(() => readGgufHeader(file(whole.subarray(0, cut))));
});

test("the starter model: what it is, and that its template renders", async () => {
  const facts = await probeModel(model, { slotPool: { slots: 8, slotContext: 2048 } });
  const { name, memoryBytes, bytes, ...rest } = facts;
  assert.match(name ?? "", /smollm2/i);
  assert.deepEqual(rest, {
    kind: "text",
    architecture: "llama",
    contextLength: 8192,
    parameters: 134_515_008,
    fileType: "Q4_1",
    license: "apache-2.0",
    tied: true,
    layers: 30,
    embedding: 576,
    feedForward: 1536,
    heads: 9,
    cachedHeads: 90,
    headSize: 64,
    vocabulary: 49_152,
    templateProblem: null,
  });
  assert.equal(bytes, readFileSync(model).length);
  assert.ok(memoryBytes > bytes + 300e6 && memoryBytes < bytes + 700e6, String(memoryBytes));
});

test("a file without a vocabulary is refused before the library sees it", async () => {
  const path = file(gguf({ pairs: [pair("general.architecture", "llama")] }));
  assert.match(await refusal(() => probeModel(path)), /no vocabulary/);
  assert.match(await refusal(() => probeModel(file(Buffer.alloc(64)))), /magic/);
});

test("a vocabulary that the library does not take is refused", async () => {
  const list = Buffer.concat([text("tokenizer.ggml.tokens"), u32(9), u32(8), u64(1), text("a")]);
  const pairs = [pair("general.architecture", "llama"), pair("tokenizer.ggml.model", "nonsense"), list];
  await refusal(() => probeModel(file(gguf({ pairs }))));
});

test("hostile templates are ended within the limits, and nothing else is held up", async () => {
  const whole = readFileSync(model);
  const hostile = [
    "{% for i in range(9999) %}{% for j in range(9999) %}{% for k in range(9999) %}{% endfor %}{% endfor %}{% endfor %}",
    "{% set ns = namespace(x=[1, 2, 3, 4]) %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
  ];
  const delay = monitorEventLoopDelay({ resolution: 5 });
  for (const template of hostile) {
    const path = file(withTemplate(whole, template));
    delay.enable();
    const start = performance.now();
    assert.match(await refusal(() => probeModel(path, { timeoutMs: 6000 })), /rendering its chat template/);
    assert.ok(performance.now() - start < 8000);
    delay.disable();
  }
  assert.ok(delay.percentile(99) / 1e6 < 200, `${delay.percentile(99) / 1e6} ms`);
  // Even if the loop waits for a whole rendering, this is a single sample, which the percentile does not show.
  assert.ok(delay.max / 1e6 < 2000, `${delay.max / 1e6} ms`);
});

test("a template that renders, but for seconds, is refused: everybody would wait for each rendering", async () => {
  const loops = "{% for i in range(1500) %}{% for j in range(1500) %}{% endfor %}{% endfor %}";
  const path = file(withTemplate(readFileSync(model), `${loops}{% for m in messages %}{{ m.content }}{% endfor %}`));
  assert.match(await refusal(() => probeModel(path)), /rendering its chat template took \d+\.\d s; the limit is 1 s/);
});

test("a template that only fails leaves a model with that problem", async () => {
  const whole = readFileSync(model);
  for (const [template, reason] of [
    ["{% for i in range(10000000) %}{% endfor %}", /range longer than/],
    ["{{ raise_exception('not today') }}", /not today/],
    ["{% set n = namespace(x='ab') %}{% for i in range(40) %}{% set n.x = n.x + n.x %}{% endfor %}", /string length/],
    ["{{ messages.__globals__ }}{{ messages.constructor }}", /leaves out/],
    [`${"(".repeat(300)}`, /leaves out|template/],
  ] as const)
    assert.match((await probeModel(file(withTemplate(whole, template)))).templateProblem ?? "", reason);
});

test("time and memory limits hold by themselves", async () => {
  assert.match(await refusal(() => probeModel(model, { timeoutMs: 50 })), /took more than 0.05 s/);
  assert.match(await refusal(() => probeModel(model, { memoryBytes: 16 << 20 })), /took more than 16 MiB/);
});
