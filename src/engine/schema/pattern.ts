// Regular expressions of JSON schemas → syntax trees: the part of ECMAScript's that a finite automaton can represent.
// Backreferences, word boundaries and lookaround are refused by name.
import { type CodePoints, complement, single, union } from "./code-points.ts";

export type Node =
  | { kind: "set"; set: CodePoints }
  | { kind: "sequence"; parts: Node[] }
  | { kind: "choice"; parts: Node[] }
  /** `most`: null for no limit. */
  | { kind: "repeat"; part: Node; least: number; most: number | null };

/** Why a pattern cannot be read; the message goes to the caller. */
export class PatternError extends Error {}

const digit: CodePoints = [[0x30, 0x39]];
const word = union(digit, [[0x41, 0x5a]], single("_"), [[0x61, 0x7a]]);
const lineEnds = union(single("\n"), single("\r"), [[0x2028, 0x2029]]);
const space = union(
  [[0x09, 0x0d]],
  single(" "),
  single("\u00a0"),
  single("\u1680"),
  [[0x2000, 0x200a]],
  lineEnds,
  single("\u202f"),
  single("\u205f"),
  single("\u3000"),
  single("\ufeff"),
);
const classes: Record<string, CodePoints> = {
  d: digit,
  D: complement(digit),
  w: word,
  W: complement(word),
  s: space,
  S: complement(space),
};
const controls: Record<string, string> = { t: "\t", n: "\n", r: "\r", f: "\f", v: "\v", 0: "\0" };
const mostRepeats = 1000;
const anything: Node = { kind: "repeat", part: { kind: "set", set: complement([]) }, least: 0, most: null };

/** As in JSON schema, a pattern matches anywhere in a text unless it is anchored. Throws PatternError. */
export function parsePattern(source: string): Node {
  return new Reader(source).read();
}

class Reader {
  readonly #text: string[];
  #at = 0;

  constructor(source: string) {
    this.#text = [...source];
  }

  read(): Node {
    const parts: Node[] = [];
    do {
      const fromStart = this.#take("^");
      const part = this.#sequence();
      const toEnd = this.#take("$");
      parts.push({
        kind: "sequence",
        parts: [...(fromStart ? [] : [anything]), part, ...(toEnd ? [] : [anything])],
      });
    } while (this.#take("|"));
    if (this.#at < this.#text.length) throw this.#wrong();
    return { kind: "choice", parts };
  }

  #choice(): Node {
    const parts = [this.#sequence()];
    while (this.#take("|")) parts.push(this.#sequence());
    return parts.length === 1 ? parts[0]! : { kind: "choice", parts };
  }

  #sequence(): Node {
    const parts: Node[] = [];
    for (let next = this.#peek(); next !== undefined && !["|", ")", "$"].includes(next); next = this.#peek())
      parts.push(this.#quantified());
    return { kind: "sequence", parts };
  }

  #quantified(): Node {
    const part = this.#atom();
    const repeat = this.#quantifier();
    if (repeat === null) return part;
    // Lazy and greedy quantifiers match the same texts.
    this.#take("?");
    return { kind: "repeat", part, ...repeat };
  }

  #quantifier(): { least: number; most: number | null } | null {
    if (this.#take("*")) return { least: 0, most: null };
    if (this.#take("+")) return { least: 1, most: null };
    if (this.#take("?")) return { least: 0, most: 1 };
    if (this.#peek() !== "{") return null;
    const end = this.#text.indexOf("}", this.#at);
    const match = /^\{(\d{1,9})(,(\d{1,9})?)?\}$/.exec(this.#text.slice(this.#at, end + 1).join(""));
    if (!match) throw this.#wrong();
    this.#at = end + 1;
    const least = Number(match[1]);
    const most = match[2] === undefined ? least : match[3] === undefined ? null : Number(match[3]);
    if (Math.max(least, most ?? 0) > mostRepeats || (most !== null && most < least))
      throw new PatternError(`repeats ${match[0]}; the limit is ${mostRepeats} times`);
    return { least, most };
  }

  #atom(): Node {
    const next = this.#next();
    if (next === "(") return this.#group();
    if (next === "[") return { kind: "set", set: this.#class() };
    if (next === ".") return { kind: "set", set: complement(lineEnds) };
    if (next === "\\") return { kind: "set", set: this.#escape(false) };
    if (next === "^") throw new PatternError("has a ^ that is not at the start");
    if (["*", "+", "?", "{", "}", "]"].includes(next)) throw this.#wrong();
    return { kind: "set", set: single(next) };
  }

  #group(): Node {
    if (this.#take("?")) {
      const kind = this.#next();
      if (kind === "<" && !["=", "!"].includes(this.#peek() ?? "")) {
        while (this.#next() !== ">") if (this.#peek() === undefined) throw this.#wrong();
      } else if (kind !== ":") throw new PatternError("uses lookahead, lookbehind or flags");
    }
    const node = this.#choice();
    if (this.#peek() === "$") throw new PatternError("has a $ that is not at the end");
    if (!this.#take(")")) throw this.#wrong();
    return node;
  }

  #class(): CodePoints {
    const isNegated = this.#take("^");
    const sets: CodePoints[] = [];
    while (!this.#take("]")) {
      const from = this.#member();
      if (this.#peek() === "-" && this.#text[this.#at + 1] !== "]" && this.#text[this.#at + 1] !== undefined) {
        this.#at++;
        const to = this.#member();
        const [low, high] = [pointOf(from), pointOf(to)];
        if (low === null || high === null || low > high) throw this.#wrong();
        sets.push([[low, high]]);
      } else sets.push(from);
    }
    const set = union(...sets);
    // Complementing twice removes surrogates that lie within a range.
    return isNegated ? complement(set) : complement(complement(set));
  }

  #member(): CodePoints {
    const next = this.#next();
    return next === "\\" ? this.#escape(true) : single(next);
  }

  #escape(inClass: boolean): CodePoints {
    const next = this.#next();
    if (classes[next] !== undefined) return classes[next];
    if (next === "0" && /\d/.test(this.#peek() ?? "")) throw this.#wrong();
    if (controls[next] !== undefined) return single(controls[next]);
    if (inClass && next === "b") return single("\b");
    if (next === "x") return this.#hex(2);
    if (next === "u") {
      if (!this.#take("{")) return this.#hex(4);
      const end = this.#text.indexOf("}", this.#at);
      const set = this.#hex(end - this.#at);
      this.#at++;
      return set;
    }
    if (/[A-Za-z0-9]/.test(next)) throw new PatternError(`has \\${next}, which a grammar cannot express`);
    return single(next);
  }

  #hex(digits: number): CodePoints {
    const text = this.#text.slice(this.#at, this.#at + digits).join("");
    const point = Number.parseInt(text, 16);
    if (text.length !== digits || !/^[0-9a-fA-F]{1,6}$/.test(text) || point > 0x10ffff) throw this.#wrong();
    if (point >= 0xd800 && point <= 0xdfff) throw new PatternError("contains half a surrogate pair");
    this.#at += digits;
    return [[point, point]];
  }

  #peek(): string | undefined {
    return this.#text[this.#at];
  }

  #next(): string {
    const next = this.#text[this.#at++];
    if (next === undefined) throw this.#wrong();
    return next;
  }

  #take(expected: string): boolean {
    if (this.#text[this.#at] !== expected) return false;
    this.#at++;
    return true;
  }

  #wrong(): PatternError {
    return new PatternError(`is not a supported regular expression (at character ${this.#at + 1})`);
  }
}

function pointOf(set: CodePoints): number | null {
  return set.length === 1 && set[0]![0] === set[0]![1] ? set[0]![0] : null;
}
