// Benchmarks made of documents by other hands, in questions of a recorded model (test/foreign/teacher/items/CORPUS.jsonl: what it said to
// each prompt). An author answers one prompt at a time and sees nothing else.
// npm run prove:items -- asks --corpus NAME [--items 120 --seed 1] --out FILE: the prompts that are not recorded yet, a line each. What is
// said to some decides others: record the replies, and ask again until no prompt is left.
// npm run prove:items -- record --corpus NAME --asks FILE REPLIES...: keeps replies, lines {"number": N, "said": "…"}.
// npm run prove:items -- make --corpus NAME [--items 120 --seed 1 --threads 2 --plain] --out FILE: the benchmark, made through the API, with --plain
// in plain forms alone, and checked by the starter model: FILE has its items for readers (`prove:readers -- items`).
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { readConfig } from "../../src/base/config.ts";
import { sha256 } from "../../src/base/files.ts";
import type { Item } from "../../src/catalog/benchmarks.ts";
import { chatWriter, isToSearch } from "../../src/domain/benchmarks/create/writing.ts";
import { planOf } from "../../src/study/items/plan.ts";
import { type Passage, passagesOf } from "../../src/study/passages.ts";
import { index, search } from "../../src/study/study.worker.ts";
import { testHouse } from "../helpers/house.ts";
import { readJsonLines } from "../helpers/json-lines.ts";
import { madeBenchmark } from "./prove/made-benchmark.ts";
import { readFolder } from "./prove/material.ts";
import { recordedModel, serveChat } from "./prove/teacher.ts";

const root = join(import.meta.dirname, "../..");
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    corpus: { type: "string", default: "vets" },
    items: { type: "string", default: "120" },
    seed: { type: "string", default: "1" },
    threads: { type: "string", default: "2" },
    model: { type: "string", default: readConfig({}).starterModel },
    asks: { type: "string" },
    out: { type: "string" },
    /** No model writes questions. */
    plain: { type: "boolean", default: false },
  },
});
const wanted = Number(values.items);
const seed = Number(values.seed);
const corpus = join(root, "test/foreign", values.corpus);
const recordedAt = join(root, "test/foreign/teacher/items", `${values.corpus}.jsonl`);

interface Recorded {
  prompt: string;
  said: string;
}

const recorded = new Map(
  existsSync(recordedAt) ? readJsonLines<Recorded>(recordedAt).map(({ prompt, said }) => [prompt, said]) : [],
);

const [task, ...files] = positionals;
if (task === "asks") await asks();
else if (task === "record") record();
else if (task === "make") await make();
else throw new Error("asks, record or make");

async function asks(): Promise<void> {
  const missing = new Set<string>();
  const never = new Error("not recorded yet");
  const writer = chatWriter(async (prompt) => {
    const said = recorded.get(sha256(prompt));
    if (said !== undefined) return said;
    missing.add(prompt);
    throw never;
  });
  const documents = await readFolder(corpus);
  index({ documents });
  const plans = planOf(documents, { seed, wanted });
  const unlessMissing = async <T>(what: Promise<T>): Promise<T | null> =>
    what.catch((error: unknown) => {
      if (error !== never) throw error;
      return null;
    });
  for (const plan of plans) {
    const [items] = (await unlessMissing(writer.write([plan]))) ?? [[]];
    for (const item of items!.filter(isToSearch)) {
      const [found] = search([item.question]);
      await unlessMissing(writer.search(item, plan, found!));
    }
  }
  const lines = [...missing].map((prompt, number) => JSON.stringify({ number, prompt }));
  writeFileSync(required("out"), lines.map((line) => `${line}\n`).join(""));
  process.stdout.write(`${plans.length} passages, ${missing.size} prompts to answer\n`);
}

function record(): void {
  const prompts = readJsonLines<{ number: number; prompt: string }>(required("asks"));
  const said = new Map(
    files.flatMap((file) => readJsonLines<{ number: number; said: string }>(file)).map((one) => [one.number, one.said]),
  );
  const kept = prompts.flatMap(({ number, prompt }): Recorded[] => {
    const reply = said.get(number);
    return reply === undefined || recorded.has(sha256(prompt)) ? [] : [{ prompt: sha256(prompt), said: reply }];
  });
  appendFileSync(recordedAt, kept.map((one) => `${JSON.stringify(one)}\n`).join(""));
  process.stdout.write(`${kept.length} of ${prompts.length} kept\n`);
}

async function make(): Promise<void> {
  const server = await serveChat((prompt) => {
    const said = recorded.get(sha256(prompt));
    if (said === undefined) throw new Error(`not recorded: ${prompt.slice(-200)}`);
    return said;
  });
  const it = await testHouse({
    PLUMBLINE_STARTER_MODEL: values.model,
    PLUMBLINE_THREADS: values.threads,
    PLUMBLINE_UPSTREAMS: `recorded=${server.url}`,
  });
  try {
    while ((await it.call("models.base")).body.base_models.length === 0) await delay(250);
    const files = (await readFolder(corpus)).map(({ name }) => ({ name, content: readFileSync(join(corpus, name)) }));
    const { documents } = (await it.call("documents.upload", { files })).body;
    const document_ids = documents.map(({ document_id }: { document_id: string }) => document_id);
    const body = {
      document_ids,
      n_samples: wanted,
      seed,
      ...(!values.plain && { generator_model: recordedModel, generator_provider: "recorded" }),
    };
    const { benchmark_id } = (await it.call("benchmarks.create", { body })).body;
    const record = await madeBenchmark(it, benchmark_id);
    const { samples } = (await it.call("benchmarks.data", { params: { benchmark_id } })).body;
    const named = new Map(document_ids.map((id: string, at: number) => [id, files[at]!.name]));
    const items = (samples as Item[]).map(({ citations, ...item }) => ({
      ...item,
      citations: citations.map((one) => ({ ...one, document: named.get(one.document) })),
    }));
    writeFileSync(required("out"), items.map((item) => `${JSON.stringify(item)}\n`).join(""));
    const passages = passagesOf(await readFolder(corpus));
    const holds = ({ document, start, end }: Passage): boolean =>
      items.some(({ citations }) =>
        citations.some((one) => one.document === document && one.start! < end && one.end! > start),
      );
    const covered = passages.filter(holds).length;
    const told = { items: items.length, passages: passages.length, covered, ...record.generation };
    process.stdout.write(`${JSON.stringify(told, null, 1)}\n`);
  } finally {
    await it.close();
    server.close();
  }
}

function required(name: "asks" | "out"): string {
  const value = values[name];
  if (value === undefined) throw new Error(`${task} needs --${name}`);
  return value;
}
