// Answers a chat through an upstream: converts the request to the body of the upstream's chat/completions, and the chunks
// of its stream to events.
import { Failure } from "../../base/errors.ts";
import { chatBody } from "../../contract/chat-body.ts";
import type { Caller, EventStream, StreamEvent } from "../../contract/endpoint.ts";
import type { ChatMessage } from "../../engine/format/chat-format.ts";
import { begun, type ChatAnswer, type ChatEnd, type ChatEvent, type ChatUsage } from "./chat-events.ts";
import type { ChatRequest } from "./chat-request.ts";
import type { Asked } from "./session.ts";
import { callJson } from "./shapes.ts";
import type { Forward } from "./upstreams.ts";

/** A message in the format of chat/completions; undefined fields are left out of the JSON. */
export const messageJson = ({ role, content, name, toolCalls = [], toolCallId, thought }: ChatMessage) => ({
  role,
  content: content === "" && toolCalls.length > 0 ? null : content,
  name,
  tool_calls: toolCalls.length === 0 ? undefined : toolCalls.map(callJson),
  tool_call_id: toolCallId,
  reasoning_content: thought,
});

export function upstreamBody(request: ChatRequest) {
  const { tools, toolChoice, format, thinking } = request;
  const { enabled, effort, maxTokens } = thinking;
  const isAsked = enabled !== null || effort !== null || maxTokens !== null;
  return {
    // Servers have other defaults, so that of the contract is sent.
    temperature: chatBody.properties.temperature.default,
    ...request.draw,
    model: request.model,
    messages: request.messages.map(messageJson),
    max_tokens: request.maxTokens,
    n: request.choices,
    parallel_tool_calls: request.isParallel,
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, parameters, strict }) => ({
        type: "function",
        function: { name, description, parameters, strict },
      })),
      tool_choice: typeof toolChoice === "object" ? { type: "function", function: toolChoice } : toolChoice,
    }),
    ...(format !== null && {
      response_format:
        format.name === null
          ? { type: "json_object" }
          : { type: "json_schema", json_schema: { name: format.name, schema: format.schema } },
    }),
    ...(isAsked && {
      reasoning: {
        exclude: false,
        enabled: enabled ?? undefined,
        effort: effort ?? undefined,
        max_tokens: maxTokens ?? undefined,
      },
    }),
  };
}

/** Text, or parts, of which those of another type than text, such as thoughts, are not part of the answer. */
type Content = string | { type: string; text?: string }[] | null;

interface Chunk {
  id: string;
  created: number;
  model: string;
  /** Some servers leave it out of chunks that hold something else. */
  choices?: {
    delta?: {
      content?: Content;
      /** Servers name a thought in either way. */
      reasoning_content?: string | null;
      reasoning?: string | null;
      tool_calls?: { index: number; id?: string; function: { name?: string; arguments?: string } }[];
    };
    finish_reason: string | null;
  }[];
  usage?: null | {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens?: number };
    completion_tokens_details?: { reasoning_tokens?: number };
  };
}

/** Answers a chat through an upstream. Returns when the first chunk has arrived. */
export async function answerByUpstream(
  forward: Forward,
  request: ChatRequest,
  asked: Asked,
  caller: Caller,
): Promise<ChatAnswer> {
  const body = { ...upstreamBody(request), stream: true, stream_options: { include_usage: true } };
  const { events } = (await forward("chat/completions", { ...asked, body }, caller)) as EventStream;
  const started = await begun(chunksOf(events));
  if (started === null) throw new Failure("upstream_failed", "The upstream's answer did not begin");
  const { id, created, model } = started.first;
  return { head: { id, created, model }, promptTokens: null, tokenizer: null, events: eventsOf(started.all) };
}

async function* chunksOf(events: AsyncIterable<StreamEvent>): AsyncGenerator<Chunk, void, void> {
  for await (const { data } of events) if (data !== "[DONE]") yield JSON.parse(data) as Chunk;
}

const finishReasons: readonly ChatEnd["finishReason"][] = ["stop", "length", "tool_calls"];

async function* eventsOf(chunks: AsyncIterable<Chunk>): AsyncGenerator<ChatEvent, void, void> {
  const choice = { index: 0, tokens: [] };
  let finishReason: ChatEnd["finishReason"] = "stop";
  let usage: Chunk["usage"];
  /** The number of each call by the server's index. Calls are renumbered, because some servers do not begin at 0. */
  const calls = new Map<number, number>();
  for await (const chunk of chunks) {
    usage = chunk.usage ?? usage;
    for (const { delta = {}, finish_reason } of chunk.choices ?? []) {
      const thought = delta.reasoning_content || delta.reasoning;
      if (thought) yield { ...choice, kind: "thought", text: thought };
      const text = textOf(delta.content ?? "");
      if (text !== "") yield { ...choice, kind: "words", text };
      for (const { index, id = "", function: called } of delta.tool_calls ?? []) {
        const call = calls.get(index) ?? calls.size;
        if (!calls.has(index)) yield { ...choice, kind: "call", call, id, name: called.name ?? "" };
        calls.set(index, call);
        if (called.arguments) yield { ...choice, kind: "arguments", call, text: called.arguments };
      }
      // Servers have further reasons, such as content_filter. Then the answer was not cut off by the limit.
      if (finish_reason) finishReason = finishReasons.find((known) => known === finish_reason) ?? "stop";
    }
  }
  const end = { finishReason, stopString: null, confidence: null, usage: usageOf(usage) };
  yield { ...choice, kind: "end", end };
}

const textOf = (content: NonNullable<Content>): string =>
  typeof content === "string" ? content : content.map(({ type, text = "" }) => (type === "text" ? text : "")).join("");

const usageOf = (usage: Chunk["usage"]): ChatUsage => ({
  promptTokens: usage?.prompt_tokens ?? 0,
  completionTokens: usage?.completion_tokens ?? 0,
  cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? 0,
  reasoningTokens: usage?.completion_tokens_details?.reasoning_tokens ?? 0,
  truncatedTokens: 0,
});
