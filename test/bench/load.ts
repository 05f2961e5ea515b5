// Does serving keep up with llama-server? The same model, adapter, slots and threads on both sides, the same load in turn.
// Not part of `npm test`: it needs llama-server, built from the llama.cpp source that node-llama-cpp carries, and a load that
// drives an OpenAI-compatible server and prints one JSON object (tokens_per_second, first_token_ms.p95, failures).
//
//   node test/bench/load.ts --server <llama-server> --load <load.mjs> --adapter <adapter.gguf>
//     [--clients 1,8,32] [--pairs 5] [--requests 32] [--prompt-tokens 256] [--max-tokens 128] [--threads 2] [--cold]
//     [--out figures.json]
//
// Both servers stay up for all runs, as for anyone who compares them: from the second run on, prompts may be remembered.
// --cold starts both anew before each run.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { installation, places, readConfig } from "../../src/base/config.ts";
import { type Child, finish, startProcess } from "../../src/base/processes.ts";
import { sleep } from "../../src/base/time.ts";
import { createClient } from "../../src/cli/client.ts";
import { openStore } from "../../src/store/open.ts";
import { plumbline, startServing } from "../cli/plumbline.ts";
import { calibrationOf, insertAligned } from "../helpers/served.ts";

const { values: options } = parseArgs({
  options: {
    server: { type: "string" },
    load: { type: "string" },
    adapter: { type: "string" },
    clients: { type: "string", default: "1,8,32" },
    pairs: { type: "string", default: "5" },
    requests: { type: "string", default: "32" },
    "prompt-tokens": { type: "string", default: "256" },
    "max-tokens": { type: "string", default: "128" },
    threads: { type: "string", default: "2" },
    cold: { type: "boolean", default: false },
    out: { type: "string" },
  },
});
const [slots, slotContext] = [8, 2048];
const { starterModel } = readConfig({});

/** A server under load: where its completions are, and under which name and key. */
interface Served {
  url: string;
  model: string;
  key: string | null;
  stop(): Promise<void>;
}

interface Figures {
  tokens_per_second: number;
  first_token_ms: { p50: number; p95: number };
  token_ms_p50: number;
  failures: number;
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    if (await holds().catch(() => false)) return;
    await sleep(100);
  }
  throw new Error(`${what} did not come to pass`);
}

const stopped = async (child: Child): Promise<void> => {
  child.kill();
  await child.ended;
};

async function startLlamaServer(): Promise<Served> {
  const port = "18237";
  const { server, adapter, threads } = options;
  const shape = ["-np", String(slots), "-c", String(slots * slotContext), "-t", threads];
  const child = startProcess(server!, ["-m", starterModel, "--lora", adapter!, ...shape, "--port", port]);
  child.stdout.resume();
  child.stderr.resume();
  const url = `http://127.0.0.1:${port}`;
  await until("llama-server", async () => (await fetch(`${url}/health`)).ok);
  return { url: `${url}/v1`, model: "any", key: null, stop: () => stopped(child) };
}

async function startPlumbline(): Promise<Served> {
  const data = mkdtempSync(join(tmpdir(), "plumbline-load-"));
  const settings = {
    PLUMBLINE_DATA: data,
    PLUMBLINE_STARTER_MODEL: starterModel,
    PLUMBLINE_SLOTS: String(slots),
    PLUMBLINE_SLOT_CONTEXT: String(slotContext),
    PLUMBLINE_THREADS: options.threads,
    PLUMBLINE_FREE_DISK: "0",
    PLUMBLINE_LOG: "warn",
  };
  const { child, address } = await startServing(settings);
  const key = (await plumbline(["key", "create", "--user", "ada"], settings)).stdout.trim();
  const { api } = createClient(address, key);
  const bases = async () => (await api["models.base"]()).base_models;
  await until("the starter model", async () => (await bases()).length === 1);
  const [base] = await bases();
  const store = openStore(places(data).database);
  const { modelId } = insertAligned(store, base!.model_id, options.adapter!, await calibrationOf(base!.sha256));
  store.close();
  const params = { model_id: modelId };
  await api["models.deploy"]({ params });
  await until("the deployment", async () => (await api["models.deployment"]({ params })).status === "READY");
  return {
    url: `${address}/api/v3/inference`,
    model: modelId,
    key,
    stop: async () => {
      await stopped(child);
      rmSync(data, { recursive: true, force: true });
    },
  };
}

async function run(served: Served, clients: number): Promise<Figures> {
  const size = (["requests", "prompt-tokens", "max-tokens"] as const).flatMap((name) => [`--${name}`, options[name]]);
  const args = ["--url", served.url, "--model", served.model, "--stagger", "1", ...size];
  const key = served.key === null ? [] : ["--key", served.key];
  const child = startProcess(process.execPath, [options.load!, ...args, ...key, "--concurrency", String(clients)]);
  const { stdout, stderr, code } = await finish(child, { timeoutMs: 900_000, maxBytes: 1 << 20 });
  if (code !== 0) throw new Error(`the load failed: ${stderr}`);
  const figures = JSON.parse(stdout) as Figures;
  if (figures.failures > 0) throw new Error(`requests failed: ${stdout}`);
  return figures;
}

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

async function main(): Promise<void> {
  const sides = { ours: startPlumbline, theirs: startLlamaServer };
  const served: Partial<Record<keyof typeof sides, Served>> = {};
  const runs: Record<string, unknown>[] = [];
  const summary: Record<string, unknown>[] = [];
  const figuresOf = async (side: keyof typeof sides, clients: number): Promise<Figures> => {
    const server = served[side] ?? (await sides[side]());
    served[side] = server;
    const figures = await run(server, clients);
    runs.push({ side, ...figures });
    console.log(JSON.stringify({ side, ...figures }));
    if (options.cold) {
      await server.stop();
      delete served[side];
    }
    return figures;
  };
  try {
    for (const clients of options.clients.split(",").map(Number)) {
      const speed: number[] = [];
      const first: number[] = [];
      for (let pair = 0; pair < Number(options.pairs); pair++) {
        const ours = await figuresOf("ours", clients);
        const theirs = await figuresOf("theirs", clients);
        speed.push(ours.tokens_per_second / theirs.tokens_per_second);
        first.push(ours.first_token_ms.p95 / theirs.first_token_ms.p95);
      }
      const figures = { clients, speed: median(speed), first_token_p95: median(first), pairs: { speed, first } };
      summary.push(figures);
      console.log(JSON.stringify(figures));
    }
  } finally {
    for (const server of Object.values(served)) await server.stop();
  }
  if (options.out) writeFileSync(options.out, JSON.stringify({ installation, options, summary, runs }, null, 2));
}

if (!options.server || !options.load || !options.adapter) {
  console.error("usage: load.ts --server <llama-server> --load <load.mjs> --adapter <adapter.gguf>");
  process.exit(2);
}
await main();
