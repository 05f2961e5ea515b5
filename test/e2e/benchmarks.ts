// npm run prove:benchmarks [-- --seeds 11,12 --items 100 --facts 300 --model FILE --threads N --no-write]: benchmarks made of the
// documents of fictional companies that the generator never saw, through the API and with a real model. Each item is judged by
// what the company was drawn from, and looked for in the rows that an alignment by each preset makes of the same documents.
// Written to test/e2e/RESULTS.md.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { places } from "../../src/base/config.ts";
import { writeFileDurably } from "../../src/base/files.ts";
import { createLog } from "../../src/base/log.ts";
import { wilson } from "../../src/base/statistics/intervals.ts";
import { systemClock } from "../../src/base/time.ts";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import { makeExamples } from "../../src/domain/alignments/examples.ts";
import { findOverlap } from "../../src/domain/alignments/leakage.ts";
import { readRecipes } from "../../src/domain/alignments/recipes.ts";
import type { Item } from "../../src/domain/benchmarks/index.ts";
import { createDocuments } from "../../src/domain/documents/index.ts";
import { openStore } from "../../src/store/open.ts";
import { type Company, makeCompany } from "../company/company.ts";
import { judge } from "../company/truth.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";

const root = resolve(import.meta.dirname, "../..");
const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "11,12" },
    items: { type: "string", default: "100" },
    facts: { type: "string", default: "300" },
    model: { type: "string", default: join(root, ".cache/smollm2-135m-instruct-q4_1.gguf") },
    threads: { type: "string", default: "2" },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});

interface Outcome {
  seed: number;
  documents: number;
  items: Item[];
  wrong: { item: Item; why: string }[];
  leaks: number;
  rows: number;
  gates: { gate: string; in: number; out: number }[];
  categories: Record<string, number>;
  minutes: number;
}

const outcomes: Outcome[] = [];
for (const seed of values.seeds.split(",").map(Number)) {
  const outcome = await perform(seed);
  outcomes.push(outcome);
  for (const { item, why } of outcome.wrong)
    console.log(`seed ${seed}, sample ${item.sample_num}: ${why}: ${item.instruction} ${item.response}`);
  console.log(lineOf(outcome));
  console.log(outcome.gates.map((gate) => `${gate.gate} ${gate.out} of ${gate.in}`).join(", "));
}
if (values.write) await writeResults();

async function perform(seed: number): Promise<Outcome> {
  const company = makeCompany({ seed, facts: Number(values.facts) });
  const it = await testHouse({ PLUMBLINE_STARTER_MODEL: values.model, PLUMBLINE_THREADS: values.threads });
  try {
    while ((await it.call("models.base")).body.base_models.length === 0) await delay(250);
    const files = company.documents.map(({ name, text }) => ({ name, content: text }));
    const { body: uploaded } = await it.call("documents.upload", { files });
    const names = new Map<string, string>(
      uploaded.documents.map(({ document_id, name }: { document_id: string; name: string }) => [document_id, name]),
    );
    const since = performance.now();
    const asked = { document_ids: [...names.keys()], n_samples: Number(values.items), seed };
    const { benchmark_id } = (await it.call("benchmarks.create", { body: asked })).body;
    const record = await ended(it, benchmark_id);
    const minutes = (performance.now() - since) / 60_000;
    const items = (await it.call("benchmarks.data", { params: { benchmark_id } })).body.samples as Item[];
    const { leaks, rows } = await leaksOf(await textsOf(it, [...names.keys()]), items);
    return {
      seed,
      documents: names.size,
      items,
      wrong: wrongOf(company, items, names),
      leaks,
      rows,
      gates: record.generation.gates,
      categories: record.generation.categories,
      minutes,
    };
  } finally {
    await it.close();
  }
}

async function ended(it: TestHouse, benchmark_id: string) {
  for (let shown = ""; ; await delay(1000)) {
    const { body } = await it.call("benchmarks.get", { params: { benchmark_id } });
    if (body.status === "READY") return body;
    if (body.status !== "PROCESSING") throw new Error(body.error);
    const { phase, done, total, seconds_left } = body.progress_detail;
    const line = `${phase} ${done} of ${total ?? "?"}, ${seconds_left === null ? "?" : Math.ceil(seconds_left)} s left at most`;
    if (line !== shown) console.log(line);
    shown = line;
  }
}

const wrongOf = (company: Company, items: readonly Item[], names: ReadonlyMap<string, string>): Outcome["wrong"] =>
  items.flatMap((item) => {
    const cited = item.citations.map(({ document }) => names.get(document)!);
    const why = judge(company, { ...item, cited });
    return why === "right" ? [] : [{ item, why }];
  });

/** The clean texts that alignments would learn from. */
async function textsOf(it: TestHouse, ids: readonly string[]): Promise<SnapshotDocument[]> {
  const at = places(it.data);
  const store = openStore(at.database);
  const log = createLog("error", () => {});
  const documents = createDocuments({ store, clock: systemClock, log, folder: at.blobs, personalData: "off" });
  try {
    const owner = store.prepare<[], { id: string }>("SELECT id FROM user WHERE name = 'ada'").get()!;
    return (await documents.snapshot(owner.id, ids)).map(({ document }) => document);
  } finally {
    await documents.close();
    store.close();
  }
}

/** Items that any row of any preset gives away, and how many rows there were. */
async function leaksOf(
  documents: SnapshotDocument[],
  items: readonly Item[],
): Promise<{ leaks: number; rows: number }> {
  const found = new Set<number>();
  let rows = 0;
  for (const { dataset, training } of (await readRecipes(join(root, "config/recipes"))).values()) {
    const { phrasings, rungs = 1 } = dataset;
    const { examples } = makeExamples(documents, { phrasings, rungs, seed: training.seed });
    rows += examples.length;
    const questions = items.map(({ instruction }) => instruction);
    for (const { question } of findOverlap(questions, examples).items) found.add(question);
  }
  return { leaks: found.size, rows };
}

function lineOf({ seed, documents, items, wrong, leaks, rows, categories, minutes }: Outcome): string {
  const right = items.length - wrong.length;
  const { score, low, high } = wilson(right, items.length);
  const kinds = Object.entries(categories)
    .map(([category, n]) => `${n} ${category.replace("_", " ")}`)
    .join(", ");
  const share = `${right} of ${items.length}, ${score.toFixed(1)} (${low.toFixed(1)}–${high.toFixed(1)})`;
  return `| ${seed} | ${documents} | ${share} | ${leaks} of ${rows} rows | ${kinds} | ${minutes.toFixed(1)} |`;
}

async function writeResults(): Promise<void> {
  const path = join(root, "test/e2e/RESULTS.md");
  const [begin, end] = ["<!-- benchmarks -->", "<!-- /benchmarks -->"];
  const text = existsSync(path) ? readFileSync(path, "utf8") : "# Results\n";
  const [head, rest = ""] = text.split(begin);
  const [, tail = "\n"] = rest.split(end);
  const gates = outcomes.map(
    ({ seed, gates }) => `- seed ${seed}: ${gates.map((gate) => `${gate.gate} ${gate.out} of ${gate.in}`).join(", ")}`,
  );
  const section = [
    begin,
    "## Benchmarks made of documents",
    "",
    `\`npm run prove:benchmarks -- --seeds ${values.seeds} --items ${values.items} --facts ${values.facts} --threads ${values.threads}\` on`,
    `${new Date().toISOString().slice(0, 10)}; checked by ${values.model.split("/").at(-1)}. Each item is judged by what the company was drawn`,
    "from (test/company/truth.ts); 95 % interval (Wilson); leaks: items that a row made of the same documents by any preset gives away.",
    "",
    "| Seed | Documents | Correct and answerable | Leaks | Items | Minutes |",
    "|---|---|---|---|---|---|",
    ...outcomes.map(lineOf),
    "",
    "What came to each gate and passed:",
    "",
    ...gates,
    end,
  ].join("\n");
  await writeFileDurably(path, `${head!.trimEnd()}\n\n${section}${tail}`);
}
