// A benchmark is made of documents, stopped, gone on with after a restart, and struck from, by models that answer by a script.
import assert from "node:assert/strict";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
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
import { pdf } from "../helpers/document-files.ts";
import { eventually, type TestHouse, testHouse } from "../helpers/house.ts";
import { letters } from "../helpers/letters.ts";
import { emptyPool } from "../helpers/pool.ts";
import { insertBase } from "../helpers/rows.ts";

/** What the handbook says, a question for it in other words, and one that nothing answers. */
const said = [
  [
    "The gate",
    "The north gate of Orrin Mill is locked at 21.40 by the night porter.",
    "At what hour is Orrin's upper entrance shut?",
    "21.40",
    "Who made the lock of the upper entrance of Orrin?",
  ],
  [
    "The sluice",
    "The sluice is opened after the yellow bell has been rung twice.",
    "What sounds before the water may run through the sluice?",
    "yellow bell",
    "How old is the bell that announces the water?",
  ],
  [
    "Breakages",
    "Whoever breaks a grinding stone tells Ada Lund before the next shift.",
    "Who hears first that a grinding stone is in pieces?",
    "Ada Lund",
    "What does a grinding stone in pieces cost?",
  ],
  [
    "Visitors",
    "Parties of more than 14 visitors need a guide from the river guild.",
    "From what size on may a party not go alone among the visitors?",
    "14",
    "What do visitors pay for the guide?",
  ],
  [
    "Flour",
    "Rye flour is kept in the blue barrels, wheat flour in the grey ones.",
    "In what is rye flour stored?",
    "blue barrels",
    "How long does rye flour last there?",
  ],
  [
    "Holidays",
    "Millers have 31 days of holiday, unless they work on Sundays.",
    "How much holiday does a miller get?",
    "31 days",
    "When must a miller ask for holiday?",
  ],
  [
    "The boat",
    "The ferry boat carries 6 sacks and nobody under twelve years.",
    "How large a load does the ferry boat take?",
    "6 sacks",
    "Who built the ferry boat?",
  ],
  [
    "The archive",
    "Letters of the founders lie in the oak chest of the tower room.",
    "Where would one find letters of the founders?",
    "oak chest",
    "Who may read letters of the founders?",
  ],
].map(([heading, says, asks, value, unsaid]) => ({
  heading: heading!,
  says: says!,
  asks: asks!,
  value: value!,
  unsaid: unsaid!,
}));
const wheels = [
  ["Alder wheel", "40 kg", "Pit 3"],
  ["Birch wheel", "52 kg", "Pit 8"],
  ["Cedar wheel", "47 kg", "Pit 5"],
  ["Elm wheel", "61 kg", "Pit 2"],
  ["Larch wheel", "58 kg", "Pit 9"],
  ["Maple wheel", "66 kg", "Pit 7"],
] as const;
const columns = ["Weight", "Place"] as const;
const readable = [
  {
    name: "handbook.md",
    text: `# Handbook of the house\n\n${said.map(({ heading, says }) => `## ${heading}\n\n${says}\n`).join("\n")}`,
  },
  {
    name: "wheels.md",
    text: `# Stock of wheels\n\n| Wheel | Weight | Place |\n|---|---|---|\n${wheels.map((row) => `| ${row.join(" | ")} |\n`).join("")}`,
  },
];

/** What a PDF says, and on which page. */
const paged = [
  { asks: "Who runs Orrin Mill?", value: "Ada Lund", says: "The manager of Orrin Mill is Ada Lund.", page: 1 },
  {
    asks: "How long is the Alder wheel under guarantee?",
    value: "14 months",
    says: "The warranty of the Alder wheel is 14 months.",
    page: 1,
  },
  { asks: "Who runs Tarn Quarry?", value: "Ole Berg", says: "The manager of Tarn Quarry is Ole Berg.", page: 2 },
  {
    asks: "How long is the Birch wheel under guarantee?",
    value: "20 months",
    says: "The warranty of the Birch wheel is 20 months.",
    page: 2,
  },
];
const known = [...said, ...paged.map((one) => ({ ...one, unsaid: null }))];

/** Whether the question is there, and the documents say so. */
function isTrue(prompt: string, answer: string): boolean {
  const asked = /\n\n([^\n]*)\nAnswer in as few words/.exec(prompt)?.[1] ?? "";
  if (known.some(({ asks, value, says }) => asked === asks && value === answer && prompt.includes(says))) return true;
  if (asked.includes("Sales")) return answer === "Ada Lund";
  return wheels.some(([wheel, ...cells]) =>
    cells.some((cell, at) => asked.includes(wheel) && asked.includes(columns[at]!) && cell === answer),
  );
}

/** A model that writes questions for what it is shown, and answers what it is asked from what it is shown. */
function scripted(content: string): string {
  const seen = known.filter(({ says }) => content.includes(says));
  if (content.includes('"kind"'))
    return seen
      .flatMap(({ asks, value, unsaid }) => [
        { kind: /\d/.test(value) ? "numeric" : "fact", question: asks, answer: value },
        ...(unsaid === null ? [] : [{ kind: "unanswerable", question: unsaid, answer: null }]),
      ])
      .map((line) => JSON.stringify(line))
      .join("\n");
  return [...content.matchAll(/^(\d+)\. (.+)$/gm)]
    .map(([, number, question]) => ({
      number: Number(number),
      answer: seen.find(({ asks }) => asks === question)?.value ?? null,
    }))
    .map((line) => JSON.stringify(line))
    .join("\n");
}

const tokenizer = letters({ trainContext: 16_384 });
const scored: string[] = [];
let gate: Promise<void> | null = null;
let slowMs = 0;
let slowRowMs = 0;
/** Messages to the model that writes, and what it makes of one. */
const messages: string[] = [];
let write = scripted;
/** What the sentence encoder makes of any text. */
let encode = (): Float32Array => Float32Array.of(1, 0);
const info = { architecture: "llama", context: 16_384, parameters: 1, bytes: 1, slots: 1 };
const generator = {
  pool: emptyPool(undefined, { info }).pool,
  tokenizer: () => tokenizer,
  slotContext: 16_384,
  kind: () => "text",
  occupancy: () => [],
  async score(
    _: unknown,
    rows: { tokens: number[]; promptLength: number }[],
    __: AbortSignal,
    onRow: (index: number) => void,
  ) {
    await gate;
    await delay(slowMs);
    const scores: Float64Array[] = [];
    for (const [index, { tokens, promptLength }] of rows.entries()) {
      const [prompt, answer] = [tokens.slice(0, promptLength), tokens.slice(promptLength)].map(tokenizer.decode);
      scored.push(`${prompt}${answer}`);
      scores.push(new Float64Array(answer!.length).fill(isTrue(prompt!, answer!) ? -0.1 : -3));
      onRow(index);
      if (slowRowMs > 0) await delay(slowRowMs);
    }
    return scores;
  },
  async evaluate({ prompts, onItem }: EvaluateRequest) {
    prompts.forEach((_, index) => {
      onItem(index, { text: "I do not know.", tokens: [], steps: [], finishReason: "stop", seconds: 0 });
    });
  },
  async *generate({ prompt }: GenerateRequest): AsyncGenerator<GeneratedToken, GenerateEnd, void> {
    const content = /^<user>([\s\S]*)<assistant>$/.exec(tokenizer.decode(prompt))![1]!;
    messages.push(content);
    await delay(slowMs);
    const text = write(content);
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

interface GateCount {
  gate: string;
  in: number;
  out: number;
  skipped?: string;
}

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
  it.call("benchmarks.create", { body: { document_ids: documentIds, n_samples: 10, ...body } });
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
    assert.equal(record.n_samples, 10);
    assert.deepEqual(record.document_ids, documentIds);
    const { gates, categories } = record.generation;
    assert.deepEqual(
      gates.map((one: { gate: string }) => one.gate),
      [
        "phrased",
        "verified",
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
        "few_declined",
        "wanted",
      ],
    );
    assert.equal(gates.at(-1).out, 10);
    assert.deepEqual(
      record.warnings.map(({ code }: { code: string }) => code),
      ["few_sealed"],
    );
    const skipped = new Map(gates.map((one: { gate: string; skipped?: string }) => [one.gate, one.skipped]));
    assert.equal(skipped.get("paraphrase"), "No sentence encoder is installed");
    assert.match(String(skipped.get("phrased")), /need a generator_model/);
    assert.equal(skipped.get("verified"), skipped.get("phrased"));
    assert.equal(skipped.get("grounded"), undefined);
    assert.deepEqual(Object.values(categories), [10], JSON.stringify(categories));
    // Two fifths fall into dev, by a hash of each fact.
    assert.ok(record.splits.dev > 0 && record.splits.sealed > 0, JSON.stringify(record.splits));
  });

  test("leaves its answers where nobody else on the machine reads them, and only there", async () => {
    for (const entry of readdirSync(it.data, { recursive: true, withFileTypes: true }))
      if (entry.isFile() && entry.parentPath.includes("blobs")) {
        const { mode } = statSync(join(entry.parentPath, entry.name));
        assert.equal(mode & 0o077, 0, `${entry.name} has the mode ${mode.toString(8)}`);
      }
    await eventually(() => readdirSync(join(it.data, "uploads")).length === 0);
  });

  test("asks tables in plain forms where no model writes, and cites the documents' own characters", async () => {
    const { samples, document_ids } = (await it.call("benchmarks.data", { params: { benchmark_id: id } })).body;
    assert.deepEqual(document_ids, documentIds);
    for (const { citations, response, instruction } of samples) {
      const row = wheels.find(([wheel]) => instruction.includes(wheel))!;
      assert.equal(response, row[1 + columns.findIndex((column) => instruction.includes(column))], instruction);
      assert.equal(citations.length, 1);
      const [{ document, start, end, quote }] = citations;
      assert.equal(quote, `| ${row.join(" | ")} |`);
      assert.equal(readable[documentIds.indexOf(document)]!.text.slice(start, end), quote);
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

  test("has a model's questions where one is named, of every section one before the table has a second", async () => {
    messages.length = 0;
    const record = await ended((await create({ generator_model: "small", n_samples: 12 })).body.benchmark_id);
    assert.equal(record.status, "READY", record.error);
    const gates = new Map<string, GateCount>(record.generation.gates.map((gate: GateCount) => [gate.gate, gate]));
    // Eight facts and eight questions that nothing answers, and of the table three of each that are needed of a passage.
    assert.deepEqual([gates.get("phrased")!.skipped, gates.get("verified")!.skipped], [undefined, undefined]);
    const { samples } = (await it.call("benchmarks.data", { params: { benchmark_id: record.benchmark_id } })).body;
    const asked = samples.map(({ instruction }: { instruction: string }) => instruction);
    assert.equal(samples.length, 12);
    assert.equal(said.filter(({ asks, unsaid }) => asked.includes(asks) || asked.includes(unsaid)).length, 8);
    for (const { instruction, response, type, citations } of samples) {
      const fact = said.find(({ asks }) => asks === instruction);
      if (fact) assert.deepEqual([response, citations[0].quote], [fact.value, fact.says]);
      if (type !== "refusal") continue;
      assert.deepEqual([response, citations], ["The documents do not say.", []]);
      assert.ok(said.some(({ unsaid }) => unsaid === instruction));
    }
    assert.ok(samples.some(({ type }: { type: string }) => type === "refusal"));
    // Each section is written about once, and what was written is read once.
    assert.equal(messages.length, new Set(messages).size);
  });

  test("drops what a second reading of the passage answers otherwise", async () => {
    write = (content) =>
      content.includes('"number"') ? scripted(content).replaceAll('"Ada Lund"', '"Ole Berg"') : scripted(content);
    const record = await ended((await create({ generator_model: "small", n_samples: 30 })).body.benchmark_id);
    write = scripted;
    const verified = record.generation.gates.find(({ gate }: GateCount) => gate === "verified");
    assert.equal(verified.in - verified.out, 1);
    const [fewer] = record.warnings;
    assert.equal(fewer.code, "fewer_than_wanted");
    assert.match(fewer.message, new RegExp(`^${record.n_samples} of the 30 requested items`));
    const { samples } = (await it.call("benchmarks.data", { params: { benchmark_id: record.benchmark_id } })).body;
    assert.ok(!samples.some(({ response }: { response: string }) => response === "Ada Lund"));
  });

  test("asks a model of an upstream only where one is configured", async () => {
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
    assert.deepEqual([body.version, body.previous_id, body.n_samples], [2, id, 8]);
    assert.deepEqual(body.struck, { items: [3, 7], reason: "unclear" });
    assert.notEqual(body.sha256, old.sha256);
    assert.deepEqual(await get(id), old);
    const { samples } = (await it.call("benchmarks.data", { params: { benchmark_id: body.benchmark_id } })).body;
    const numbers = samples.map((sample: { sample_num: number }) => sample.sample_num);
    assert.ok(!numbers.includes(3) && !numbers.includes(7) && numbers.includes(10));
    const again = await it.call("benchmarks.strike", {
      params: { benchmark_id: body.benchmark_id },
      body: { items: [3], reason: "again" },
    });
    assert.deepEqual([again.status, again.body.detail], [404, "The benchmark has no sample 3"]);
  });

  test("struck without a reason, or of everything, is refused", async () => {
    const strike = (body: object) => it.call("benchmarks.strike", { params: { benchmark_id: id }, body });
    assert.equal((await strike({ items: [1] })).status, 422);
    const all = Array.from({ length: 10 }, (_, at) => at + 1);
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
    assert.ok(progress.total >= 10 && progress.done === 0, JSON.stringify(progress));
    assert.equal((await it.call("benchmarks.data", { params: { benchmark_id: id } })).status, 409);
    assert.equal((await it.call("benchmarks.stop", { params: { benchmark_id: id } })).status, 200);
    open();
    assert.equal((await ended(id)).status, "STOPPED");
    assert.equal((await it.call("benchmarks.stop", { params: { benchmark_id: id } })).status, 409);
  });

  test("moves by items, not by groups", async () => {
    slowRowMs = 20;
    const id = (await create()).body.benchmark_id;
    const seen = new Set<number>();
    for (let done = 0; done < 8; await delay(5)) {
      ({ done } = await checking(id));
      seen.add(done);
    }
    slowRowMs = 0;
    assert.ok(seen.size > 4, [...seen].join(" "));
    assert.equal((await ended(id)).status, "READY");
  });

  test("goes on after a restart where it was, and checks nothing twice", async () => {
    scored.length = 0;
    const whole = await ended((await create()).body.benchmark_id);
    const rowsOfWhole = [...scored];
    scored.length = 0;
    slowMs = 300;
    const id = (await create()).body.benchmark_id;
    // A group is eight, and is written as soon as they are checked; the next one takes a while.
    while ((await checking(id)).done < 8) await delay(5);
    await delay(50);
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
    const record = await ended(
      (await create({ document_ids: [document_id], generator_model: "small" })).body.benchmark_id,
    );
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

  test("writes about no passage twice, whenever the appliance goes down", async () => {
    const body = { generator_model: "small", n_samples: 12 };
    const whole = await ended((await create(body)).body.benchmark_id);
    messages.length = 0;
    slowMs = 150;
    const id = (await create(body)).body.benchmark_id;
    for (;;) {
      const { progress_detail } = await get(id);
      if (progress_detail.phase === "phrasing" && progress_detail.done > 0) {
        assert.equal(progress_detail.unit, "passages");
        break;
      }
      await delay(5);
    }
    await it.restart();
    slowMs = 0;
    const record = await ended(id);
    assert.equal(record.status, "READY", record.error);
    assert.equal(record.sha256, whole.sha256);
    assert.deepEqual(record.generation, whole.generation);
    // Only the passage in hand when the appliance went down may have been asked about again.
    const again = messages.length - new Set(messages).size;
    assert.ok(again <= 2, `${again} of ${messages.length}`);
  });

  test("of prose that nobody writes questions for fails, and says what would help", async () => {
    const prose = { name: "prose.md", content: said.map(({ says }) => says).join("\n\n") };
    const { body } = await it.call("documents.upload", { files: [prose] });
    const record = await ended((await create({ document_ids: [body.documents[0].document_id] })).body.benchmark_id);
    assert.equal(record.status, "FAILED");
    assert.match(record.error, /No model writes questions here.*Name a generator_model.*[^.]$/);
  });

  test("of documents that state nothing fails, and says so, although a model would write", async () => {
    const { body } = await it.call("documents.upload", { files: [{ name: "a.md", content: "```\nmake all\n```\n" }] });
    const document_ids = [body.documents[0].document_id];
    const record = await ended((await create({ document_ids, generator_model: "small" })).body.benchmark_id);
    assert.equal(record.status, "FAILED");
    assert.match(record.error, /^The documents have no sentence, table row or key-value line/);
  });

  test("of documents whose items the model finds unlikely fails with the counts", async () => {
    const prose = "The yard keeps one more wheel than the others know of, and nobody there has ever weighed it twice.";
    const content = `# Timber yard\n\n${prose}\n\n| Wheel | Weight |\n|---|---|\n| Oak wheel | 70 kg |\n`;
    const { body } = await it.call("documents.upload", { files: [{ name: "a.md", content }] });
    const record = await ended((await create({ document_ids: [body.documents[0].document_id] })).body.benchmark_id);
    assert.equal(record.status, "FAILED");
    assert.match(record.error, /No item passed all gates: .*answerable 0 of 1.* Name a generator_model .*[^.]$/);
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
    assert.deepEqual([came - out, skipped], [0, "The sentence encoder failed: It needs 1 GiB more"]);
  });
});
