// Answers a chat with a model of this machine: makes the prompt, the grammars and the steering of the answers, and
// converts their text to events. Nothing here depends on the client's format.
import { createHash } from "node:crypto";
import { Failure, invalid } from "../../base/errors.ts";
import { randomWord } from "../../base/ids.ts";
import { chatBody } from "../../contract/chat-body.ts";
import type { Caller } from "../../contract/endpoint.ts";
import {
  type ChatMessage,
  callFormatOf,
  formatLongChat,
  type ThoughtMarks,
  thoughtMarksOf,
} from "../../engine/format/chat-format.ts";
import type { CallFormat } from "../../engine/format/tool-format.ts";
import type { GeneratedToken, Steering, Tokenizer } from "../../engine/generator.ts";
import { schemaGrammar } from "../../engine/grammar/grammar.ts";
import type { Choice, ChoiceEnd } from "./answers.ts";
import { callsGrammar, checkedCall } from "./calls.ts";
import type { ChatAnswer, ChatEnd, ChatEvent } from "./chat-events.ts";
import { type ChatRequest, checkAnswerable, checkLimits, offeredTools, uncut } from "./chat-request.ts";
import { withTokenizer } from "./held.ts";
import { refuseHuge } from "./prompts.ts";
import { AnswerReader } from "./reader.ts";
import { type Asked, openSession, type Plan, refuseProvider, type Session, type SessionParts } from "./session.ts";
import { usageOf } from "./shapes.ts";
import { budgetOf, isWanted, steerThought, type ThoughtSteering, thinkingPrompt } from "./thinking.ts";
import { fitConversation } from "./truncate.ts";

/**
 * Answers a chat with a model of this machine. Throws not_found, not_deployed, wrong_kind, prompt_too_long,
 * template_failed, validation, cut_off, and what the engine throws.
 */
export async function answerLocally(
  parts: SessionParts,
  request: ChatRequest,
  asked: Asked,
  caller: Caller,
): Promise<ChatAnswer> {
  checkAnswerable(request);
  const answers: Answer[] = [];
  const drawn = { ...request, idMark: "chatcmpl" };
  const session = await openSession(parts, asked, caller, drawn, async (tokenizer, context) => {
    const planned = await planChat(request, tokenizer, context);
    answers.push(...planned.answers);
    if (planned.cannotThink) asked.setHeader("x-plumbline-reasoning", "unsupported");
    return planned;
  });
  const { head, promptTokens, tokenizer } = session;
  return { head, promptTokens, tokenizer, events: eventsOf(session, answers) };
}

/** Smallest context size in tokens that is assumed for counting, so that a prompt is counted even if it does not fit a slot. */
const countedContext = 1 << 15;

/** Counts the tokens of a chat's prompt. Generates nothing, and records no usage. */
export async function countPrompt(
  parts: SessionParts,
  request: ChatRequest,
  { headers, signal }: Asked,
  caller: Caller,
): Promise<number> {
  refuseProvider(headers);
  checkLimits(request);
  checkAnswerable(request);
  return withTokenizer(parts, { headers }, caller, request.model, ["text"], async (tokenizer) => {
    if (signal.aborted) throw new Failure("cut_off");
    const context = Math.max(countedContext, parts.generator.slotContext);
    const { choices } = await planChat({ ...request, maxTokens: 0 }, tokenizer, context);
    return choices[0]!.prompt.length;
  });
}

/** The reader of one answer, and the steering of its thought. */
interface Answer {
  reader: AnswerReader;
  thought: ThoughtSteering | null;
}

async function* eventsOf(session: Session, answers: readonly Answer[]): AsyncGenerator<ChatEvent, void, void> {
  const ended: ChoiceEnd[] = [];
  let reasoningTokens = 0;
  const calls = answers.map(() => 0);
  const held = answers.map((): GeneratedToken[] => []);
  for await (const piece of session.pieces) {
    if ("prompt" in piece) continue;
    const { index } = piece;
    const { reader, thought } = answers[index]!;
    if ("text" in piece) held[index]!.push(...piece.tokens);
    for (const spoken of "text" in piece ? reader.push(piece.text) : reader.finish()) {
      if (spoken.kind === "call") calls[index]!++;
      yield { index, tokens: held[index]!.splice(0), ...spoken };
    }
    if (!("end" in piece)) continue;
    const finishReason = piece.end.finishReason === "stop" && calls[index]! > 0 ? "tool_calls" : piece.end.finishReason;
    ended.push(piece.end);
    reasoningTokens += thought?.tokens() ?? 0;
    const { stopString, confidence } = piece.end;
    const usage = { ...usageOf(session, ended), reasoningTokens };
    const end: ChatEnd = { finishReason, stopString, confidence, usage };
    yield { index, tokens: held[index]!.splice(0), kind: "end", end };
  }
}

interface PlannedChat extends Plan {
  answers: Answer[];
  /** Whether thinking is requested but the model has no such mode. */
  cannotThink: boolean;
}

async function planChat(request: ChatRequest, tokenizer: Tokenizer, context: number): Promise<PlannedChat> {
  const { thinking } = request;
  const marks = thoughtMarksOf(tokenizer);
  const wanted = isWanted(thinking);
  if (marks === null && thinking.enabled === true)
    throw invalid(thinking.at, "this model has no reasoning mode; leave the field out, or choose another model");
  const { tokens, truncated, isOpen } = await promptOf(request, tokenizer, context, marks, wanted);
  const maxTokens = Math.min(request.maxTokens, context - tokens.length);
  const { tools, mustCall } = offeredTools(request);
  const format = tools.length > 0 ? callFormatOf(tokenizer) : null;
  const isForced = format !== null && mustCall;
  const rule = isForced ? callsRule(request, tokenizer, format) : formatRule(request);
  const shown = marksShown(tokenizer, marks, format);
  const budget = budgetOf(thinking, maxTokens);
  const thinks = marks !== null && wanted !== false;
  const question = request.messages.findLast(({ role }) => role === "user")?.content ?? "";
  const check = (call: unknown) => checkedCall(tools, format!, call);
  const newId = (): string => `call_${randomWord()}`;
  const { isParallel } = request;
  const choices: Choice[] = [];
  const answers: Answer[] = [];
  for (let index = 0; index < request.choices; index++) {
    const thought = thinks
      ? steerThought(tokenizer, marks, { isOpen, mustOpen: rule.grammar !== null, budget, afterwards: rule.afterwards })
      : null;
    const steer = thought?.steer ?? ((token: number | null): Steering => (token === null ? rule.afterwards : {}));
    choices.push({
      prompt: tokens,
      promptIndex: 0,
      question,
      thought: marks && { marks, isOpen },
      maxTokens,
      exact: request.exact,
      shown,
      ...((thought !== null || rule.grammar !== null) && { steer }),
      ...(rule.grammar !== null && { grammar: rule.grammar }),
    });
    answers.push({
      thought,
      reader: new AnswerReader({ marks, isOpen, format, isParallel, isForced, check, newId }),
    });
  }
  return { choices, truncatedTokens: truncated, answers, cannotThink: marks === null && wanted === true };
}

async function promptOf(
  request: ChatRequest,
  tokenizer: Tokenizer,
  context: number,
  marks: ThoughtMarks | null,
  wanted: boolean | null,
): Promise<{ tokens: number[]; truncated: number; isOpen: boolean }> {
  // The role developer is OpenAI's newer name for system.
  const messages = request.messages.map((message) =>
    message.role === "developer" ? { ...message, role: "system" } : message,
  );
  const tools = offeredTools(request).tools.map(({ at: _, strict: __, ...tool }) => tool);
  const characters = messages.reduce(
    (sum, { content, toolCalls = [] }) =>
      toolCalls.reduce((all, call) => all + call.arguments.length, sum + content.length),
    JSON.stringify(tools).length,
  );
  refuseHuge(characters, context);
  let isOpen = false;
  const render = async (kept: readonly ChatMessage[]): Promise<number[]> => {
    if (marks === null) return formatLongChat(tokenizer, kept, { tools });
    const prompt = await thinkingPrompt(tokenizer, kept, { tools }, marks, wanted);
    isOpen = prompt.isOpen;
    return prompt.tokens;
  };
  const [limit, most] = limitsOf(request, context);
  // Only endpoints that have the field set a limit with it. The others are not told about it.
  const isFromField = limit === request.truncateTo && limit !== uncut;
  const fitted = await fitConversation(messages, limit, tokenizer, render, most);
  if (typeof fitted === "number")
    throw new Failure(
      "prompt_too_long",
      `What is never truncated (system messages, tools, tool calls, the template's own text) has ${fitted} tokens, which exceed the limit of ${limit} tokens that ${
        isFromField ? "prompt_truncate_len sets" : `the context of ${context} tokens leaves for a prompt`
      }`,
    );
  const { tokens, truncated } = fitted;
  // maxTokens is reduced to what the slot has left, but unless it is 0 there must be room for at least one token.
  if (tokens.length + Math.min(request.maxTokens, 1) > context)
    throw new Failure(
      "prompt_too_long",
      `${tokens.length} prompt tokens leave no room for an answer in the context of ${context} tokens${
        isFromField ? "; lower prompt_truncate_len" : ""
      }`,
    );
  return { tokens, truncated, isOpen };
}

/** Maximum share of the context that a truncation leaves free for the answer. */
const answerShare = 0.25;

/**
 * The limit to which a prompt is truncated, and the limit of one that cannot be truncated so far. A client that sets another
 * limit than the contract's default is refused if its prompt exceeds the context, because a shorter prompt is not what it
 * asked for.
 */
function limitsOf({ truncateTo, maxTokens }: ChatRequest, context: number): [limit: number, most: number] {
  const room = context - Math.min(maxTokens, Math.ceil(answerShare * context));
  if (truncateTo === "room") return [room, context];
  if (truncateTo !== chatBody.properties.prompt_truncate_len.default) return [truncateTo, truncateTo];
  return [Math.min(truncateTo, room), Math.min(truncateTo, context)];
}

/**
 * Maximum length of a schema in characters, because making a grammar blocks the main thread. Tools need no limit of
 * their own: they are part of the prompt, whose length has already been checked.
 */
const mostOfSchema = 1 << 18;

/** The grammar of the answer without its thought, and the steering that applies once this part begins. */
interface Rule {
  grammar: string | null;
  afterwards: Steering;
}

function callsRule(request: ChatRequest, tokenizer: Tokenizer, format: CallFormat): Rule {
  const { tools } = offeredTools(request);
  const { isParallel } = request;
  const key = JSON.stringify([format, tools, isParallel, tokenizer.vocabulary]);
  const grammar = grammars.of(key, () => callsGrammar(format, tools, isParallel, tokenizer));
  return { grammar, afterwards: { take: tokenizer.encode(format.before, true), constrained: true } };
}

function formatRule({ format }: ChatRequest): Rule {
  if (format === null) return { grammar: null, afterwards: {} };
  const { schema, at } = format;
  const source = JSON.stringify(schema);
  if (source.length > mostOfSchema)
    throw invalid(
      at,
      `has ${source.length} characters; the limit is ${mostOfSchema}. Shorten it, or split it into several requests`,
    );
  const grammar = grammars.of(source, () => schemaGrammar(schema, at));
  return { grammar, afterwards: { constrained: true } };
}

/** Cache of grammars by the hash of their source, because clients send the same schemas again and again. */
class Grammars {
  readonly #known = new Map<string, string>();
  readonly #most = 64;

  of(source: string, make: () => string): string {
    const key = createHash("sha256").update(source).digest("hex");
    const grammar = this.#known.get(key) ?? make();
    // Move the entry to the end, so that the map stays in the order of last use.
    this.#known.delete(key);
    this.#known.set(key, grammar);
    if (this.#known.size > this.#most) this.#known.delete(this.#known.keys().next().value!);
    return grammar;
  }
}
const grammars = new Grammars();

/** The control tokens that mark thoughts and calls. Tokens that end generation are left out. */
function marksShown(tokenizer: Tokenizer, marks: ThoughtMarks | null, format: CallFormat | null): ReadonlySet<number> {
  const texts = [marks?.open, marks?.close, format?.before, format?.after].join(" ");
  return new Set(
    [...tokenizer.specials]
      .filter(([text, token]) => texts.includes(text) && !tokenizer.eog.has(token))
      .map(([, token]) => token),
  );
}
