// A turn of a chat: a conversation answered n times, with thoughts, words and tool calls. It is independent of the wire
// format: chat completions and every other chat endpoint open a turn, read its events, and put them in their own
// format.
import { createHash } from "node:crypto";
import { Failure, invalid } from "../../base/errors.ts";
import { randomWord } from "../../base/ids.ts";
import type { Caller } from "../../contract/endpoint.ts";
import {
  type ChatMessage,
  callFormatOf,
  formatLongChat,
  type ThoughtMarks,
  thoughtMarksOf,
} from "../../engine/chat-format.ts";
import type { GeneratedToken, Steering, Tokenizer } from "../../engine/generator.ts";
import { schemaGrammar } from "../../engine/schema/grammar.ts";
import type { CallFormat, ToolCall } from "../../engine/tool-format.ts";
import { callsGrammar, checkedCall, type OfferedTool, type ToolChoice } from "./calls.ts";
import { refuseHuge } from "./prompts.ts";
import { AnswerReader, type Spoken } from "./reader.ts";
import { type Asked, openSession, type Plan, type PlannedChoice, type Session, type SessionParts } from "./session.ts";
import type { EndedChoice } from "./shapes.ts";
import {
  budgetOf,
  isWanted,
  steerThought,
  type ThinkingAsked,
  type ThoughtSteering,
  thinkingPrompt,
} from "./thinking.ts";
import { fitConversation } from "./truncate.ts";

export interface Turn {
  messages: readonly ChatMessage[];
  /** Maximum number of prompt tokens, to which the conversation is truncated. */
  truncateTo: number;
  /** Maximum number of tokens of an answer, reduced to what the seat has left. */
  maxTokens: number;
  choices: number;
  /** Tools that may be called; empty if calling is switched off. */
  tools: readonly OfferedTool[];
  toolChoice: ToolChoice;
  /** Whether an answer may hold several calls. */
  isParallel: boolean;
  /** JSON schema for the words of an answer, and its place in the request. */
  schema: { schema: unknown; at: (string | number)[] } | null;
  thinking: ThinkingAsked;
  /** Whether tokens are returned with their log-probs. */
  exact: boolean;
}

export interface TurnEnd extends Omit<EndedChoice, "finishReason"> {
  finishReason: "stop" | "length" | "tool_calls";
  thoughtTokens: number;
}

/** Events of one choice come in order; those of several choices are interleaved. */
export type TurnEvent = { index: number; tokens: readonly GeneratedToken[] } & (Spoken | { kind: "end"; end: TurnEnd });

export interface RunningTurn {
  session: Session;
  /** Can be read once; leaving it early ends the work. */
  events: AsyncGenerator<TurnEvent, void, void>;
}

/** Throws not_found, not_deployed, prompt_too_long, template_failed, validation, and what the engine throws. */
export async function openTurn(
  parts: SessionParts,
  asked: Asked,
  caller: Caller,
  idMark: string,
  turn: Turn,
): Promise<RunningTurn> {
  const answers: Answer[] = [];
  const session = await openSession(parts, asked, caller, idMark, async (tokenizer, seatContext) => {
    const planned = await planTurn(turn, tokenizer, seatContext);
    answers.push(...planned.answers);
    if (planned.cannotThink) asked.setHeader("x-plumbline-reasoning", "unsupported");
    return planned;
  });
  return { session, events: eventsOf(session, answers) };
}

/** Reader and thought steering of one answer. */
export interface Answer {
  reader: AnswerReader;
  thought: ThoughtSteering | null;
}

async function* eventsOf(session: Session, answers: readonly Answer[]): AsyncGenerator<TurnEvent, void, void> {
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
    const end: TurnEnd = { ...piece.end, index, finishReason, thoughtTokens: thought?.tokens() ?? 0 };
    yield { index, tokens: held[index]!.splice(0), kind: "end", end };
  }
}

export interface PlannedTurn extends Plan {
  answers: Answer[];
  /** The request asks for thinking, and the model has no such mode. */
  cannotThink: boolean;
}

export async function planTurn(turn: Turn, tokenizer: Tokenizer, seatContext: number): Promise<PlannedTurn> {
  const marks = thoughtMarksOf(tokenizer);
  const wanted = isWanted(turn.thinking);
  if (marks === null && turn.thinking.enabled === true)
    throw invalid(
      ["body", "reasoning", "enabled"],
      "this model has no reasoning mode; leave the field out, or choose another model",
    );
  const { tokens, truncated, isOpen } = await promptOf(turn, tokenizer, seatContext, marks, wanted);
  const maxTokens = Math.min(turn.maxTokens, seatContext - tokens.length);
  const format = turn.tools.length > 0 ? callFormatOf(tokenizer) : null;
  const isForced = format !== null && turn.toolChoice === "required";
  const rule = ruleOf(turn, tokenizer, format, isForced);
  const shown = marksShown(tokenizer, marks, format);
  const budget = budgetOf(turn.thinking, turn.maxTokens);
  const thinks = marks !== null && wanted !== false;
  const question = turn.messages.findLast(({ role }) => role === "user")?.content ?? "";
  const choices: PlannedChoice[] = [];
  const answers: Answer[] = [];
  for (let index = 0; index < turn.choices; index++) {
    const thought = thinks
      ? steerThought(tokenizer, marks, { isOpen, mustOpen: rule.grammar !== null, budget, afterwards: rule.afterwards })
      : null;
    const steer = thought?.steer ?? ((token: number | null): Steering => (token === null ? rule.afterwards : {}));
    choices.push({
      prompt: tokens,
      promptIndex: 0,
      question,
      maxTokens,
      exact: turn.exact,
      shown,
      ...((thought !== null || rule.grammar !== null) && { steer }),
      ...(rule.grammar !== null && { grammar: rule.grammar }),
    });
    const check = (call: unknown) => checkedCall(turn.tools, format!, call);
    answers.push({
      thought,
      reader: new AnswerReader({ marks, isOpen, format, isForced, check, newId: () => `call_${randomWord()}` }),
    });
  }
  return { choices, truncatedTokens: truncated, answers, cannotThink: marks === null && wanted === true };
}

async function promptOf(
  turn: Turn,
  tokenizer: Tokenizer,
  seatContext: number,
  marks: ThoughtMarks | null,
  wanted: boolean | null,
): Promise<{ tokens: number[]; truncated: number; isOpen: boolean }> {
  const { messages, tools, truncateTo } = turn;
  const characters = messages.reduce(
    (sum, { content, toolCalls = [] }) =>
      toolCalls.reduce((all, call) => all + call.arguments.length, sum + content.length),
    JSON.stringify(tools).length,
  );
  refuseHuge(characters, seatContext);
  const options = { tools: tools.map(({ at: _, ...tool }) => tool) };
  let isOpen = false;
  const { tokens, truncated } = await fitConversation(messages, truncateTo, tokenizer, async (kept) => {
    if (marks === null) return formatLongChat(tokenizer, kept, options);
    const prompt = await thinkingPrompt(tokenizer, kept, options, marks, wanted);
    isOpen = prompt.isOpen;
    return prompt.tokens;
  });
  // maxTokens is reduced to what the seat has left, but there must be room for at least one token.
  if (tokens.length + Math.min(turn.maxTokens, 1) > seatContext)
    throw new Failure(
      "prompt_too_long",
      `${tokens.length} prompt tokens leave no room for an answer in the context of ${seatContext} tokens; lower prompt_truncate_len`,
    );
  return { tokens, truncated, isOpen };
}

/**
 * Maximum length of a schema in characters: making a grammar blocks the main thread. Tools need no limit of their own,
 * because they are in the prompt, whose length is checked before.
 */
const mostOfSchema = 1 << 18;

/** The grammar of the answer proper, and the steering that applies once it begins. */
function ruleOf(
  turn: Turn,
  tokenizer: Tokenizer,
  format: CallFormat | null,
  isForced: boolean,
): { grammar: string | null; afterwards: Steering } {
  if (isForced) {
    const { tools, isParallel } = turn;
    const key = JSON.stringify([format, tools, isParallel, tokenizer.vocabulary]);
    const grammar = grammars.of(key, () => callsGrammar(format!, tools, isParallel, tokenizer));
    return { grammar, afterwards: { take: tokenizer.encode(format!.before, true), constrained: true } };
  }
  if (turn.schema === null) return { grammar: null, afterwards: {} };
  const { schema, at } = turn.schema;
  const source = JSON.stringify([schema, at]);
  if (source.length > mostOfSchema)
    throw invalid(
      at,
      `has ${source.length} characters; the limit is ${mostOfSchema}. Shorten it, or split it into several requests`,
    );
  const grammar = grammars.of(source, () => schemaGrammar(schema, at));
  return { grammar, afterwards: { constrained: true } };
}

/** Cache of grammars by the hash of their source, since clients use the same ones again and again. */
class Grammars {
  readonly #known = new Map<string, string>();
  readonly #most = 64;

  of(source: string, make: () => string): string {
    const key = createHash("sha256").update(source).digest("hex");
    const grammar = this.#known.get(key) ?? make();
    // Move it to the end: the map is in the order of last use.
    this.#known.delete(key);
    this.#known.set(key, grammar);
    if (this.#known.size > this.#most) this.#known.delete(this.#known.keys().next().value!);
    return grammar;
  }
}
const grammars = new Grammars();

/** Control tokens that mark thoughts and calls. */
function marksShown(tokenizer: Tokenizer, marks: ThoughtMarks | null, format: CallFormat | null): ReadonlySet<number> {
  const texts = [marks?.open, marks?.close, format?.before, format?.after].join(" ");
  return new Set(
    [...tokenizer.specials]
      .filter(([text, token]) => texts.includes(text) && !tokenizer.eog.has(token))
      .map(([, token]) => token),
  );
}

/** A complete choice. */
export interface WholeAnswer {
  end: TurnEnd;
  thought: string;
  /** Null if there are calls and no words. */
  words: string | null;
  calls: ToolCall[];
  tokens: GeneratedToken[];
}

/** All choices, in order, once all have ended. */
export async function wholeAnswers({ events, session }: RunningTurn): Promise<WholeAnswer[]> {
  const answers = session.choices.map(() => ({
    thought: "",
    words: "",
    calls: [] as ToolCall[],
    tokens: [] as GeneratedToken[],
    end: null as TurnEnd | null,
  }));
  for await (const event of events) {
    const answer = answers[event.index]!;
    answer.tokens.push(...event.tokens);
    if (event.kind === "thought") answer.thought += event.text;
    else if (event.kind === "words") answer.words += event.text;
    else if (event.kind === "call") answer.calls.push({ id: event.id, name: event.name, arguments: "" });
    else if (event.kind === "arguments") answer.calls[event.call]!.arguments += event.text;
    else answer.end = event.end;
  }
  return answers.map(({ end, words, ...answer }) => ({
    ...answer,
    end: end!,
    words: words === "" && answer.calls.length > 0 ? null : words,
  }));
}
