// One request from admission to its usage row: the model held, the prompts made, the choices run. Streaming or not is a matter
// of how the pieces are read, and what was taken is given back when the work ends, whoever still reads.
import { randomInt } from "node:crypto";
import { Failure, invalid } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Clock } from "../../base/time.ts";
import type { Caller } from "../../contract/endpoint.ts";
import type { Generator, ModelKind, ModelRef, Tokenizer } from "../../engine/generator.ts";
import { answer, type Choice, type Piece } from "./answers.ts";
import { listenerOf, type ScoredModel } from "./confidence.ts";
import type { UsageOutcome, UsageSql } from "./store.ts";

/** What the models room says of a name. */
export interface ServedModel extends ScoredModel {
  modelId: string;
  ref: ModelRef;
}

export interface SessionParts {
  generator: Generator;
  /** Throws not_found, not_deployed. */
  resolve: (caller: Caller, name: string) => ServedModel;
  /** The base meant where none is named. Throws validation unless there is just one of the first of these kinds there is. */
  onlyBase: (kinds: readonly ModelKind[]) => string;
  /** Keeps the model loaded until released; loads a base on its first use. */
  lease: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
  usage: UsageSql;
  /** What the inference engine is: calibrations made with another are not vouched for. */
  engine: string;
  clock: Clock;
  log: Log;
}

/** The part of an input that both endpoints share. */
export interface Asked {
  body: {
    model: string;
    temperature?: number | null;
    top_p?: number | null;
    top_k?: number | null;
    seed?: number | null;
    stop?: string | string[] | null;
  };
  headers: Record<string, unknown>;
  requestId: string;
  signal: AbortSignal;
  setHeader(name: string, value: string): void;
}

/** What differs: the prompt of each choice, and how many tokens each may draw. */
export interface Plan {
  choices: { prompt: readonly number[]; maxTokens: number }[];
  promptTokens: number;
  truncatedTokens: number;
}

export interface Session {
  head: { id: string; created: number; model: string };
  choices: number;
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
  plan: (tokenizer: Tokenizer, seatContext: number) => Plan,
): Promise<Session> {
  if (asked.headers["x-provider"] !== undefined)
    throw invalid(["header", "X-Provider"], "names no configured upstream; there are none");
  const { generator, clock } = parts;
  const model = parts.resolve(caller, asked.body.model);
  const lease = await parts.lease(model.ref);
  try {
    if (asked.signal.aborted) throw new Failure("cut_off");
    const tokenizer = generator.tokenizer(model.ref.baseId);
    const planned = plan(tokenizer, generator.seatContext);
    if (planned.truncatedTokens > 0) asked.setHeader("x-plumbline-truncated-tokens", String(planned.truncatedTokens));
    const close = admit(parts, asked, caller, model, planned);
    const choices = choicesOf(planned, asked, caller, model);
    const listen = listenerOf(model, tokenizer, parts.engine);
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
      choices: choices.length,
      promptTokens: planned.promptTokens,
      truncatedTokens: planned.truncatedTokens,
      drawn: answers.drawn,
      pieces: answers.pieces,
    };
  } catch (error) {
    await lease.release();
    throw error;
  }
}

const isAbort = (error: unknown): boolean => error instanceof Error && error.name === "AbortError";

/** The usage row, and what closes it. */
function admit(
  parts: SessionParts,
  { requestId, headers }: Asked,
  caller: Caller,
  model: ServedModel,
  { promptTokens, truncatedTokens }: Plan,
): (outcome: UsageOutcome, completionTokens: number) => void {
  const { usage, clock, log } = parts;
  const [ownerId, keyId, modelId] = [caller.userId, caller.keyId, model.modelId];
  usage.open.run({ requestId, ownerId, keyId, modelId, promptTokens, at: clock.now() });
  const begun = clock.monotonicMs();
  return (outcome, completionTokens) => {
    usage.end.run(completionTokens, outcome, requestId);
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

function choicesOf(planned: Plan, { body }: Asked, caller: Caller, model: ServedModel): Choice[] {
  const seed = body.seed ?? randomInt(2 ** 32);
  const stopStrings = typeof body.stop === "string" ? [body.stop] : (body.stop ?? []);
  return planned.choices.map(({ prompt, maxTokens }, index) => ({
    index,
    request: {
      model: model.ref,
      prompt,
      maxTokens,
      // Each choice draws its own way, and the same way again under the same seed.
      sampling: { ...plainSampling, ...samplingOf(body), seed: seed + index },
      stopStrings,
      ignoreEos: false,
      priority: "interactive",
      owner: caller.userId,
    },
  }));
}

const plainSampling = {
  minP: 0,
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: new Map<number, number>(),
};

/** −1 and 0 both turn top_k off, as clients of either habit mean it. */
const samplingOf = (body: Asked["body"]) => ({
  temperature: body.temperature ?? 1,
  topP: body.top_p ?? 1,
  topK: Math.max(0, body.top_k ?? 0),
});
