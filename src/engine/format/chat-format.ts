// Converts messages to token ids. Chat templates are used only here, for serving and for training.
//
// The GGUF's own Jinja template is rendered with a stand-in for the text of every message, so that neither the template nor
// the parsing of special tokens ever sees these texts: `<|im_start|>` typed by a user stays plain text. The template's own
// text is parsed for special tokens. Text between two special tokens is encoded in one piece, as the model saw it in
// training, except that an assistant's text is always its own piece, as it is when the model writes it. Templates write the
// JSON of tools and of call arguments themselves, so in JSON stand-ins replace only the texts of special tokens.

import { Environment, Interpreter, Template } from "@huggingface/jinja";
import { Failure, invalid } from "../../base/errors.ts";
import { remembered } from "../../base/remembered.ts";
import { givingWay } from "../../base/time.ts";
import type { Tokenizer } from "../generator.ts";
import { encodeInParts } from "./in-parts.ts";
import {
  type CallFormat,
  formatOf,
  plainCalls,
  probe,
  type Tool,
  type ToolCall,
  withToolsInText,
} from "./tool-format.ts";

export interface ChatMessage {
  role: string;
  content: string;
  name?: string;
  /** Calls that an assistant made. */
  toolCalls?: readonly ToolCall[];
  /** For a tool's result: the call that it belongs to. */
  toolCallId?: string;
  /** For an assistant: its reasoning before the answer. */
  thought?: string;
}

export interface PromptOptions {
  addGenerationPrompt?: boolean;
  tools?: readonly Tool[];
  /** Passed to the template; undefined leaves the choice to the template. */
  enableThinking?: boolean;
}

export interface TrainingTokens {
  tokens: Int32Array;
  /** 1 for tokens that the assistant writes, up to and including the token that ends its turn; else 0. */
  weights: Float32Array;
}

const roles: readonly string[] = ["system", "user", "assistant", "tool"];

/** Padding around stand-ins. If it is missing afterwards, the template has trimmed the text. No template writes it itself. */
const pad = "\u2003";
const standIn = (index: number): string => `${pad}\ue000${index}\ue001${pad}`;
const standIns = /(\u2003?)\ue000(\d+)\ue001(\u2003?)/g;

/** The token ids of the prompt for a conversation. Throws template_failed, and validation for an unknown role. */
export function formatChat(
  tokenizer: Tokenizer,
  messages: readonly ChatMessage[],
  options: PromptOptions = {},
): number[] {
  const { pieces, shown } = piecesOf(tokenizer, messages, options);
  return encode(tokenizer, pieces, shown).tokens;
}

/** Like formatChat, but for conversations of any length: other requests are handled in between. */
export const formatLongChat = async (
  tokenizer: Tokenizer,
  messages: readonly ChatMessage[],
  options: PromptOptions = {},
): Promise<number[]> => (await formatLongPrompt(tokenizer, messages, options)).tokens;

/** Like formatLongChat. `ending` is what the template wrote after the last text of the messages. */
export async function formatLongPrompt(
  tokenizer: Tokenizer,
  messages: readonly ChatMessage[],
  options: PromptOptions,
): Promise<{ tokens: number[]; ending: string }> {
  const { pieces, shown } = piecesOf(tokenizer, messages, options);
  const encoding = encodingOf(tokenizer, pieces, shown);
  const giveWay = givingWay(5);
  await giveWay();
  let step = encoding.next();
  while (!step.done) {
    step = encoding.next(await encodeInParts(tokenizer, step.value, false));
    await giveWay();
  }
  return { tokens: step.value.tokens, ending: pieces.at(-1)!.text };
}

function piecesOf(
  tokenizer: Tokenizer,
  messages: readonly ChatMessage[],
  options: PromptOptions,
): { pieces: Piece[]; shown: readonly ChatMessage[] } {
  const { tools = [] } = options;
  const usesTools = tools.length > 0 || messages.some(({ role, toolCalls }) => role === "tool" || toolCalls?.length);
  const known = !usesTools || callFormatOf(tokenizer) !== plainCalls;
  const shown = known ? messages : withToolsInText(messages, tools);
  return { pieces: render(tokenizer, shown, known ? options : { ...options, tools: [] }), shown };
}

/** The format in which this model writes calls: its template's, or `plainCalls` if the template has none. */
export function callFormatOf(tokenizer: Tokenizer): CallFormat {
  const known = prepare(tokenizer);
  known.calls ??= tried(tokenizer) ?? plainCalls;
  return known.calls;
}

/** The template's call format, found by rendering a probe; null unless it renders tools, calls that can be parsed, and results. */
function tried(tokenizer: Tokenizer): CallFormat | null {
  const question: ChatMessage = { role: "user", content: "probe_question" };
  const call: ChatMessage = { role: "assistant", content: "", toolCalls: [probe.call] };
  const result: ChatMessage = {
    role: "tool",
    content: "probe_result",
    toolCallId: probe.call.id,
    name: probe.call.name,
  };
  const text = (messages: ChatMessage[], addGenerationPrompt: boolean): string =>
    render(tokenizer, messages, { tools: [probe.tool], addGenerationPrompt })
      .map((piece) => piece.text)
      .join("");
  try {
    const asked = text([question], true);
    const called = text([question, call], false);
    if (!asked.includes(probe.tool.description) || !called.startsWith(asked)) return null;
    if (!text([question, call, result], true).includes(result.content)) return null;
    const answer = called.slice(asked.length);
    const end = [...tokenizer.specials]
      .filter(([name, token]) => tokenizer.eog.has(token) && answer.includes(name))
      .map(([name]) => answer.indexOf(name));
    return formatOf(answer.slice(0, Math.min(answer.length, ...end)).trimEnd());
  } catch (error) {
    if (error instanceof Failure) return null;
    throw error;
  }
}

export interface ThoughtMarks {
  open: string;
  close: string;
}

const thoughtMarks: readonly ThoughtMarks[] = [
  { open: "<think>", close: "</think>" },
  { open: "[THINK]", close: "[/THINK]" },
];

/** The markers around this model's reasoning; null for a model that uses none. */
export function thoughtMarksOf(tokenizer: Tokenizer): ThoughtMarks | null {
  const knows = (mark: string): boolean =>
    tokenizer.specials.has(mark) || (tokenizer.chatTemplate?.includes(mark) ?? false);
  return thoughtMarks.find(({ open, close }) => knows(open) && knows(close)) ?? null;
}

/**
 * The tokens of a training conversation that ends with an assistant's message: exactly the prompt that serving makes from the
 * messages before it, followed by the answer and the end of the turn. Throws validation, template_failed.
 */
export function formatTrainingRow(tokenizer: Tokenizer, messages: readonly ChatMessage[]): TrainingTokens {
  const last = messages.length - 1;
  if (last < 1 || messages[last]!.role !== "assistant" || messages[last]!.content.trim() === "")
    throw invalid(["messages"], "must end with an assistant message that answers another message");
  const asked = messages.slice(0, last);
  const prompt = encode(tokenizer, render(tokenizer, asked, {}), asked);
  const whole = render(tokenizer, messages, { addGenerationPrompt: false });
  const at = whole.findLastIndex((piece) => piece.message === last);
  const answer = tokenizer.encode(whole[at]!.text, false);
  const after = whole
    .slice(at + 1)
    .map((piece) => piece.text)
    .join("");
  const end = endOfTurn(tokenizer, after);
  const tokens = [...prompt.tokens, ...answer, ...end];
  const weights = new Float32Array(tokens.length).fill(1);
  weights.set(prompt.weights);
  return { tokens: Int32Array.from(tokens), weights };
}

/** A stretch of rendered text, from the template or from a message. */
interface Piece {
  text: string;
  /** Index of the message whose content the text is; null for text of the template and for names, thoughts and special tokens. */
  message: number | null;
  written: boolean;
}

interface Prepared {
  template: Template;
  /** Matches the text of any special token, trying the longest first. */
  specials: RegExp;
  calls: CallFormat | null;
}

const prepare = remembered((tokenizer: Tokenizer): Prepared => {
  if (tokenizer.chatTemplate === null) throw new Failure("template_failed", "The model has no chat template");
  const texts = [...tokenizer.specials.keys()].filter((text) => text !== "").sort((a, b) => b.length - a.length);
  const pattern = texts.map((text) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("|");
  return {
    template: attempt(() => new Template(tokenizer.chatTemplate!)),
    specials: new RegExp(texts.length > 0 ? pattern : "(?!)", "g"),
    calls: null,
  };
});

function attempt<T>(work: () => T): T {
  try {
    return work();
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new Failure("template_failed", `The model's chat template: ${message}`, { cause });
  }
}

function render(tokenizer: Tokenizer, messages: readonly ChatMessage[], options: PromptOptions): Piece[] {
  const { template, specials } = prepare(tokenizer);
  const texts: { text: string; message: number | null }[] = [];
  const put = (text: string, message: number | null): string =>
    // Templates test whether a text is empty, so an empty text is passed as it is.
    text === "" ? "" : standIn(texts.push({ text, message }) - 1);
  /**
   * Prepares values that the template writes as JSON: the texts of special tokens become stand-ins, and the character that
   * marks a stand-in is replaced.
   */
  const disarm = (value: unknown): unknown => {
    if (typeof value === "string")
      return value.replaceAll("\ue000", "\ufffd").replace(specials, (marker) => put(marker, null));
    if (Array.isArray(value)) return value.map(disarm);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [disarm(key), disarm(item)]));
  };
  const shown = messages.map(({ role, content, name, toolCalls = [], toolCallId, thought }, index) => {
    if (!roles.includes(role)) throw invalid(["messages", index, "role"], `must be one of ${roles.join(", ")}`);
    return {
      role,
      content: put(content, index),
      ...(name !== undefined && { name: put(name, null) }),
      ...(toolCalls.length > 0 && {
        tool_calls: toolCalls.map((call) => ({
          id: disarm(call.id),
          type: "function",
          function: { name: disarm(call.name), arguments: disarm(JSON.parse(call.arguments)) },
        })),
      }),
      ...(toolCallId !== undefined && { tool_call_id: disarm(toolCallId) }),
      ...(thought !== undefined && { reasoning_content: put(thought, null) }),
    };
  });
  const tools = (options.tools ?? []).map((tool) => ({ type: "function", function: disarm(tool) }));
  const name = (token: number | null): string => (token === null ? "" : tokenizer.pieceOf(token));
  const rendered = attempt(() =>
    run(template, {
      messages: shown,
      add_generation_prompt: options.addGenerationPrompt ?? true,
      bos_token: name(tokenizer.bos),
      eos_token: name(tokenizer.eos),
      ...(tools.length > 0 && { tools }),
      ...(options.enableThinking !== undefined && { enable_thinking: options.enableThinking }),
    }),
  );
  const pieces = split(rendered, texts);
  const found = new Set(pieces.map((piece) => piece.message));
  for (const { text, message } of texts)
    if (message !== null && !found.has(message) && text.trim() !== "")
      throw new Failure(
        "template_failed",
        `The model's chat template leaves out a message with the role ${messages[message]!.role}`,
      );
  return pieces;
}

/**
 * Runs a template with our own globals only: without a clock, so that a prompt has the same tokens every day, and with a
 * `range` of limited length.
 */
function run(template: Template, variables: Record<string, unknown>): string {
  const globals = {
    true: true,
    True: true,
    false: false,
    False: false,
    none: null,
    None: null,
    range,
    raise_exception: (message: unknown) => {
      throw new Error(String(message));
    },
  };
  const environment = new Environment();
  for (const [key, value] of Object.entries({ ...globals, ...variables })) environment.set(key, value);
  return String((new Interpreter(environment).run(template.parsed) as { value: unknown }).value);
}

const longestRange = 10_000;

function range(first: number, end?: unknown, step?: unknown): number[] {
  const [from, to] = typeof end === "number" ? [first, end] : [0, first];
  const by = typeof step === "number" ? step : 1;
  const length = Math.max(0, Math.ceil((to - from) / by));
  if (!(length <= longestRange)) throw new Error(`a range longer than ${longestRange}`);
  return Array.from({ length }, (_, index) => from + index * by);
}

function split(rendered: string, texts: readonly { text: string; message: number | null }[]): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const match of rendered.matchAll(standIns)) {
    const entry = texts[Number(match[2])];
    if (entry === undefined) continue;
    pieces.push({ text: rendered.slice(from, match.index), message: null, written: false });
    let { text } = entry;
    if (match[1] === "") text = text.trimStart();
    if (match[3] === "") text = text.trimEnd();
    pieces.push({ text, message: entry.message, written: true });
    from = match.index + match[0].length;
  }
  pieces.push({ text: rendered.slice(from), message: null, written: false });
  return pieces;
}

interface Encoded {
  tokens: number[];
  weights: number[];
}

function encode(tokenizer: Tokenizer, pieces: readonly Piece[], messages: readonly ChatMessage[]): Encoded {
  const encoding = encodingOf(tokenizer, pieces, messages);
  let step = encoding.next();
  while (!step.done) step = encoding.next(tokenizer.encode(step.value, false));
  return step.value;
}

/** Yields every stretch of plain text and expects its tokens in return. */
function* encodingOf(
  tokenizer: Tokenizer,
  pieces: readonly Piece[],
  messages: readonly ChatMessage[],
): Generator<string, Encoded, readonly number[]> {
  const { specials } = prepare(tokenizer);
  const tokens: number[] = [];
  const weights: number[] = [];
  let stretch = "";
  const put = (added: readonly number[], weight: number): void => {
    for (const token of added) {
      tokens.push(token);
      weights.push(weight);
    }
  };
  function* flush(weight: number): Generator<string, void, readonly number[]> {
    put(yield stretch, weight);
    stretch = "";
  }
  // Special tokens that this template writes. A message's text must not become one of them, even if it is a user-defined token,
  // which the tokenizer always parses.
  const markers = new Set(
    pieces.filter((piece) => !piece.written).flatMap((piece) => piece.text.match(specials) ?? []),
  );
  let speaking = false;
  for (const piece of pieces) {
    const spoken = piece.message !== null && messages[piece.message]!.role === "assistant";
    if (spoken) {
      yield* flush(0);
      for (const part of disarmed(piece.text, markers)) {
        stretch = part;
        yield* flush(1);
      }
      speaking = true;
    } else if (piece.written) {
      const [first, ...rest] = disarmed(piece.text, markers);
      stretch += first;
      for (const part of rest) {
        yield* flush(0);
        stretch = part;
      }
    } else {
      let from = 0;
      for (const match of piece.text.matchAll(specials)) {
        stretch += piece.text.slice(from, match.index);
        yield* flush(speaking ? 1 : 0);
        put([tokenizer.specials.get(match[0])!], speaking ? 1 : 0);
        speaking = false;
        from = match.index + match[0].length;
      }
      stretch += piece.text.slice(from);
    }
  }
  yield* flush(0);
  if (tokenizer.addBos && tokenizer.bos !== null && tokens[0] !== tokenizer.bos) {
    tokens.unshift(tokenizer.bos);
    weights.unshift(0);
  }
  return { tokens, weights };
}

/** Cuts a text inside every marker that it contains, so that no piece contains a marker. */
function disarmed(text: string, markers: ReadonlySet<string>): string[] {
  const cuts = new Set<number>();
  for (const marker of markers)
    for (let at = text.indexOf(marker); at >= 0 && marker.length > 1; at = text.indexOf(marker, at + 1))
      cuts.add(at + 1);
  const parts: string[] = [];
  let from = 0;
  for (const cut of [...cuts].sort((a, b) => a - b)) {
    parts.push(text.slice(from, cut));
    from = cut;
  }
  parts.push(text.slice(from));
  return parts;
}

/** The token that ends a turn: the first end-of-generation token that the template writes in `after`, else the model's own. */
function endOfTurn(tokenizer: Tokenizer, after: string): number[] {
  for (const match of after.matchAll(prepare(tokenizer).specials)) {
    const token = tokenizer.specials.get(match[0])!;
    if (tokenizer.eog.has(token)) return [token];
  }
  return tokenizer.eos === null ? [] : [tokenizer.eos];
}
