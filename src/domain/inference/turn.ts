// One turn of a conversation for the endpoints that word it otherwise than chat/completions does. They say it in that endpoint's
// body and are answered in pieces of its stream, so that an answer is made in one place, whatever it is called on the wire.
import { Failure } from "../../base/errors.ts";
import type { Caller, Handler, Input, StreamEvent } from "../../contract/endpoint.ts";
import { EventStream } from "../../contract/endpoint.ts";
import { chatBody, type inference } from "../../contract/inference.ts";
import { compile } from "../../contract/validate.ts";
import { plan } from "./chat.ts";
import { refuseProvider } from "./held.ts";
import type { SessionParts } from "./session.ts";

type ChatEndpoint = (typeof inference)["inference.chat"];

/** Of an input, what is not its body. */
export interface Asked {
  headers: Record<string, unknown>;
  requestId: string;
  signal: AbortSignal;
  setHeader(name: string, value: string): void;
}

export interface TurnUsage {
  promptTokens: number;
  completionTokens: number;
  cachedTokens: number;
  reasoningTokens: number;
  truncatedTokens: number;
}

export interface TurnEnd {
  finish: "stop" | "length" | "tool_calls";
  /** The stop string that ended it, where one did. */
  stopString: string | null;
  usage: TurnUsage;
  confidenceScore: number | null;
  confidence: { calibrated: boolean; n: number; reason: string | null } | null;
}

export type TurnPiece =
  | { thought: string }
  | { text: string }
  /** `name` and `id` with the first piece of a call only. */
  | { call: number; id?: string; name?: string; arguments: string }
  | { end: TurnEnd };

export interface Turn {
  model: string;
  /** Unix seconds. */
  created: number;
  pieces: AsyncGenerator<TurnPiece, void, void>;
}

/** `names`: what a field of the chat's body is called in the asker's, for errors about it. */
export type RunTurn = (
  body: Record<string, unknown>,
  asked: Asked,
  caller: Caller,
  names: Readonly<Record<string, string>>,
) => Promise<Turn>;

interface Chunk {
  created: number;
  model: string;
  choices: {
    delta: {
      content?: string | null;
      reasoning_content?: string;
      tool_calls?: { index: number; id?: string; function: { name?: string; arguments?: string } }[];
    };
    finish_reason: TurnEnd["finish"] | null;
    stop_reason?: string | null;
  }[];
  usage?: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens?: number; truncated_tokens?: number };
    completion_tokens_details?: { reasoning_tokens?: number };
  };
  confidence_score?: number | null;
  confidence?: TurnEnd["confidence"];
}

const check = compile(chatBody);

/** Throws validation that names the asker's fields. */
function chatBodyOf(
  body: Record<string, unknown>,
  names: Readonly<Record<string, string>>,
): Input<ChatEndpoint>["body"] {
  const checked = check(body, ["body"]);
  if (checked.ok) return checked.value;
  const details = checked.details.map(({ loc: [place, field, ...rest], ...detail }) => ({
    ...detail,
    loc: [place!, names[String(field)] ?? field!, ...rest],
  }));
  throw new Failure("validation", details.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; "), { details });
}

export function createTurn(chat: Handler<ChatEndpoint>): RunTurn {
  return async (body, asked, caller, names) => {
    const checked = chatBodyOf({ ...body, n: 1, stream: true, stream_options: { include_usage: true } }, names);
    const nothing = { params: {}, query: {}, raw: {}, files: [], lastEventId: null };
    const answered = await chat({ ...asked, ...nothing, body: checked } as Input<ChatEndpoint>, caller);
    if (!(answered instanceof EventStream)) throw new TypeError("a chat that was to stream did not");
    return begun(answered.events);
  };
}

/** Prompts of any length that the house's one thread can read in a moment are counted, whether a seat could hold them or not. */
const countedContext = 1 << 16;

/** How many tokens a chat's prompt has; nothing is answered, and nothing counted as usage. */
export function createCount(parts: SessionParts): (...asked: Parameters<RunTurn>) => Promise<number> {
  return async (body, { headers, signal }, caller, names) => {
    refuseProvider(headers);
    const chat = chatBodyOf({ ...body, max_tokens: 0, prompt_truncate_len: uncut }, names);
    const model = parts.resolve(caller, chat.model);
    const lease = await parts.lease(model.ref);
    try {
      if (signal.aborted) throw new Failure("cut_off");
      const { choices } = plan(chat, parts.generator.tokenizer(model.ref.baseId), countedContext);
      return choices[0]!.prompt.length;
    } finally {
      await lease.release();
    }
  };
}

/** Waits for the first chunk: what fails until then is the answer. */
async function begun(events: AsyncIterable<StreamEvent>): Promise<Turn> {
  const chunks = chunksOf(events);
  const first = await chunks.next();
  if (first.done) throw new Failure("inference_failed", "The answer has no beginning");
  const { model, created } = first.value;
  return { model, created, pieces: piecesOf(first.value, chunks) };
}

async function* chunksOf(events: AsyncIterable<StreamEvent>): AsyncGenerator<Chunk, void, void> {
  for await (const { data } of events) if (data !== "[DONE]") yield JSON.parse(data) as Chunk;
}

async function* piecesOf(
  first: Chunk,
  others: AsyncGenerator<Chunk, void, void>,
): AsyncGenerator<TurnPiece, void, void> {
  let finish: TurnEnd["finish"] = "stop";
  let stopString: string | null = null;
  let last = first;
  try {
    for (let chunk: Chunk | null = first; chunk !== null; chunk = (await others.next()).value ?? null) {
      last = chunk;
      for (const { delta, finish_reason, stop_reason } of chunk.choices) {
        if (delta.reasoning_content) yield { thought: delta.reasoning_content };
        if (delta.content) yield { text: delta.content };
        for (const { index, id, function: called } of delta.tool_calls ?? [])
          yield {
            call: index,
            ...(id === undefined ? {} : { id }),
            ...(called.name === undefined ? {} : { name: called.name }),
            arguments: called.arguments ?? "",
          };
        finish = finish_reason ?? finish;
        stopString = stop_reason ?? stopString;
      }
    }
  } finally {
    // A reader that leaves ends the work.
    await others.return();
  }
  const { usage, confidence_score: confidenceScore = null, confidence = null } = last;
  yield { end: { finish, stopString, usage: usageOf(usage), confidenceScore, confidence } };
}

const usageOf = (usage: Chunk["usage"]): TurnUsage => ({
  promptTokens: usage?.prompt_tokens ?? 0,
  completionTokens: usage?.completion_tokens ?? 0,
  cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? 0,
  reasoningTokens: usage?.completion_tokens_details?.reasoning_tokens ?? 0,
  truncatedTokens: usage?.prompt_tokens_details?.truncated_tokens ?? 0,
});

/** What tokens of a prompt may be where an endpoint cuts none: too long a prompt is refused by its context instead. */
export const uncut = 10_000_000;
