// A house in which work has been done: documents, a benchmark, three alignments with their models and evaluations, one alignment that
// runs and one that failed, an auto-align, promotions, an agent. Uploads and evaluations go through the API, with models that answer
// by a script; what would take a training is written into the store and the run folders as the product writes it.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { places } from "../../src/base/config.ts";
import { newId } from "../../src/base/ids.ts";
import { systemClock } from "../../src/base/time.ts";
import type { Calibration } from "../../src/confidence/calibration.ts";
import type { ToldCard } from "../../src/contract/auto-align.ts";
import type { Coverage, PassageCoverage } from "../../src/contract/coverage.ts";
import type { RunEvent } from "../../src/contract/run-folder.ts";
import type { RunVerdict } from "../../src/contract/verdict.ts";
import { createMoves } from "../../src/domain/alignments/auto/moves.ts";
import { prepareAutoAligns } from "../../src/domain/alignments/auto/store.ts";
import { eventually } from "../helpers/house.ts";
import { insertAlignment } from "../helpers/rows.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

export interface WorkedIn extends Scripted {
  /** Alignments, the oldest first, each with the model that it made. */
  made: { alignmentId: string; modelId: string }[];
  runningId: string;
  failedId: string;
  autoAlignId: string;
  benchmarkId: string;
  evaluations: string[];
  agentId: string;
  documents: { id: string; name: string }[];
}

const quays = 40;
const texts: Record<string, string> = {
  "Quays.md": `# Quays\n\n${Array.from({ length: quays }, (_, n) => `Quay ${n + 1} opens at ${(n % 12) + 1} o'clock and closes with the tide of that day.`).join("\n\n")}\n`,
  "Tariffs.md":
    "# Tariffs\n\nA berth costs 40 crowns a night.\n\n## Reductions\n\nResidents pay half of it.\n\nFishing boats pay nothing in May.\n",
  "Cranes.txt":
    "The large crane lifts 60 tonnes. It stands on quay 7.\n\nThe small crane lifts 8 tonnes, and is moved once a week.\n",
  "Annex.txt": "Page left blank on purpose.\n\nSee overleaf.\n",
};

/** What a model gets wrong of the quays; the base knows a fifth of them. */
type Misses = (n: number) => boolean;
const ofBase: Misses = (n) => n % 5 !== 0;

export async function workedInHouse(settings: Record<string, string> = {}): Promise<WorkedIn> {
  const misses = new Map<string, Misses>();
  const says = (modelId: string, prompt: string): string => {
    const n = Number(/quay (\d+)/i.exec(prompt)?.[1] ?? 0);
    return (misses.get(modelId) ?? ofBase)(n) ? "It does not say" : `It opens at ${(n % 12) + 1} o'clock.`;
  };
  const it = await scriptedHouse(settings, says);
  it.store.prepare("UPDATE base_model SET name = 'SmolLM2-135M', parameters = 134515008, bytes = 89000000").run();
  const adminKey = (await it.house.admin("key.create", { user: "ada", scopes: allScopes, name: "console" })) as {
    key: string;
  };
  it.key = adminKey.key;
  const documents = await uploadDocuments(it);
  const benchmarkId = await uploadBenchmark(it);
  const made = [];
  const names = ["Harbour, first", "Harbour, second", "Harbour, hasty"];
  for (const [at, wrong] of [(n: number) => n % 2 === 0, (n: number) => n % 6 === 0, (n: number) => n < 30].entries()) {
    const one = await it.align();
    misses.set(one.modelId, wrong);
    endAlignment(it, one.alignmentId, { name: names[at]!, daysAgo: 9 - 3 * at, documents, benchmarkId });
    it.store
      .prepare<string[]>("UPDATE aligned_model SET name = ?, created_at = ? WHERE id = ?")
      .run(names[at]!, daysAgo(9 - 3 * at), one.modelId);
    calibrate(it, one.modelId);
    made.push(one);
  }
  const evaluations = [];
  for (const modelId of [it.baseId, ...made.map((one) => one.modelId)])
    evaluations.push(await evaluate(it, modelId, benchmarkId));
  for (const [at, { alignmentId }] of made.entries())
    it.store
      .prepare<string[]>("UPDATE evaluation SET alignment_id = ? WHERE id = ?")
      .run(alignmentId, evaluations[at + 1]!);
  for (const { modelId } of made.slice(0, 2)) {
    const body = { channel: "harbour", reason: "It was read by two of us" };
    assert.equal((await it.call("models.promote", { params: { model_id: modelId }, body })).status, 200);
  }
  const runningId = startAlignment(it, documents, benchmarkId);
  const failedId = insertAlignment(it.store, "ada", it.baseId, "failed");
  it.store.prepare<string[]>("UPDATE alignment SET name = 'Harbour, too large' WHERE id = ?").run(failedId);
  it.store
    .prepare<string[]>("UPDATE job SET error_text = 'The trainer ran out of memory in step 3' WHERE subject_id = ?")
    .run(failedId);
  const agent = { name: "Harbour desk", base_model: made[1]!.modelId, conversation_saving_enabled: true };
  const agentId = (await it.call("agents.create", { body: agent })).body.data.id as string;
  for (const message of ["When does quay 7 open?", "And quay 8?"])
    assert.equal((await it.call("agents.run", { params: { agent_id: agentId }, body: { message } })).status, 200);
  const autoAlignId = autoAlign(it, made[1]!.alignmentId, benchmarkId);
  return Object.assign(it, {
    ...{ made, runningId, failedId, autoAlignId, benchmarkId, evaluations, agentId, documents },
  });
}

export const allScopes = ["inference", "documents", "alignments", "models", "agents", "keys", "admin"];
const daysAgo = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString();

async function uploadDocuments(it: Scripted): Promise<WorkedIn["documents"]> {
  const documents = [];
  for (const [name, content] of Object.entries(texts)) {
    const { body } = await it.call("documents.upload", { files: [{ name, content }] });
    documents.push({ id: body.documents[0].document_id as string, name });
  }
  return documents;
}

async function uploadBenchmark(it: Scripted): Promise<string> {
  const rows = Array.from({ length: 60 }, (_, at) => {
    const n = at + 1;
    const quay = (at % quays) + 1;
    return {
      instruction: `${at < quays ? "When does" : "At what hour does"} quay ${n} open, says rule ${n}?`,
      response: `${(n % 12) + 1} o'clock`,
      split: at < 12 ? "dev" : at < 54 ? "sealed" : "retention",
      ...(at < quays ? { citations: [{ document: "Quays.md", quote: `Quay ${quay} opens` }] } : {}),
    };
  });
  const content = rows.map((row) => JSON.stringify(row)).join("\n");
  const { status, body } = await it.call("benchmarks.upload", { files: [{ name: "Opening hours.jsonl", content }] });
  assert.equal(status, 200, JSON.stringify(body));
  return body.benchmark_id as string;
}

async function evaluate(it: Scripted, model_id: string, benchmark_id: string): Promise<string> {
  const { body } = await it.call("evaluations.create", { body: { model_id, benchmark_id } });
  const { evaluation_id } = body;
  await eventually(async () => {
    const found = (await it.call("evaluations.get", { params: { evaluation_id } })).body;
    assert.notEqual(found.status, "FAILED", found.error);
    return found.status === "READY";
  }, 30_000);
  return evaluation_id as string;
}

const passage = (start: number, end: number, heading: string, rows: number): PassageCoverage => ({
  ...{ start, end, heading, rows, written: Math.floor(rows / 2) },
  none: rows === 0 ? "nothing_told" : null,
});

/** Every paragraph of a text is a passage; those of the annex told nothing. */
function coverageOf(documents: WorkedIn["documents"]): Coverage {
  const told = documents.map(({ id, name }) => {
    const passages = [];
    let at = 0;
    for (const [index, paragraph] of texts[name]!.trim().split("\n\n").entries()) {
      const start = texts[name]!.indexOf(paragraph, at);
      at = start + paragraph.length;
      const rows = name === "Annex.txt" || paragraph.startsWith("#") ? 0 : (index % 3) + 1;
      passages.push(passage(start, at, name.replace(/\..*/, ""), rows));
    }
    return { document_id: id, name, passages };
  });
  const all = told.flatMap(({ passages }) => passages);
  const covered = all.filter(({ rows }) => rows > 0).length;
  return { content: all.length, covered, written: covered - 1, documents: told };
}

const verdict: RunVerdict = {
  outcome: "gain",
  headline:
    "Gain on the dev questions; the evaluation on the sealed questions shows the true gain; the model got worse at what the base could do: format",
  why: [
    "On 12 dev questions the base scores 25.0 of 100 and the aligned model 83.3: 7 answers became correct, 0 became wrong.",
    "general went from 61.2 to 59.8, which chance may explain too.",
    "format went from 88.0 to 71.5.",
  ],
  dev: { n: 12, base: 25, aligned: 83.3, gained: 7, lost: 0 },
  help: [
    "More questions in the benchmark: 12 dev questions show only large differences",
    "Annex.txt taught nothing: upload what it refers to",
  ],
  fell: [
    { name: "general", base: 61.2, aligned: 59.8, beyond_chance: false },
    { name: "format", base: 88, aligned: 71.5, beyond_chance: true },
  ],
};

interface Ended {
  name: string;
  daysAgo: number;
  documents: WorkedIn["documents"];
  benchmarkId: string;
}

/** What a finished run leaves: its report, the rows' report, its events. */
function endAlignment(it: Scripted, id: string, { name, daysAgo: days, documents, benchmarkId }: Ended): void {
  it.store
    .prepare<unknown[]>(
      `UPDATE alignment SET name = ?, workflow_id = 'standard', benchmark_id = ?, document_ids_json = ?, document_names_json = ?,
       phase = 'packaging', progress = 100, report_json = ?, metrics_json = ?, budget_json = ?, created_at = ?, started_at = ?
       WHERE id = ?`,
    )
    .run(
      ...[name, benchmarkId, JSON.stringify(documents.map((one) => one.id))],
      ...[JSON.stringify(documents.map((one) => one.name)), JSON.stringify({ verdict })],
      JSON.stringify({ loss: 0.412, dev_score: 83.3, tokens_per_second: 3120 }),
      JSON.stringify({ memory_bytes: 912_000_000, gpu_memory_bytes: 0, threads: 2 }),
      ...[daysAgo(days), daysAgo(days), id],
    );
  writeRun(it, id, coverageOf(documents), eventsOf(60, true));
}

/** An alignment that trains: nobody works on it, but to those who look it is under way. */
function startAlignment(it: Scripted, documents: WorkedIn["documents"], benchmarkId: string): string {
  const id = insertAlignment(it.store, "ada", it.baseId);
  const detail = { phase: "training", done: 140, total: 400, unit: "steps", rate: 0.5, seconds_left: 520 };
  const note = { detail, estimated_completion: new Date(Date.now() + 700_000).toISOString() };
  it.store
    .prepare<unknown[]>(
      `UPDATE alignment SET name = 'Harbour, third', workflow_id = 'standard', benchmark_id = ?, document_ids_json = ?, phase = 'training',
       progress = 36, progress_json = ?, started_at = ? WHERE id = ?`,
    )
    .run(benchmarkId, JSON.stringify(documents.map((one) => one.id)), JSON.stringify(note), daysAgo(0.01), id);
  const owner = it.store.prepare<[], { id: string }>("SELECT id FROM user WHERE name = 'ada'").get()!.id;
  const { epoch } = it.store.prepare<[], { epoch: number }>("SELECT epoch FROM supervisor").get()!;
  const jobId = newId("job");
  // Newer than the job that has ended, so it is the one that counts.
  it.store
    .prepare<unknown[]>(
      `INSERT INTO job(id, owner_id, kind, subject_id, state, fence, epoch, attempt, created_seq, created_at)
       VALUES(?, ?, 'align', ?, 'running', 1, ?, 1, ?, ?)`,
    )
    .run(jobId, owner, id, epoch, it.store.nextSeq(), new Date().toISOString());
  writeRun(it, id, coverageOf(documents), eventsOf(40, false));
  return id;
}

function writeRun(it: Scripted, id: string, coverage: Coverage, events: RunEvent[]): void {
  const folder = join(places(it.data).runs, id);
  const files = {
    "prepared/report.json": JSON.stringify({ rows: 96, study: { coverage } }),
    "events.jsonl": events.map((event) => `${JSON.stringify(event)}\n`).join(""),
    "artefact/report.html": "<!doctype html><title>Report</title><h1>Report</h1>",
  };
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
}

/** Steps with a falling loss, and a check every ten of them. */
function eventsOf(steps: number, hasEnded: boolean): RunEvent[] {
  const message = "3 of 60 benchmark questions occur in the documents. Their rows were dropped.";
  const leaked = { message, parameters: { n: 3, all: 60 } };
  const told: Omit<RunEvent, "seq" | "fence" | "at">[] = [
    { kind: "phase", phase: "preparing" },
    { kind: "warning", phase: "preparing", code: "benchmark_in_documents", ...leaked },
    { kind: "phase", phase: "training" },
  ];
  for (let step = 1; step <= steps; step++) {
    const loss = 2.4 * Math.exp(-step / 25) + 0.4 + 0.12 * Math.sin(step * 1.7);
    told.push({ kind: "step", phase: "training", step, metrics: { loss, tokens: 900, tokens_per_second: 3100 } });
    if (step % 10 > 0) continue;
    const score = Math.min(85, 25 + step * 1.1);
    told.push({ kind: "check", phase: "checking", step, metrics: { score, low: score - 21, high: score + 13, n: 12 } });
  }
  if (hasEnded) told.push({ kind: "phase", phase: "packaging" }, { kind: "done", phase: "packaging" });
  const start = Date.now() - told.length * 2000;
  return told.map((event, at) => ({ seq: at + 1, fence: 1, at: new Date(start + at * 2000).toISOString(), ...event }));
}

/** Scores of 400 answers of which those with a high score are more often right, as a fitting leaves them. */
function calibrate(it: Scripted, modelId: string): void {
  const counts = { n: new Array<number>(101).fill(0), right: new Array<number>(101).fill(0) };
  for (let at = 0; at < 400; at++) {
    const score = Math.round(((at * 7919) % 400) / 4);
    const isRight = ((at * 104_729) % 1000) / 1000 < 0.1 + 0.85 * (score / 100);
    counts.n[score]!++;
    if (isRight) counts.right[score]!++;
  }
  const row = it.store
    .prepare<[string], { calibration_json: string }>("SELECT calibration_json FROM aligned_model WHERE id = ?")
    .get(modelId)!;
  const right = counts.right.reduce((sum, one) => sum + one, 0);
  const errors = { calibration_error: 0.041, perfect_calibration_error: { mean: 0.03, p95: 0.05 } };
  const calibration: Calibration = {
    ...(JSON.parse(row.calibration_json) as Calibration),
    held_out: { counts, prr: 0.6, brier_skill: 0.3, debiased_calibration_error: 0.01, ...errors },
    statistics: { n: 400, accuracy: right / 400, auroc: 0.79, brier: 0.18 },
  };
  it.store
    .prepare<string[]>("UPDATE aligned_model SET calibration_json = ? WHERE id = ?")
    .run(JSON.stringify(calibration), modelId);
}

type Next = ToldCard["next"];

const look = {
  ...{ checkpoint: "phase-3", n: 14, score: 85.7, low: 81.2, smallest_visible: 9, reached: true, confirmed: true },
};

function cardOf(step: number, dev: number, hours: number, next: Next): ToldCard {
  const score = { score: dev, low: Math.max(0, dev - 12), high: Math.min(100, dev + 9), n: 12 };
  const arms = ["supervised", "reinforce", "distil"];
  return {
    step,
    code: next.kind === "phase" ? "best" : next.kind === "look" ? "worth_a_look" : "reached",
    because: `The phase ${next.phase?.arm ?? "end"} promises the most points an hour of what is left.`,
    would_change: "A regression beyond chance, or less than a point in the next phase.",
    bids: arms.map((arm, at) => ({
      ...{ arm, steps: 60, gain: 9 - 3 * at - step, sd: 2.5, hours: 0.4 + 0.3 * at, risk: 0.05 * (at + 1) },
      bid: (9 - 3 * at - step) / (0.4 + 0.3 * at),
    })),
    excluded: [{ arm: "represent", reason: "The model has too few layers for it" }],
    best: { checkpoint: `phase-${step}`, dev: score, chance_of_target: Math.min(0.95, dev / 100) },
    hours: { spent: hours, left: 2 - hours },
    looks: next.kind === "end" ? [look] : [],
    result:
      step === 0
        ? null
        : {
            ...{ checkpoint: `phase-${step}`, arm: arms[(step - 1) % 3]!, headroom: 30, dev: [dev - 6, dev] },
            ...{ difference: 6, low: 1.2, high: 10.4, chance_better: 0.97, forecast_error: -1.1, suites: [] },
          },
    regressions: step === 2 ? [{ checkpoint: "phase-2", suite: "format", points: -3.4, cause: "reinforce" }] : [],
    next,
  };
}

/** An auto-align that has reached its target in three phases and a look. */
function autoAlign(it: Scripted, alignmentId: string, benchmarkId: string): string {
  const sql = prepareAutoAligns(it.store);
  const moves = createMoves({ sql, clock: systemClock, onTransition: () => {} });
  const id = newId("auto_align");
  const ownerId = it.store.prepare<[], { id: string }>("SELECT id FROM user WHERE name = 'ada'").get()!.id;
  const request = {
    ...{ target_score: 80, benchmark_id: benchmarkId, method: "auto", representations: "auto", sequencing: null },
    ...{ max_compute_hours: 2, notify_on_phase_transition: true },
  };
  const at = new Date().toISOString();
  const cards = [
    cardOf(0, 58.3, 0, { kind: "phase", phase: { arm: "supervised" } }),
    cardOf(1, 66.7, 0.42, { kind: "phase", phase: { arm: "reinforce" } }),
    cardOf(2, 75, 0.9, { kind: "phase", phase: { arm: "distil" } }),
    cardOf(3, 83.3, 1.31, { kind: "look" }),
    cardOf(4, 83.3, 1.35, { kind: "end" }),
  ];
  it.store.transaction(() => {
    const seq = it.store.nextSeq();
    sql.insert.run({ id, ownerId, alignmentId, request: JSON.stringify(request), config: "null", seq, at });
    moves.to(id, "RUNNING");
    for (const card of cards) {
      const { step, best, hours } = card;
      const told = { step, next: card.next.kind, card: JSON.stringify(card), seq: it.store.nextSeq() };
      sql.insertCard.run({ id, at, ...told });
      const looks = JSON.stringify(step > 3 ? [look] : []);
      sql.note.run({ id, phases: Math.min(step, 3), dev: JSON.stringify(best.dev), hours: hours.spent, looks, at });
    }
    moves.to(id, "REACHED");
    const help = JSON.stringify(["More sealed questions: 14 show only differences of 9 points"]);
    sql.conclude.run({ id, phases: 3, hours: 1.35, confirmed: 1, help });
  });
  return id;
}
