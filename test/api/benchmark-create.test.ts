// A benchmark is made of documents, stopped, gone on with after a restart, and struck from, by a model that answers by a script.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "../../src/base/errors.ts";
import type {
  EvaluateRequest,
  GeneratedToken,
  GenerateEnd,
  GenerateRequest,
  Generator,
} from "../../src/engine/generator.ts";
import { openStore } from "../../src/store/open.ts";
import { makeCompany } from "../company/company.ts";
import { pdf } from "../helpers/document-files.ts";
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

/** What a PDF says, and on which page. */
const paged = [
  { entity: "Orrin Mill", value: "Ada Lund", says: "The manager of Orrin Mill is Ada Lund.", page: 1 },
  { entity: "Alder wheel", value: "14 months", says: "The warranty of the Alder wheel is 14 months.", page: 1 },
  { entity: "Tarn Quarry", value: "Ole Berg", says: "The manager of Tarn Quarry is Ole Berg.", page: 2 },
  { entity: "Birch wheel", value: "20 months", says: "The warranty of the Birch wheel is 20 months.", page: 2 },
];

/** What a table says. */
const staff = { entity: "Sales", value: "Ada Lund" };

/** Whether the passage is there, and anything the company, the PDF or the table says of what is asked about has this value. */
function isTrue(prompt: string, answer: string): boolean {
  const asked = /\n\n([^\n]*)\nAnswer in as few words/.exec(prompt)?.[1] ?? "";
  if ([...paged, staff].some(({ entity, value }) => asked.includes(entity) && value === answer)) return true;
  return company.facts.some(
    (fact) =>
      [fact.value, ...fact.aliases].includes(answer) &&
      (fact.kind === "policy" || fact.attribute === "manager" || asked.includes(nameOf(fact.entity))),
  );
}

const scored: string[] = [];
let gate: Promise<void> | null = null;
let slowMs = 0;
/** What the model that phrases makes of a question. */
let sayAgain = (question: string): string => question.replace(/\?$/, ", please?");
/** What the sentence encoder makes of any text. */
let encode = (): Float32Array => Float32Array.of(1, 0);
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
  async *generate({ prompt }: GenerateRequest): AsyncGenerator<GeneratedToken, GenerateEnd, void> {
    const text = sayAgain(/\n\n(.+)<assistant>$/.exec(tokenizer.decode(prompt))![1]!);
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
  embed: async (_: unknown, texts: string[]) =>
    texts.map((text) => ({ vector: encode(), tokens: text.length, truncated: 0 })),
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
        "paraphrase",
        "readable",
        "answerable",
        "needs_document",
        "options_only",
        "wanted",
      ],
    );
    assert.equal(gates.at(-1).out, 30);
    const skipped = gates.filter((one: { skipped?: string }) => one.skipped !== undefined);
    assert.deepEqual(
      skipped.map((one: { gate: string; skipped: string }) => [one.gate, one.skipped]),
      [["paraphrase", "No sentence encoder is installed"]],
    );
    assert.ok(categories.unanswerable > 0 && categories.numeric > 0, JSON.stringify(categories));
    // Two fifths fall into dev, by a hash of each fact.
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

  test("has the same items in the same splits where the documents are uploaded again", async () => {
    const { body } = await it.call("documents.upload", {
      files: readable.map(({ name, text }) => ({ name, content: text })),
    });
    const document_ids = body.documents.map((document: { document_id: string }) => document.document_id);
    const again = await ended((await create({ document_ids })).body.benchmark_id);
    const samplesOf = async (benchmark_id: string) =>
      (await it.call("benchmarks.data", { params: { benchmark_id } })).body.samples.map(
        ({ citations, ...sample }: { citations: { document: string }[] }) => ({
          ...sample,
          citations: citations.map((one) => ({
            ...one,
            document: [documentIds, document_ids].map((ids) => ids.indexOf(one.document)).find((at) => at >= 0),
          })),
        }),
      );
    assert.deepEqual(await samplesOf(again.benchmark_id), await samplesOf(id));
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
    const nameless = await create({ generator_provider: "nobody" });
    assert.equal(nameless.status, 422);
    assert.deepEqual(nameless.body.detail[0].loc, ["body", "generator_model"]);
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
    assert.deepEqual([again.status, again.body.detail], [404, "The benchmark has no sample 3"]);
  });

  test("struck without a reason, or of everything, is refused", async () => {
    const strike = (body: object) => it.call("benchmarks.strike", { params: { benchmark_id: id }, body });
    assert.equal((await strike({ items: [1] })).status, 422);
    const all = Array.from({ length: 30 }, (_, at) => at + 1);
    const emptied = await strike({ items: all, reason: "all" });
    assert.deepEqual([emptied.status, emptied.body.error.code], [409, "no_item_left"]);
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

  test("of a PDF cites page and characters of each fact", async () => {
    const pages = [...Map.groupBy(paged, ({ page }) => page).values()];
    const content = pdf(pages.map((facts) => facts.map(({ says }, at) => ({ text: says, x: 72, y: 700 - 30 * at }))));
    const { body } = await it.call("documents.upload", { files: [{ name: "a.pdf", content }] });
    const [{ document_id }] = body.documents;
    const record = await ended((await create({ document_ids: [document_id] })).body.benchmark_id);
    const { samples } = (await it.call("benchmarks.data", { params: { benchmark_id: record.benchmark_id } })).body;
    const asked = samples.filter(({ type }: { type: string }) => type !== "refusal");
    assert.equal(asked.length, paged.length, JSON.stringify(samples));
    for (const { response, citations } of asked) {
      const { says, page } = paged.find(({ value }) => value === response)!;
      const [{ start, end, ...cited }] = citations;
      assert.deepEqual(cited, { document: document_id, page, quote: says });
      assert.equal(end - start, says.length);
    }
  });

  test("of documents that say nothing fails with the counts", async () => {
    const { body } = await it.call("documents.upload", { files: [{ name: "a.txt", content: "Hello, hello.\n" }] });
    const record = await ended((await create({ document_ids: [body.documents[0].document_id] })).body.benchmark_id);
    assert.equal(record.status, "FAILED");
    assert.match(record.error, /No item passed all gates/);
  });
});

describe("with a sentence encoder", () => {
  const table = "# Staff\n\n| Office | Head | Deputy |\n|---|---|---|\n| Sales | Ada Lund | Ada Lund |\n";
  let ids: string[] = [];
  before(async () => {
    const store = openStore(`${it.data}/plumbline.db`);
    const encoder = insertBase(store, "encoder");
    store.prepare<[string]>("UPDATE base_model SET kind = 'embedding' WHERE id = ?").run(encoder);
    store.close();
    const { body } = await it.call("documents.upload", { files: [{ name: "staff.md", content: table }] });
    ids = [body.documents[0].document_id];
  });
  const paraphrase = async () => {
    const { generation } = await ended((await create({ document_ids: ids })).body.benchmark_id);
    return generation.gates.find((gate: { gate: string }) => gate.gate === "paraphrase");
  };

  test("of two questions that it finds alike, with one answer, one is kept", async () => {
    const { in: came, out, skipped } = await paraphrase();
    assert.deepEqual([came - out, skipped], [1, undefined]);
  });

  test("that fails, all are kept, and the counts say why", async () => {
    encode = () => {
      throw new Failure("out_of_memory", "It needs 1 GiB more");
    };
    const { in: came, out, skipped } = await paraphrase();
    assert.deepEqual([came - out, skipped], [0, "The sentence encoder could not be asked: It needs 1 GiB more"]);
  });

  test("and a model that phrases two questions alike, the second keeps the rules' words", async () => {
    const named = (question: string) => /the Sales \w+|Sales/.exec(question)?.[0] ?? "nowhere";
    sayAgain = (question) => `Whose name hangs at ${named(question)}?`;
    const record = await ended((await create({ document_ids: ids, generator_model: "small" })).body.benchmark_id);
    assert.equal(record.status, "READY", record.error);
    const { samples } = (await it.call("benchmarks.data", { params: { benchmark_id: record.benchmark_id } })).body;
    const asked = samples.filter(({ type }: { type: string }) => type !== "refusal");
    assert.equal(asked.length, 2);
    assert.equal(
      asked.filter(({ instruction }: { instruction: string }) => instruction.startsWith("Whose name hangs at ")).length,
      1,
    );
  });
});
