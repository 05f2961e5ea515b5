// The main job once, small, with the real model and from outside: documents in, an aligned model with confidence out, through
// the API and the command line alone. The parts follow one another over one data folder.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { constants, getPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import OpenAI from "openai";
import { installation } from "../../src/base/config.ts";
import { sha256OfFile } from "../../src/base/files.ts";
import { type Client, createClient, type Replies } from "../../src/cli/client.ts";
import type { RunEvent } from "../../src/contract/run-folder.ts";
import { plumbline, type Serving, startServing } from "../cli/plumbline.ts";
import { descendantsOf } from "../faults/oracle.ts";

type Status = Replies["alignments.status"];

const demo = (path: string): string => readFileSync(join(installation, "config/demo", path), "utf8");

/** Questions about the two documents alone, few enough to answer quickly. */
const benchmark = demo("benchmark.jsonl")
  .split("\n")
  .filter((line) => /"cluster": "(company|head|managing|employees|export|research|sales|purchasing|parcels)/.test(line))
  .slice(0, 24)
  .join("\n");

const folder = mkdtempSync(join(tmpdir(), "plumbline-e2e-"));
const settings = { PLUMBLINE_DATA: join(folder, "data") };
const limitMs = 8 * 60_000;

let serving: Serving;
let key = "";
let client: Client;
let baseId = "";
let modelId = "";

async function start(): Promise<void> {
  serving = await startServing(settings);
  if (key === "") {
    const made = await plumbline(["key", "create", "--user", "ann"], settings);
    assert.equal(made.code, 0, made.stderr);
    key = made.stdout.trim();
  }
  client = createClient(serving.address, key);
}

async function stop(): Promise<void> {
  serving.child.kill("SIGTERM");
  assert.deepEqual(await serving.child.ended, { code: 0, signal: null }, serving.log());
}

/** Asks until there is an answer that is good enough. */
async function until<T>(what: string, ask: () => Promise<T | null>): Promise<T> {
  const end = performance.now() + limitMs;
  while (performance.now() < end) {
    const found = await ask();
    if (found !== null) return found;
    await delay(250);
  }
  throw new Error(`${what} did not come to pass\n${serving.log().slice(-4000)}`);
}

const statusOf = (alignmentId: string): Promise<Status> =>
  client.api["alignments.status"]({ params: { alignment_id: alignmentId } });

before(start);
after(async () => {
  serving.child.kill("SIGKILL");
  await serving.child.ended.catch(() => {});
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

test("the starter model is there without being asked for", async () => {
  baseId = await until("a base model", async () => {
    const { base_models } = await client.api["models.base"]();
    return base_models[0]?.can_be_aligned ? base_models[0].model_id : null;
  });
});

test("two alignments run at the same time, the appliance answers meanwhile, and both complete", async () => {
  const { documents } = await client.api["documents.upload"]({
    files: ["company-profile.md", "departments.md"].map((name) => ({
      name,
      mediaType: "text/markdown",
      content: demo(`documents/${name}`),
    })),
  });
  const { benchmark_id } = await client.api["benchmarks.upload"]({
    files: [{ name: "benchmark.jsonl", mediaType: "application/jsonl", content: benchmark }],
  });
  const common = { base_model_id: baseId, workflow_id: "quick" };
  const ids = documents.map((document) => document.document_id);
  const [first, second] = await Promise.all([
    client.api["alignments.create"]({
      body: { ...common, alignment_name: "Both documents", document_ids: ids, benchmark_id },
    }),
    client.api["alignments.create"]({
      body: { ...common, alignment_name: "One document", document_ids: [ids[1]] },
    }),
  ]);
  assert.equal(first.status, "PROCESSING");
  assert.equal(second.status, "PROCESSING");

  await until("both runs", async () => {
    const statuses = await Promise.all([statusOf(first.alignment_id), statusOf(second.alignment_id)]);
    for (const { status, error } of statuses) assert.equal(status, "PROCESSING", String(error));
    return statuses.every(({ phase }) => phase !== "queued") ? true : null;
  });
  const runs = descendantsOf(serving.child.pid).filter((entry) => / run \S*\/runs\//.test(entry.command));
  assert.equal(new Set(runs.map((entry) => entry.command)).size, 2, JSON.stringify(runs));
  // Answers come first: a run yields the processor to them, and what it starts inherits that.
  await until("runs that yield", async () =>
    runs.every(({ pid }) => getPriority(pid) === constants.priority.PRIORITY_BELOW_NORMAL) ? true : null,
  );

  const reply = await client.api["inference.chat"]({
    body: { model: baseId, messages: [{ role: "user", content: "Say hello." }], max_tokens: 8 },
  });
  assert.ok(reply.usage.completion_tokens > 0);
  assert.equal(reply.confidence_score, null);

  const events: RunEvent[] = [];
  for await (const event of client.alignmentEvents(first.alignment_id)) events.push(event);
  assert.deepEqual(
    events.map((event) => event.seq),
    events.map((_, index) => index + 1),
  );
  assert.equal(events.at(-1)?.kind, "done");

  const [one, other] = await Promise.all(
    [first, second].map(({ alignment_id }) =>
      until("the end of an alignment", async () => {
        const status = await statusOf(alignment_id);
        return status.status === "PROCESSING" ? null : status;
      }),
    ),
  );
  assert.equal(one!.status, "COMPLETED", String(one!.error));
  assert.equal(other!.status, "COMPLETED", String(other!.error));
  assert.equal(one!.performance_metrics?.overlap, 0);
  assert.ok(other!.model_id);
  modelId = one!.model_id!;

  const evaluation = await until("the evaluation", async () => {
    const record = await client.api["evaluations.get"]({ params: { evaluation_id: one!.evaluation_id! } });
    assert.notEqual(record.status, "FAILED", String(record.error));
    return record.status === "READY" ? record : null;
  });
  const results = await client.api["evaluations.results"]({ params: { evaluation_id: evaluation.evaluation_id } });
  assert.equal(results.items.length, evaluation.n_samples);
  assert.ok(results.low <= results.score && results.score <= results.high);
  assert.ok(results.items.every((item) => typeof item.confidence_score === "number"));
});

test("an undeployed model does not answer; a deployed one does, with confidence, to any OpenAI client", async () => {
  const openai = new OpenAI({ baseURL: `${serving.address}/api/v3/inference`, apiKey: key, maxRetries: 0 });
  const question = {
    model: modelId,
    messages: [{ role: "user" as const, content: "In which town is the head office of Tidewell Instruments?" }],
    temperature: 0,
    max_tokens: 24,
  };
  await assert.rejects(openai.chat.completions.create(question), { status: 409 });

  await client.api["models.deploy"]({ params: { model_id: modelId } });
  const task = await until("the deployment", async () => {
    const task = await client.api["models.deployment"]({ params: { model_id: modelId } });
    return task.status === "PROCESSING" ? null : task;
  });
  assert.equal(task.status, "READY", JSON.stringify(task.result));

  const whole = await openai.chat.completions.create(question);
  const text = whole.choices[0]!.message.content;
  assert.ok(text && text.length > 0);
  const { confidence_score, confidence } = whole as unknown as Replies["inference.chat"];
  assert.ok(confidence_score! >= 0 && confidence_score! <= 100, String(confidence_score));
  // Which ones is for the model to say; that there is a list says that the run's sources came along.
  assert.ok(Array.isArray(confidence?.sources), JSON.stringify(confidence));

  let streamed = "";
  let last: unknown;
  for await (const chunk of await openai.chat.completions.create({ ...question, stream: true })) {
    streamed += chunk.choices[0]?.delta.content ?? "";
    last = chunk;
  }
  assert.equal(streamed, text);
  assert.equal(typeof (last as { confidence_score: number }).confidence_score, "number");
});

test("the aligned model leaves as one file, and comes back as a base that can be aligned", async () => {
  const path = join(folder, "merged.gguf");
  const given = await plumbline(["model", "export", modelId, "--format", "merged", "--out", path, "--json"], settings);
  assert.equal(given.code, 0, given.stderr);
  const { files } = JSON.parse(given.stdout) as { files: { sha256: string }[] };
  assert.equal(await sha256OfFile(path), files[0]!.sha256);
  const taken = await plumbline(["model", "import", path, "--name", "merged", "--link", "--json"], settings);
  assert.equal(taken.code, 0, taken.stderr);
  assert.equal((JSON.parse(taken.stdout) as { can_be_aligned: boolean }).can_be_aligned, true);
});

test("a restart answers within a second, while the deployed model still loads", async () => {
  // The best of three: a busy machine must not fail what is about the program.
  const seconds: number[] = [];
  for (let tries = 0; tries < 3 && !seconds.some((taken) => taken < 1); tries++) {
    await stop();
    const startedMs = performance.now();
    await start();
    const health = await fetch(`${serving.address}/healthz`);
    seconds.push((performance.now() - startedMs) / 1000);
    assert.equal(health.status, 200);
  }
  assert.ok(
    seconds.some((taken) => taken < 1),
    `healthy after ${seconds.map((taken) => taken.toFixed(2)).join(", ")} s`,
  );
  await until("readiness", async () => ((await fetch(`${serving.address}/readyz`)).status === 200 ? true : null));
  const record = (await client.api["models.get"]({ params: { model_id: modelId } })) as { deployment_status?: string };
  assert.equal(record.deployment_status, "DEPLOYED");
  await stop();
});
