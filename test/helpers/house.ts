// A house of its own for a test: a real server on a free port over a new data folder.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { HouseParts } from "../../src/app/floor.ts";
import type { House } from "../../src/app/lifecycle.ts";
import { readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import type { Endpoint } from "../../src/contract/endpoint.ts";
import { type Contract, contract } from "../../src/contract/index.ts";
import { compile } from "../../src/contract/validate.ts";
import { createHouse } from "../../src/main.ts";

export interface TestCall {
  params?: Record<string, string>;
  query?: string;
  headers?: Record<string, string>;
  body?: unknown;
  files?: { name: string; content: string | Uint8Array }[];
  /** Of another user, or null for none; the first user's without. */
  key?: string | null;
}

export interface TestReply {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
  body: any;
}

export interface TestHouse {
  house: House;
  url: string;
  data: string;
  /** Of user «ada», and of user «bob». */
  key: string;
  otherKey: string;
  /** Calls an endpoint by its name; an answer of success must keep the contract. */
  call(name: keyof Contract, input?: TestCall): Promise<TestReply>;
  /** A path as it is, with the first user's key. */
  get(path: string, init?: RequestInit): Promise<Response>;
  log: Record<string, unknown>[];
  /** Ends it and starts it again over the same data; `url` is then a new one. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export async function testHouse(
  settings: Record<string, string> = {},
  parts: Partial<HouseParts> = {},
): Promise<TestHouse> {
  const data = await mkdtemp(join(tmpdir(), "plumbline-house-"));
  const defaults = {
    PLUMBLINE_DATA: data,
    PLUMBLINE_PORT: "0",
    PLUMBLINE_FREE_DISK: "0",
    PLUMBLINE_STARTER_MODEL: "none.gguf",
  };
  const config = readConfig({ ...defaults, ...settings });
  const lines: Record<string, unknown>[] = [];
  const log = createLog("debug", (line) => void lines.push(JSON.parse(line) as Record<string, unknown>));
  const start = () =>
    createHouse({
      config,
      log,
      ballastBytes: 0,
      onFatal: (error) => log("error", "fatal", { error }),
      ...parts,
    });
  const first = await start();
  const keyOf = async (user: string): Promise<string> =>
    ((await first.admin("key.create", { user })) as { key: string }).key;
  const it: TestHouse = {
    house: first,
    url: "",
    data,
    key: await keyOf("ada"),
    otherKey: await keyOf("bob"),
    log: lines,
    call: (name, input) => callOf(it, name, input),
    get: (path, init = {}) =>
      fetch(it.url + path, { ...init, headers: { authorization: `Bearer ${it.key}`, ...init.headers } }),
    async restart() {
      await it.house.close();
      it.house = await start();
      it.url = await it.house.listen();
    },
    async close() {
      await it.house.close();
      await rm(data, { recursive: true, force: true });
    },
  };
  it.url = await first.listen();
  return it;
}

/** Calls an endpoint of the contract by its name. */
export async function callOf(
  it: Pick<TestHouse, "url" | "key">,
  name: keyof Contract,
  input: TestCall = {},
): Promise<TestReply> {
  const endpoint: Endpoint = contract[name];
  const path = endpoint.path.replace(/\{(\w+)\}/g, (_, param: string) =>
    encodeURIComponent(input.params?.[param] ?? ""),
  );
  const headers: Record<string, string> = { ...input.headers };
  if (input.key !== null) headers.authorization = `Bearer ${input.key ?? it.key}`;
  let body: string | FormData | undefined;
  if (input.files) {
    body = new FormData();
    for (const { name: file, content } of input.files) body.append("file", new Blob([content as string]), file);
  } else if (input.body !== undefined) {
    body = JSON.stringify(input.body);
    headers["content-type"] ??= "application/json";
  }
  const query = input.query ? `?${input.query}` : "";
  const response = await fetch(it.url + path + query, { method: endpoint.method, headers, ...(body ? { body } : {}) });
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  const reply = { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
  if (response.ok && isJson) assertPromised(endpoint, reply.body);
  return reply;
}

function assertPromised(endpoint: Endpoint, body: unknown): void {
  const result = (compile(endpoint.reply) as (value: unknown) => { ok: boolean; details?: unknown })(body);
  if (!result.ok) throw new Error(`${endpoint.path} broke its promise: ${JSON.stringify(result.details)}`);
}

/** Tries `what` until it holds. */
export async function eventually(what: () => boolean | Promise<boolean>, ms = 5_000): Promise<void> {
  const end = performance.now() + ms;
  while (!(await what())) {
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
