// POST chat/completions: a turn of a chat in OpenAI's format. A null field of the body counts as left out.
import { invalid } from "../../base/errors.ts";
import type { chat } from "../../contract/chat.ts";
import { chatBody } from "../../contract/chat-body.ts";
import type { Caller, Handler, Input, StreamEvent } from "../../contract/endpoint.ts";
import { EventStream } from "../../contract/endpoint.ts";
import type { ChatMessage } from "../../engine/chat-format.ts";
import type { GeneratedToken } from "../../engine/generator.ts";
import type { ToolCall } from "../../engine/tool-format.ts";
import type { OfferedTool, ToolChoice } from "./calls.ts";
import { openTurn, type RunningTurn, type Turn, type TurnEnd, type TurnEvent, wholeAnswers } from "./chat-turn.ts";
import { chatLogprobs } from "./logprobs.ts";
import { around, type Session, type SessionParts } from "./session.ts";
import { type ChatReply, confidenceOf, done, event, scoreOf, usageOf } from "./shapes.ts";

type Endpoint = (typeof chat)["inference.chat"];
type Body = Input<Endpoint>["body"];

const defaults = chatBody.properties;

export const createChat =
  (parts: SessionParts): Handler<Endpoint> =>
  async (input: Input<Endpoint>, caller: Caller) => {
    const { body } = input;
    const asked = { ...around(input), model: body.model, draw: body };
    const turn = await openTurn(parts, asked, caller, "chatcmpl", turnOf(body));
    return body.stream ? new EventStream(stream(turn, body)) : reply(turn, body);
  };

/** The turn that a body requests. Throws validation for errors that the schema cannot express. */
export function turnOf(body: Body): Turn {
  const { tools, toolChoice } = toolsOf(body);
  const schema = schemaOf(body);
  const { reasoning } = body;
  return {
    messages: body.messages.map(messageOf),
    truncateTo: body.prompt_truncate_len ?? defaults.prompt_truncate_len.default,
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? defaults.max_tokens.default,
    choices: body.n ?? defaults.n.default,
    tools,
    toolChoice,
    isParallel: body.parallel_tool_calls ?? defaults.parallel_tool_calls.default,
    schema: toolChoice === "required" ? null : schema,
    thinking: {
      enabled: reasoning?.enabled ?? null,
      effort: reasoning?.effort ?? body.reasoning_effort ?? null,
      maxTokens: reasoning?.max_tokens ?? null,
    },
    exact: body.logprobs ?? false,
  };
}

function messageOf(message: Body["messages"][number], index: number): ChatMessage {
  const { role, content, name, tool_calls, tool_call_id, reasoning_content } = message;
  const at = ["body", "messages", index];
  const calls = role === "assistant" ? (tool_calls ?? []) : [];
  return {
    // The role developer is OpenAI's newer name for system.
    role: role === "developer" ? "system" : role,
    content: typeof content === "string" ? content : (content ?? []).map((part) => part.text).join("\n"),
    ...(name != null && { name }),
    ...(calls.length > 0 && { toolCalls: calls.map((call, place) => callOf(call, [...at, "tool_calls", place])) }),
    ...(tool_call_id != null && { toolCallId: tool_call_id }),
    ...(reasoning_content != null && { thought: reasoning_content }),
  };
}

type Called = NonNullable<Body["messages"][number]["tool_calls"]>[number];

function callOf({ id, function: { name, arguments: given } }: Called, at: (string | number)[]): ToolCall {
  const text = given.trim() === "" ? "{}" : given;
  let value: unknown = null;
  try {
    value = JSON.parse(text);
  } catch {
    // Refused below.
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid([...at, "function", "arguments"], "must be the JSON text of an object");
  return { id: id ?? "", name, arguments: text };
}

/** The tools offered to the model, and whether it must call one. */
function toolsOf({ tools, tool_choice }: Body): { tools: OfferedTool[]; toolChoice: ToolChoice } {
  const offered = (tools ?? []).map(({ function: { name, description, parameters } }, index) => ({
    name,
    ...(description != null && { description }),
    parameters: parameters ?? { type: "object", properties: {} },
    at: ["body", "tools", index, "function", "parameters"],
  }));
  const twice = offered.findIndex(({ name }, index) => offered.slice(0, index).some((other) => other.name === name));
  if (twice >= 0) throw invalid(["body", "tools", twice, "function", "name"], "occurs twice");
  if (tool_choice === "none") return { tools: [], toolChoice: "auto" };
  if (tool_choice == null || tool_choice === "auto") return { tools: offered, toolChoice: "auto" };
  const wanted =
    tool_choice === "required" ? offered : offered.filter(({ name }) => name === tool_choice.function.name);
  if (wanted.length === 0) throw invalid(["body", "tool_choice"], "names no function in tools");
  return { tools: wanted, toolChoice: "required" };
}

function schemaOf({ response_format: format }: Body): Turn["schema"] {
  const at = ["body", "response_format"];
  if (format == null || format.type === "text") return null;
  if (format.type === "json_object") return { schema: { type: "object" }, at };
  return { schema: format.json_schema!.schema, at: [...at, "json_schema", "schema"] };
}

const logprobsOf = (tokens: readonly GeneratedToken[], session: Session, body: Body) =>
  body.logprobs ? chatLogprobs(tokens, session.tokenizer, body.top_logprobs ?? 0) : null;

export const usageWithThoughts = (session: Session, ended: readonly TurnEnd[]) => ({
  ...usageOf(session, ended),
  completion_tokens_details: { reasoning_tokens: ended.reduce((sum, end) => sum + end.thoughtTokens, 0) },
});

async function reply(turn: RunningTurn, body: Body): Promise<ChatReply> {
  const { session } = turn;
  const answers = await wholeAnswers(turn);
  const ended = answers.map(({ end }) => end);
  return {
    ...session.head,
    object: "chat.completion",
    choices: answers.map(({ end, thought, words, calls, tokens }) => ({
      index: end.index,
      message: {
        role: "assistant",
        content: words,
        refusal: null,
        ...(thought !== "" && !body.reasoning?.exclude && { reasoning: thought, reasoning_content: thought }),
        ...(calls.length > 0 && {
          tool_calls: calls.map(({ id, name, arguments: given }) => ({
            id,
            type: "function" as const,
            function: { name, arguments: given },
          })),
        }),
      },
      finish_reason: end.finishReason,
      stop_reason: end.stopString,
      logprobs: logprobsOf(tokens, session, body),
      confidence_score: scoreOf(end),
    })),
    usage: usageWithThoughts(session, ended),
    ...confidenceOf(ended),
  };
}

async function* stream(turn: RunningTurn, body: Body): AsyncGenerator<StreamEvent, void, void> {
  const { session } = turn;
  const chunk = (choices: unknown[], more = {}) =>
    event({ ...session.head, object: "chat.completion.chunk", choices, ...more });
  const begun = new Set<number>();
  const ended: TurnEnd[] = [];
  for await (const told of turn.events) {
    const { index, tokens } = told;
    const part = (delta: object, finish: string | null = null, more = {}) => ({
      index,
      delta,
      logprobs: tokens.length > 0 ? logprobsOf(tokens, session, body) : null,
      finish_reason: finish,
      ...more,
    });
    // The role comes once, before the first event of the answer: an error before that has its own HTTP status.
    if (!begun.has(index)) {
      begun.add(index);
      yield chunk([{ ...part({ role: "assistant", content: "" }), logprobs: null }]);
    }
    if (told.kind !== "end") {
      const delta = deltaOf(told, body.reasoning?.exclude ?? false);
      if (delta !== null) yield chunk([part(delta)]);
      continue;
    }
    ended.push(told.end);
    const last = part({}, told.end.finishReason, {
      stop_reason: told.end.stopString,
      confidence_score: scoreOf(told.end),
    });
    yield chunk([last], ended.length < session.choices.length ? {} : confidenceOf(ended));
  }
  if (body.stream_options?.include_usage)
    yield chunk([], { usage: usageWithThoughts(session, ended), ...confidenceOf(ended) });
  yield done;
}

/** Null for what the client does not get. */
function deltaOf(told: Exclude<TurnEvent, { kind: "end" }>, excludesThoughts: boolean): object | null {
  switch (told.kind) {
    case "thought":
      return excludesThoughts ? null : { reasoning: told.text, reasoning_content: told.text };
    case "words":
      return { content: told.text };
    case "call": {
      const { call, id, name } = told;
      return { tool_calls: [{ index: call, id, type: "function", function: { name, arguments: "" } }] };
    }
    case "arguments":
      return { tool_calls: [{ index: told.call, function: { arguments: told.text } }] };
  }
}
