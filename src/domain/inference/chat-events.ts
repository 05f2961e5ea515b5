// The events of a chat while a model of this machine or an upstream answers it. Each endpoint renders the events in its
// own format.
import { Failure } from "../../base/errors.ts";
import type { Caller } from "../../contract/endpoint.ts";
import type { ToolCall } from "../../engine/format/tool-format.ts";
import type { GeneratedToken, Tokenizer } from "../../engine/generator.ts";
import type { Confidence } from "./answers.ts";
import type { ChatRequest } from "./chat-request.ts";
import type { Spoken } from "./reader.ts";
import type { Asked } from "./session.ts";
import type { Usage } from "./shapes.ts";

export interface ChatUsage extends Usage {
  reasoningTokens: number;
}

export interface ChatEnd {
  finishReason: "stop" | "length" | "tool_calls";
  /** The stop string that ended the answer, if one did. */
  stopString: string | null;
  /** Null for base models and upstreams. */
  confidence: Confidence | null;
  /** Usage of all choices that have ended so far. The last end therefore has the usage of the whole request. */
  usage: ChatUsage;
}

/**
 * The events of one choice come in order; the events of several choices are interleaved. `tokens` are the tokens
 * generated since the choice's previous event, and empty unless the request is `exact`.
 */
export type ChatEvent = { index: number; tokens: readonly GeneratedToken[] } & (Spoken | { kind: "end"; end: ChatEnd });

/** A chat that is being answered. */
export interface ChatAnswer {
  /** `created` is in Unix seconds. */
  head: { id: string; created: number; model: string };
  /** Null if an upstream has not reported it yet. */
  promptTokens: number | null;
  /** The tokenizer of the model that answers; null for an upstream. */
  tokenizer: Tokenizer | null;
  /** Can be read only once. A reader that stops early ends the work. */
  events: AsyncGenerator<ChatEvent, void, void>;
}

/** Returns when the answer begins, so that an error before its first event is returned as the response. */
export type RunChat = (request: ChatRequest, asked: Asked, caller: Caller) => Promise<ChatAnswer>;

/** Waits for the first item. Null if there is none. `all` yields the first item too. */
export async function begun<T>(
  items: AsyncGenerator<T, void, void>,
): Promise<{ first: T; all: AsyncGenerator<T, void, void> } | null> {
  const next = await items.next();
  if (next.done) return null;
  const first = next.value;
  async function* all(): AsyncGenerator<T, void, void> {
    try {
      yield first;
      yield* items;
    } finally {
      // A reader that stops early ends the work.
      await items.return();
    }
  }
  return { first, all: all() };
}

/** A complete choice. */
export interface WholeAnswer {
  index: number;
  thought: string;
  words: string;
  calls: ToolCall[];
  tokens: GeneratedToken[];
  end: ChatEnd;
}

/** Collects the events of all choices until the last has ended. Returns the choices in order, and the usage of all. */
export async function wholeAnswers(
  events: AsyncIterable<ChatEvent>,
): Promise<{ answers: WholeAnswer[]; usage: ChatUsage }> {
  const answers: (Omit<WholeAnswer, "end"> & { end: ChatEnd | null })[] = [];
  let usage: ChatUsage | null = null;
  for await (const event of events) {
    const { index } = event;
    answers[index] ??= { index, thought: "", words: "", calls: [], tokens: [], end: null };
    const answer = answers[index];
    answer.tokens.push(...event.tokens);
    if (event.kind === "thought") answer.thought += event.text;
    else if (event.kind === "words") answer.words += event.text;
    else if (event.kind === "call") answer.calls[event.call] = { id: event.id, name: event.name, arguments: "" };
    else if (event.kind === "arguments") answer.calls[event.call]!.arguments += event.text;
    else {
      answer.end = event.end;
      usage = event.end.usage;
    }
  }
  if (usage === null) throw new Failure("inference_failed", "The answer did not end");
  return { answers: answers as WholeAnswer[], usage };
}
