// Runs one request from admission to its usage row: leases the model, makes the prompts, runs the choices. Streamed and
// complete answers differ only in how the pieces are read. The lease is released when the work ends, whether or not
// anyone is still reading.
import { randomInt } from "node:crypto";
import { Failure, invalid } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Metrics } from "../../base/metrics.ts";
import type { Clock } from "../../base/time.ts";
import type { Traces } from "../../base/traces.ts";
import type { Caller } from "../../contract/endpoint.ts";
import {
  answersNothing,
  contextOf,
  type Generator,
  type ModelKind,
  type ModelRef,
  type Priority,
  type Tokenizer,
} from "../../engine/generator.ts";
import { openAccount } from "./account.ts";
import { answer, type Choice, type Common, type Listen, type Piece } from "./answers.ts";
import { listenerOf, type ScoredModel } from "./confidence.ts";
import type { DriftMeter } from "./drift.ts";
import type { HasDocument } from "./sources.ts";
import type { UsageSql } from "./store.ts";

/** The model that a name in a request stands for. */
export interface ServedModel extends ScoredModel {
  modelId: string;
  ref: ModelRef;
}

export interface SessionParts {
  generator: Generator;
  /** Throws not_found, not_deployed. */
  resolve: (caller: Caller, name: string) => ServedModel;
  /**
   * Returns the id of the base to use if the request names none: the only base of the first of `kinds` that has any. Throws
   * validation if there is no base or there are several.
   */
  onlyBase: (kinds: readonly ModelKind[]) => string;
  /** Keeps the model loaded until the lease is released. Loads a base if it is not loaded. */
  lease: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
  usage: UsageSql;
  /** The inference engine. Calibrations made with another engine are void. */
  engine: string;
  drift: DriftMeter;
  hasDocument: HasDocument;
  clock: Clock;
  log: Log;
  metrics: Pick<Metrics, "tokens" | "truncation" | "firstToken" | "token">;
  traces: Pick<Traces, "current" | "headers">;
}

/** Sampling parameters with OpenAI's names. A null field counts as left out. */
export interface DrawFields {
  temperature?: number | null;
  top_p?: number | null;
  top_k?: number | null;
  min_p?: number | null;
  seed?: number | null;
  stop?: string | string[] | null;
  presence_penalty?: number | null;
  frequency_penalty?: number | null;
  repetition_penalty?: number | null;
  logit_bias?: Record<string, number> | null;
  ignore_eos?: boolean | null;
}

/** The parts of a request other than its body. */
export interface Asked {
  headers: Record<string, unknown>;
  requestId: string;
  signal: AbortSignal;
  /** Interactive if left out. */
  priority?: Priority;
  setHeader(name: string, value: string): void;
}

/** Refuses the header X-Provider, which names an upstream, for requests that only this machine answers. Throws validation. */
export function refuseProvider(headers: Record<string, unknown>): void {
  if (headers["x-provider"] !== undefined)
    throw invalid(["header", "X-Provider"], "this request is always answered on this machine; leave the header out");
}

/** What differs between endpoints: the prompt of each choice, and the constraints on its answer. */
export interface Plan {
  choices: Choice[];
  truncatedTokens: number;
}

export interface Session {
  head: { id: string; created: number; model: string };
  choices: readonly Choice[];
  tokenizer: Tokenizer;
  /** Tokens of all prompts. A prompt counts once, however many choices answer it. */
  promptTokens: number;
  truncatedTokens: number;
  drawn: () => number;
  pieces: AsyncGenerator<Piece, void, void>;
}

/**
 * Begins a request: leases the model, plans the choices and starts them. `idMark` begins the answer's id. Throws not_found,
 * not_deployed, wrong_kind, validation, cut_off, and what `plan` throws.
 */
export async function openSession(
  parts: SessionParts,
  asked: Asked,
  caller: Caller,
  { model: name, draw, idMark }: { model: string; draw: DrawFields; idMark: string },
  plan: (tokenizer: Tokenizer, context: number) => Plan | Promise<Plan>,
): Promise<Session> {
  refuseProvider(asked.headers);
  const { generator, clock } = parts;
  const arrivedMs = clock.monotonicMs();
  const model = parts.resolve(caller, name);
  const lease = await parts.lease(model.ref);
  try {
    if (asked.signal.aborted) throw new Failure("cut_off");
    const kind = generator.kind(model.ref.baseId);
    if (kind !== "text") throw answersNothing(kind);
    const tokenizer = generator.tokenizer(model.ref.baseId);
    const planned = await plan(tokenizer, contextOf(generator, tokenizer));
    if (asked.signal.aborted) throw new Failure("cut_off");
    tellTruncation(parts, asked, planned.truncatedTokens);
    const common = commonOf(draw, asked, caller, model, tokenizer);
    const promptTokens = promptTokensOf(planned);
    const { truncatedTokens } = planned;
    const account = openAccount(parts, asked, caller, model.modelId, { promptTokens, truncatedTokens });
    const listen = timed(listenerOf(model, tokenizer, caller.userId, parts), arrivedMs, parts);
    const answers = answer(generator, planned.choices, common, listen, asked.signal);
    void answers.ended
      .then(
        () => account.end("done", answers.drawn()),
        (error) => account.end(asked.signal.aborted || isAbort(error) ? "aborted" : "failed", answers.drawn()),
      )
      .finally(() => lease.release())
      .catch((error) => parts.log("error", "inference.close_failed", { requestId: asked.requestId, error }));
    return {
      head: {
        id: `${idMark}-${asked.requestId}`,
        created: Math.floor(Date.parse(clock.now()) / 1000),
        model: model.modelId,
      },
      choices: planned.choices,
      tokenizer,
      promptTokens,
      truncatedTokens,
      drawn: answers.drawn,
      pieces: answers.pieces,
    };
  } catch (error) {
    await lease.release();
    throw error;
  }
}

/** Reports a truncation in a header and a metric, in addition to the usage field. */
export function tellTruncation(
  { metrics }: Pick<SessionParts, "metrics">,
  { setHeader }: Pick<Asked, "setHeader">,
  tokens: number,
): void {
  if (tokens === 0) return;
  setHeader("x-plumbline-truncated-tokens", String(tokens));
  metrics.truncation(tokens);
}

/**
 * Wraps listeners to measure how long the tokens of an answer take, and to trace the phases of the answer: waiting for a
 * slot, reading the prompt, and drawing tokens.
 */
const timed =
  (listen: Listen, arrivedMs: number, { clock, metrics, traces }: SessionParts): Listen =>
  (question, thought) => {
    const inner = listen(question, thought);
    const span = traces.current();
    const asked = performance.now();
    let admitted = asked;
    let first = asked;
    let firstMs = 0;
    let tokens = 0;
    return {
      admitted() {
        admitted = performance.now();
        span.record("queue", asked, admitted);
      },
      add(token) {
        if (tokens++ === 0) {
          first = performance.now();
          span.record("prefill", admitted, first);
          firstMs = clock.monotonicMs();
          metrics.firstToken((firstMs - arrivedMs) / 1000);
        }
        inner.add(token);
      },
      score(finishReason) {
        const attributes = { "gen_ai.usage.output_tokens": tokens, "gen_ai.response.finish_reasons": finishReason };
        if (tokens > 0) span.record("decode", first, performance.now(), attributes);
        if (tokens > 1) metrics.token((clock.monotonicMs() - firstMs) / 1000 / (tokens - 1));
        return inner.score(finishReason);
      },
    };
  };

const isAbort = (error: unknown): boolean => error instanceof Error && error.name === "AbortError";

function promptTokensOf(planned: Plan): number {
  const lengths = new Map(planned.choices.map(({ promptIndex, prompt }) => [promptIndex, prompt.length]));
  return [...lengths.values()].reduce((sum, length) => sum + length, 0);
}

/**
 * Returns what the choices have in common, with defaults for the sampling parameters. Both −1 and 0 turn top_k off,
 * because clients use either. Throws validation for a bias on an unknown token.
 */
function commonOf(
  draw: DrawFields,
  { headers, priority = "interactive" }: Asked,
  caller: Caller,
  model: ServedModel,
  { vocabulary }: Tokenizer,
): Common {
  const logitBias = new Map(Object.entries(draw.logit_bias ?? {}).map(([id, bias]) => [Number(id), bias]));
  for (const id of logitBias.keys())
    if (id >= vocabulary) throw invalid(["body", "logit_bias", id], `the model's token ids end at ${vocabulary - 1}`);
  return {
    model: model.ref,
    sampling: {
      seed: draw.seed ?? randomInt(2 ** 32),
      temperature: draw.temperature ?? 1,
      topP: draw.top_p ?? 1,
      topK: Math.max(0, draw.top_k ?? 0),
      minP: draw.min_p ?? 0,
      repetitionPenalty: draw.repetition_penalty ?? 1,
      frequencyPenalty: draw.frequency_penalty ?? 0,
      presencePenalty: draw.presence_penalty ?? 0,
      logitBias,
    },
    stopStrings: typeof draw.stop === "string" ? [draw.stop] : (draw.stop ?? []),
    ignoreEos: draw.ignore_eos ?? false,
    priority,
    owner: caller.userId,
    ...(headers["x-session-id"] === undefined ? {} : { session: String(headers["x-session-id"]) }),
  };
}
