// The appliance that the hostile cases are tried on: served in a process of its own, with two users, a deployed model, and somebody who
// asks for /healthz all the while.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { installation, places } from "../../../src/base/config.ts";
import { sha256OfFile } from "../../../src/base/files.ts";
import { scopes } from "../../../src/contract/endpoint.ts";
import type { Contract } from "../../../src/contract/index.ts";
import { readRecipes } from "../../../src/domain/alignments/recipes.ts";
import { makeRunFolder } from "../../../src/domain/alignments/snapshot.ts";
import { askAdmin } from "../../../src/http/admin.ts";
import { openStore, type Store } from "../../../src/store/open.ts";
import { type Serving, type Settings, startServing } from "../../cli/plumbline.ts";
import { tinyModel } from "../../engine/trainer-fixture.ts";
import { writeAdapter } from "../../helpers/adapter.ts";
import { callOf, type TestCall, type TestReply } from "../../helpers/house.ts";
import type { Hub } from "../../helpers/hub.ts";
import { type Asked, type Ids, ownedBy } from "../../helpers/matrix.ts";
import { type RawAnswer, raw } from "../../helpers/raw.ts";
import { insertAlignJob } from "../../helpers/rows.ts";
import { calibrationOf, insertAligned } from "../../helpers/served.ts";
import { descendantsOf } from "../oracle.ts";

export interface Case {
  /** As the list of hostile cases numbers them. */
  id: number;
  situation: string;
  expected: string;
  /** What came, in a few words. Throws where it is not what is expected. */
  run(it: Target): Promise<string>;
}

export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: cases look into answers as they are.
  body: any;
  text: string;
  ms: number;
}

export interface Ask {
  method?: string;
  /** Null sends none; the first user's where it is not said. */
  key?: string | null;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as it is, as JSON where no type is named. */
  body?: string | Uint8Array | FormData;
  signal?: AbortSignal;
}

/** So short that what waits for them does not take long. */
export const limits = {
  headSeconds: 4,
  bodySeconds: 8,
  stallSeconds: 3,
  uploadBytes: 8 << 20,
  queue: 32,
  slotContext: 512,
};

const settings: Settings = {
  PLUMBLINE_FREE_DISK: "0",
  PLUMBLINE_SLOTS: "2",
  PLUMBLINE_SLOT_CONTEXT: String(limits.slotContext),
  PLUMBLINE_THREADS: "2",
  PLUMBLINE_QUEUE_LIMIT: String(limits.queue),
  PLUMBLINE_HEAD_SECONDS: String(limits.headSeconds),
  PLUMBLINE_BODY_SECONDS: String(limits.bodySeconds),
  PLUMBLINE_STALL_SECONDS: String(limits.stallSeconds),
  PLUMBLINE_UPLOAD_BYTES: String(limits.uploadBytes),
  PLUMBLINE_CONNECTIONS: "12000",
  PLUMBLINE_CONNECTIONS_PER_ADDRESS: "10000",
};

export class Target implements Asked {
  readonly folder: string;
  readonly data: string;
  serving!: Serving;
  url = "";
  key = "";
  otherKey = "";
  /** May everything. */
  adminKey = "";
  store!: Store;
  /** A language model, and one of a few kilobytes that says nothing sensible at once. */
  languageId = "";
  baseId = "";
  /** Over the language model, ada's. */
  deployed = "";
  undeployed = "";
  /** What it takes for the hub of models. */
  readonly hub: Hub;
  readonly #settings: Settings;
  #probe: Probe | null = null;
  #adapter = "";
  readonly #ids = new Map<string, Promise<Ids>>();
  #sampler: NodeJS.Timeout | null = null;
  #peak = { serve: 0, children: 0 };

  constructor(folder: string, hub: Hub, more: Settings = {}) {
    this.folder = folder;
    this.hub = hub;
    this.data = join(folder, "data");
    mkdirSync(this.data, { recursive: true });
    this.#settings = { ...settings, PLUMBLINE_DATA: this.data, PLUMBLINE_HUB_MIRROR: hub.url, ...more };
  }

  async start(): Promise<void> {
    this.serving = await startServing(this.#settings);
    this.url = this.serving.address;
    this.store = openStore(places(this.data).database);
    if (this.key === "") {
      this.key = (await this.makeKey({ user: "ada" })).key;
      this.otherKey = (await this.makeKey({ user: "bob" })).key;
      this.adminKey = (await this.makeKey({ user: "root", scopes: [...scopes] })).key;
    }
    this.#probe ??= new Probe();
    this.#probe.aim(this.url);
    this.#sampler ??= setInterval(() => this.#sample(), 500);
  }

  /** The models that cases ask. */
  async furnish(): Promise<void> {
    const bases = async () =>
      (await this.call("models.base")).body.base_models as { model_id: string; sha256: string }[];
    const language = await this.until("the starter model", async () => (await bases())[0]);
    this.languageId = language.model_id;
    this.baseId = (await this.admin("model.import", { path: tinyModel("tiny-f32"), name: "tiny" })).model_id;
    this.#adapter = join(this.folder, "adapter.gguf");
    writeAdapter(this.#adapter);
    const calibration = await calibrationOf(language.sha256);
    const insert = async (): Promise<string> => {
      const { modelId } = insertAligned(this.store, this.languageId, this.#adapter, calibration);
      const digest = await sha256OfFile(this.#adapter);
      this.store.prepare<string[]>("UPDATE aligned_model SET adapter_sha256 = ? WHERE id = ?").run(digest, modelId);
      return modelId;
    };
    this.deployed = await insert();
    this.undeployed = await insert();
    await this.deploy(this.deployed);
  }

  async deploy(modelId: string, key = this.key): Promise<string> {
    await this.call("models.deploy", { params: { model_id: modelId }, key });
    return this.until("the deployment", async () => {
      const { body } = await this.call("models.deployment", { params: { model_id: modelId }, key });
      return body.status !== "PROCESSING" && (body.status as string);
    });
  }

  /** Another aligned model of that user, over the small base, which no training made. */
  async align(user = "ada"): Promise<{ modelId: string; alignmentId: string }> {
    const base = this.store
      .prepare<[string], { sha256: string; architecture: string }>(
        "SELECT sha256, architecture FROM base_model WHERE id = ?",
      )
      .get(this.baseId)!;
    const made = insertAligned(this.store, this.baseId, this.#adapter, await calibrationOf(base.sha256));
    const owner = this.store.prepare<[string], { id: string }>("SELECT id FROM user WHERE name = ?").get(user)!.id;
    for (const [table, id] of Object.entries({ alignment: made.alignmentId, aligned_model: made.modelId }))
      this.store.prepare<string[]>(`UPDATE ${table} SET owner_id = ? WHERE id = ?`).run(owner, id);
    insertAlignJob(this.store, made.alignmentId, owner, "succeeded");
    // An auto-align is taken where there is a snapshot, and fails at its planning for want of a benchmark.
    await makeRunFolder(places(this.data).runs, {
      alignmentId: made.alignmentId,
      recipeName: "quick",
      recipe: (await readRecipes(join(installation, "config/recipes"))).get("quick")!,
      base: { id: this.baseId, ...base },
      documents: [],
      dev: null,
      organisation: null,
      teacher: null,
    });
    return made;
  }

  /** One of each kind, of that user. */
  idsOf(user: "ada" | "bob"): Promise<Ids> {
    const known = this.#ids.get(user) ?? ownedBy(this, user, user === "ada" ? this.key : this.otherKey);
    this.#ids.set(user, known);
    return known;
  }

  async stop(): Promise<void> {
    this.#probe?.aim(null);
    this.store.close();
    this.#sample();
    this.serving.child.kill("SIGTERM");
    await this.serving.child.ended;
  }

  /** As the unit would after a fall. */
  async restart(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    this.#probe?.aim(null);
    this.store.close();
    this.#sample();
    this.serving.child.kill(signal);
    await this.serving.child.ended;
    await this.start();
  }

  async close(): Promise<void> {
    if (this.#sampler) clearInterval(this.#sampler);
    await this.stop();
    await this.#probe?.close();
  }

  // ---- asking ---------------------------------------------------------------------------------------------------------------

  async ask(path: string, { method, key = this.key, headers = {}, json, body, signal }: Ask = {}): Promise<Answer> {
    const sent = json === undefined ? body : JSON.stringify(json);
    const typed = sent === undefined || sent instanceof FormData ? {} : { "content-type": "application/json" };
    const from = performance.now();
    const response = await fetch(this.url + path, {
      method: method ?? (sent === undefined ? "GET" : "POST"),
      headers: { ...(key === null ? {} : { authorization: `Bearer ${key}` }), ...typed, ...headers },
      ...(sent === undefined ? {} : { body: sent as string }),
      ...(signal === undefined ? {} : { signal }),
    });
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
    const answer = { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text, text };
    if (answer.status >= 400) this.#checkRefusal(path, text, isJson);
    return { ...answer, ms: performance.now() - from };
  }

  chat = (json: object, more: Ask = {}): Promise<Answer> =>
    this.ask("/api/v3/inference/chat/completions", {
      json: { model: this.languageId, messages: [{ role: "user", content: "Say hello." }], max_tokens: 2, ...json },
      ...more,
    });

  complete = (json: object, more: Ask = {}): Promise<Answer> =>
    this.ask("/api/v3/inference/completions", {
      json: { model: this.languageId, prompt: "One two", max_tokens: 2, ...json },
      ...more,
    });

  call = (name: keyof Contract, input?: TestCall): Promise<TestReply> => callOf(this, name, input);

  get = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(this.url + path, { ...init, headers: { authorization: `Bearer ${this.key}`, ...init.headers } });

  upload(path: string, files: [name: string, content: string | Uint8Array][], key = this.key): Promise<Answer> {
    const body = new FormData();
    for (const [name, content] of files) body.append("file", new Blob([content as string]), name);
    return this.ask(path, { method: "POST", body, key });
  }

  documents = (...files: [name: string, content: string | Uint8Array][]): Promise<Answer> =>
    this.upload("/api/v3/documents/upload", files);

  async document(content = "The door of the hall is teal."): Promise<string> {
    return (await this.documents(["a.txt", content])).body.documents[0].document_id;
  }

  benchmark = (content: string | Uint8Array, name = "rows.jsonl"): Promise<Answer> =>
    this.upload("/api/v3/benchmarks/upload", [[name, content]]);

  raw = (bytes: string | Buffer, options?: { until?: RegExp; ms?: number }): Promise<RawAnswer> =>
    raw(this.url, bytes, options);

  /** Lines of a head after the request line; the connection is closed after the answer. */
  rawHead = (line: string, lines: string[], ms?: number): Promise<RawAnswer> =>
    this.raw([`${line} HTTP/1.1`, ...lines, "Connection: close", "", ""].join("\r\n"), ms === undefined ? {} : { ms });

  /** A stream of an answer, event by event; ends the stream where the caller stops reading. */
  async *stream(json: object, more: Ask = {}): AsyncGenerator<string> {
    const response = await fetch(`${this.url}/api/v3/inference/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${more.key ?? this.key}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: this.languageId,
        prompt: "Once",
        max_tokens: 100,
        ignore_eos: true,
        stream: true,
        ...json,
      }),
      ...(more.signal === undefined ? {} : { signal: more.signal }),
    });
    assert.equal(response.status, 200);
    const decoder = new TextDecoder();
    let rest = "";
    for await (const part of response.body!) {
      const events = (rest + decoder.decode(part as Uint8Array, { stream: true })).split("\n\n");
      rest = events.pop()!;
      for (const event of events) if (event.startsWith("data: ")) yield event.slice(6);
    }
  }

  // biome-ignore lint/suspicious/noExplicitAny: cases look into answers as they are.
  async admin(verb: string, args: object): Promise<any> {
    return (await askAdmin(places(this.data).adminSocket, verb, args))!.value;
  }

  makeKey = (settings: object): Promise<{ id: string; key: string }> => this.admin("key.create", settings);

  /** A connection that says nothing by itself. */
  open(): ReturnType<typeof connect> {
    const { hostname, port } = new URL(this.url);
    return connect(Number(port), hostname).on("error", () => {});
  }

  async until<T>(
    what: string,
    ask: () => Promise<T | null | undefined | false> | T | null | undefined | false,
    ms = 120_000,
  ): Promise<T> {
    for (const end = performance.now() + ms; performance.now() < end; await delay(50)) {
      const found = await ask();
      if (found) return found;
    }
    throw new Error(`${what} did not come to pass within ${ms / 1000} s`);
  }

  async mustLive(): Promise<void> {
    const alive = await fetch(`${this.url}/healthz`).catch(() => null);
    assert.equal(alive?.status, 200, `the appliance is gone:\n${this.serving.log().slice(-3000)}`);
  }

  usageRows = (): number => this.store.prepare<[], { n: number }>("SELECT count(*) AS n FROM usage").get()!.n;

  /** No refusal says where things lie on the machine, or how the code is built. */
  #checkRefusal(path: string, text: string, isJson: boolean): void {
    assert.ok(isJson, `${path}: a refusal that is no JSON: ${text.slice(0, 300)}`);
    assert.ok("detail" in JSON.parse(text), `${path}: a refusal without detail: ${text.slice(0, 300)}`);
    for (const secret of [this.data, join(installation, "src"), "node_modules", "    at "])
      assert.ok(!text.includes(secret), `${path}: a refusal shows ${secret}: ${text.slice(0, 500)}`);
  }

  // ---- what it costs --------------------------------------------------------------------------------------------------------

  worstStall(): Promise<number> {
    return this.#probe!.take();
  }

  /** Bytes: of the appliance itself, and of what it has started, at its worst. */
  get peak(): { serve: number; children: number } {
    this.#sample();
    return this.#peak;
  }

  #sample(): void {
    const { pid } = this.serving.child;
    this.#peak.serve = Math.max(this.#peak.serve, memoryOf(pid, "VmHWM"));
    const children = descendantsOf(pid).reduce((sum, child) => sum + memoryOf(child.pid, "VmRSS"), 0);
    this.#peak.children = Math.max(this.#peak.children, children);
  }

  resident = (): number => memoryOf(this.serving.child.pid, "VmRSS");
}

function memoryOf(pid: number, line: "VmHWM" | "VmRSS"): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    return Number(new RegExp(`${line}:\\s+(\\d+) kB`).exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0; // gone
  }
}

/** Asks for /healthz every 100 ms, in a thread of its own: what the cases do here does not count as the appliance's slowness. */
class Probe {
  readonly #worker = new Worker(new URL("./probe.ts", import.meta.url));
  #waiting: ((ms: number) => void)[] = [];

  constructor() {
    this.#worker.on("message", (ms: number) => this.#waiting.shift()?.(ms));
  }

  aim(url: string | null): void {
    this.#worker.postMessage({ url });
  }

  /** The longest, in ms, since this was asked last. */
  take(): Promise<number> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#worker.postMessage({ take: true });
    });
  }

  close = (): Promise<number> => this.#worker.terminate();
}

let asides = 0;

/** Another appliance, without the starter model, for a while. */
export async function aside<T>(it: Target, more: Settings, work: (other: Target) => Promise<T>): Promise<T> {
  const other = new Target(join(it.folder, `aside-${++asides}`), it.hub, {
    PLUMBLINE_STARTER_MODEL: "none.gguf",
    ...more,
  });
  await other.start();
  try {
    return await work(other);
  } finally {
    await other.close();
  }
}

/** Each must answer one of its statuses; what came is said in few words. */
export async function expects(
  shots: readonly (readonly [
    what: string,
    send: () => Promise<{ status: number; ms?: number }>,
    ...statuses: number[],
  ])[],
): Promise<string> {
  const came: number[] = [];
  for (const [what, send, ...statuses] of shots) {
    const { status, ...answer } = await send();
    assert.ok(
      statuses.includes(status),
      `${what}: ${status} instead of ${statuses.join(" or ")} ${JSON.stringify(answer).slice(0, 600)}`,
    );
    came.push(status);
  }
  return counted(came);
}

/** «422 × 5, 200» */
export function counted(statuses: readonly (number | string)[]): string {
  const counts = new Map<number | string, number>();
  for (const status of statuses) counts.set(status, (counts.get(status) ?? 0) + 1);
  return [...counts].map(([status, n]) => (n === 1 ? String(status) : `${status} × ${n}`)).join(", ");
}
