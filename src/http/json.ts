// A strict reader of JSON bodies. JSON.parse accepts values that no typed field can hold. It keeps the last of duplicate keys, reads
// 1e400 as Infinity, and rounds large integers. It allows lone surrogates, which the database would change, and nesting so deep that
// later recursion would overflow the stack. Here each of these is a 422, except what readJsonKeeping accepts in its kept fields.
import { Failure, invalid } from "../base/errors.ts";

const maxDepth = 64;
const maxKeys = 100_000;
/** Enough for ten million bytes of token ids, the longest list that clients send. */
const maxValues = 2_000_000;
const space = /[ \t\n\r]*/y;
const numeral = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const words: [string, unknown][] = [
  ["true", true],
  ["false", false],
  ["null", null],
];

export interface ReadBody {
  value: unknown;
  /** The text of each kept field, as it was sent. */
  raw: Record<string, string>;
}

export const readJson = (bytes: Uint8Array): unknown => readJsonKeeping(bytes, []).value;

/**
 * Parses a body, which must be UTF-8 without a byte order mark. The source text of the top-level fields named in `kept` is
 * returned as well. Because that text is kept, these fields accept any RFC 8259 text within the limits: their value has the last
 * of duplicate keys, and numbers out of range become finite ones. Half a surrogate pair is refused there too. Throws validation.
 */
export function readJsonKeeping(bytes: Uint8Array, kept: readonly string[]): ReadBody {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw new Failure("validation", "body: is not valid UTF-8", {
      details: [{ loc: ["body"], msg: "is not valid UTF-8", type: "json_invalid" }],
      cause: error,
    });
  }
  const reader = new Reader(text, kept);
  return { value: reader.read(), raw: reader.raw };
}

class Reader {
  readonly #text: string;
  #at = 0;
  #keys = 0;
  #values = 0;
  readonly #path: (string | number)[] = [];
  readonly #kept: readonly string[];
  #isKeeping = false;
  readonly raw: Record<string, string> = {};

  constructor(text: string, kept: readonly string[]) {
    this.#text = text;
    this.#kept = kept;
  }

  read(): unknown {
    this.#skipSpace();
    if (this.#at === this.#text.length) throw invalid(["body"], "field required", "missing");
    const value = this.#value();
    this.#skipSpace();
    if (this.#at < this.#text.length) throw this.#wrong("there is more text after the value");
    return value;
  }

  #value(): unknown {
    if (++this.#values > maxValues)
      throw this.#wrong(`has more than ${maxValues} values; send them in several requests`);
    if (this.#path.length > maxDepth) throw this.#wrong(`is nested deeper than ${maxDepth}`);
    const first = this.#text[this.#at];
    if (first === "{") return this.#object();
    if (first === "[") return this.#array();
    if (first === '"') return this.#string();
    for (const [word, value] of words)
      if (this.#text.startsWith(word, this.#at)) {
        this.#at += word.length;
        return value;
      }
    return this.#number();
  }

  #object(): Record<string, unknown> {
    // In an object without a prototype no key is special.
    const object: Record<string, unknown> = this.#isKeeping ? Object.create(null) : {};
    this.#members("}", () => {
      if (this.#text[this.#at] !== '"') throw this.#wrong("a quoted key is missing");
      const key = this.#string();
      this.#path.push(key);
      if (++this.#keys > maxKeys) throw this.#wrong(`has more than ${maxKeys} keys`);
      // An assignment to this key sets the prototype. Other names, such as constructor, become plain properties.
      if (!this.#isKeeping && key === "__proto__") throw this.#wrong("this key is not allowed");
      if (!this.#isKeeping && Object.hasOwn(object, key)) throw this.#wrong("this key occurs twice");
      this.#skipSpace();
      this.#expect(":");
      object[key] = this.#path.length === 1 && this.#kept.includes(key) ? this.#keep(key) : this.#value();
      this.#path.pop();
    });
    return object;
  }

  #keep(field: string): unknown {
    const start = this.#at;
    this.#isKeeping = true;
    const value = this.#value();
    this.#isKeeping = false;
    this.raw[field] = this.#text.slice(start, this.#at);
    return value;
  }

  #array(): unknown[] {
    const array: unknown[] = [];
    this.#members("]", () => {
      this.#path.push(array.length);
      array.push(this.#value());
      this.#path.pop();
    });
    return array;
  }

  /** Reads comma-separated members up to the closing bracket. A trailing comma is an error. */
  #members(end: string, member: () => void): void {
    this.#at++;
    this.#skipSpace();
    if (this.#text[this.#at] === end) {
      this.#at++;
      return;
    }
    for (;;) {
      member();
      this.#skipSpace();
      if (this.#text[this.#at] === end) break;
      this.#expect(",");
    }
    this.#at++;
  }

  /** A string ends at the next quote with an even number of backslashes before it. JSON.parse decodes what is between. */
  #string(): string {
    let end = this.#at;
    let escapes: number;
    do {
      end = this.#text.indexOf('"', end + 1);
      if (end < 0) throw this.#wrong("a string is not closed");
      escapes = 0;
      while (this.#text[end - 1 - escapes] === "\\") escapes++;
    } while (escapes % 2 === 1);
    let value: string;
    try {
      value = JSON.parse(this.#text.slice(this.#at, end + 1)) as string;
    } catch {
      throw this.#wrong("a string contains an invalid escape or a control character");
    }
    if (!value.isWellFormed()) throw this.#wrong("contains half a surrogate pair");
    if (!this.#isKeeping && value.includes("\0")) throw this.#wrong("contains a NUL character");
    this.#at = end + 1;
    return value;
  }

  #number(): number {
    numeral.lastIndex = this.#at;
    const match = numeral.exec(this.#text);
    if (!match) throw this.#wrong("is not valid JSON");
    const value = Number(match[0]);
    if (this.#isKeeping) {
      this.#at += match[0].length;
      return Math.min(Number.MAX_VALUE, Math.max(-Number.MAX_VALUE, value));
    }
    if (!Number.isFinite(value)) throw this.#wrong("the number is too large");
    const whole = match[1] === undefined && match[2] === undefined;
    if (whole && !Number.isSafeInteger(value)) throw this.#wrong("the whole number is outside ±(2^53 − 1)");
    this.#at += match[0].length;
    return value;
  }

  #expect(character: string): void {
    if (this.#text[this.#at] !== character) throw this.#wrong(`"${character}" is missing`);
    this.#at++;
    this.#skipSpace();
  }

  #skipSpace(): void {
    // Most values have no space before them.
    if (this.#text.charCodeAt(this.#at) > 32) return;
    space.lastIndex = this.#at;
    this.#at += space.exec(this.#text)?.[0].length ?? 0;
  }

  #wrong(message: string): Failure {
    return invalid(["body", ...this.#path], `${message} (at character ${this.#at + 1})`, "json_invalid");
  }
}
