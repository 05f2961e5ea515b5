// kill -9 of serve, at moments that are chosen and at moments that are not, with work of every kind under way; after each start
// the oracle. The random moments come from one seed, so that a failure comes back.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { installation } from "../../src/base/config.ts";
import { type Client, type ClientFile, createClient } from "../../src/cli/client.ts";
import { plumbline, type Serving, startServing } from "../cli/plumbline.ts";
import {
  type Acknowledged,
  acknowledgedIsThere,
  databaseIsSound,
  descendantsOf,
  filesAndRowsAgree,
  historyIsLegal,
  noJobIsStuck,
  noneIsLeftOf,
  strangersOn,
} from "./oracle.ts";

const stuckMs = 30_000;
const folder = mkdtempSync(join(tmpdir(), "plumbline-faults-"));
const data = join(folder, "data");
const settings = { PLUMBLINE_DATA: data, PLUMBLINE_LOG: "warn" };
const demo = (path: string): string => readFileSync(join(installation, "config/demo", path), "utf8");

/** splitmix32, so that the same moments come again. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let word = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    word = Math.imul(word ^ (word >>> 15), 0x735a2d97);
    return ((word ^ (word >>> 15)) >>> 0) / 2 ** 32;
  };
}
const random = randomFrom(20_261_121);

let serving: Serving;
let client: Client;
let key = "";
let bootedAt = 0;
let dead: ReturnType<typeof descendantsOf> = [];
const acknowledged: Acknowledged[] = [];

async function start(): Promise<void> {
  bootedAt = Date.now();
  serving = await startServing(settings);
  if (key === "") {
    const made = await plumbline(["key", "create", "--user", "ann"], settings);
    assert.equal(made.code, 0, made.stderr);
    key = made.stdout.trim();
  }
  client = createClient(serving.address, key);
}

async function kill(): Promise<void> {
  dead = descendantsOf(serving.child.pid);
  serving.child.kill("SIGKILL");
  await serving.child.ended;
}

/** Everything that must hold, some while after a start. */
async function consult(): Promise<void> {
  const broken = [
    ...(await noneIsLeftOf(dead, 15_000)),
    ...databaseIsSound(data),
    ...(await acknowledgedIsThere(acknowledged)),
    ...(await noJobIsStuck(data, stuckMs)),
    ...historyIsLegal(data),
    ...(await filesAndRowsAgree(data, bootedAt)),
    ...strangersOn(data, serving.child.pid),
  ];
  assert.deepEqual(broken, [], serving.log().slice(-4000));
}

async function until<T>(what: string, ask: () => Promise<T | null | undefined | false>): Promise<T> {
  for (const end = performance.now() + 8 * 60_000; performance.now() < end; await delay(50)) {
    const found = await ask();
    if (found) return found;
  }
  throw new Error(`${what} did not come to pass\n${serving.log().slice(-4000)}`);
}

// ---- what is asked of it, and what its answers promise --------------------------------------------------------------------

let documents = 0;
const someDocument = (paragraphs = 1): ClientFile => ({
  name: `note-${++documents}.md`,
  mediaType: "text/markdown",
  content: `# Note ${documents}\n\n${`The pump of hall ${documents} was inspected by Ada Brook.\n\n`.repeat(paragraphs)}`,
});

async function upload(files: ClientFile[]): Promise<string[]> {
  const uploaded = await client.api["documents.upload"]({ files });
  for (const record of uploaded.documents)
    acknowledged.push({
      what: `document ${record.document_id}`,
      still: async () =>
        assert.deepEqual(await client.api["documents.get"]({ params: { document_id: record.document_id } }), record),
    });
  return uploaded.documents.map((record) => record.document_id);
}

async function uploadBenchmark(): Promise<string> {
  const content = demo("benchmark.jsonl").split("\n").slice(0, 24).join("\n");
  const files = [{ name: "benchmark.jsonl", mediaType: "application/jsonl", content }];
  const record = await client.api["benchmarks.upload"]({ files });
  const params = { benchmark_id: record.benchmark_id };
  acknowledged.push({
    what: `benchmark ${record.benchmark_id}`,
    still: async () => assert.deepEqual(await client.api["benchmarks.get"]({ params }), record),
  });
  return record.benchmark_id;
}

async function align(baseId: string, documentIds: string[], benchmarkId?: string): Promise<string> {
  const body = {
    alignment_name: "Killed",
    base_model_id: baseId,
    document_ids: documentIds,
    workflow_id: "quick",
    ...(benchmarkId === undefined ? {} : { benchmark_id: benchmarkId }),
  };
  const { alignment_id } = await client.api["alignments.create"]({ body });
  let progress = 0;
  let ended: string | null = null;
  acknowledged.push({
    what: `alignment ${alignment_id}`,
    still: async () => {
      const status = await statusOf(alignment_id);
      assert.ok(status.progress >= progress, `progress fell from ${progress} to ${status.progress}`);
      if (ended !== null) assert.equal(status.status, ended);
      progress = status.progress;
      if (status.status !== "PROCESSING") ended = status.status;
      if (status.status === "COMPLETED") assert.ok(status.model_id);
    },
  });
  return alignment_id;
}

const statusOf = (alignmentId: string) => client.api["alignments.status"]({ params: { alignment_id: alignmentId } });

async function evaluate(modelId: string, benchmarkId: string): Promise<string> {
  const body = { model_id: modelId, benchmark_id: benchmarkId };
  const { evaluation_id } = await client.api["evaluations.create"]({ body });
  let score: number | null = null;
  acknowledged.push({
    what: `evaluation ${evaluation_id}`,
    still: async () => {
      const params = { evaluation_id };
      const record = await client.api["evaluations.get"]({ params });
      assert.notEqual(record.status, "FAILED", String(record.error));
      assert.ok(record.n_samples_completed <= record.n_samples);
      if (score === null && record.status !== "READY") return;
      const results = await client.api["evaluations.results"]({ params });
      if (score !== null) assert.equal(results.score, score);
      score = results.score;
    },
  });
  return evaluation_id;
}

/** Uploads until the appliance is gone; what fails after that is nobody's fault. */
function uploadOnAndOn(): { gone(): void } {
  let isGone = false;
  const work = async (): Promise<void> => {
    while (!isGone)
      await upload([someDocument(1 + Math.floor(random() * 400))]).catch((error) => {
        if (!isGone) throw error;
      });
  };
  for (let n = 0; n < 3; n++) void work();
  return {
    gone: () => {
      isGone = true;
    },
  };
}

// ---- the kills --------------------------------------------------------------------------------------------------------------

/** Every deployed model serves again. */
const ready = (): Promise<true> =>
  until("readiness", async () => ((await fetch(`${serving.address}/readyz`)).status === 200 ? (true as const) : null));

/** Kills in the middle of `act`, which resolves at the moment; starts again and asks the oracle. */
async function killedWhen(act: () => Promise<unknown>): Promise<void> {
  await act();
  await kill();
  await start();
  await consult();
}

after(async () => {
  serving.child.kill("SIGKILL");
  await serving.child.ended.catch(() => {});
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

test("killed at any moment, it loses nothing it acknowledged and takes its work up again", async (context) => {
  await start();
  const step = async (name: string, act: () => Promise<unknown>): Promise<void> => {
    await context.test(name, () => killedWhen(act));
  };
  const baseId = await until("a base model", async () => {
    const { base_models } = await client.api["models.base"]();
    return base_models[0]?.model_id;
  });

  for (let round = 1; round <= 5; round++)
    await step(`while documents are uploaded, round ${round}`, async () => {
      const load = uploadOnAndOn();
      await delay(20 + random() * 400);
      load.gone();
    });
  await step("right after a benchmark was acknowledged", uploadBenchmark);
  const benchmarkId = await uploadBenchmark();
  const ids = await upload([{ name: "who.md", mediaType: "text/markdown", content: demo("documents/departments.md") }]);

  let alignmentId = "";
  await step("right after an alignment was acknowledged", async () => {
    alignmentId = await align(baseId, ids, benchmarkId);
  });
  await step("while its documents are deleted and it prepares", async () => {
    const [spare] = await upload([someDocument()]);
    await client.api["documents.delete"]({ params: { document_id: spare! } });
    acknowledged.splice(
      acknowledged.findIndex((one) => one.what === `document ${spare}`),
      1,
    );
    acknowledged.push({
      what: `deletion of ${spare}`,
      still: () => assert.rejects(client.api["documents.get"]({ params: { document_id: spare! } }), /404/),
    });
  });
  await step("while it trains", () =>
    until("training", async () =>
      ["training", "checking", "packaging", "ended"].includes((await statusOf(alignmentId)).phase),
    ),
  );
  await step("at a random moment of the run", () => delay(random() * 8000));

  const status = await until("the end of the alignment", async () => {
    const status = await statusOf(alignmentId);
    assert.notEqual(status.status, "FAILED", String(status.error));
    return status.status === "COMPLETED" && status;
  });
  await step("right after it has completed, its evaluation queued", () => delay(random() * 500));
  const modelId = String(status.model_id);

  await step("while a model is deployed", () => client.api["models.deploy"]({ params: { model_id: modelId } }));
  await until("the deployment", async () => {
    const task = await client.api["models.deployment"]({ params: { model_id: modelId } });
    assert.notEqual(task.status, "FAILED", JSON.stringify(task.result));
    return task.status === "READY";
  });
  acknowledged.push({
    what: `deployment of ${modelId}`,
    still: async () => {
      const record = (await client.api["models.get"]({ params: { model_id: modelId } })) as {
        deployment_status?: string;
      };
      assert.equal(record.deployment_status, "DEPLOYED");
    },
  });
  // Two loads in a row that a kill ends are one too many: the appliance would rightly leave the model alone. So one is killed,
  // and from then on every moment comes after the load.
  await ready();
  await step("while deployed models load again", () => delay(random() * 300));
  await step("while it answers", async () => {
    await ready();
    const body = { model: modelId, messages: [{ role: "user", content: "Who leads Sales?" }], max_tokens: 200 };
    client.api["inference.chat"]({ body }).catch(() => {});
    await delay(300 + random() * 500);
  });
  let evaluationId = "";
  await step("right after an evaluation was acknowledged", async () => {
    await ready();
    evaluationId = await evaluate(baseId, benchmarkId);
  });
  await ready();
  await step("while an evaluation answers", () =>
    until("answers", async () => {
      const record = await client.api["evaluations.get"]({ params: { evaluation_id: evaluationId } });
      return record.n_samples_completed > 0;
    }),
  );
  await ready();
  await step("while it undeploys", () => client.api["models.undeploy"]({ params: { model_id: modelId } }).then(forget));

  /** What was deployed may be undeployed now. */
  function forget(): void {
    acknowledged.splice(
      acknowledged.findIndex((one) => one.what === `deployment of ${modelId}`),
      1,
    );
  }
  await until("the evaluation", async () => {
    const record = await client.api["evaluations.get"]({ params: { evaluation_id: evaluationId } });
    return record.status === "READY";
  });
  await consult();
});
