// Opens one base: its weights, its pool of slots, its adapters and, while in use, the evaluation lane. Memory is reserved
// before the library allocates it. Every load is logged beforehand, so that the log says what was being loaded if the library
// aborts the process.
import { stat } from "node:fs/promises";
import type { Config } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { LoadedInfo, ModelRef } from "../generator.ts";
import {
  baseBytes,
  batchTokens,
  contextBytes,
  embeddingBytes,
  type Gpu,
  type Grant,
  type ModelShape,
  mebibytes,
  shapeOf,
} from "../gguf/gpu.ts";
import { readGgufHeader } from "../gguf/header.ts";
import { type Pooling, poolingOf } from "../gguf/pooling.ts";
import { Batcher } from "./batcher.ts";
import {
  type Native,
  type NativeAdapter,
  type NativeContext,
  type NativeEmbeddingContext,
  type NativeModel,
  openNative,
  shortText,
} from "./binding.ts";
import type { EmbeddingLane } from "./embedding.ts";
import { FixedLane } from "./fixed-lane.ts";
import { OffloadedPrompts } from "./offloaded.ts";
import { ThreadChoice } from "./thread-choice.ts";
import { Turns } from "./turns.ts";

/**
 * Number of prompt tokens that a step may read for each prompt while other slots answer. A CPU reads about 500 tokens a second
 * (with a model of 135M parameters), a GPU many thousands.
 */
const prefillTokens = { cpu: 64, gpu: 512 };

export interface GeneratorOptions {
  config: Pick<Config, "threads" | "slots" | "slotContext" | "queueLimit">;
  log: Log;
  gpu: Gpu;
  /**
   * Called before a base is loaded. The function that it returns is called when loading has ended. It may throw to forbid the
   * load.
   */
  watchLoad?: (baseId: string) => () => void;
}

/** A loaded base. */
export interface Base {
  model: NativeModel;
  pooling: Pooling;
  /** null for a model that does not generate text. */
  batcher: Batcher | null;
  turns: Turns;
  /** Chooses the number of threads for embedding, ranking, evaluation and scoring. */
  threadChoice: ThreadChoice;
  /** A context that stays open for texts of up to `shortText` tokens; null for a model that generates text. */
  shortTexts: NativeEmbeddingContext | null;
  shape: ModelShape;
  context: number;
  info: LoadedInfo;
  close(): Promise<void>;
}

/**
 * Reserves memory on the GPU if there is one, and otherwise in the machine. With a GPU, the machine only maps the file. Throws
 * out_of_memory.
 */
export function reserve(gpu: Gpu, holder: string, bytes: number, native: Pick<Native, "gpuMemory">): Grant {
  const card = native.gpuMemory();
  if (card) gpu.found(card.total);
  const fitsDevice = card === null || bytes <= card.free;
  const grant = fitsDevice ? gpu.reserve(holder, card ? { machine: 0, gpu: bytes } : { machine: bytes, gpu: 0 }) : null;
  if (grant !== null) return grant;
  const { gpu: pool, machine, grants } = gpu.snapshot();
  const { total, free } = card && pool ? { total: pool.total, free: Math.min(pool.free, card.free) } : machine;
  const whose = card ? " of the GPU" : "";
  throw new Failure(
    "out_of_memory",
    `${holder} needs ${mebibytes(bytes)}, but only ${mebibytes(Math.max(0, free))} of ${mebibytes(total)}${whose} are free`,
    { retryAfterSeconds: 30, context: { grants, fitsAlone: bytes <= total } },
  );
}

export async function openBase(model: ModelRef, options: GeneratorOptions): Promise<Base> {
  const { config, log, gpu } = options;
  const header = await headerOf(model.basePath);
  const shape = shapeOf(header);
  const trainContext = header.values.get(`${String(header.values.get("general.architecture"))}.context_length`);
  const context = Math.min(config.slotContext, typeof trainContext === "number" ? trainContext : config.slotContext);
  const pooling = poolingOf(header);
  const use = { slots: config.slots, slotContext: context, batch: batchTokens };
  const native = await openNative(log);
  const answers = pooling.kind === "text";
  const short = Math.min(shortText, context);
  const needed = answers
    ? baseBytes(shape, use)
    : shape.weightBytes + embeddingBytes(shape, { tokens: short, batch: short });
  const grant = reserve(gpu, `base:${model.baseId}`, needed, native);
  let ended = (): void => {};
  try {
    ended = options.watchLoad?.(model.baseId) ?? ended;
    log("info", "base_loading", { baseId: model.baseId, path: model.basePath, bytes: needed });
    const opened = await native.openModel(model.basePath);
    const orClose = async (error: unknown): Promise<never> => {
      await opened.dispose();
      throw error;
    };
    const pool = answers ? await openPool(opened, context, config).catch(orClose) : null;
    // This context stays open, because opening one takes a tenth of the time of reading a question of a few words.
    const forShort = { slotContext: short, batch: short, threads: config.threads };
    const shortTexts = answers ? null : await opened.openEmbeddingContext(forShort).catch(orClose);
    const turns = new Turns();
    const batcher =
      pool &&
      new Batcher({
        context: pool,
        tokenizer: opened.tokenizer,
        openGrammar: opened.openGrammar,
        offloaded:
          native.gpu === false ? offloadedPrompts(pool, model.baseId, contextBytes(shape, use), options) : null,
        turns,
        slots: config.slots,
        slotContext: context,
        batch: batchTokens,
        prefill: native.gpu === false ? prefillTokens.cpu : prefillTokens.gpu,
        queueLimit: config.queueLimit,
        threads: () => threadsFree(options),
        log,
      });
    const info: LoadedInfo = {
      architecture: String(header.values.get("general.architecture")),
      context,
      parameters: opened.parameters,
      bytes: opened.bytes + (pool?.memoryBytes ?? 0),
      slots: pool ? config.slots : 0,
    };
    log("info", "base_loaded", { baseId: model.baseId, ...info, gpu: native.gpu });
    const close = async (): Promise<void> => {
      batcher?.dispose();
      await pool?.dispose();
      await shortTexts?.dispose();
      await opened.dispose();
      grant.release();
    };
    const threadChoice = new ThreadChoice();
    return { model: opened, pooling, batcher, turns, threadChoice, shortTexts, shape, context, info, close };
  } catch (error) {
    grant.release();
    throw error;
  } finally {
    ended();
  }
}

/**
 * Creates the offloaded prompt cache of a base, which takes at most `bytes`, the size of the pool of slots. There is none with a
 * GPU, which reads a prompt again in less time than copying its cells takes.
 */
function offloadedPrompts(
  context: NativeContext,
  baseId: string,
  bytes: number,
  { gpu, log }: GeneratorOptions,
): OffloadedPrompts {
  const lend = (size: number, giveBack: () => void) => gpu.lend(`prompts:${baseId}`, size, giveBack);
  return new OffloadedPrompts({ context, bytes, lend, log });
}

/** Number of threads that no run holds, but at least 1 and at most `config.threads`. */
const threadsFree = ({ config, gpu }: GeneratorOptions): number =>
  Math.max(1, Math.min(config.threads, gpu.snapshot().freeThreads));

function openPool(
  model: NativeModel,
  slotContext: number,
  { slots, threads }: GeneratorOptions["config"],
): Promise<NativeContext> {
  return model.openContext({ sequences: slots, slotContext, batch: batchTokens, threads });
}

export async function openAdapter(base: Base, model: ModelRef, log: Log): Promise<NativeAdapter | null> {
  if (model.adapter === undefined) return null;
  await mustExist(model.adapter.path);
  log("info", "adapter_loading", { adapterId: model.adapter.id, path: model.adapter.path });
  return base.turns.run(() => base.model.openAdapter(model.adapter!.path));
}

async function mustExist(path: string): Promise<void> {
  await stat(path).catch((cause) => {
    throw new Failure("model_load_failed", `The file ${path} cannot be read: ${(cause as Error).message}`, { cause });
  });
}

async function headerOf(path: string): Promise<ReturnType<typeof readGgufHeader>> {
  await mustExist(path);
  return readGgufHeader(path);
}

/** Opens an evaluation lane. Its context can be as large as the pool of slots. Throws out_of_memory. */
export async function openLane(
  baseId: string,
  base: Base,
  width: number,
  options: GeneratorOptions,
): Promise<{ lane: FixedLane; close(): Promise<void> }> {
  const use = { slots: width, slotContext: base.context, batch: batchTokens };
  const native = await openNative(options.log);
  const bytes = contextBytes(base.shape, use);
  const grant = reserve(options.gpu, `evaluation:${baseId}`, bytes, native);
  try {
    const context = await base.turns.run(() =>
      base.model.openContext({
        sequences: width,
        slotContext: base.context,
        batch: batchTokens,
        threads: options.config.threads,
      }),
    );
    const lane = new FixedLane({
      context,
      tokenizer: base.model.tokenizer,
      turns: base.turns,
      width,
      slotContext: base.context,
      batch: batchTokens,
      threads: options.config.threads,
      threadChoice: base.threadChoice,
      threadsFree: () => threadsFree(options),
    });
    const close = async (): Promise<void> => {
      lane.dispose();
      await base.turns.run(() => context.dispose()).finally(() => grant.release());
    };
    return { lane, close };
  } catch (error) {
    grant.release();
    throw error;
  }
}

/**
 * Returns the lane that embeds and ranks on a base. `within` opens a context for each call, except for short texts, whose
 * context stays open.
 */
export function embeddingLane(baseId: string, base: Base, options: GeneratorOptions): EmbeddingLane {
  const { model, pooling, turns, threadChoice, shortTexts, shape } = base;
  const uses = new Turns();
  const within: EmbeddingLane["within"] = async (tokens, batch, work) => {
    if (shortTexts !== null && tokens <= shortText)
      // Unset the adapter, because it may be disposed before this context.
      return work(shortTexts).finally(() => shortTexts.setAdapter(null));
    const native = await openNative(options.log);
    const bytes = embeddingBytes(shape, { tokens, batch });
    const grant = reserve(options.gpu, `embedding:${baseId}`, bytes, native);
    try {
      const threads = options.config.threads;
      const context = await turns.run(() => model.openEmbeddingContext({ slotContext: tokens, batch, threads }));
      try {
        return await work(context);
      } finally {
        await turns.run(() => context.dispose());
      }
    } finally {
      grant.release();
    }
  };
  return {
    model,
    pooling,
    turns,
    threadChoice,
    threads: () => threadsFree(options),
    context: base.context,
    within: (tokens, batch, work) => uses.run(() => within(tokens, batch, work)),
    isWanted: () => uses.wanted,
  };
}
