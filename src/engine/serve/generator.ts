// Implements the Generator interface with node-llama-cpp. It checks every request and runs it on a model of the pool
// (model-pool.ts). A native abort cannot be caught, so memory, prompt lengths and token ids, which could cause one, are checked
// beforehand.

import { Failure, invalid } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import {
  answersNothing,
  type EvaluateRequest,
  type GenerateRequest,
  type Generator,
  type ModelRef,
  type Tokenizer,
} from "../generator.ts";
import { evaluationWidth } from "../gguf/gpu.ts";
import { type Base, embeddingLane, type GeneratorOptions, openAdapter, openBase, openLane } from "./base-model.ts";
import type { Batcher } from "./batcher.ts";
import { type NativeAdapter, openNative } from "./binding.ts";
import { type EmbeddingLane, embedTexts, rankDocuments } from "./embedding.ts";
import type { FixedLane } from "./fixed-lane.ts";
import { createModelPool, type PooledBase, type PoolParts } from "./model-pool.ts";
import { shared } from "./shared.ts";

/** A base in the pool, with what works on it besides its batcher. */
interface ServedBase extends Base, PooledBase<NativeAdapter> {
  users: Users;
  /** Runs work with the evaluation lane, which all evaluations and scorings share. */
  withLane: <T>(work: (lane: FixedLane) => Promise<T>) => Promise<T>;
  /** Runs embedding and ranking, which therefore do not wait for evaluations. */
  embeddings: EmbeddingLane;
}

/** Keeps account of the work that uses each adapter. */
class Users {
  private readonly works = new Map<Promise<unknown>, string>();

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const result = work();
    const end: Promise<unknown> = result.catch(() => {}).then(() => this.works.delete(end));
    this.works.set(end, key);
    return result;
  }

  /** Resolves once the work of this adapter that runs or waits now has ended. Without a key, once all such work has. */
  async quiet(key?: string): Promise<void> {
    await Promise.all([...this.works].filter(([, used]) => key === undefined || used === key).map(([end]) => end));
  }
}

const keyOf = (model: ModelRef): string => model.adapter?.id ?? "";

/** Loads only the tokenizer of a GGUF. */
export async function openTokenizer(
  path: string,
  log: Log,
): Promise<{ tokenizer: Tokenizer; dispose(): Promise<void> }> {
  const native = await openNative(log);
  const model = await native.openModel(path, { vocabularyOnly: true });
  return { tokenizer: model.tokenizer, dispose: () => model.dispose() };
}

async function openServed(model: ModelRef, options: GeneratorOptions): Promise<ServedBase> {
  const base = await openBase(model, options);
  const { batcher, turns } = base;
  const users = new Users();
  const width = Math.min(evaluationWidth, options.config.slots);
  const withOpened = shared(() => openLane(model.baseId, base, width, options));
  return {
    ...base,
    users,
    withLane: (work) => withOpened(({ lane }) => work(lane)),
    embeddings: embeddingLane(model.baseId, base, options),
    openAdapter: (aligned) => openAdapter(base, aligned, options.log),
    async closeAdapter(aligned, adapter) {
      const key = keyOf(aligned);
      await batcher?.drain(key);
      await users.quiet(key);
      await turns.run(() => batcher?.forget(key));
      await adapter?.dispose();
    },
    async close() {
      await users.quiet();
      await base.close();
    },
  };
}

export function createGenerator(options: GeneratorOptions & Pick<PoolParts<never>, "clock" | "keepIdleMs">): Generator {
  const { config } = options;
  const pool = createModelPool<NativeAdapter, ServedBase>({
    ...options,
    openBase: (model) => openServed(model, options),
  });

  /** Throws not_loaded. */
  const baseOf = (baseId: string): ServedBase => {
    const base = pool.base(baseId);
    if (base === null) throw new Failure("not_loaded", `The base ${baseId} is not loaded`);
    return base;
  };

  /** Runs work in the evaluation lane of a base. Throws not_loaded, wrong_kind or out_of_memory. */
  const inLane = async <T>(
    model: ModelRef,
    work: (lane: FixedLane, adapter: NativeAdapter | null) => Promise<T>,
  ): Promise<T> => {
    const { base, adapter } = pool.loaded(model);
    answers(base);
    return base.users.run(keyOf(model), () => base.withLane((lane) => work(lane, adapter)));
  };

  const inEmbeddings = async <T>(
    model: ModelRef,
    work: (lane: EmbeddingLane, adapter: NativeAdapter | null) => Promise<T>,
  ): Promise<T> => {
    const { base, adapter } = pool.loaded(model);
    return base.users.run(keyOf(model), () => work(base.embeddings, adapter));
  };

  return {
    slotContext: config.slotContext,
    pool,
    tokenizer: (baseId) => baseOf(baseId).model.tokenizer,
    generate: async function* (request: GenerateRequest) {
      const { base, adapter } = pool.loaded(request.model);
      const batcher = answers(base);
      checkPrompt(request.prompt, base, Math.min(1, request.maxTokens));
      if (request.grammar !== undefined && request.ignoreEos)
        throw invalid(["ignore_eos"], "cannot be combined with a grammar, which sets where an answer ends");
      const empty = { promptTokens: request.prompt.length, cachedTokens: 0, completionTokens: 0 };
      if (request.maxTokens <= 0 && request.onPrompt === undefined) return { finishReason: "length", ...empty };
      return yield* batcher.generate(request, keyOf(request.model), adapter);
    },
    evaluate: async (request: EvaluateRequest) => {
      const { base } = pool.loaded(request.model);
      for (const prompt of request.prompts) checkPrompt(prompt, base);
      if (request.maxTokens < 1) throw invalid(["maxTokens"], "must be at least 1");
      if (request.startAt >= request.prompts.length) return;
      await inLane(request.model, (lane, adapter) => lane.evaluate(adapter, request));
    },
    score: async (model, rows, signal, onRow) => {
      const { base } = pool.loaded(model);
      for (const row of rows) {
        checkPrompt(row.tokens, base, 0);
        if (row.promptLength < 1 || row.promptLength > row.tokens.length)
          throw invalid(["promptLength"], "must be from 1 to the number of tokens");
      }
      if (rows.length === 0) return [];
      return inLane(model, (lane, adapter) => lane.score(adapter, rows, signal, onRow));
    },
    kind: (baseId) => baseOf(baseId).pooling.kind,
    occupancy: () =>
      pool.bases().flatMap(([baseId, { batcher }]) => {
        if (batcher === null) return [];
        const { slots, active, waiting } = batcher.snapshot();
        return [{ baseId, slots, busy: active, waiting }];
      }),
    embed: async (model, inputs, embedding) =>
      inputs.length === 0 ? [] : inEmbeddings(model, (lane, adapter) => embedTexts(lane, adapter, inputs, embedding)),
    rank: async (model, query, documents, embedding) =>
      documents.length === 0 ? [] : inEmbeddings(model, (lane) => rankDocuments(lane, query, documents, embedding)),
    dispose: pool.dispose,
  };
}

/** The batcher of a base. Throws wrong_kind for a model that does not generate text. */
function answers(base: Base): Batcher {
  if (base.batcher === null) throw answersNothing(base.pooling.kind);
  return base.batcher;
}

/** Throws validation or prompt_too_long. `room`: tokens that must be left for an answer. */
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
