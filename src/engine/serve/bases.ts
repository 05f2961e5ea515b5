// The Generator over node-llama-cpp. Tracks which bases and adapters are loaded and by how many users, and checks every
// request.
//
//   (absent) ──load──► opening ──► loaded ──last unload──► closing (its requests finish first) ──► (absent)
//
// A base stays loaded as long as it has an entry; an entry is an adapter or the bare base. A native abort cannot be caught,
// so whatever could cause one is checked beforehand: memory, prompt lengths, token ids.

import { Failure, invalid } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { EvaluateRequest, GenerateRequest, Generator, LoadedInfo, ModelRef, Tokenizer } from "../generator.ts";
import { evaluationWidth } from "../gguf/gpu.ts";
import { type Base, embeddingLane, type GeneratorOptions, openAdapter, openBase, withLane } from "./base-model.ts";
import type { Batcher } from "./batcher.ts";
import { type NativeAdapter, openNative } from "./binding.ts";
import { type EmbeddingLane, embedTexts, rankDocuments } from "./embedding.ts";
import type { FixedLane } from "./fixed-lane.ts";

interface Entry {
  users: number;
  ready: Promise<NativeAdapter | null>;
  closing: Promise<void> | null;
}

interface Resident {
  ready: Promise<Base>;
  /** Set once `ready` has resolved. */
  base: Base | null;
  entries: Map<string, Entry>;
  closing: Promise<void> | null;
  /** Evaluations and scorings. */
  lane: Lane;
  /** Embedding and ranking, which do not wait for evaluations. */
  embeddings: Lane;
}

/** Runs work that needs its own context, one piece after another, and counts the pieces per entry. */
class Lane {
  private last: Promise<unknown> = Promise.resolve();
  private readonly users = new Map<string, number>();

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    this.users.set(key, (this.users.get(key) ?? 0) + 1);
    const turn = this.last.then(work);
    this.last = turn
      .catch(() => {})
      .then(() => {
        const left = this.users.get(key)! - 1;
        if (left > 0) this.users.set(key, left);
        else this.users.delete(key);
      });
    return turn;
  }

  /** Resolves once no work runs or waits for this entry; without a key, for any entry. */
  async quiet(key?: string): Promise<void> {
    if (key === undefined || this.users.has(key)) await this.last;
  }
}

const keyOf = (model: ModelRef): string => model.adapter?.id ?? "";
const nameOf = (model: ModelRef): string => model.adapter?.id ?? model.baseId;

/** Loads only the tokenizer of a GGUF. */
export async function openTokenizer(
  path: string,
  log: Log,
): Promise<{ tokenizer: Tokenizer; dispose(): Promise<void> }> {
  const native = await openNative(log);
  const model = await native.openModel(path, { vocabularyOnly: true });
  return { tokenizer: model.tokenizer, dispose: () => model.dispose() };
}

export function createGenerator(options: GeneratorOptions): Generator {
  const { config, log } = options;
  const residents = new Map<string, Resident>();
  const width = Math.min(evaluationWidth, config.slots);

  /** The base and adapter of a request. Throws not_loaded. */
  const loaded = (model: ModelRef): { resident: Resident; base: Base; entry: Entry } => {
    const resident = residents.get(model.baseId);
    const entry = resident?.entries.get(keyOf(model));
    if (!resident?.base || !entry || entry.closing !== null)
      throw new Failure("not_loaded", `The model ${nameOf(model)} is not loaded`);
    return { resident, base: resident.base, entry };
  };

  const openResident = (model: ModelRef): Resident => {
    const resident: Resident = {
      ready: openBase(model, options),
      base: null,
      entries: new Map(),
      closing: null,
      lane: new Lane(),
      embeddings: new Lane(),
    };
    residents.set(model.baseId, resident);
    resident.ready.then(
      (base) => {
        resident.base = base;
      },
      () => {
        // Callers that await `ready` get the error.
        if (residents.get(model.baseId) === resident) residents.delete(model.baseId);
      },
    );
    return resident;
  };

  const openEntry = (resident: Resident, model: ModelRef): Entry => {
    const entry: Entry = {
      users: 0,
      ready: resident.ready.then((base) => openAdapter(base, model, log)),
      closing: null,
    };
    resident.entries.set(keyOf(model), entry);
    return entry;
  };

  const closeIfUnused = async (baseId: string, resident: Resident): Promise<void> => {
    if (resident.entries.size > 0 || residents.get(baseId) !== resident || resident.base === null) return;
    const { base } = resident;
    resident.closing = (async () => {
      await Promise.all([resident.lane.quiet(), resident.embeddings.quiet()]);
      await base.close();
      residents.delete(baseId);
      log("info", "base_unloaded", { baseId });
    })();
    await resident.closing;
  };

  const drop = async (model: ModelRef, resident: Resident, entry: Entry): Promise<void> => {
    const key = keyOf(model);
    const { base } = resident;
    const adapter = await entry.ready;
    if (base !== null) {
      await base.batcher?.drain(key);
      await Promise.all([resident.lane.quiet(key), resident.embeddings.quiet(key)]);
      await base.turns.run(() => base.batcher?.forget(key));
    }
    await adapter?.dispose();
    resident.entries.delete(key);
    await closeIfUnused(model.baseId, resident);
  };

  const load = async (model: ModelRef): Promise<LoadedInfo> => {
    for (;;) {
      const resident = residents.get(model.baseId);
      const closing = resident?.closing ?? resident?.entries.get(keyOf(model))?.closing;
      if (!closing) break;
      await closing;
    }
    const resident = residents.get(model.baseId) ?? openResident(model);
    const entry = resident.entries.get(keyOf(model)) ?? openEntry(resident, model);
    entry.users++;
    try {
      await entry.ready;
      return (await resident.ready).info;
    } catch (error) {
      entry.users--;
      if (entry.users === 0 && resident.entries.get(keyOf(model)) === entry) {
        resident.entries.delete(keyOf(model));
        await closeIfUnused(model.baseId, resident);
      }
      throw error;
    }
  };

  const unload = async (model: ModelRef): Promise<void> => {
    const { resident, entry } = loaded(model);
    entry.users--;
    if (entry.users > 0) return;
    entry.closing = drop(model, resident, entry);
    await entry.closing;
  };

  /** Runs work in the lane of a base, in a context opened for it; calls run one after another. */
  const inLane = async <T>(
    model: ModelRef,
    work: (lane: FixedLane, adapter: NativeAdapter | null) => Promise<T>,
  ): Promise<T> => {
    const { resident, base, entry } = loaded(model);
    answers(base);
    return resident.lane.run(keyOf(model), async () => {
      const adapter = await entry.ready;
      return withLane(model.baseId, base, width, options, (lane) => work(lane, adapter));
    });
  };

  const inEmbeddings = async <T>(
    model: ModelRef,
    work: (lane: EmbeddingLane, adapter: NativeAdapter | null) => Promise<T>,
  ): Promise<T> => {
    const { resident, base, entry } = loaded(model);
    return resident.embeddings.run(keyOf(model), async () =>
      work(embeddingLane(model.baseId, base, options), await entry.ready),
    );
  };

  return {
    slotContext: config.slotContext,
    load,
    unload,
    isLoaded: (model) => {
      const resident = residents.get(model.baseId);
      const entry = resident?.entries.get(keyOf(model));
      return resident?.base != null && entry !== undefined && entry.closing === null;
    },
    tokenizer: (baseId) => {
      const base = residents.get(baseId)?.base;
      if (!base) throw new Failure("not_loaded", `The base ${baseId} is not loaded`);
      return base.model.tokenizer;
    },
    generate: async function* (request: GenerateRequest) {
      const { base, entry } = loaded(request.model);
      const batcher = answers(base);
      checkPrompt(request.prompt, base, Math.min(1, request.maxTokens));
      if (request.grammar !== undefined && request.ignoreEos)
        throw invalid(["ignore_eos"], "cannot be combined with a grammar, which sets where an answer ends");
      const empty = { promptTokens: request.prompt.length, cachedTokens: 0, completionTokens: 0 };
      if (request.maxTokens <= 0 && request.onPrompt === undefined) return { finishReason: "length", ...empty };
      return yield* batcher.generate(request, keyOf(request.model), await entry.ready);
    },
    evaluate: async (request: EvaluateRequest) => {
      const { base } = loaded(request.model);
      for (const prompt of request.prompts) checkPrompt(prompt, base);
      if (request.maxTokens < 1) throw invalid(["maxTokens"], "must be at least 1");
      if (request.startAt >= request.prompts.length) return;
      await inLane(request.model, (lane, adapter) => lane.evaluate(adapter, request));
    },
    score: async (model, rows, signal, onRow) => {
      const { base } = loaded(model);
      for (const row of rows) {
        checkPrompt(row.tokens, base, 0);
        if (row.promptLength < 1 || row.promptLength > row.tokens.length)
          throw invalid(["promptLength"], "must be from 1 to the number of tokens");
      }
      if (rows.length === 0) return [];
      return inLane(model, (lane, adapter) => lane.score(adapter, rows, signal, onRow));
    },
    kind: (baseId) => {
      const base = residents.get(baseId)?.base;
      if (!base) throw new Failure("not_loaded", `The base ${baseId} is not loaded`);
      return base.pooling.kind;
    },
    occupancy: () =>
      [...residents].flatMap(([baseId, { base }]) => {
        if (!base?.batcher) return [];
        const { slots, active, waiting } = base.batcher.snapshot();
        return [{ baseId, slots, busy: active, waiting }];
      }),
    embed: async (model, inputs, embedding) =>
      inputs.length === 0 ? [] : inEmbeddings(model, (lane, adapter) => embedTexts(lane, adapter, inputs, embedding)),
    rank: async (model, query, documents, embedding) =>
      documents.length === 0 ? [] : inEmbeddings(model, (lane) => rankDocuments(lane, query, documents, embedding)),
    dispose: async () => {
      for (const [baseId, resident] of residents) {
        const base = await resident.ready.catch(() => null);
        if (base === null) continue;
        for (const [key, entry] of resident.entries) {
          if (entry.closing !== null) await entry.closing;
          else
            await drop(
              { baseId, basePath: "", ...(key === "" ? {} : { adapter: { id: key, path: "" } }) },
              resident,
              entry,
            );
        }
      }
    },
  };
}

/** The batcher of a base. Throws wrong_kind for a model that does not generate text. */
function answers(base: Base): Batcher {
  if (base.batcher === null)
    throw new Failure(
      "wrong_kind",
      `The model is for ${base.pooling.kind} and does not generate answers; use another model`,
    );
  return base.batcher;
}

/** `room`: tokens that must be left for an answer. */
function checkPrompt(prompt: readonly number[], base: Base, room = 1): void {
  if (prompt.length === 0) throw invalid(["prompt"], "must contain at least one token");
  if (prompt.length > base.context - room)
    throw new Failure(
      "prompt_too_long",
      `The prompt has ${prompt.length} tokens, but only ${base.context - room} fit: a slot holds ${base.context}`,
    );
  const { vocabulary } = base.model.tokenizer;
  for (const [index, token] of prompt.entries())
    if (!Number.isInteger(token) || token < 0 || token >= vocabulary)
      throw invalid(["prompt", index], `${token} is not a token id; the ids go from 0 to ${vocabulary - 1}`);
}
