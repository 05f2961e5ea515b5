// An abort inside the library, which ends the whole process: what was acknowledged is there after the next start, and the
// deployment whose load it was comes back as failed instead of ending every start. The load is held at a file that never gives
// its bytes, and there the process is ended as abort() ends it; the test starts serve again, as the unit would.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { places } from "../../src/base/config.ts";
import { finish, startProcess } from "../../src/base/processes.ts";
import { type Client, createClient } from "../../src/cli/client.ts";
import { openStore } from "../../src/store/open.ts";
import { plumbline, type Serving, startServing } from "../cli/plumbline.ts";
import { writeAdapter } from "../helpers/adapter.ts";
import { calibrationOf, insertAligned } from "../helpers/served.ts";
import { type Acknowledged, acknowledgedIsThere, databaseIsSound, historyIsLegal, noJobIsStuck } from "./oracle.ts";

const folder = mkdtempSync(join(tmpdir(), "plumbline-abort-"));
const data = join(folder, "data");
const settings = {
  PLUMBLINE_DATA: data,
  PLUMBLINE_SLOTS: "2",
  PLUMBLINE_SLOT_CONTEXT: "256",
  PLUMBLINE_THREADS: "1",
  PLUMBLINE_FREE_DISK: "0",
};
let serving: Serving;
let client: Client;
let key = "";

async function start(): Promise<void> {
  serving = await startServing(settings);
  if (key === "") key = (await plumbline(["key", "create", "--user", "ada"], settings)).stdout.trim();
  client = createClient(serving.address, key);
}

async function abort(): Promise<void> {
  serving.child.kill("SIGABRT");
  assert.equal((await serving.child.ended).signal, "SIGABRT");
}

async function until<T>(what: string, ask: () => Promise<T | null | undefined | false>): Promise<T> {
  for (const end = performance.now() + 60_000; performance.now() < end; await delay(50)) {
    const found = await ask();
    if (found) return found;
  }
  throw new Error(`${what} did not come to pass\n${serving.log().slice(-4000)}`);
}

const record = (modelId: string) =>
  client.api["models.get"]({ params: { model_id: modelId } }) as Promise<{
    deployment_status?: string;
    error?: string | null;
  }>;
const deploy = (modelId: string) => client.api["models.deploy"]({ params: { model_id: modelId } });
const isLoading = (path: string) => async () =>
  serving
    .log()
    .split("\n")
    .some((line) => line.includes('"adapter_loading"') && line.includes(path));
const answers = async (modelId: string): Promise<boolean> => {
  const body = { model: modelId, prompt: "Once upon a time", max_tokens: 4 };
  return (await client.api["inference.completions"]({ body })).usage.completion_tokens > 0;
};

after(async () => {
  serving.child.kill("SIGKILL");
  await serving.child.ended;
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

test("an abort while a model loads costs that deployment and nothing else, and does not come back for ever", async () => {
  await start();
  const base = await until("a base model", async () => (await client.api["models.base"]()).base_models[0]);
  const [sound, stuck] = [join(folder, "sound.gguf"), join(folder, "stuck.gguf")];
  writeAdapter(sound);
  assert.equal((await finish(startProcess("mkfifo", [stuck]), { timeoutMs: 5000, maxBytes: 1000 })).code, 0);
  const store = openStore(places(data).database);
  const calibration = await calibrationOf(base.sha256);
  const [good, guilty] = [sound, stuck].map((path) => insertAligned(store, base.model_id, path, calibration).modelId);
  store.close();
  await deploy(good!);
  await until("the good deployment", async () => (await record(good!)).deployment_status === "DEPLOYED");
  const files = [{ name: "note.md", mediaType: "text/markdown", content: "# Note\n\nThe pump was inspected.\n" }];
  const [document] = (await client.api["documents.upload"]({ files })).documents;
  const acknowledged: Acknowledged[] = [
    {
      what: "document",
      still: async () =>
        assert.deepEqual(
          await client.api["documents.get"]({ params: { document_id: document!.document_id } }),
          document,
        ),
    },
    {
      what: "the good deployment",
      still: async () => assert.equal((await record(good!)).deployment_status, "DEPLOYED"),
    },
  ];

  await deploy(guilty!);
  for (let aborts = 1; aborts <= 2; aborts++) {
    await until("its load", isLoading(stuck));
    await abort();
    await start();
    assert.deepEqual(await acknowledgedIsThere(acknowledged), []);
  }

  await until("the end of trying", async () => (await record(guilty!)).deployment_status === "UNDEPLOYED");
  assert.match((await record(guilty!)).error ?? "", /crashed the appliance 2 times/);
  const task = await client.api["models.deployment"]({ params: { model_id: guilty! } });
  assert.equal(task.status, "FAILED");
  await until("readiness", async () => (await fetch(`${serving.address}/readyz`)).ok);
  assert.ok(await answers(good!));
  await delay(1000);
  assert.ok(!(await isLoading(stuck)()));
  assert.deepEqual(await acknowledgedIsThere(acknowledged), []);
  const broken = [...databaseIsSound(data), ...historyIsLegal(data), ...(await noJobIsStuck(data, 10_000))];
  assert.deepEqual(broken, []);
});

test("an abort while a model answers ends that answer, whose usage says so, and the model is there again", async () => {
  const { domain_aligned_models } = await client.api["models.aligned"]({ query: { deployment_status: "DEPLOYED" } });
  const [good] = domain_aligned_models as { model_id: string }[];
  const body = { model: good!.model_id, prompt: "Once upon a time", max_tokens: 200, ignore_eos: true, stream: true };
  const answer = await fetch(`${serving.address}/api/v3/inference/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  });
  const reader = answer.body!.getReader();
  await reader.read();
  await abort();
  await assert.rejects(async () => {
    while (!(await reader.read()).done);
  });
  await start();
  await until("readiness", async () => (await fetch(`${serving.address}/readyz`)).ok);
  assert.ok(await answers(good!.model_id));
  const store = openStore(places(data).database);
  const outcomes = store.prepare<[], { outcome: string }>("SELECT outcome FROM usage ORDER BY created_at").all();
  store.close();
  assert.deepEqual(
    outcomes.slice(-2).map(({ outcome }) => outcome),
    ["interrupted", "done"],
  );
});
