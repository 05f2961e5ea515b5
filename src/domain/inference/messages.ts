// POST messages/v2: a chat in Anthropic's format. The system text becomes the first message, tool results become messages
// of their own, and the answer is returned in blocks: thinking, text, tool_use.
import type { Handler, Input, Reply, StreamEvent } from "../../contract/endpoint.ts";
import { EventStream } from "../../contract/endpoint.ts";
import type { messages } from "../../contract/messages.ts";
import { type ChatAnswer, type ChatEnd, type ChatUsage, type RunChat, wholeAnswers } from "./chat-events.ts";
import { type ChatRequest, type RequestCall, type RequestMessage, requestDefaults } from "./chat-request.ts";
import { countPrompt } from "./chat-session.ts";
import type { SessionParts } from "./session.ts";
import { confidenceOf } from "./shapes.ts";

type Endpoint = (typeof messages)["inference.messages"];
type Body = Input<Endpoint>["body"];
type PromptBody = Input<(typeof messages)["inference.count_tokens"]>["body"];

export const createMessages =
  (run: RunChat): Handler<Endpoint> =>
  async ({ body, ...asked }, caller) => {
    const id = `msg_${asked.requestId}`;
    const answer = await run(requestOf(body), asked, caller);
    return body.stream ? new EventStream(stream(id, answer)) : reply(id, answer);
  };

export const createCountTokens =
  (parts: SessionParts): Handler<(typeof messages)["inference.count_tokens"]> =>
  async ({ body, ...asked }, caller) => ({ input_tokens: await countPrompt(parts, promptOf(body), asked, caller) });

const requestOf = (body: Body): ChatRequest => ({
  ...promptOf(body),
  maxTokens: body.max_tokens,
  draw: {
    temperature: body.temperature,
    top_p: body.top_p ?? null,
    top_k: body.top_k ?? null,
    stop: body.stop_sequences ?? null,
  },
});

function promptOf({ model, system, messages: sent, tools, tool_choice: choice, thinking }: PromptBody): ChatRequest {
  return {
    ...requestDefaults,
    model,
    messages: [...systemOf(system), ...sent.flatMap(messagesOf)],
    messagesAt: ["body", "messages"],
    tools: (tools ?? []).map(({ name, description, input_schema: parameters }, index) => ({
      name,
      ...(description != null && { description }),
      parameters,
      at: ["body", "tools", index, "input_schema"],
    })),
    toolChoice:
      choice?.type === "tool"
        ? { name: choice.name! }
        : ({ auto: "auto", any: "required", none: "none" } as const)[choice?.type ?? "auto"],
    isParallel: !choice?.disable_parallel_tool_use,
    thinking: {
      enabled: thinking ? thinking.type !== "disabled" : null,
      effort: null,
      maxTokens: thinking?.budget_tokens ?? null,
      at: ["body", "thinking", "type"],
    },
  };
}

function systemOf(system: Body["system"]): RequestMessage[] {
  if (system === undefined || system === null) return [];
  const content = typeof system === "string" ? system : system.map((block) => block.text).join("\n\n");
  return content === "" ? [] : [{ role: "system", content, at: ["body", "system"] }];
}

type Block = Exclude<Body["messages"][number]["content"], string>[number];

function messagesOf({ role, content }: Body["messages"][number], index: number): RequestMessage[] {
  const whole = ["body", "messages", index];
  if (typeof content === "string") return [{ role, content, at: whole }];
  const results: RequestMessage[] = [];
  const toolCalls: RequestCall[] = [];
  const texts: string[] = [];
  let thought = "";
  for (const [place, block] of content.entries()) {
    const at = [...whole, "content", place];
    switch (block.type) {
      case "text":
        texts.push(block.text!);
        break;
      case "tool_use":
        toolCalls.push({
          id: block.id!,
          name: block.name!,
          arguments: JSON.stringify(block.input),
          nameAt: [...at, "name"],
          argumentsAt: at,
        });
        break;
      case "tool_result":
        results.push({ role: "tool", toolCallId: block.tool_use_id!, content: resultOf(block), at });
        break;
      case "thinking":
        thought += block.thinking ?? "";
        break;
      case "redacted_thinking":
        // Redacted thinking is encrypted and cannot be read here, so it is dropped.
        break;
    }
  }
  if (toolCalls.length === 0 && texts.length === 0 && results.length > 0) return results;
  const said: RequestMessage = {
    role,
    content: texts.join(""),
    ...(toolCalls.length > 0 && { toolCalls }),
    ...(thought !== "" && { thought }),
    at: whole,
  };
  return [...results, said];
}

function resultOf({ content = "", is_error }: Block): string {
  const text = typeof content === "string" ? content : content.map((part) => part.text).join("");
  return is_error ? `Error: ${text}` : text;
}

const stopReasons = { stop: "end_turn", length: "max_tokens", tool_calls: "tool_use" } as const;

const ending = ({ finishReason, stopString }: ChatEnd) => ({
  stop_reason: stopString === null ? stopReasons[finishReason] : ("stop_sequence" as const),
  stop_sequence: stopString,
});

/** Anthropic's input_tokens exclude the tokens read from the cache. */
const usageJson = ({
  promptTokens,
  completionTokens,
  cachedTokens,
}: Pick<ChatUsage, "promptTokens" | "completionTokens" | "cachedTokens">) => ({
  input_tokens: promptTokens - cachedTokens,
  output_tokens: completionTokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: cachedTokens,
});

async function reply(id: string, { head, events }: ChatAnswer): Promise<Reply<Endpoint>> {
  const { answers, usage } = await wholeAnswers(events);
  const { thought, words, calls, end } = answers[0]!;
  return {
    id,
    type: "message",
    role: "assistant",
    model: head.model,
    content: [
      ...(thought === "" ? [] : [{ type: "thinking" as const, thinking: thought, signature: "" }]),
      ...(words === "" ? [] : [{ type: "text" as const, text: words }]),
      ...calls.map((call) => ({
        type: "tool_use" as const,
        id: call.id,
        name: call.name,
        input: inputOf(call.arguments),
      })),
    ],
    ...ending(end),
    usage: usageJson(usage),
    ...confidenceOf([end]),
  };
}

/** Parses the arguments of a call. Arguments that were cut short are not valid JSON and give {}; stop_reason is then max_tokens. */
function inputOf(json: string): Record<string, unknown> {
  try {
    return JSON.parse(json === "" ? "{}" : json) as Record<string, unknown>;
  } catch {
    return {};
  }
}

const event = (type: string, more: object): StreamEvent => ({ event: type, data: JSON.stringify({ type, ...more }) });

async function* stream(id: string, answer: ChatAnswer): AsyncGenerator<StreamEvent, void, void> {
  const { model } = answer.head;
  const usage = usageJson({ promptTokens: answer.promptTokens ?? 0, completionTokens: 0, cachedTokens: 0 });
  const head = { id, type: "message", role: "assistant", model, content: [], stop_reason: null, stop_sequence: null };
  yield event("message_start", { message: { ...head, usage } });
  yield event("ping", {});
  let index = -1;
  let open: string | null = null;
  function* close(): Generator<StreamEvent> {
    if (open === "thinking")
      yield event("content_block_delta", { index, delta: { type: "signature_delta", signature: "" } });
    if (open !== null) yield event("content_block_stop", { index });
    open = null;
  }
  /** Opens the block of this name, after closing the previous block, unless it is already open. */
  function* within(name: string, block: object): Generator<StreamEvent> {
    if (open === name) return;
    yield* close();
    open = name;
    yield event("content_block_start", { index: ++index, content_block: block });
  }
  const blockOfCall: number[] = [];
  const grow = (delta: object, at = index): StreamEvent => event("content_block_delta", { index: at, delta });
  for await (const told of answer.events)
    switch (told.kind) {
      case "thought":
        yield* within("thinking", { type: "thinking", thinking: "", signature: "" });
        yield grow({ type: "thinking_delta", thinking: told.text });
        break;
      case "words":
        yield* within("text", { type: "text", text: "" });
        yield grow({ type: "text_delta", text: told.text });
        break;
      case "call":
        yield* within(`call ${told.call}`, { type: "tool_use", id: told.id, name: told.name, input: {} });
        blockOfCall[told.call] = index;
        break;
      case "arguments":
        yield grow({ type: "input_json_delta", partial_json: told.text }, blockOfCall[told.call]);
        break;
      case "end":
        yield* close();
        yield event("message_delta", {
          delta: ending(told.end),
          usage: usageJson(told.end.usage),
          ...confidenceOf([told.end]),
        });
        yield event("message_stop", {});
    }
}
