// A benchmark is made of documents, stopped, gone on with after a restart, and struck from, by a model that answers by a script.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type {
  EvaluateRequest,
  GeneratedToken,
  GenerateEnd,
  GenerateRequest,
  Generator,
} from "../../src/engine/generator.ts";
import { openStore } from "../../src/store/open.ts";
import { makeCompany } from "../company/company.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";
import { insertBase } from "../helpers/rows.ts";

const company = makeCompany({ seed: 4, facts: 60 });
const readable = company.documents.filter(({ media_type }) => /markdown|csv|plain/.test(media_type));

/** A token is a UTF-16 unit. */
const tokenizer = {
  encode: (text: string) => [...text].map((character) => character.charCodeAt(0)),
  decode: (tokens: readonly number[]) => String.fromCharCode(...tokens),
  bos: null,
  eos: 2,
  eog: new Set([2]),
  addBos: false,
  vocabulary: 65_536,
  trainContext: 4096,
  chatTemplate:
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
  specials: new Map<string, number>(),
  bytesOf: (token: number) => new Uint8Array(Buffer.from(String.fromCharCode(token))),
  pieceOf: (token: number) => String.fromCharCode(token),
};
const nameOf = (entity: string): string => entity.replace(/^the | department$|^Project /g, "");

/** Whether the passage is there, and anything the company says of what is asked about has this value. */
function isTrue(prompt: string, answer: string): boolean {
  const asked = /\n\n([^\n]*)\nAnswer in as few words/.exec(prompt)?.[1] ?? "";
  return company.facts.some(
    (fact) =>
      [fact.value, ...fact.aliases].includes(answer) &&
      (fact.kind === "policy" || fact.attribute === "manager" || asked.includes(nameOf(fact.entity))),
  );
}

const scored: string[] = [];
let gate: Promise<void> | null = null;
let slowMs = 0;
const info = { architecture: "llama", context: 4096, parameters: 1, bytes: 1, seats: 1 };
const generator = {
  load: async () => info,
  unload: async () => {},
  isLoaded: () => true,
  tokenizer: () => tokenizer,
  seatContext: 4096,
  kind: () => "text",
  occupancy: () => [],
  async score(_: unknown, rows: { tokens: number[]; promptLength: number }[]) {
    await gate;
    await delay(slowMs);
    return rows.map(({ tokens, promptLength }) => {
      const [prompt, answer] = [tokens.slice(0, promptLength), tokens.slice(promptLength)].map(tokenizer.decode);
      scored.push(`${prompt}${answer}`);
      return new Float64Array(answer!.length).fill(isTrue(prompt!, answer!) ? -0.1 : -3);
    });
  },
  async evaluate({ prompts, onItem }: EvaluateRequest) {
    prompts.forEach((_, index) => {
      onItem(index, { text: "I do not know.", tokens: [], steps: [], finishReason: "stop", seconds: 0 });
    });
  },
  /** Says a question again, more politely. */
  async *generate({ prompt }: GenerateRequest): AsyncGenerator<GeneratedToken, GenerateEnd, void> {
    const question = /\n\n(.+)<assistant>$/.exec(tokenizer.decode(prompt))![1]!;
    const text = question.replace(/\?$/, ", please?");
    yield {
      token: 1,
      text,
      logprob: -0.1,
      top: { tokens: new Int32Array(64).fill(1), logits: new Float32Array(64) },
      logZ: null,
      isForced: false,
    };
    return { finishReason: "stop", promptTokens: prompt.length, cachedTokens: 0, completionTokens: 1 };
  },
  dispose: async () => {},
} as unknown as Generator;

let it: TestHouse;
let documentIds: string[] = [];
before(async () => {
  it = await testHouse({}, { generator });
  const store = openStore(`${it.data}/plumbline.db`);
  insertBase(store, "small");
  store.close();
  const files = readable.map(({ name, text }) => ({ name, content: text }));
  const { body } = await it.call("documents.upload", { files });
  documentIds = body.documents.map((document: { document_id: string }) => document.document_id);
});
after(() => it.close());

const create = (body: object = {}) =>
  it.call("benchmarks.create", { body: { document_ids: documentIds, n_samples: 30, ...body } });
const get = async (benchmark_id: string) => (await it.call("benchmarks.get", { params: { benchmark_id } })).body;

async function ended(benchmarkId: string) {
  for (let tries = 0; tries < 600; tries++) {
    const record = await get(benchmarkId);
    if (record.status !== "PROCESSING") return record;
    await delay(50);
  }
  throw new Error("it does not end");
}

test("without a key every route is refused", async () => {
  for (const name of ["benchmarks.create", "benchmarks.stop", "benchmarks.strike"] as const)
    assert.equal((await it.call(name, { key: null, params: { benchmark_id: "x" } })).status, 422);
});

describe("a benchmark of documents", () => {
  let id = "";

  test("is promised at once and there in the end, with what each gate let through", async () => {
    const { status, body } = await create({ benchmark_name: "The company" });
    assert.equal(status, 200, JSON.stringify(body));
    assert.deepEqual([body.status, body.n_samples, body.sha256], ["PROCESSING", 0, null]);
    id = body.benchmark_id;
    const record = await ended(id);
    assert.equal(record.status, "READY", record.error);
    assert.equal(record.name, "The company");
    assert.equal(record.n_samples, 30);
    assert.deepEqual(record.document_ids, documentIds);
    const { gates, categories } = record.generation;
    assert.deepEqual(
      gates.map((one: { gate: string }) => one.gate),
      [
        "grounded",
        "stand_alone",
        "unique",
        "no_leak",
        "duplicate",
        "choices",
        "answerable",
        "needs_document",
        "options_only",
        "wanted",
      ],
    );
    assert.equal(gates.at(-1).out, 30);
    assert.ok(categories.unanswerable > 0 && categories.numeric > 0, JSON.stringify(categories));
    // Two fifths fall into dev, by a hash of each fact that starts from its document's id: how many exactly is chance here.
    assert.ok(record.splits.dev > 0 && record.splits.sealed > 0, JSON.stringify(record.splits));
  });

  test("has items whose citations are the documents' own characters", async () => {
    const { samples, document_ids } = (await it.call("benchmarks.data", { params: { benchmark_id: id } })).body;
    assert.deepEqual(document_ids, documentIds);
    for (const { type, citations, response, instruction } of samples) {
      assert.equal(citations.length > 0, type !== "refusal", instruction);
      if (type !== "refusal") assert.ok(response !== "The documents do not say.", instruction);
      for (const { document, start, end, quote } of citations) {
        const { text } = readable[documentIds.indexOf(document)]!;
        assert.equal(text.slice(start, end), quote);
      }
    }
  });

  test("can be evaluated and listed like an uploaded one, and is nobody else's", async () => {
    const { body } = await it.call("benchmarks.list");
    assert.equal(body.benchmarks[0].benchmark_id, id);
    for (const name of ["benchmarks.get", "benchmarks.data", "benchmarks.stop"] as const)
      assert.equal((await it.call(name, { params: { benchmark_id: id }, key: it.otherKey })).status, 404);
    assert.equal(
      (await it.call("benchmarks.create", { body: { document_ids: documentIds }, key: it.otherKey })).status,
      404,
    );
  });

  test("is the same from the same documents, seed and model", async () => {
    const again = await ended((await create()).body.benchmark_id);
    assert.equal(again.sha256, (await get(id)).sha256);
  });

  test("asks in a model's words where one is named, and of an upstream only where one is configured", async () => {
    const { body } = await create({ generator_model: "small", n_samples: 10 });
    const record = await ended(body.benchmark_id);
    assert.equal(record.status, "READY", record.error);
    const phrased = record.generation.gates.find((gate: { gate: string }) => gate.gate === "phrased");
    assert.deepEqual([phrased.in, phrased.out], [15, 15]);
    const { samples } = (await it.call("benchmarks.data", { params: { benchmark_id: body.benchmark_id } })).body;
    assert.equal(samples.length, 10);
    for (const { instruction } of samples) assert.match(instruction, /, please\?$/);
    const refused = await create({ generator_model: "big", generator_provider: "nobody" });
    assert.equal(refused.status, 422);
    assert.deepEqual(refused.body.detail[0].loc, ["body", "generator_provider"]);
    assert.equal((await create({ generator_model: "unknown" })).status, 404);
  });

  test("struck from is a new version; the old one stays", async () => {
    const old = await get(id);
    const { status, body } = await it.call("benchmarks.strike", {
      params: { benchmark_id: id },
      body: { items: [3, 7], reason: "unclear" },
    });
    assert.equal(status, 200, JSON.stringify(body));
    assert.deepEqual([body.version, body.previous_id, body.n_samples], [2, id, 28]);
    assert.deepEqual(body.struck, { items: [3, 7], reason: "unclear" });
    assert.notEqual(body.sha256, old.sha256);
    assert.deepEqual(await get(id), old);
    const { samples } = (await it.call("benchmarks.data", { params: { benchmark_id: body.benchmark_id } })).body;
    const numbers = samples.map((sample: { sample_num: number }) => sample.sample_num);
    assert.ok(!numbers.includes(3) && !numbers.includes(7) && numbers.includes(30));
    const again = await it.call("benchmarks.strike", {
      params: { benchmark_id: body.benchmark_id },
      body: { items: [3], reason: "again" },
    });
    assert.equal(again.status, 422);
    assert.deepEqual(again.body.detail[0].loc, ["body", "items", 0]);
  });

  test("struck without a reason, or of everything, is refused", async () => {
    const strike = (body: object) => it.call("benchmarks.strike", { params: { benchmark_id: id }, body });
    assert.equal((await strike({ items: [1] })).status, 422);
    const all = Array.from({ length: 30 }, (_, at) => at + 1);
    assert.equal((await strike({ items: all, reason: "all" })).status, 422);
  });
});

describe("the making", () => {
  const held = () => {
    let open = () => {};
    gate = new Promise((resolve) => {
      open = () => {
        gate = null;
        resolve();
      };
    });
    return () => open();
  };
  const checking = async (id: string) => {
    for (let tries = 0; tries < 600; tries++) {
      const { progress_detail, status, error } = await get(id);
      assert.equal(status, "PROCESSING", error);
      if (progress_detail.phase === "checking") return progress_detail;
      await delay(50);
    }
    throw new Error("it is never checked");
  };

  test("shows its progress, has no data before its end, and can be stopped", async () => {
    const open = held();
    const id = (await create()).body.benchmark_id;
    const progress = await checking(id);
    assert.ok(progress.total >= 30 && progress.done === 0, JSON.stringify(progress));
    assert.equal((await it.call("benchmarks.data", { params: { benchmark_id: id } })).status, 409);
    assert.equal((await it.call("benchmarks.stop", { params: { benchmark_id: id } })).status, 200);
    open();
    assert.equal((await ended(id)).status, "STOPPED");
    assert.equal((await it.call("benchmarks.stop", { params: { benchmark_id: id } })).status, 409);
  });

  test("goes on after a restart where it was, and checks nothing twice", async () => {
    scored.length = 0;
    const whole = await ended((await create()).body.benchmark_id);
    const rowsOfWhole = [...scored];
    scored.length = 0;
    slowMs = 300;
    const id = (await create()).body.benchmark_id;
    while ((await checking(id)).done === 0) await delay(5);
    const rowsBefore = scored.length;
    await it.restart();
    slowMs = 0;
    const record = await ended(id);
    assert.equal(record.sha256, whole.sha256);
    assert.deepEqual(record.generation, whole.generation);
    assert.ok(rowsBefore > 0 && rowsBefore < scored.length, `${rowsBefore} of ${scored.length}`);
    // Only the group in hand when the appliance went down may be checked again: the first row of the first is not.
    const times = (rows: string[]) => rows.filter((row) => row === rowsOfWhole[0]).length;
    assert.equal(scored[0], rowsOfWhole[0]);
    assert.equal(times(scored), times(rowsOfWhole));
  });

  test("of documents that say nothing fails with the counts", async () => {
    const { body } = await it.call("documents.upload", { files: [{ name: "a.txt", content: "Hello, hello.\n" }] });
    const record = await ended((await create({ document_ids: [body.documents[0].document_id] })).body.benchmark_id);
    assert.equal(record.status, "FAILED");
    assert.match(record.error, /No item passed all gates/);
  });
});
