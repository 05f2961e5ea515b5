// The chat request that every endpoint builds from its own body: chat/completions, Messages, Responses, count_tokens. A
// model of this machine answers it, or an upstream does. Rules that the schemas of the bodies do not express are checked
// here; each error names the field of the client's own body.
import { Failure, invalid, type ValidationDetail } from "../../base/errors.ts";
import { chatBody, formatWithTools } from "../../contract/chat-body.ts";
import type { ChatMessage } from "../../engine/format/chat-format.ts";
import type { ToolCall } from "../../engine/format/tool-format.ts";
import type { OfferedTool } from "./calls.ts";
import type { DrawFields } from "./session.ts";
import type { ThinkingAsked } from "./thinking.ts";

/** Path of a field in the request, for errors about it. */
export type Place = (string | number)[];

/** A call in the conversation, and the places that errors about it name. */
export interface RequestCall extends ToolCall {
  nameAt: Place;
  argumentsAt: Place;
}

/** A message, and the field of the body that it was made from. */
export interface RequestMessage extends ChatMessage {
  role: "system" | "developer" | "user" | "assistant" | "tool";
  toolCalls?: readonly RequestCall[];
  at: Place;
}

/** A tool; `at` is the place of its parameters, and its name is a field beside them. */
export interface RequestTool extends OfferedTool {
  /** For upstreams: whether they should keep calls to the parameters. */
  strict?: boolean;
}

/** A chat to be answered, whichever endpoint received it. */
export interface ChatRequest {
  /** If left out, the only base that answers. */
  model: string | undefined;
  messages: readonly RequestMessage[];
  messagesAt: Place;
  draw: DrawFields;
  /** Maximum number of tokens of an answer, reduced to what the slot has left. */
  maxTokens: number;
  /** Maximum number of prompt tokens, to which the conversation is truncated. */
  truncateTo: number;
  choices: number;
  tools: readonly RequestTool[];
  /** A name: this tool must be called. */
  toolChoice: "auto" | "none" | "required" | { name: string };
  /** Whether an answer may hold several calls. */
  isParallel: boolean;
  /** JSON schema for the words of an answer. Without a name it stands for any object. */
  format: { name: string | null; schema: unknown; at: Place } | null;
  /** `at` is the field that switches thinking on. */
  thinking: ThinkingAsked & { at: Place };
  /** Whether tokens are returned with their log-probs. */
  exact: boolean;
}

/**
 * truncateTo for endpoints that do not truncate: a prompt that is too long is refused because of the context instead.
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

/** The tools that may be called, and whether one of them must be. */
export function offeredTools({ tools, toolChoice }: ChatRequest): { tools: readonly RequestTool[]; mustCall: boolean } {
  if (typeof toolChoice === "object")
    return { tools: tools.filter(({ name }) => name === toolChoice.name), mustCall: true };
  return { tools: toolChoice === "none" ? [] : tools, mustCall: toolChoice === "required" };
}

const { minItems: fewestMessages, maxItems: mostMessages } = chatBody.properties.messages;
const { maxItems: mostCalls } = chatBody.properties.messages.items.properties.tool_calls;

/** Checks the rules of a chat/completions body that Messages and Responses do not have. Throws validation. */
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

/** Errors beyond this number are dropped: the first ones are enough to correct a request. */
const mostDetails = 200;

export const refusalOf = (details: ValidationDetail[]): Failure =>
  new Failure("validation", details.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; "), { details });

/** Checks what a model of this machine needs; an upstream checks for itself. Throws validation. */
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

/** The JSON text of a call's arguments: clients send an empty text for none. */
export const argumentsOf = (text: string): string => (text.trim() === "" ? "{}" : text);

type FormatType = "text" | "json_object" | "json_schema";

/** The format of an answer. `of` holds a schema, and stands at `path` within the place of the format. */
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
