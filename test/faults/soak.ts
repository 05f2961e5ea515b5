// A mixed load for as long as is asked, and whether the appliance stays as it is: `npm run soak -- --hours 1`. Everything that the load
// makes it deletes again, so that whatever grows is kept by the appliance itself. A row a minute, and the slope of each after warm-up.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { places } from "../../src/base/config.ts";
import { createClient } from "../../src/cli/client.ts";
import { askAdmin } from "../../src/http/admin.ts";
import { startServing } from "../cli/plumbline.ts";
import { processorOf } from "../helpers/machine.ts";
import { resultsOf, writeSection } from "../helpers/results.ts";
import { demo } from "./killed.ts";
import { descendantsOf } from "./oracle.ts";

const { values } = parseArgs({ options: { hours: { type: "string", default: "1" } } });
const hours = Number(values.hours);
assert.ok(hours > 0, "--hours is a number");
const everyMs = 60_000;
/** Share of the time in which caches and pools may fill. */
const warmUp = 0.3;
/** Growth in an hour, as a share of what there is, that is no leak. */
const flatPerHour = 0.05;

/** Of one moment; each a figure that must not grow. */
const measures = {
  "memory, MB": (pid: number) => memoryOf(pid),
  "children's memory, MB": (pid: number) => descendantsOf(pid).reduce((sum, child) => sum + memoryOf(child.pid), 0),
  descriptors: (pid: number) => readdirSync(`/proc/${pid}/fd`).length,
  threads: (pid: number) => readdirSync(`/proc/${pid}/task`).length,
  files: () => readdirSync(data, { recursive: true }).length,
  "write-ahead log, MB": () => statSync(`${places(data).database}-wal`).size / 2 ** 20,
};
type Measure = keyof typeof measures;
/** These come and go with the work: no slope is told of them. */
const unsteady: Measure[] = ["children's memory, MB", "write-ahead log, MB"];

function memoryOf(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;
  } catch {
    return 0; // gone
  }
}

const folder = mkdtempSync(join(tmpdir(), "plumbline-soak-"));
const data = join(folder, "data");
const serving = await startServing({ PLUMBLINE_DATA: data, PLUMBLINE_LOG: "warn", PLUMBLINE_FREE_DISK: "0" });
const { value } = (await askAdmin(places(data).adminSocket, "key.create", { user: "ada" }))!;
const { api } = createClient(serving.address, (value as { key: string }).key);

let isOver = false;
const done: Record<string, number> = {};
const errors = new Map<string, number>();

/** Again and again until the time is over; what fails is counted and goes on. */
async function again(name: string, pauseMs: number, act: () => Promise<unknown>): Promise<void> {
  done[name] = 0;
  while (!isOver) {
    try {
      await act();
      done[name]++;
    } catch (error) {
      const what = `${name}: ${(error as Error).message}`.slice(0, 200);
      errors.set(what, (errors.get(what) ?? 0) + 1);
    }
    await delay(pauseMs);
  }
}

async function until<T>(ask: () => Promise<T | false | undefined>): Promise<T | undefined> {
  for (; !isOver; await delay(500)) {
    const found = await ask();
    if (found !== false && found !== undefined) return found;
  }
  return undefined;
}

const baseId = (await until(async () => (await api["models.base"]()).base_models[0]?.model_id))!;
const file = (name: string, content: string) => [{ name, mediaType: "text/markdown", content }];
let uploads = 0;

async function upload(): Promise<void> {
  const content = `# Note ${++uploads}\n\n${`The pump of hall ${uploads} was inspected.\n\n`.repeat(1 + (uploads % 200))}`;
  const { documents } = await api["documents.upload"]({ files: file(`note-${uploads}.md`, content) });
  await api["documents.delete"]({ params: { document_id: documents[0]!.document_id } });
}

async function evaluate(): Promise<void> {
  const content = demo("benchmark.jsonl").split("\n").slice(0, 12).join("\n");
  const { benchmark_id } = await api["benchmarks.upload"]({ files: file("rows.jsonl", content) });
  const { evaluation_id } = await api["evaluations.create"]({ body: { model_id: baseId, benchmark_id } });
  const params = { evaluation_id };
  const status = await until(async () => {
    const { status } = await api["evaluations.get"]({ params });
    return (status === "READY" || status === "FAILED") && status;
  });
  if (status === undefined) return;
  assert.equal(status, "READY");
  await api["benchmarks.delete"]({ params: { benchmark_id }, query: { evaluations: "true" } });
}

async function align(): Promise<void> {
  const { documents } = await api["documents.upload"]({ files: file("who.md", demo("documents/departments.md")) });
  const document_id = documents[0]!.document_id;
  const body = { alignment_name: "soak", base_model_id: baseId, document_ids: [document_id], workflow_id: "quick" };
  const { alignment_id } = await api["alignments.create"]({ body });
  const params = { alignment_id };
  const end = await until(async () => {
    const status = await api["alignments.status"]({ params });
    return status.status !== "PROCESSING" && status;
  });
  if (end === undefined) return;
  assert.equal(end.status, "COMPLETED", String(end.error));
  await api["models.delete"]({ params: { model_id: String(end.model_id) } });
  await api["alignments.delete"]({ params });
  await api["documents.delete"]({ params: { document_id } });
}

const messages = [{ role: "user", content: "Who leads the department of Sales, and since when?" }];
const chat = () => api["inference.chat"]({ body: { model: baseId, messages, max_tokens: 32 } });
const embed = () => api["inference.embeddings"]({ body: { model: baseId, input: ["one", "two", "three"] } });

type Sample = Record<Measure, number>;
const samples: Sample[] = [];
const { pid } = serving.child;
const sample = (): void => {
  const now = Object.fromEntries(Object.entries(measures).map(([name, measure]) => [name, measure(pid)])) as Sample;
  samples.push(now);
  const said = Object.entries(now).map(([name, figure]) => `${name} ${Math.round(figure)}`);
  console.log(`minute ${samples.length - 1}: ${said.join(", ")}; ${JSON.stringify(done)}`);
};

const load = Promise.all([
  again("chats", 0, chat),
  again("chats", 200, chat),
  again("embeddings", 500, embed),
  again("uploads", 100, upload),
  again("evaluations", 1000, evaluate),
  again("alignments", 1000, align),
]);
try {
  const end = performance.now() + hours * 3_600_000;
  for (sample(); performance.now() + everyMs <= end; sample()) await delay(everyMs);
} finally {
  isOver = true;
  await Promise.race([load, delay(30_000)]);
  serving.child.kill("SIGTERM");
  const { code } = await serving.child.ended;
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  assert.equal(code, 0, serving.log().slice(-2000));
}

interface Slope {
  /** Of the figure in an hour, and its standard error. */
  perHour: number;
  error: number;
  mean: number;
}

/** Least squares over the samples after the warm-up. */
function slopeOf(name: Measure): Slope {
  const from = Math.floor(samples.length * warmUp);
  const points = samples.slice(from).map((one, at) => [(at * everyMs) / 3_600_000, one[name]] as const);
  const n = points.length;
  const mean = (at: 0 | 1): number => points.reduce((sum, point) => sum + point[at], 0) / n;
  const [x0, y0] = [mean(0), mean(1)];
  const sxx = points.reduce((sum, [x]) => sum + (x - x0) ** 2, 0);
  const perHour = points.reduce((sum, [x, y]) => sum + (x - x0) * (y - y0), 0) / sxx;
  const rest = points.reduce((sum, [x, y]) => sum + (y - y0 - perHour * (x - x0)) ** 2, 0);
  return { perHour, error: Math.sqrt(rest / Math.max(1, n - 2) / sxx), mean: y0 };
}

/** A slope within twice its error, or so small that it is nothing, is none. */
const isFlat = ({ perHour, error, mean }: Slope): boolean => perHour - 2 * error <= flatPerHour * mean;

const round = (figure: number): string => (Math.abs(figure) < 10 ? figure.toFixed(1) : figure.toFixed(0));
const steady = (Object.keys(measures) as Measure[]).filter((name) => !unsteady.includes(name));
const verdicts = steady.map((name) => ({ name, slope: slopeOf(name) }));
const leaks = verdicts.filter(({ slope }) => !isFlat(slope));
for (const [what, times] of errors) console.error(`${times} × ${what}`);
for (const { name, slope } of verdicts)
  console.log(
    `${name}: ${round(slope.perHour)} an hour (error ${round(slope.error)}), ${isFlat(slope) ? "flat" : "NOT flat"}`,
  );
await writeSection(resultsOf(import.meta.dirname), "soak", section);
process.exitCode = leaks.length === 0 && errors.size === 0 ? 0 : 1;

function section(): string {
  const names = Object.keys(measures) as Measure[];
  const asked = Object.entries(done).map(([name, times]) => `${times} ${name}`);
  const failed = [...errors].map(([what, times]) => `${times} × ${what}`);
  const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return `## Soak

\`npm run soak -- --hours ${values.hours}\`, ${new Date().toISOString().slice(0, 10)}, ${processorOf()}: ${asked.join(", ")}. Failed: ${failed.length === 0 ? "none" : failed.join("; ")}.
The slope is of the last ${100 - warmUp * 100} % of the samples, with its standard error; flat is what grows by no more than ${flatPerHour * 100} % an hour, or not beyond twice its error.

${row(["Minute", ...names])}
${row(["---", ...names.map(() => "---")])}
${samples.map((one, minute) => row([String(minute), ...names.map((name) => round(one[name]))])).join("\n")}
${row([
  "an hour",
  ...names.map((name) => {
    if (unsteady.includes(name)) return "–";
    const slope = slopeOf(name);
    return `${round(slope.perHour)} (${round(slope.error)}), ${isFlat(slope) ? "flat" : "**not flat**"}`;
  }),
])}`;
}
