// Turns for the chat endpoints whose format is not that of chat/completions. They translate their request into its
// body, which is validated only here, and get the answer in pieces.
import { Failure } from "../../base/errors.ts";
import type { chat } from "../../contract/chat.ts";
import { chatBody } from "../../contract/chat-body.ts";
import type { Caller, EventStream, Input } from "../../contract/endpoint.ts";
import { compile } from "../../contract/validate.ts";
import { turnOf, usageWithThoughts } from "./chat.ts";
import { openTurn, planTurn, type RunningTurn, type TurnEvent } from "./chat-turn.ts";
import { refuseProvider } from "./provider.ts";
import type { SessionParts } from "./session.ts";
import { confidenceOf } from "./shapes.ts";
import type { Turn, TurnPiece } from "./turn-pieces.ts";
import { turnOfChunks } from "./upstream-turn.ts";
import { type Forward, isForwarded } from "./upstreams.ts";

type ChatBody = Input<(typeof chat)["inference.chat"]>["body"];

/** The part of an input that is not its body. */
export interface Asked {
  headers: Record<string, unknown>;
  requestId: string;
  signal: AbortSignal;
  setHeader(name: string, value: string): void;
}

/**
 * Maps fields of the chat body to those of the endpoint's own body, for error messages. The first pair whose chat path
 * is a prefix of the field's path applies. `*` is any index, and stands for the same index on the other side; `**` ends
 * the path that is reported.
 */
export type FieldNames = readonly (readonly [chat: string, asker: string])[];

/** A chat message and the fields that it was made from: pairs as above, relative to the message. */
export interface MadeMessage {
  message: Record<string, unknown> & { role: string };
  from: FieldNames;
}

export const namesOf = (made: readonly MadeMessage[]): FieldNames =>
  made.flatMap(({ from }, index) => from.map(([own, asker]) => [`messages.${index}.${own}`, asker] as const));

/** Runs a turn. `names` is called only for an error. */
export type RunTurn = (
  body: Record<string, unknown>,
  asked: Asked,
  caller: Caller,
  names: () => FieldNames,
) => Promise<Turn>;

const check = compile(chatBody);

/** Throws validation. */
function chatBodyOf(body: Record<string, unknown>): ChatBody {
  const checked = check(body, ["body"]);
  if (checked.ok) return checked.value;
  const { details } = checked;
  throw new Failure("validation", details.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; "), { details });
}

/** Rewrites errors about fields of the chat body to name the endpoint's own fields. */
async function inWordsOf<T>(names: () => FieldNames, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Failure && error.details)) throw error;
    const known = names();
    const details = error.details.map(({ loc, ...detail }) => ({ ...detail, loc: renamed(loc, known) }));
    const message = details.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; ");
    throw new Failure(error.code, message, { details, cause: error });
  }
}

function renamed(loc: readonly (string | number)[], names: FieldNames): (string | number)[] {
  const [place, ...path] = loc;
  for (const [chat, asker] of place === "body" ? names : []) {
    const from = chat.split(".").filter((part) => part !== "**");
    const isOfField = from.every((part, at) => (part === "*" ? typeof path[at] === "number" : part === `${path[at]}`));
    if (!isOfField) continue;
    const indexes = path.filter((_, at) => from[at] === "*");
    const to = asker
      .split(".")
      .map((part) => (part === "*" ? indexes.shift()! : /^\d+$/.test(part) ? Number(part) : part));
    return ["body", ...to, ...(chat.endsWith("**") ? [] : path.slice(from.length))];
  }
  return [...loc];
}

export function createTurn(parts: SessionParts, forward: Forward): RunTurn {
  return (body, asked, caller, names) =>
    inWordsOf(names, async () => {
      if (isForwarded(asked.headers)) {
        const chat = chatBodyOf({ ...body, n: 1, stream: true, stream_options: { include_usage: true } });
        const answered = await forward("chat/completions", { ...asked, body: chat }, caller);
        return turnOfChunks((answered as EventStream).events);
      }
      const chat = chatBodyOf(body);
      return begun(
        await openTurn(parts, { ...asked, model: chat.model, draw: chat }, caller, "chatcmpl", turnOf(chat)),
      );
    });
}

/** Context size assumed for counting, so that a prompt is counted even if it does not fit a seat. */
const countedContext = 1 << 15;

/** Counts the tokens of a chat's prompt. Generates nothing, and records no usage. */
export function createCount(parts: SessionParts): (...asked: Parameters<RunTurn>) => Promise<number> {
  return (body, { headers, signal }, caller, names) =>
    inWordsOf(names, async () => {
      refuseProvider(headers);
      const chat = chatBodyOf({ ...body, max_tokens: 0, prompt_truncate_len: uncut });
      const model = parts.resolve(caller, chat.model ?? parts.onlyBase(["text"]));
      const lease = await parts.lease(model.ref);
      try {
        if (signal.aborted) throw new Failure("cut_off");
        const { choices } = await planTurn(turnOf(chat), parts.generator.tokenizer(model.ref.baseId), countedContext);
        return choices[0]!.prompt.length;
      } finally {
        await lease.release();
      }
    });
}

/** Waits for the first event, so that an error before it is returned as the response. */
async function begun(turn: RunningTurn): Promise<Turn> {
  const first = await turn.events.next();
  if (first.done) throw new Failure("inference_failed", "The answer did not begin");
  const { model, created } = turn.session.head;
  return { model, created, promptTokens: turn.session.promptTokens, pieces: piecesOf(first.value, turn) };
}

async function* piecesOf(first: TurnEvent, { session, events }: RunningTurn): AsyncGenerator<TurnPiece, void, void> {
  try {
    yield pieceOf(first, session);
    for await (const event of events) yield pieceOf(event, session);
  } finally {
    // A reader that stops early ends the work.
    await events.return();
  }
}

function pieceOf(event: TurnEvent, session: RunningTurn["session"]): TurnPiece {
  switch (event.kind) {
    case "thought":
      return { thought: event.text };
    case "words":
      return { text: event.text };
    case "call":
      return { call: event.call, id: event.id, name: event.name, arguments: "" };
    case "arguments":
      return { call: event.call, arguments: event.text };
    case "end": {
      const { finishReason: finish, stopString } = event.end;
      const usage = usageWithThoughts(session, [event.end]);
      const { confidence_score: confidenceScore, confidence } = confidenceOf([event.end]);
      return {
        end: {
          finish,
          stopString,
          usage: {
            promptTokens: usage.prompt_tokens,
            completionTokens: usage.completion_tokens,
            cachedTokens: usage.prompt_tokens_details.cached_tokens,
            reasoningTokens: usage.completion_tokens_details.reasoning_tokens,
            truncatedTokens: usage.prompt_tokens_details.truncated_tokens,
          },
          confidenceScore,
          confidence,
        },
      };
    }
  }
}

/**
 * prompt_truncate_len for endpoints that do not truncate: a prompt that is too long is refused because of the context
 * instead.
 */
export const uncut = 10_000_000;
