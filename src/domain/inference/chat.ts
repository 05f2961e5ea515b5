// POST chat/completions: a chat in OpenAI's format. A null field of the body counts as left out.
import type { chat } from "../../contract/chat.ts";
import { chatBody } from "../../contract/chat-body.ts";
import type { Handler, Input, Reply, StreamEvent } from "../../contract/endpoint.ts";
import { EventStream } from "../../contract/endpoint.ts";
import type { GeneratedToken } from "../../engine/generator.ts";
import { type ChatAnswer, type ChatEnd, type ChatEvent, type ChatUsage, wholeAnswers } from "./chat-events.ts";
import { argumentsOf, type ChatRequest, formatOf, type Place, type RequestMessage } from "./chat-request.ts";
import { answerLocally } from "./chat-session.ts";
import { chatLogprobs } from "./logprobs.ts";
import type { SessionParts } from "./session.ts";
import { callJson, confidenceOf, done, event, scoreOf, usageJson } from "./shapes.ts";

type Endpoint = (typeof chat)["inference.chat"];
type Body = Input<Endpoint>["body"];

const defaults = chatBody.properties;

/** Returns a handler of chats. `truncateTo` applies to those that set no prompt_truncate_len. */
export const createChat =
  (
    parts: SessionParts,
    truncateTo: ChatRequest["truncateTo"] = defaults.prompt_truncate_len.default,
  ): Handler<Endpoint> =>
  async ({ body, ...asked }, caller) => {
    const answer = await answerLocally(parts, requestOf(body, truncateTo), asked, caller);
    return body.stream ? new EventStream(stream(answer, body)) : reply(answer, body);
  };

function requestOf(body: Body, truncateTo: ChatRequest["truncateTo"]): ChatRequest {
  const { tool_choice: choice, response_format: format, reasoning } = body;
  return {
    model: body.model,
    messages: body.messages.map((message, index) => messageOf(message, ["body", "messages", index])),
    messagesAt: ["body", "messages"],
    draw: body,
    truncateTo: body.prompt_truncate_len ?? truncateTo,
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? defaults.max_tokens.default,
    choices: body.n ?? defaults.n.default,
    tools: (body.tools ?? []).map(({ function: { name, description, parameters } }, index) => ({
      name,
      ...(description != null && { description }),
      parameters: parameters ?? { type: "object", properties: {} },
      at: ["body", "tools", index, "function", "parameters"],
    })),
    toolChoice: typeof choice === "object" && choice !== null ? { name: choice.function.name } : (choice ?? "auto"),
    isParallel: body.parallel_tool_calls ?? defaults.parallel_tool_calls.default,
    format: formatOf(format?.type, format?.json_schema, ["body", "response_format"], "json_schema"),
    thinking: {
      enabled: reasoning?.enabled ?? null,
      effort: reasoning?.effort ?? body.reasoning_effort ?? null,
      maxTokens: reasoning?.max_tokens ?? null,
      at: ["body", "reasoning", "enabled"],
    },
    exact: body.logprobs ?? false,
  };
}

/** Converts a message of the body. Stored conversations have the same format. */
export function messageOf(message: Body["messages"][number], at: Place): RequestMessage {
  const { role, content, name, tool_calls, tool_call_id, reasoning_content } = message;
  const calls = role === "assistant" ? (tool_calls ?? []) : [];
  return {
    role,
    content: typeof content === "string" ? content : (content ?? []).map((part) => part.text).join("\n"),
    ...(name != null && { name }),
    ...(calls.length > 0 && {
      toolCalls: calls.map((call, index) => ({
        id: call.id ?? "",
        name: call.function.name,
        arguments: argumentsOf(call.function.arguments),
        nameAt: [...at, "tool_calls", index, "function", "name"],
        argumentsAt: [...at, "tool_calls", index, "function", "arguments"],
      })),
    }),
    ...(tool_call_id != null && { toolCallId: tool_call_id }),
    ...(reasoning_content != null && { thought: reasoning_content }),
    at,
  };
}

const logprobsOf = (tokens: readonly GeneratedToken[], { tokenizer }: ChatAnswer, body: Body) =>
  body.logprobs ? chatLogprobs(tokens, tokenizer!, body.top_logprobs ?? 0) : null;

const usageOf = (usage: ChatUsage) => ({
  ...usageJson(usage),
  completion_tokens_details: { reasoning_tokens: usage.reasoningTokens },
});

async function reply(answer: ChatAnswer, body: Body): Promise<Reply<Endpoint>> {
  const { answers, usage } = await wholeAnswers(answer.events);
  return {
    ...answer.head,
    object: "chat.completion",
    choices: answers.map(({ index, thought, words, calls, tokens, end }) => ({
      index,
      message: {
        role: "assistant",
        content: words === "" && calls.length > 0 ? null : words,
        refusal: null,
        ...(thought !== "" && !body.reasoning?.exclude && { reasoning: thought, reasoning_content: thought }),
        ...(calls.length > 0 && { tool_calls: calls.map(callJson) }),
      },
      finish_reason: end.finishReason,
      stop_reason: end.stopString,
      logprobs: logprobsOf(tokens, answer, body),
      confidence_score: scoreOf(end),
    })),
    usage: usageOf(usage),
    ...confidenceOf(answers.map(({ end }) => end)),
  };
}

async function* stream(answer: ChatAnswer, body: Body): AsyncGenerator<StreamEvent, void, void> {
  const chunk = (choices: unknown[], more = {}) =>
    event({ ...answer.head, object: "chat.completion.chunk", choices, ...more });
  const begun = new Set<number>();
  const ended: ChatEnd[] = [];
  for await (const told of answer.events) {
    const { index, tokens } = told;
    const part = (delta: object, finish: string | null = null, more = {}) => ({
      index,
      delta,
      logprobs: tokens.length > 0 ? logprobsOf(tokens, answer, body) : null,
      finish_reason: finish,
      ...more,
    });
    // The role is sent only when the first event of the choice has arrived, so that an earlier error gets its own HTTP status.
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
    yield chunk([last], ended.length < (body.n ?? defaults.n.default) ? {} : confidenceOf(ended));
  }
  if (body.stream_options?.include_usage)
    yield chunk([], { usage: usageOf(ended.at(-1)!.usage), ...confidenceOf(ended) });
  yield done;
}

/** The delta of an event; null for a thought if the client excludes thoughts. */
function deltaOf(told: Exclude<ChatEvent, { kind: "end" }>, excludesThoughts: boolean): object | null {
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
