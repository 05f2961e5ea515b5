// A house with the starter model in it, and aligned models that no training made.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { HouseParts } from "../../src/app/floor.ts";
import { installation, readConfig } from "../../src/base/config.ts";
import { sha256 } from "../../src/base/files.ts";
import { newId } from "../../src/base/ids.ts";
import { createLog } from "../../src/base/log.ts";
import type { Calibration } from "../../src/confidence/calibration.ts";
import { openTokenizer } from "../../src/engine/serve/generator.ts";
import { openStore, type Store } from "../../src/store/open.ts";
import { writeAdapter } from "./adapter.ts";
import { calibrationWith } from "./calibration.ts";
import { eventually, type TestHouse, testHouse } from "./house.ts";

const starterModel = readConfig({}).starterModel;

/** Why the tests of real models cannot run; false when they can. */
export const withoutModel: string | false = existsSync(starterModel) ? false : `no starter model at ${starterModel}`;

export interface Served extends TestHouse {
  baseId: string;
  /** The database beside the house, for what the API does not tell. */
  store: Store;
  /** An aligned model of ada's, undeployed; `adapter` is the path of its file. */
  align(adapter?: string): { modelId: string; alignmentId: string };
}

export async function calibrationOf(baseSha256: string): Promise<Calibration> {
  const { tokenizer, dispose } = await openTokenizer(starterModel, createLog("error"));
  const template_sha256 = sha256(tokenizer.chatTemplate ?? "");
  await dispose();
  const engine = engineInstalled();
  return calibrationWith({
    identity: { base_sha256: baseSha256, adapter_sha256: "x", template_sha256, feature_source: "A", engine },
  });
}

export async function servedHouse(
  settings: Record<string, string> = {},
  parts: Partial<HouseParts> = {},
): Promise<Served> {
  const defaults = {
    PLUMBLINE_STARTER_MODEL: starterModel,
    PLUMBLINE_SLOTS: "2",
    PLUMBLINE_SLOT_CONTEXT: "256",
    // Threads that wait for each other on shared cores do little else.
    PLUMBLINE_THREADS: "1",
  };
  const it = await testHouse({ ...defaults, ...settings }, parts);
  const bases = async () => (await it.call("models.base")).body.base_models as { model_id: string; sha256: string }[];
  await eventually(async () => (await bases()).length === 1, 30_000);
  const [base] = await bases();
  const store = openStore(join(it.data, "plumbline.db"));
  const closeHouse = it.close;
  const calibration = await calibrationOf(base!.sha256);
  const align = (adapter?: string) => insertAligned(store, base!.model_id, adapter ?? adapterIn(it.data), calibration);
  const close = async () => {
    store.close();
    await closeHouse();
  };
  return Object.assign(it, { baseId: base!.model_id, store, align, close });
}

function engineInstalled(): string {
  const path = join(installation, "node_modules/node-llama-cpp/package.json");
  return `node-llama-cpp ${(JSON.parse(readFileSync(path, "utf8")) as { version: string }).version}`;
}

function adapterIn(data: string): string {
  const path = join(data, `${newId("model")}.gguf`);
  writeAdapter(path);
  return path;
}

/** An aligned model of ada's that no run made. */
export function insertAligned(
  store: Store,
  baseId: string,
  adapter: string,
  calibration: Calibration,
): { modelId: string; alignmentId: string } {
  const [modelId, alignmentId] = [newId("model"), newId("alignment")];
  store.transaction(() => {
    const owner = store.prepare<[], { id: string }>("SELECT id FROM user WHERE name = 'ada'").get()!.id;
    const [seq, at] = [store.nextSeq(), new Date().toISOString()];
    store
      .prepare<unknown[]>(
        `INSERT INTO alignment(id, owner_id, name, workflow_id, base_model_id, document_ids_json, document_names_json,
         document_sha256s_json, created_seq, created_at) VALUES(?, ?, 'it', 'quick', ?, '[]', '[]', '[]', ?, ?)`,
      )
      .run(alignmentId, owner, baseId, seq, at);
    store
      .prepare<unknown[]>(
        `INSERT INTO aligned_model(id, owner_id, alignment_id, base_model_id, name, adapter_path, adapter_sha256,
         calibration_json, created_seq, created_at) VALUES(?, ?, ?, ?, 'mine', ?, 'x', ?, ?, ?)`,
      )
      .run(modelId, owner, alignmentId, baseId, adapter, JSON.stringify(calibration), seq, at);
  });
  return { modelId, alignmentId };
}

/** Deploys and waits for the end of it. */
export async function deployed(it: Served, modelId: string): Promise<string> {
  const params = { model_id: modelId };
  await it.call("models.deploy", { params });
  let status = "";
  await eventually(async () => {
    status = (await it.call("models.deployment", { params })).body.status as string;
    return status !== "PROCESSING";
  }, 30_000);
  return status;
}
