// A house whose models answer by a script: no weights, no waiting. What tests of it prove is everything around the tokens.
import { join } from "node:path";
import type { HouseParts } from "../../src/app/floor.ts";
import { Failure } from "../../src/base/errors.ts";
import { sha256 } from "../../src/base/files.ts";
import { newId } from "../../src/base/ids.ts";
import { versionsInstalled } from "../../src/base/versions.ts";
import type {
  EvaluateRequest,
  GeneratedToken,
  GenerateEnd,
  GenerateRequest,
  Generator,
} from "../../src/engine/generator.ts";
import { openStore, type Store } from "../../src/store/open.ts";
import { calibrationWith } from "./calibration.ts";
import { type TestHouse, testHouse } from "./house.ts";
import { letters } from "./letters.ts";
import { emptyPool } from "./pool.ts";
import { insertAlignment, insertBase } from "./rows.ts";

const tokenizer = letters();

export interface Scripted extends TestHouse {
  baseId: string;
  store: Store;
  /** Every request that reached the engine, its prompt as text. */
  requests: { prompt: string; temperature: number; owner: string }[];
  /** A deployed aligned model, of ada's unless it says otherwise. */
  align(user?: string): Promise<{ modelId: string; alignmentId: string }>;
}

/** Each answer says how long its prompt was, which no two different conversations share by chance. */
export const scriptedAnswer = (prompt: string): string => `${sha256(prompt).slice(0, 6)} to ${prompt.length}`;

/** `says`: what a model, by its id, answers to a prompt of an evaluation. */
export async function scriptedHouse(
  settings: Record<string, string> = {},
  says: (modelId: string, prompt: string) => string = (_, prompt) => scriptedAnswer(prompt),
  parts: Partial<HouseParts> = {},
): Promise<Scripted> {
  const requests: Scripted["requests"] = [];
  async function* generate(request: GenerateRequest): AsyncGenerator<GeneratedToken, GenerateEnd, void> {
    const prompt = String.fromCharCode(...request.prompt);
    requests.push({ prompt, temperature: request.sampling.temperature, owner: request.owner });
    request.onSlot?.();
    const text = scriptedAnswer(prompt).slice(0, request.maxTokens);
    for (const character of text) {
      await new Promise((resolve) => setImmediate(resolve));
      yield {
        token: character.charCodeAt(0),
        text: character,
        logprob: -0.1,
        top: { tokens: new Int32Array(64).fill(character.charCodeAt(0)), logits: new Float32Array(64) },
        logZ: null,
        isForced: false,
      };
    }
    return { finishReason: "stop", promptTokens: prompt.length, cachedTokens: 0, completionTokens: text.length };
  }
  const evaluate = async ({ model, prompts, startAt, onItem }: EvaluateRequest): Promise<void> => {
    for (const [offset, prompt] of prompts.slice(startAt).entries()) {
      const text = says(model.adapter?.id ?? model.baseId, String.fromCharCode(...prompt));
      onItem(startAt + offset, { text, tokens: [], steps: [], finishReason: "stop", seconds: 0 });
    }
  };
  const refuse = async () => {
    throw new Failure("wrong_kind");
  };
  const info = { architecture: "llama", context: 4096, parameters: 1, bytes: 1, slots: 1 };
  const generator = {
    generate,
    evaluate,
    pool: emptyPool(undefined, { info }).pool,
    tokenizer: () => tokenizer,
    slotContext: 4096,
    kind: () => "text",
    occupancy: () => [{ baseId, slots: 8, busy: 1, waiting: 2 }],
    // Every text lies in the same direction: that is as near as any two can be.
    embed: async (_model: unknown, texts: readonly unknown[]) =>
      texts.map(() => ({ vector: Float32Array.of(1, 0, 0, 0), tokens: 1, truncated: 0 })),
    score: async (_model: unknown, rows: readonly { tokens: readonly number[]; promptLength: number }[]) =>
      rows.map(({ tokens, promptLength }) => new Float64Array(tokens.length - promptLength).fill(-1)),
    rank: refuse,
    dispose: async () => {},
  } as unknown as Generator;

  // Its alignments are rows without a run: nothing could be carried out of them.
  const it: TestHouse = await testHouse({ PLUMBLINE_AUTO_ALIGN: "record", ...settings }, { generator, ...parts });
  const store = openStore(join(it.data, "plumbline.db"));
  const baseId = insertBase(store, "small");
  const { engine } = await versionsInstalled();
  const closeHouse = it.close;
  return Object.assign(it, {
    baseId,
    store,
    requests,
    async align(user = "ada") {
      const alignmentId = insertAlignment(store, user, baseId);
      const modelId = insertModel(store, alignmentId, engine);
      return { modelId, alignmentId };
    },
    async close() {
      store.close();
      await closeHouse();
    },
  });
}

function insertModel(store: Store, alignmentId: string, engine: string): string {
  const id = newId("model");
  const base = store
    .prepare<[string], { id: string; sha256: string; owner: string }>(
      `SELECT b.id, b.sha256, a.owner_id AS owner FROM alignment AS a JOIN base_model AS b ON b.id = a.base_model_id
       WHERE a.id = ?`,
    )
    .get(alignmentId)!;
  const calibration = calibrationWith({
    identity: {
      base_sha256: base.sha256,
      adapter_sha256: "x",
      template_sha256: sha256(tokenizer.chatTemplate!),
      feature_source: "A",
      engine,
    },
  });
  store
    .prepare<unknown[]>(
      `INSERT INTO aligned_model(id, owner_id, alignment_id, base_model_id, name, adapter_path, adapter_sha256,
       calibration_json, deployment_status, created_seq, created_at)
       VALUES(?, ?, ?, ?, 'mine', '/none/adapter.gguf', 'x', ?, 'DEPLOYED', ?, ?)`,
    )
    .run(id, base.owner, alignmentId, base.id, JSON.stringify(calibration), store.nextSeq(), new Date().toISOString());
  return id;
}
