// Splits the text of an answer, as it arrives, into thoughts, words and tool calls. Text that may still turn out to be
// part of a mark is held back. A call that the model makes without being forced is emitted only once it is complete and
// checked, because until then it may be plain words.

import type { ThoughtMarks } from "../../engine/format/chat-format.ts";
import { type CallFormat, jsonLength } from "../../engine/format/tool-format.ts";

export type Spoken =
  | { kind: "thought"; text: string }
  | { kind: "words"; text: string }
  | { kind: "call"; call: number; id: string; name: string }
  /** A piece of the arguments' JSON. */
  | { kind: "arguments"; call: number; text: string };

export interface ReaderOptions {
  marks: ThoughtMarks | null;
  /** Whether the prompt ends inside a thought. */
  isOpen: boolean;
  format: CallFormat | null;
  /** Whether the answer may hold several calls. If not, calls after the first are dropped. */
  isParallel: boolean;
  /** Whether a grammar restricts the answer to calls, which are then emitted while they arrive. */
  isForced: boolean;
  /** Returns the name and arguments of a call, or null if it is not a valid call. */
  check(call: unknown): { name: string; arguments: string } | null;
  newId(): string;
}

export class AnswerReader {
  readonly #options: ReaderOptions;
  #mode: "begin" | "thought" | "words" | "calls";
  #held = "";
  #out: Spoken[] = [];
  #calls = 0;
  /** Whether white space at the beginning of the next text is dropped. */
  #trims = false;
  #hasThought = false;
  #hasWords = false;
  /** State of the arguments being emitted: nesting depth, and whether inside a string. */
  #arguments: { depth: number; isText: boolean; isEscaped: boolean } | null = null;

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.#mode = options.isOpen ? "thought" : "begin";
  }

  push(text: string): Spoken[] {
    this.#held += text;
    return this.#read(false);
  }

  /** Emits what was held back, at the end of the answer. */
  finish(): Spoken[] {
    return this.#read(true);
  }

  #read(isEnd: boolean): Spoken[] {
    this.#out = [];
    while (this.#step(isEnd));
    return this.#out;
  }

  /** Returns whether there may be more to do. */
  #step(isEnd: boolean): boolean {
    switch (this.#mode) {
      case "begin":
        return this.#begin(isEnd);
      case "thought":
        return this.#thought(isEnd);
      case "words":
        return this.#words(isEnd);
      case "calls":
        return this.#forcedCalls();
    }
  }

  #answer(): true {
    this.#mode = this.#options.isForced ? "calls" : "words";
    return true;
  }

  #begin(isEnd: boolean): boolean {
    const { marks } = this.#options;
    if (marks === null) return this.#answer();
    const text = this.#held.trimStart();
    if (text.startsWith(marks.open)) {
      this.#held = text.slice(marks.open.length);
      this.#mode = "thought";
      return true;
    }
    return !isEnd && marks.open.startsWith(text) ? false : this.#answer();
  }

  #thought(isEnd: boolean): boolean {
    const { close } = this.#options.marks!;
    const at = this.#held.indexOf(close);
    const held = at >= 0 ? this.#held.slice(0, at) : isEnd ? this.#held : without(this.#held, close);
    // White space around a thought comes from the template.
    const text = (this.#hasThought ? held : held.trimStart()).trimEnd();
    if (text !== "") {
      this.#out.push({ kind: "thought", text });
      this.#hasThought = true;
    }
    if (at < 0) {
      this.#held = isEnd ? "" : this.#held.slice(held.trimEnd().length);
      return false;
    }
    this.#held = this.#held.slice(at + close.length);
    this.#trims = true;
    return this.#answer();
  }

  #say(text: string): void {
    if (text === "") return;
    this.#out.push({ kind: "words", text });
    this.#hasWords = true;
  }

  #words(isEnd: boolean): boolean {
    if (this.#trims) this.#held = this.#held.trimStart();
    if (this.#held === "") return false;
    const { format } = this.#options;
    if (format === null) {
      this.#trims = false;
      this.#say(this.#held);
      this.#held = "";
      return false;
    }
    const mark = format.before.trim();
    const at = mark === "" ? this.#bareCall() : this.#held.indexOf(mark);
    if (at < 0) {
      const shown = isEnd || mark === "" ? this.#held : without(this.#held, mark);
      // White space before a call is not part of the words, so hold it back until words follow.
      const said = isEnd ? shown : shown.slice(0, shown.trimEnd().length);
      if (said !== "") this.#trims = false;
      this.#say(said);
      this.#held = this.#held.slice(said.length);
      return false;
    }
    this.#say(this.#held.slice(0, at).trimEnd());
    this.#held = this.#held.slice(at);
    return this.#ownCall(format, mark, isEnd);
  }

  /** Position of a call in a format without marks; −1 if there is none. Only an answer that begins like JSON can be a call. */
  #bareCall(): number {
    const at = this.#held.search(/\S/);
    return !this.#hasWords && at >= 0 && /[[{]/.test(this.#held[at]!) ? at : -1;
  }

  /** Reads a call that the model makes without being forced. The held text begins with the call's mark. */
  #ownCall(format: CallFormat, mark: string, isEnd: boolean): boolean {
    const inner = this.#held.slice(mark.length);
    const start = inner.search(/\S/);
    if (start < 0 && !isEnd) return false;
    const length = start < 0 ? null : jsonLength(inner.slice(start));
    if (length === null) {
      if (!isEnd && /[[{]/.test(inner[start]!)) return false;
      // The call is incomplete, or the text is not a call: emit it as words, including the mark.
      const said = isEnd ? this.#held : this.#held.slice(0, mark.length + start + 1);
      this.#say(said);
      this.#held = this.#held.slice(said.length);
      return !isEnd;
    }
    const json = inner.slice(start, start + length);
    let rest = inner.slice(start + length);
    const after = format.after.trim();
    const left = rest.trimStart();
    if (after !== "" && left.startsWith(after)) rest = left.slice(after.length);
    else if (!isEnd && left.length < after.length && after.startsWith(left)) return false;
    const calls = this.#checked(json);
    if (calls === null) this.#say(this.#held.slice(0, this.#held.length - rest.length));
    for (const { name, arguments: text } of calls ?? []) {
      this.#trims = true;
      if (!this.#options.isParallel && this.#calls > 0) continue;
      const call = this.#calls++;
      this.#out.push({ kind: "call", call, id: this.#options.newId(), name }, { kind: "arguments", call, text });
    }
    this.#held = rest;
    return true;
  }

  /** The calls in a JSON text that holds one call or a list of calls; null unless all are valid. */
  #checked(json: string): { name: string; arguments: string }[] | null {
    let value: unknown;
    try {
      value = JSON.parse(json);
    } catch {
      return null;
    }
    const calls = (Array.isArray(value) ? value : [value]).map((call) => this.#options.check(call));
    return calls.length > 0 && calls.every((call) => call !== null) ? calls : null;
  }

  /** Reads calls made under a grammar, which guarantees an object with the name first and the arguments second. */
  #forcedCalls(): boolean {
    if (this.#arguments === null) {
      const { nameKey, argumentsKey } = this.#options.format!;
      const text = '"(?:[^"\\\\]|\\\\.)*"';
      const head = new RegExp(
        `\\{\\s*${quoted(nameKey)}\\s*:\\s*(${text})\\s*,\\s*${quoted(argumentsKey)}\\s*:\\s*(?=\\{)`,
      ).exec(this.#held);
      if (head === null) return false;
      this.#held = this.#held.slice(head.index + head[0].length);
      this.#out.push({
        kind: "call",
        call: this.#calls++,
        id: this.#options.newId(),
        name: JSON.parse(head[1]!) as string,
      });
      this.#arguments = { depth: 0, isText: false, isEscaped: false };
      return true;
    }
    const length = this.#argumentsLength();
    const text = this.#held.slice(0, length);
    if (text !== "") this.#out.push({ kind: "arguments", call: this.#calls - 1, text });
    this.#held = this.#held.slice(length);
    if (this.#arguments.depth > 0) return false;
    this.#arguments = null;
    return true;
  }

  /** Length of the part of the held text that belongs to the arguments. Their depth is 0 afterwards if they have ended. */
  #argumentsLength(): number {
    const state = this.#arguments!;
    for (const [at, character] of [...this.#held].entries()) {
      if (state.isEscaped) state.isEscaped = false;
      else if (state.isText) {
        if (character === "\\") state.isEscaped = true;
        else if (character === '"') state.isText = false;
      } else if (character === '"') state.isText = true;
      else if (character === "{" || character === "[") state.depth++;
      else if ((character === "}" || character === "]") && --state.depth === 0)
        return [...this.#held].slice(0, at + 1).join("").length;
    }
    return this.#held.length;
  }
}

const quoted = (key: string): string => JSON.stringify(key).replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

/** The text without a suffix that may be the beginning of the mark. */
function without(text: string, mark: string): string {
  for (let length = Math.min(text.length, mark.length - 1); length > 0; length--)
    if (mark.startsWith(text.slice(text.length - length))) return text.slice(0, text.length - length);
  return text;
}
