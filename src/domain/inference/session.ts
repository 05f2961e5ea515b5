// One request from admission to its usage row: holds the model, makes the prompts, runs the choices. Streaming is only
// a matter of how the pieces are read. The lease is released when the work ends, whether or not anyone is still
// reading.
import { randomInt } from "node:crypto";
import { Failure, invalid } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Metrics } from "../../base/metrics.ts";
import type { Clock } from "../../base/time.ts";
import type { Traces } from "../../base/traces.ts";
import type { Caller } from "../../contract/endpoint.ts";
import type {
  FinishReason,
  GenerateRequest,
  Generator,
  ModelKind,
  ModelRef,
  Sampling,
  Tokenizer,
} from "../../engine/generator.ts";
import { answer, type Choice, type Listener, type Piece } from "./answers.ts";
import { listenerOf, type ScoredModel } from "./confidence.ts";
import type { DriftMeter } from "./drift.ts";
import { refuseProvider } from "./provider.ts";
import type { HasDocument } from "./sources.ts";
import type { UsageOutcome, UsageSql } from "./store.ts";

/** A resolved model. */
export interface ServedModel extends ScoredModel {
  modelId: string;
  ref: ModelRef;
}

export interface SessionParts {
  generator: Generator;
  /** Throws not_found, not_deployed. */
  resolve: (caller: Caller, name: string) => ServedModel;
  /** The base to use if none is named. Throws validation unless there is exactly one of the first kind that has any. */
  onlyBase: (kinds: readonly ModelKind[]) => string;
  /** Keeps the model loaded until released; loads a base on its first use. */
  lease: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
  usage: UsageSql;
  /** The inference engine; calibrations made with another one are void. */
  engine: string;
  drift: DriftMeter;
  hasDocument: HasDocument;
  clock: Clock;
  log: Log;
  metrics: Pick<Metrics, "tokens" | "truncation" | "firstToken" | "token">;
  traces: Pick<Traces, "current" | "headers">;
}

/** Sampling parameters, with OpenAI's names; null means left out. */
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

/** What all endpoints that generate answers have in common, whatever the names on the wire. */
export interface Asked {
  /** If left out, the only base that answers. */
  model: string | undefined;
  draw: DrawFields;
  headers: Record<string, unknown>;
  requestId: string;
  signal: AbortSignal;
  setHeader(name: string, value: string): void;
}

/** The part of an input that is not its body. */
export const around = ({ headers, requestId, signal, setHeader }: Omit<Asked, "model" | "draw">) => ({
  headers,
  requestId,
  signal,
  setHeader,
});

export interface PlannedChoice extends Pick<GenerateRequest, "grammar" | "steer" | "shown" | "exact"> {
  prompt: readonly number[];
  maxTokens: number;
  /** Index of the prompt; choices of one prompt share it. */
  promptIndex: number;
  /** The question: in a chat, the user's last message. */
  question: string;
  scoresPrompt?: boolean;
}

/** What differs between endpoints: the prompt of each choice, and the constraints on its answer. */
export interface Plan {
  choices: PlannedChoice[];
  truncatedTokens: number;
}

export interface Session {
  head: { id: string; created: number; model: string };
  choices: readonly PlannedChoice[];
  tokenizer: Tokenizer;
  /** Tokens of all prompts, each counted once however many choices answer it. */
  promptTokens: number;
  truncatedTokens: number;
  drawn: () => number;
  pieces: AsyncGenerator<Piece, void, void>;
}

export async function openSession(
  parts: SessionParts,
  asked: Asked,
  caller: Caller,
  idMark: string,
  plan: (tokenizer: Tokenizer, seatContext: number) => Plan | Promise<Plan>,
): Promise<Session> {
  refuseProvider(asked.headers);
  const { generator, clock } = parts;
  const arrivedMs = clock.monotonicMs();
  const model = parts.resolve(caller, asked.model ?? parts.onlyBase(["text"]));
  const lease = await parts.lease(model.ref);
  try {
    if (asked.signal.aborted) throw new Failure("cut_off");
    const kind = generator.kind(model.ref.baseId);
    if (kind !== "text")
      throw new Failure("wrong_kind", `The model is for ${kind} and does not generate answers; use another model`);
    const tokenizer = generator.tokenizer(model.ref.baseId);
    const planned = await plan(tokenizer, generator.seatContext);
    if (asked.signal.aborted) throw new Failure("cut_off");
    tellTruncation(parts, asked, planned.truncatedTokens);
    const choices = choicesOf(planned, asked, caller, model, tokenizer);
    const promptTokens = promptTokensOf(planned);
    const close = admit(parts, asked, caller, model, { promptTokens, truncatedTokens: planned.truncatedTokens });
    const listen = timed(listenerOf(model, tokenizer, caller.userId, parts), arrivedMs, parts);
    const answers = answer(generator, choices, listen, asked.signal);
    void answers.ended
      .then(
        () => close("done", answers.drawn()),
        (error) => close(asked.signal.aborted || isAbort(error) ? "aborted" : "failed", answers.drawn()),
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
      truncatedTokens: planned.truncatedTokens,
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

/** Wraps listeners to measure how long the tokens of an answer take, and to trace where its time went. */
const timed =
  (listen: (question: string) => Listener, arrivedMs: number, { clock, metrics, traces }: SessionParts) =>
  (question: string): Listener => {
    const inner = listen(question);
    const phases = answerPhases(traces.current());
    let firstMs = 0;
    let tokens = 0;
    return {
      seated: phases.seated,
      add(token) {
        phases.add();
        if (tokens++ === 0) {
          firstMs = clock.monotonicMs();
          metrics.firstToken((firstMs - arrivedMs) / 1000);
        }
        inner.add(token);
      },
      score(finishReason) {
        phases.end(finishReason);
        if (tokens > 1) metrics.token((clock.monotonicMs() - firstMs) / 1000 / (tokens - 1));
        return inner.score(finishReason);
      },
    };
  };

/** The spans of one answer: waiting for its seat, reading the prompt, and drawing tokens. */
function answerPhases(span: ReturnType<Traces["current"]>) {
  const asked = performance.now();
  let seated = asked;
  let first: number | null = null;
  let tokens = 0;
  return {
    seated(): void {
      seated = performance.now();
      span.record("queue", asked, seated);
    },
    add(): void {
      tokens++;
      if (first !== null) return;
      first = performance.now();
      span.record("prefill", seated, first);
    },
    end(finishReason: FinishReason): void {
      if (first === null) return;
      const attributes = { "gen_ai.usage.output_tokens": tokens, "gen_ai.response.finish_reasons": finishReason };
      span.record("decode", first, performance.now(), attributes);
    },
  };
}

const isAbort = (error: unknown): boolean => error instanceof Error && error.name === "AbortError";

/** Writes the usage row and returns the function that closes it. */
function admit(
  parts: SessionParts,
  { requestId, headers }: Asked,
  caller: Caller,
  model: ServedModel,
  { promptTokens, truncatedTokens }: { promptTokens: number; truncatedTokens: number },
): (outcome: UsageOutcome, completionTokens: number) => void {
  const { usage, clock, log, metrics } = parts;
  const [ownerId, keyId, modelId] = [caller.userId, caller.keyId, model.modelId];
  usage.open.run({ requestId, ownerId, keyId, modelId, promptTokens, at: clock.now() });
  const begun = clock.monotonicMs();
  return (outcome, completionTokens) => {
    usage.end.run(completionTokens, outcome, requestId);
    metrics.tokens(promptTokens, completionTokens);
    log("info", "inference.ended", {
      requestId,
      modelId,
      outcome,
      promptTokens,
      truncatedTokens,
      completionTokens,
      sessionId: headers["x-session-id"],
      ms: Math.round(clock.monotonicMs() - begun),
    });
  };
}

function promptTokensOf(planned: Plan): number {
  const lengths = new Map(planned.choices.map(({ promptIndex, prompt }) => [promptIndex, prompt.length]));
  return [...lengths.values()].reduce((sum, length) => sum + length, 0);
}

function choicesOf(
  planned: Plan,
  { draw, headers }: Asked,
  caller: Caller,
  model: ServedModel,
  tokenizer: Tokenizer,
): Choice[] {
  const seed = draw.seed ?? randomInt(2 ** 32);
  const sampling = samplingOf(draw, tokenizer);
  const stopStrings = typeof draw.stop === "string" ? [draw.stop] : (draw.stop ?? []);
  return planned.choices.map(({ promptIndex: _, question, scoresPrompt, ...choice }, index) => ({
    index,
    question,
    scoresPrompt: scoresPrompt ?? false,
    request: {
      ...choice,
      model: model.ref,
      // Each choice samples with its own seed, and is reproducible under the same request seed.
      sampling: { ...sampling, seed: seed + index },
      stopStrings,
      ignoreEos: draw.ignore_eos ?? false,
      priority: "interactive",
      owner: caller.userId,
      ...(headers["x-session-id"] === undefined ? {} : { session: String(headers["x-session-id"]) }),
    },
  }));
}

/**
 * Sampling parameters with their defaults. Both −1 and 0 turn top_k off, since clients use either. Throws validation
 * for a bias on an unknown token.
 */
const samplingOf = (draw: DrawFields, tokenizer: Tokenizer): Omit<Sampling, "seed"> => ({
  temperature: draw.temperature ?? 1,
  topP: draw.top_p ?? 1,
  topK: Math.max(0, draw.top_k ?? 0),
  minP: draw.min_p ?? 0,
  repetitionPenalty: draw.repetition_penalty ?? 1,
  frequencyPenalty: draw.frequency_penalty ?? 0,
  presencePenalty: draw.presence_penalty ?? 0,
  logitBias: new Map(
    Object.entries(draw.logit_bias ?? {}).map(([id, bias]) => {
      if (Number(id) >= tokenizer.vocabulary)
        throw invalid(["body", "logit_bias", Number(id)], `the model's last token id is ${tokenizer.vocabulary - 1}`);
      return [Number(id), bias];
    }),
  ),
});
