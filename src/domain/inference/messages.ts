// POST messages/v2: a chat in Anthropic's form. Its system text comes first, tool results become messages of their own, and the
// answer comes in blocks: thinking, text, tool_use.
import { Failure } from "../../base/errors.ts";
import type { Handler, Input, Reply, StreamEvent } from "../../contract/endpoint.ts";
import { EventStream } from "../../contract/endpoint.ts";
import type { messages } from "../../contract/messages.ts";
import { type FieldNames, type MadeMessage, namesOf, type RunTurn, uncut } from "./turn.ts";
import type { Turn, TurnEnd } from "./turn-pieces.ts";

type Endpoint = (typeof messages)["inference.messages"];
type Body = Input<Endpoint>["body"];
type PromptBody = Input<(typeof messages)["inference.count_tokens"]>["body"];
type Answered = Reply<Endpoint>;

export const createMessages =
  (run: RunTurn): Handler<Endpoint> =>
  async ({ body, ...asked }, caller) => {
    const id = `msg_${asked.requestId}`;
    const made = madeOf(body);
    const turn = await run(chatOf(body, made), asked, caller, () => chatNames(made));
    return body.stream ? new EventStream(stream(id, turn)) : reply(id, turn);
  };

export type CountPrompt = (...asked: Parameters<RunTurn>) => Promise<number>;

export const createCountTokens =
  (count: CountPrompt): Handler<(typeof messages)["inference.count_tokens"]> =>
  async ({ body, ...asked }, caller) => {
    const made = madeOf(body);
    return { input_tokens: await count(promptOf(body, made), asked, caller, () => chatNames(made)) };
  };

/** Names of the chat body's fields in this endpoint. */
const chatNames = (made: readonly MadeMessage[]): FieldNames => [
  ["stop", "stop_sequences"],
  ["reasoning.enabled", "thinking.type"],
  ["reasoning.max_tokens", "thinking.budget_tokens"],
  ["reasoning", "thinking"],
  ["tools.*.function.parameters", "tools.*.input_schema"],
  ["tools.*.function", "tools.*"],
  ...namesOf(made),
];

const madeOf = ({ system, messages: sent }: PromptBody): MadeMessage[] => [
  ...systemOf(system),
  ...sent.flatMap(chatMessages),
];

const chatOf = (body: Body, made: readonly MadeMessage[]): Record<string, unknown> => ({
  ...promptOf(body, made),
  max_tokens: body.max_tokens,
  prompt_truncate_len: uncut,
  temperature: body.temperature,
  top_p: body.top_p,
  top_k: body.top_k,
  stop: body.stop_sequences,
});

function promptOf(body: PromptBody, made: readonly MadeMessage[]): Record<string, unknown> {
  const { tool_choice: choice, thinking, tools } = body;
  return {
    ...(body.model === undefined ? {} : { model: body.model }),
    messages: made.map(({ message }) => message),
    ...(tools && tools.length > 0
      ? {
          tools: tools.map(({ name, description, input_schema }) => ({
            type: "function",
            function: { name, description: description ?? null, parameters: input_schema },
          })),
          tool_choice:
            choice?.type === "tool"
              ? { type: "function", function: { name: choice.name } }
              : ({ auto: "auto", any: "required", none: "none" } as const)[choice?.type ?? "auto"],
          parallel_tool_calls: !choice?.disable_parallel_tool_use,
        }
      : {}),
    ...(thinking
      ? {
          reasoning: {
            enabled: thinking.type !== "disabled",
            ...(thinking.budget_tokens === undefined ? {} : { max_tokens: thinking.budget_tokens }),
          },
        }
      : {}),
  };
}

function systemOf(system: Body["system"]): MadeMessage[] {
  if (system === undefined || system === null) return [];
  const text = typeof system === "string" ? system : system.map((block) => block.text).join("\n\n");
  return text === "" ? [] : [{ message: { role: "system", content: text }, from: [["**", "system"]] }];
}

type Block = Exclude<Body["messages"][number]["content"], string>[number];

function chatMessages({ role, content }: Body["messages"][number], index: number): MadeMessage[] {
  const whole = `messages.${index}`;
  if (typeof content === "string") return [{ message: { role, content }, from: [["**", whole]] }];
  const made: MadeMessage[] = [];
  const texts: string[] = [];
  const calls: unknown[] = [];
  const called: [string, string][] = [];
  let thought = "";
  for (const [place, block] of content.entries()) {
    const at = `${whole}.content.${place}`;
    switch (block.type) {
      case "text":
        texts.push(block.text!);
        break;
      case "tool_use":
        called.push([`tool_calls.${calls.length}.function.name`, `${at}.name`], [`tool_calls.${calls.length}.**`, at]);
        calls.push({
          id: block.id,
          type: "function",
          function: { name: block.name, arguments: JSON.stringify(block.input) },
        });
        break;
      case "tool_result":
        made.push({
          message: { role: "tool", tool_call_id: block.tool_use_id, content: resultOf(block) },
          from: [["**", at]],
        });
        break;
      case "thinking":
        thought += block.thinking ?? "";
        break;
      case "redacted_thinking":
        // Redacted thinking cannot be read back.
        break;
    }
  }
  const text = texts.join("");
  if (calls.length > 0 || texts.length > 0 || made.length === 0)
    made.push({
      message: {
        role,
        content: text === "" && calls.length > 0 ? null : text,
        ...(calls.length > 0 ? { tool_calls: calls } : {}),
        ...(thought === "" ? {} : { reasoning_content: thought }),
      },
      from: [...called, ["**", whole]],
    });
  return made;
}

function resultOf({ content = "", is_error }: Block): string {
  const text = typeof content === "string" ? content : content.map((part) => part.text).join("");
  return is_error ? `Error: ${text}` : text;
}

const stopReasons = { stop: "end_turn", length: "max_tokens", tool_calls: "tool_use" } as const;

const ending = ({ finish, stopString }: TurnEnd) => ({
  stop_reason: stopString === null ? stopReasons[finish] : ("stop_sequence" as const),
  stop_sequence: stopString,
});

/** Anthropic's input_tokens leave out those read from the cache. */
const usageOf = ({ usage }: TurnEnd) => ({
  input_tokens: usage.promptTokens - usage.cachedTokens,
  output_tokens: usage.completionTokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: usage.cachedTokens,
});

const scored = ({ confidenceScore, confidence }: TurnEnd) => ({ confidence_score: confidenceScore, confidence });

async function reply(id: string, { model, pieces }: Turn): Promise<Answered> {
  let thought = "";
  let text = "";
  const calls: { id: string; name: string; json: string }[] = [];
  for await (const piece of pieces)
    if ("thought" in piece) thought += piece.thought;
    else if ("text" in piece) text += piece.text;
    else if ("call" in piece) {
      calls[piece.call] ??= { id: piece.id ?? "", name: piece.name ?? "", json: "" };
      calls[piece.call]!.json += piece.arguments;
    } else
      return {
        id,
        type: "message",
        role: "assistant",
        model,
        content: [
          ...(thought === "" ? [] : [{ type: "thinking" as const, thinking: thought, signature: "" }]),
          ...(text === "" ? [] : [{ type: "text" as const, text }]),
          ...calls.map(({ id: callId, name, json }) => ({
            type: "tool_use" as const,
            id: callId,
            name,
            input: inputOf(json),
          })),
        ],
        ...ending(piece.end),
        usage: usageOf(piece.end),
        ...scored(piece.end),
      };
  throw new Failure("inference_failed", "The answer did not end");
}

/** Arguments that were cut short are not valid JSON; stop_reason is then max_tokens. */
function inputOf(json: string): Record<string, unknown> {
  try {
    return JSON.parse(json === "" ? "{}" : json) as Record<string, unknown>;
  } catch {
    return {};
  }
}

const event = (type: string, more: object): StreamEvent => ({ event: type, data: JSON.stringify({ type, ...more }) });

async function* stream(id: string, { model, promptTokens, pieces }: Turn): AsyncGenerator<StreamEvent, void, void> {
  const begun = {
    input_tokens: promptTokens ?? 0,
    output_tokens: 0,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
  };
  const head = { id, type: "message", role: "assistant", model, content: [], stop_reason: null, stop_sequence: null };
  yield event("message_start", { message: { ...head, usage: begun } });
  yield event("ping", {});
  let index = -1;
  let open: string | null = null;
  function* close(): Generator<StreamEvent> {
    if (open === "thinking")
      yield event("content_block_delta", { index, delta: { type: "signature_delta", signature: "" } });
    if (open !== null) yield event("content_block_stop", { index });
    open = null;
  }
  /** Ensures that the block of this name is open, and closes another one. */
  function* within(name: string, block: object): Generator<StreamEvent> {
    if (open === name) return;
    yield* close();
    open = name;
    yield event("content_block_start", { index: ++index, content_block: block });
  }
  for await (const piece of pieces)
    if ("thought" in piece) {
      yield* within("thinking", { type: "thinking", thinking: "", signature: "" });
      yield event("content_block_delta", { index, delta: { type: "thinking_delta", thinking: piece.thought } });
    } else if ("text" in piece) {
      yield* within("text", { type: "text", text: "" });
      yield event("content_block_delta", { index, delta: { type: "text_delta", text: piece.text } });
    } else if ("call" in piece) {
      yield* within(`call ${piece.call}`, { type: "tool_use", id: piece.id, name: piece.name, input: {} });
      const delta = { type: "input_json_delta", partial_json: piece.arguments };
      if (piece.arguments !== "") yield event("content_block_delta", { index, delta });
    } else {
      yield* close();
      yield event("message_delta", { delta: ending(piece.end), usage: usageOf(piece.end), ...scored(piece.end) });
      yield event("message_stop", {});
    }
}
