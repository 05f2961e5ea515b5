// npm run prove:benchmarks [-- --seeds 11,12 --items 100 --facts 300 --model FILE --threads N --dir FOLDER --unchecked --no-write]: benchmarks made of the
// documents of fictional companies through the API and with a real model, in the shipped writer's questions where it is installed, else
// in plain forms. Each item is judged by what the company was drawn from, and looked for in the rows that a study of the same documents
// makes by each preset without a writer. With --unchecked no model is asked: what is left are plain forms that passed the rules' gates.
// Written to test/e2e/RESULTS.md. Start it again after an interruption, and it goes on where it was.
import { mkdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { places, readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import { wilson } from "../../src/base/statistics/intervals.ts";
import { systemClock } from "../../src/base/time.ts";
import type { Item } from "../../src/catalog/benchmarks.ts";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import { readRecipes } from "../../src/domain/alignments/recipes.ts";
import type { GateCount } from "../../src/domain/benchmarks/create/gates.ts";
import { createDocuments } from "../../src/domain/documents/index.ts";
import type { EvaluateRequest, Generator } from "../../src/engine/generator.ts";
import { openStore } from "../../src/store/open.ts";
import { findOverlap } from "../../src/study/leakage.ts";
import { type Company, makeCompany } from "../company/company.ts";
import { judge } from "../company/truth.ts";
import { commitNow, shortened } from "../helpers/commit.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";
import { emptyPool } from "../helpers/pool.ts";
import { resultsOf, writeSection } from "../helpers/results.ts";
import { studied } from "../helpers/study.ts";
import { madeBenchmark } from "./prove/made-benchmark.ts";

const root = resolve(import.meta.dirname, "../..");
const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "11,12" },
    items: { type: "string", default: "100" },
    facts: { type: "string", default: "300" },
    model: { type: "string", default: readConfig({}).starterModel },
    threads: { type: "string", default: "2" },
    dir: { type: "string", default: join(root, ".cache/prove-benchmarks") },
    unchecked: { type: "boolean", default: false },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});

/** In place of a model: knows nothing, and finds every passage to say what it is asked for. */
const allLikely = {
  pool: emptyPool().pool,
  slotContext: 4096,
  kind: () => "text",
  occupancy: () => [],
  tokenizer: () => ({
    encode: (text: string) => [...text].map((character) => character.charCodeAt(0)),
    decode: (tokens: readonly number[]) => String.fromCharCode(...tokens),
    pieceOf: (token: number) => String.fromCharCode(token),
    specials: new Map(),
    eog: new Set([2]),
    chatTemplate: "{% for m in messages %}{{ m.content }}{% endfor %}",
  }),
  // The first row of a draft is the right answer, its chunk before it; each further one is less likely.
  score: async (_: unknown, rows: readonly unknown[]) => rows.map((_, at) => new Float64Array(1).fill(-at)),
  evaluate: async ({ prompts, onItem }: EvaluateRequest) => {
    for (const index of prompts.keys())
      onItem(index, { text: "", tokens: [], steps: [], finishReason: "stop", seconds: 0 });
  },
  dispose: async () => {},
} as unknown as Generator;

interface Outcome {
  seed: number;
  documents: number;
  items: Item[];
  wrong: { item: Item; why: string }[];
  leaks: number;
  rows: number;
  gates: GateCount[];
  categories: Record<string, number>;
}

const commit = shortened(commitNow());
const outcomes: Outcome[] = [];
for (const seed of values.seeds.split(",").map(Number)) {
  const outcome = await perform(seed);
  outcomes.push(outcome);
  for (const { item, why } of outcome.wrong)
    console.log(`seed ${seed}, sample ${item.sample_num}: ${why}: ${item.instruction} ${item.response}`);
  console.log(lineOf(outcome));
  console.log(gatesOf(outcome));
}
if (values.write) await writeSection(resultsOf(import.meta.dirname), "benchmarks", section);

async function perform(seed: number): Promise<Outcome> {
  const company = makeCompany({ seed, facts: Number(values.facts) });
  const checked = values.unchecked ? "unchecked" : basename(values.model);
  // A benchmark that other code has made says nothing of this one's gates.
  const data = join(values.dir, [seed, values.facts, values.items, checked, commit].join("-"));
  mkdirSync(data, { recursive: true });
  const settings = {
    PLUMBLINE_DATA: data,
    PLUMBLINE_STARTER_MODEL: values.model,
    PLUMBLINE_THREADS: values.threads,
  };
  const it = await testHouse(settings, values.unchecked ? { generator: allLikely } : {});
  try {
    while ((await it.call("models.base")).body.base_models.length === 0) await delay(250);
    const benchmark_id = await begun(it, company, seed);
    const record = await madeBenchmark(it, benchmark_id);
    const items = (await it.call("benchmarks.data", { params: { benchmark_id } })).body.samples as Item[];
    const texts = await textsOf(data, record.document_ids);
    const { leaks, rows } = await leaksOf(texts, items);
    const names = new Map(texts.map(({ id, name }) => [id, name]));
    return {
      seed,
      documents: names.size,
      items,
      wrong: wrongOf(company, items, names),
      leaks,
      rows,
      gates: record.generation.gates,
      categories: record.generation.categories,
    };
  } finally {
    await it.close();
  }
}

/** The benchmark that an earlier start has begun, else a new one. */
async function begun(it: TestHouse, company: Company, seed: number): Promise<string> {
  const [earlier] = (await it.call("benchmarks.list")).body.benchmarks;
  if (earlier !== undefined) return earlier.benchmark_id;
  const files = company.documents.map(({ name, text }) => ({ name, content: text }));
  const { documents } = (await it.call("documents.upload", { files })).body;
  const document_ids = documents.map(({ document_id }: { document_id: string }) => document_id);
  const body = { document_ids, n_samples: Number(values.items), seed };
  return (await it.call("benchmarks.create", { body })).body.benchmark_id;
}

function wrongOf(company: Company, items: readonly Item[], names: ReadonlyMap<string, string>): Outcome["wrong"] {
  return items.flatMap((item) => {
    const cited = item.citations.map(({ document }) => names.get(document)!);
    const why = judge(company, { ...item, cited });
    return why === "right" ? [] : [{ item, why }];
  });
}

/** The clean texts that alignments would learn from. */
async function textsOf(data: string, ids: readonly string[]): Promise<SnapshotDocument[]> {
  const at = places(data);
  const store = openStore(at.database);
  const log = createLog("error", () => {});
  const documents = createDocuments({
    store,
    clock: systemClock,
    log,
    folder: at.blobs,
    personalData: "off",
    snapshotsOf: () => [],
    removeSnapshots: async () => {},
  });
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
    const { phrasings, rungs: stages = 1 } = dataset;
    const made = await studied(documents, { phrasings, stages, seed: training.seed });
    rows += made.rows.length;
    const questions = items.map(({ instruction }) => instruction);
    for (const { question } of findOverlap(questions, made.rows).items) found.add(question);
  }
  return { leaks: found.size, rows };
}

function lineOf({ seed, documents, items, wrong, leaks, rows, categories }: Outcome): string {
  const right = items.length - wrong.length;
  const { score, low, high } = wilson(right, items.length);
  const kinds = Object.entries(categories)
    .map(([category, n]) => `${n} ${category.replace("_", " ")}`)
    .join(", ");
  const share = `${right} of ${items.length}, ${score.toFixed(1)} (${low.toFixed(1)}–${high.toFixed(1)})`;
  return `| ${seed} | ${documents} | ${share} | ${leaks} of ${rows} rows | ${kinds} |`;
}

function gatesOf({ gates }: Outcome): string {
  return gates
    .map(({ gate, in: came, out, skipped }) => `${gate} ${out} of ${came}${skipped ? ` (${skipped})` : ""}`)
    .join(", ");
}

function section(): string {
  const gates = outcomes.map((outcome) => `- seed ${outcome.seed}: ${gatesOf(outcome)}`);
  return [
    "## Benchmarks made of documents",
    "",
    `\`npm run prove:benchmarks -- --seeds ${values.seeds} --items ${values.items} --facts ${values.facts}${values.unchecked ? " --unchecked" : ""}\` on`,
    `${new Date().toISOString().slice(0, 10)}; ${values.unchecked ? "every item that passed the rules' gates, checked by no model" : `checked by ${values.model.split("/").at(-1)}`}. Each item is judged by what the company was drawn`,
    "from (test/company/truth.ts); 95 % interval (Wilson); leaks: items that a row made of the same documents by any preset gives away.",
    "",
    "A question in words that the company does not know is judged wrong with the wrong ones. Two questions of one fact count twice in the",
    "interval.",
    "",
    "| Seed | Documents | Correct and answerable | Leaks | Items |",
    "|---|---|---|---|---|",
    ...outcomes.map(lineOf),
    "",
    "What came to each gate and passed:",
    "",
    ...gates,
  ].join("\n");
}
