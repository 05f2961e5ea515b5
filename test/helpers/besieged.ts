// The appliance in a process of its own, given model files with something wrong: each imported, deployed where it could be, asked for
// an answer and for a vector. Whatever becomes of a file, the process lives and answers.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { places } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { askAdmin } from "../../src/http/admin.ts";
import { openStore } from "../../src/store/open.ts";
import { type Serving, startServing } from "../cli/plumbline.ts";
import { tinyModel } from "../engine/trainer-fixture.ts";
import { writeAdapter } from "./adapter.ts";
import { calibrationWith } from "./calibration.ts";
import type { Mutant } from "./mutants.ts";
import { insertAligned } from "./served.ts";

export interface Besieged {
  serving: Serving;
  /** Gives the id of the base, or the message of the refusal. */
  import(content: Buffer): Promise<{ id: string } | { refused: string }>;
  /** The status of an answer, and of a vector; 0 where the connection broke. */
  ask(id: string): Promise<number[]>;
  /** Deploys an aligned model over the base, asks it, and undeploys it; how the deployment ended. */
  deploy(id: string): Promise<string>;
  /** Throws where the process is gone or silent. */
  mustLive(what: string): Promise<void>;
  close(): Promise<void>;
}

/** Small, of every architecture that is trained, with weights as they are and packed. */
export const mutated = ["tiny-f32", "tiny-q4_1", "tiny-qwen2-bf16", "tiny-qwen3-q4_1", "tiny-gemma3-f32-untied"].map(
  (name) => ({ name, content: readFileSync(tinyModel(name)) }),
);

/** Under a folder of the caller's. */
export async function besiege(folder: string): Promise<Besieged> {
  const data = join(folder, "data");
  mkdirSync(data, { recursive: true });
  const serving = await startServing({
    PLUMBLINE_DATA: data,
    PLUMBLINE_STARTER_MODEL: "none.gguf",
    PLUMBLINE_SLOTS: "2",
    PLUMBLINE_SLOT_CONTEXT: "256",
    PLUMBLINE_THREADS: "1",
    PLUMBLINE_FREE_DISK: "0",
    PLUMBLINE_LOG: "warn",
  });
  const socket = places(data).adminSocket;
  const { value } = (await askAdmin(socket, "key.create", { user: "ada" }))!;
  const { key } = value as { key: string };
  const store = openStore(places(data).database);
  const adapter = join(folder, "adapter.gguf");
  writeAdapter(adapter, 0.05, { rank: 2, layers: 1, width: 96, out: 64 });
  let imported = 0;

  const send = async (path: string, method: string, body?: unknown): Promise<Response> =>
    fetch(`${serving.address}/api/v3/${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const statusOf = async (path: string, body: unknown): Promise<number> => {
    try {
      const response = await send(path, "POST", body);
      await response.arrayBuffer();
      return response.status;
    } catch {
      return 0;
    }
  };
  const ask = async (model: string): Promise<number[]> => [
    await statusOf("inference/completions", { model, prompt: "the end on an ant", max_tokens: 4, temperature: 0 }),
    await statusOf("inference/embeddings", { model, input: "the end" }),
  ];
  const deployment = async (modelId: string): Promise<string> => {
    const response = await send(`models/deploy-model/${modelId}/status`, "GET");
    return ((await response.json()) as { status: string }).status;
  };
  const settled = async (modelId: string): Promise<string> => {
    for (;;) {
      const status = await deployment(modelId);
      if (status !== "PROCESSING") return status;
      await delay(20);
    }
  };
  return {
    serving,
    async import(content) {
      const path = join(folder, `${++imported}.gguf`);
      writeFileSync(path, content);
      try {
        const answer = (await askAdmin(socket, "model.import", { path, name: `mutant-${imported}` }))!;
        return { id: (answer.value as { model_id: string }).model_id };
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        assert.equal(error.code, "model_invalid", error.message);
        return { refused: error.message };
      } finally {
        rmSync(path, { force: true });
      }
    },
    ask,
    async deploy(id) {
      const { modelId } = insertAligned(store, id, adapter, calibrationWith({}));
      await send(`models/deploy-model/${modelId}`, "POST");
      const status = await settled(modelId);
      if (status === "READY") {
        await ask(modelId);
        await send(`models/undeploy-model/${modelId}`, "POST");
        await settled(modelId);
      }
      return status;
    },
    async mustLive(what) {
      const alive = await fetch(`${serving.address}/healthz`).catch(() => null);
      assert.equal(alive?.status, 200, `${what} ended the appliance:\n${serving.log().slice(-3000)}`);
    },
    async close() {
      store.close();
      serving.child.kill("SIGTERM");
      await serving.child.ended;
    },
  };
}

export interface Siege {
  refused: number;
  accepted: number;
  deployed: number;
  answered: number;
  /** How often each refusal was given, without what differs. */
  reasons: Map<string, number>;
}

/** All of them, so many at once. */
export async function withstand(it: Besieged, mutants: readonly Mutant[], atOnce = 2): Promise<Siege> {
  const siege: Siege = { refused: 0, accepted: 0, deployed: 0, answered: 0, reasons: new Map() };
  const left = [...mutants];
  const worker = async (): Promise<void> => {
    for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
      const outcome = await it.import(mutant.content);
      if ("refused" in outcome) {
        siege.refused++;
        const reason = outcome.refused.replaceAll(/\d+/g, "n").slice(0, 100);
        siege.reasons.set(reason, (siege.reasons.get(reason) ?? 0) + 1);
      } else {
        siege.accepted++;
        const [answer] = await it.ask(outcome.id);
        if (answer === 200) siege.answered++;
        if ((await it.deploy(outcome.id)) === "READY") siege.deployed++;
      }
      await it.mustLive(mutant.what);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return siege;
}
