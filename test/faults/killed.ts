// An appliance that is killed and started again over the same data, what it has acknowledged so far, and the oracle after each
// start.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { installation } from "../../src/base/config.ts";
import { type Child, startProcess } from "../../src/base/processes.ts";
import { type Client, type ClientFile, createClient } from "../../src/cli/client.ts";
import { launcher, plumbline, type Serving, type Settings, startServing } from "../cli/plumbline.ts";
import { randomWords } from "../helpers/random.ts";
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

/** Within which work of an earlier life is taken up, and what it left is gone. */
const settledMs = 30_000;

export const demo = (path: string): string => readFileSync(join(installation, "config/demo", path), "utf8");

/** Numbers in [0, 1), the same each time, so that the same moments come again. */
export function randomFrom(seed: number): () => number {
  const next = randomWords(seed);
  return () => next() / 2 ** 32;
}

/** Kills a process after a time. Null if it was killed; otherwise how it had ended before, and how long that took. */
export async function killedAfter(child: Child, afterMs: number): Promise<{ code: number | null; ms: number } | null> {
  const startedMs = performance.now();
  child.stdout.resume();
  child.stderr.resume();
  const ended = child.ended.then(({ code }) => code);
  const code = await Promise.race([ended, delay(afterMs, "late" as const)]);
  if (code !== "late") return { code, ms: performance.now() - startedMs };
  child.kill("SIGKILL");
  await ended;
  return null;
}

export class Killed {
  serving!: Serving;
  client!: Client;
  key = "";
  readonly acknowledged: Acknowledged[] = [];
  readonly #settings: Settings;
  readonly #data: string;
  readonly #random: () => number;
  #bootedAt = 0;
  #dead: ReturnType<typeof descendantsOf> = [];
  #documents = 0;

  constructor(settings: Settings & { PLUMBLINE_DATA: string }, random: () => number) {
    this.#settings = settings;
    this.#data = settings.PLUMBLINE_DATA;
    this.#random = random;
  }

  async start(): Promise<void> {
    this.#bootedAt = Date.now();
    this.serving = await startServing(this.#settings);
    if (this.key === "") {
      const made = await plumbline(["key", "create", "--user", "ada"], this.#settings);
      assert.equal(made.code, 0, made.stderr);
      this.key = made.stdout.trim();
    }
    this.client = createClient(this.serving.address, this.key);
  }

  async kill(): Promise<void> {
    const { child } = this.serving;
    this.#dead.push(...descendantsOf(child.pid));
    child.kill("SIGKILL");
    await child.ended;
  }

  /** Starts, and kills at the moment at which `come` resolves, wherever the start is by then. */
  async cutStart(come: () => Promise<unknown>): Promise<void> {
    const child = startProcess(launcher, ["serve", "--json", "--attached"], {
      env: { PLUMBLINE_PORT: "0", ...this.#settings },
    });
    child.stdout.resume();
    child.stderr.resume();
    try {
      await come();
    } finally {
      this.#dead.push(...descendantsOf(child.pid));
      child.kill("SIGKILL");
      await child.ended;
    }
  }

  /** Everything that must hold, some while after a start. */
  async consult(): Promise<void> {
    const broken = [
      ...(await noneIsLeftOf(this.#dead.splice(0), 15_000)),
      ...databaseIsSound(this.#data),
      ...(await acknowledgedIsThere(this.acknowledged)),
      ...(await noJobIsStuck(this.#data, settledMs)),
      ...historyIsLegal(this.#data),
      ...(await filesAndRowsAgree(this.#data, this.#bootedAt, settledMs)),
      ...strangersOn(this.#data, this.serving.child.pid),
    ];
    assert.deepEqual(broken, [], this.serving.log().slice(-4000));
  }

  /** What was acknowledged and is missing from another data folder, to which a backup of this one was restored. */
  async missingFrom(restored: string, acknowledged: readonly Acknowledged[]): Promise<string[]> {
    const other = new Killed({ ...this.#settings, PLUMBLINE_DATA: restored }, this.#random);
    other.key = this.key;
    await other.start();
    const live = this.client;
    try {
      // What was acknowledged is looked for through this client.
      this.client = other.client;
      return await acknowledgedIsThere(acknowledged);
    } finally {
      this.client = live;
      await other.close();
    }
  }

  async until<T>(what: string, ask: () => Promise<T | null | undefined | false>): Promise<T> {
    for (const end = performance.now() + 8 * 60_000; performance.now() < end; await delay(50)) {
      const found = await ask();
      if (found) return found;
    }
    throw new Error(`${what} did not come to pass\n${this.serving.log().slice(-4000)}`);
  }

  /** Every deployed model serves again. */
  ready(): Promise<true> {
    const ask = async () => ((await fetch(`${this.serving.address}/readyz`)).status === 200 ? (true as const) : null);
    return this.until("readiness", ask);
  }

  baseId(): Promise<string> {
    return this.until("a base model", async () => {
      const { base_models } = await this.client.api["models.base"]();
      return base_models[0]?.model_id;
    });
  }

  async close(): Promise<void> {
    this.serving.child.kill("SIGKILL");
    await this.serving.child.ended.catch(() => {});
  }

  // ---- what is asked of it, and what its answers promise ------------------------------------------------------------------

  someDocument(paragraphs = 1): ClientFile {
    const n = ++this.#documents;
    const content = `# Note ${n}\n\n${`The pump of hall ${n} was inspected by Ada Brook.\n\n`.repeat(paragraphs)}`;
    return { name: `note-${n}.md`, mediaType: "text/markdown", content };
  }

  async upload(files: ClientFile[]): Promise<string[]> {
    const { documents } = await this.client.api["documents.upload"]({ files });
    for (const record of documents) {
      const params = { document_id: record.document_id };
      this.acknowledged.push({
        what: `document ${record.document_id}`,
        still: async () => assert.deepEqual(await this.client.api["documents.get"]({ params }), record),
      });
    }
    return documents.map((record) => record.document_id);
  }

  async deleteDocument(id: string): Promise<void> {
    const params = { document_id: id };
    // Whatever becomes of the request, nobody was promised that it stays.
    this.forget(`document ${id}`);
    await this.client.api["documents.delete"]({ params });
    this.acknowledged.push({
      what: `deletion of ${id}`,
      still: () => assert.rejects(this.client.api["documents.get"]({ params }), /404/),
    });
  }

  async uploadBenchmark(): Promise<string> {
    const content = demo("benchmark.jsonl").split("\n").slice(0, 24).join("\n");
    const files = [{ name: "benchmark.jsonl", mediaType: "application/jsonl", content }];
    const record = await this.client.api["benchmarks.upload"]({ files });
    const params = { benchmark_id: record.benchmark_id };
    this.acknowledged.push({
      what: `benchmark ${record.benchmark_id}`,
      still: async () => assert.deepEqual(await this.client.api["benchmarks.get"]({ params }), record),
    });
    return record.benchmark_id;
  }

  /** Uploads a document and deletes it again. */
  async deleteOne(): Promise<void> {
    const { documents } = await this.client.api["documents.upload"]({ files: [this.someDocument()] });
    await this.deleteDocument(documents[0]!.document_id);
  }

  /** Makes a key, which opens from then on. */
  async makeKey(): Promise<string> {
    const { id, key } = await this.client.api["keys.create"]({ body: { name: "one of many" } });
    this.acknowledged.push({
      what: `key ${id}`,
      still: async () => void (await createClient(this.client.address, key).api["documents.list"]()),
    });
    return id;
  }

  /** Makes a key and revokes it. That is read in the list: an address that asks with many wrong keys is held off. */
  async revokeOne(): Promise<void> {
    const { id } = await this.client.api["keys.create"]({ body: { name: "revoked" } });
    await this.client.api["keys.revoke"]({ params: { key_id: id } });
    this.acknowledged.push({
      what: `revocation of key ${id}`,
      still: async () => {
        for (let offset = 0; ; offset += 100) {
          const { keys } = await this.client.api["keys.list"]({ query: { limit: 100, offset } });
          const found = keys.find((one) => one.id === id);
          if (found) return assert.notEqual(found.revoked_at, null);
          assert.ok(keys.length > 0, "it is not in the list");
        }
      },
    });
  }

  /** Makes an agent, and rates it. */
  async rate(baseId: string): Promise<string> {
    const { data } = await this.client.api["agents.create"]({ body: { name: "rated", base_model: baseId } });
    const params = { agent_id: data.id };
    const rating = Math.floor(this.#random() * 101);
    await this.client.api["agents.feedback"]({ params, body: { rating } });
    this.acknowledged.push({
      what: `rating of agent ${data.id}`,
      still: async () => {
        const { performance_metrics } = (await this.client.api["agents.get"]({ params })).data;
        assert.equal(performance_metrics.user_satisfaction_score, rating);
      },
    });
    return data.id;
  }

  /** Changes an agent to the state `n`, in which or in a later one it is from then on. */
  async change(agentId: string, n: number): Promise<void> {
    const params = { agent_id: agentId };
    await this.client.api["agents.update"]({ params, body: { description: String(n) } });
    this.acknowledged.push({
      what: `change ${n} of agent ${agentId}`,
      still: async () => {
        const { description } = (await this.client.api["agents.get"]({ params })).data;
        assert.ok(Number(description) >= n, `it is at ${description}`);
      },
    });
  }

  /** `mayFail`: whether an end other than of its own is right, as after more kills than work is begun again for. */
  async align(baseId: string, documentIds: string[], benchmarkId?: string, mayFail?: RegExp): Promise<string> {
    const body = {
      alignment_name: "Killed",
      base_model_id: baseId,
      document_ids: documentIds,
      workflow_id: "quick",
      ...(benchmarkId === undefined ? {} : { benchmark_id: benchmarkId }),
    };
    const { alignment_id } = await this.client.api["alignments.create"]({ body });
    let progress = 0;
    let ended: string | null = null;
    this.acknowledged.push({
      what: `alignment ${alignment_id}`,
      still: async () => {
        const status = await this.statusOf(alignment_id);
        assert.ok(status.progress >= progress, `progress fell from ${progress} to ${status.progress}`);
        if (ended !== null) assert.equal(status.status, ended);
        progress = status.progress;
        if (status.status !== "PROCESSING") ended = status.status;
        if (status.status === "COMPLETED") assert.ok(status.model_id);
        if (status.status === "FAILED") assert.match(String(status.error), mayFail ?? /^never$/);
      },
    });
    return alignment_id;
  }

  statusOf(alignmentId: string) {
    return this.client.api["alignments.status"]({ params: { alignment_id: alignmentId } });
  }

  async evaluate(modelId: string, benchmarkId: string, mayFail?: RegExp): Promise<string> {
    const body = { model_id: modelId, benchmark_id: benchmarkId };
    const { evaluation_id } = await this.client.api["evaluations.create"]({ body });
    let score: number | null = null;
    this.acknowledged.push({
      what: `evaluation ${evaluation_id}`,
      still: async () => {
        const params = { evaluation_id };
        const record = await this.client.api["evaluations.get"]({ params });
        if (record.status === "FAILED") assert.match(String(record.error), mayFail ?? /^never$/);
        assert.ok(record.n_samples_completed <= record.n_samples);
        if (score === null && record.status !== "READY") return;
        const results = await this.client.api["evaluations.results"]({ params });
        if (score !== null) assert.equal(results.score, score);
        score = results.score;
      },
    });
    return evaluation_id;
  }

  /** Uploads until the appliance is gone; what fails after that is nobody's fault. */
  uploadOnAndOn(): { gone(): void } {
    let isGone = false;
    const work = async (): Promise<void> => {
      while (!isGone)
        await this.upload([this.someDocument(1 + Math.floor(this.#random() * 400))]).catch((error) => {
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

  /** What was promised so is promised no more. */
  forget(what: string): void {
    const at = this.acknowledged.findIndex((one) => one.what === what);
    if (at >= 0) this.acknowledged.splice(at, 1);
  }
}
