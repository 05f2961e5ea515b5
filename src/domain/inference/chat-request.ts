// The chat request that every chat endpoint (chat/completions, Messages, Responses, count_tokens) builds from its own
// body. A model of this machine or an upstream answers it. Rules that the schemas of the bodies do not express are
// checked here. Each error names the field of the body that the client sent.
import { Failure, invalid, type ValidationDetail } from "../../base/errors.ts";
import { chatBody, formatWithTools } from "../../contract/chat-body.ts";
import type { ChatMessage } from "../../engine/format/chat-format.ts";
import type { ToolCall } from "../../engine/format/tool-format.ts";
import type { OfferedTool } from "./calls.ts";
import type { DrawFields } from "./session.ts";
import type { ThinkingAsked } from "./thinking.ts";

/** Path of a field in the request, for errors about the field. */
export type Place = (string | number)[];

/** A call in the conversation, and the paths that errors about its name and arguments report. */
export interface RequestCall extends ToolCall {
  nameAt: Place;
  argumentsAt: Place;
}

/** A message; `at` is the field of the body that it was made from. */
export interface RequestMessage extends ChatMessage {
  role: "system" | "developer" | "user" | "assistant" | "tool";
  toolCalls?: readonly RequestCall[];
  at: Place;
}

/** A tool; `at` is the path of its parameters, and its name is a field beside them. */
export interface RequestTool extends OfferedTool {
  /** Passed on to upstreams: whether calls must match the parameters exactly. */
  strict?: boolean;
}

/** A chat to be answered, whichever endpoint received it. */
export interface ChatRequest {
  model: string;
  messages: readonly RequestMessage[];
  messagesAt: Place;
  draw: DrawFields;
  /** Maximum number of tokens of an answer. It is reduced to the number of tokens that the slot has left. */
  maxTokens: number;
  /**
   * Maximum number of prompt tokens. Longer conversations are truncated to it. The contract's default is lowered for a model
   * whose context would not have room for the answer beside it. `room` truncates only those that leave too little of the
   * context for the answer.
   */
  truncateTo: number | "room";
  choices: number;
  tools: readonly RequestTool[];
  /** With a name, the tool of this name must be called. */
  toolChoice: "auto" | "none" | "required" | { name: string };
  /** Whether an answer may hold several calls. */
  isParallel: boolean;
  /** JSON schema for the words of an answer. If the name is null, the schema allows any object. */
  format: { name: string | null; schema: unknown; at: Place } | null;
  /** `at` is the field that switches thinking on. */
  thinking: ThinkingAsked & { at: Place };
  /** Whether tokens are returned with their log-probs. */
  exact: boolean;
}

/**
 * `truncateTo` for endpoints that do not truncate. A prompt that is too long is then refused because it exceeds the
 * context.
 */
export const uncut = 10_000_000;

/** The values of a request that leaves out everything but its model and its messages. */
export const requestDefaults = {
  draw: {},
  maxTokens: chatBody.properties.max_tokens.default,
  truncateTo: uncut,
  choices: 1,
  tools: [],
  toolChoice: "auto",
  isParallel: true,
  format: null,
  thinking: { enabled: null, effort: null, maxTokens: null, at: [] },
  exact: false,
} satisfies Partial<ChatRequest>;

/** The tools that may be called, and whether one of them must be called. */
export function offeredTools({ tools, toolChoice }: ChatRequest): { tools: readonly RequestTool[]; mustCall: boolean } {
  if (typeof toolChoice === "object")
    return { tools: tools.filter(({ name }) => name === toolChoice.name), mustCall: true };
  return { tools: toolChoice === "none" ? [] : tools, mustCall: toolChoice === "required" };
}

const { minItems: fewestMessages, maxItems: mostMessages } = chatBody.properties.messages;
const { maxItems: mostCalls } = chatBody.properties.messages.items.properties.tool_calls;

/** Checks the limits that the schema of chat/completions sets but those of Messages and Responses do not. Throws validation. */
export function checkLimits({ messages, messagesAt, tools, toolChoice, format }: ChatRequest): void {
  if (messages.length < fewestMessages)
    throw invalid(messagesAt, `must NOT have fewer than ${fewestMessages} items`, "minItems_error");
  if (messages.length > mostMessages)
    throw invalid(messagesAt, `must NOT have more than ${mostMessages} items`, "maxItems_error");
  const details: ValidationDetail[] = [];
  if (format !== null && tools.length > 0 && toolChoice === "auto")
    details.push({ loc: ["body", "tool_choice"], msg: formatWithTools, type: "not_error" });
  for (const { toolCalls = [], at } of messages) {
    if (toolCalls.length > mostCalls)
      details.push({ loc: at, msg: `must NOT have more than ${mostCalls} items`, type: "maxItems_error" });
    for (const { name, nameAt } of toolCalls)
      if (name === "")
        details.push({ loc: nameAt, msg: "must NOT have fewer than 1 characters", type: "minLength_error" });
  }
  if (details.length > 0) throw refusalOf(details.slice(0, mostDetails));
}

/** Errors beyond this number are dropped, because the first errors are enough to correct a request. */
const mostDetails = 200;

export const refusalOf = (details: ValidationDetail[]): Failure =>
  new Failure("validation", details.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; "), { details });

/** Checks the rules for models of this machine; an upstream makes its own checks. Throws validation. */
export function checkAnswerable(request: ChatRequest): void {
  const names = request.tools.map(({ name }) => name);
  const twice = names.findIndex((name, index) => names.indexOf(name) < index);
  if (twice >= 0) throw invalid([...request.tools[twice]!.at.slice(0, -1), "name"], "occurs twice");
  const { tools, mustCall } = offeredTools(request);
  if (mustCall && tools.length === 0) throw invalid(["body", "tool_choice"], "names no function in tools");
  for (const { toolCalls = [] } of request.messages)
    for (const call of toolCalls)
      if (!isObject(call.arguments)) throw invalid(call.argumentsAt, "must be the JSON text of an object");
}

function isObject(json: string): boolean {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** The JSON text of a call's arguments. Clients send an empty text if there are no arguments. */
export const argumentsOf = (text: string): string => (text.trim() === "" ? "{}" : text);

type FormatType = "text" | "json_object" | "json_schema";

/** The format of an answer; null for plain text. `of` holds the schema, and is found at `path` below `at`. */
export function formatOf(
  type: FormatType | undefined,
  of: { name?: string; schema?: unknown } | undefined,
  at: Place,
  ...path: Place
): ChatRequest["format"] {
  if (type === undefined || type === "text") return null;
  if (type === "json_object") return { name: null, schema: { type: "object" }, at };
  return { name: of!.name ?? "answer", schema: of!.schema, at: [...at, ...path, "schema"] };
}
