// Converts JSON schemas to GBNF. Whatever the grammar accepts fits the schema. A value that fits is accepted in its canonical
// spelling: properties in the schema's order, followed by properties that the schema does not name; numbers and escapes as
// JSON.stringify writes them (bounded numbers without an exponent); the usual white space; at most `deepest` nested values.
import { invalid } from "../../base/errors.ts";
import { type Automaton, except, isEmpty, TooManyStates } from "./automaton.ts";
import { type CodePoints, contains, intersection } from "./code-points.ts";
import { integersBetween, numbersBetween } from "./numbers.ts";
import { type Item, type Loc, type Shape, Shapes } from "./shapes.ts";

/** Maximum nesting of values, at which recursive schemas end. */
const deepest = 24;
const mostRules = 8000;
const mostCharacters = 1 << 20;
/** Size of the portions that long repetitions are composed of, because the library allows at most 2000 repetitions. */
const portion = 100;

const shared: Record<string, string> = {
  // Nothing, a space, or a line break with its indent. It is bounded because small models would write spaces for ever.
  ws: '"" | " " | "\\n" [ ]{0,32}',
  // What JSON.stringify writes, and the escapes of whole code points that other programs write.
  char: '[^"\\\\\\x00-\\x1f] | "\\\\" (["\\\\/bfnrt] | "u" escape)',
  escape:
    '[0-9a-cefA-CEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2} | [dD] [89abAB] [0-9a-fA-F]{2} "\\\\u" [dD] [c-fC-F] [0-9a-fA-F]{2}',
  control: '"\\\\" ([bfnrt] | "u00" ("0" [0-7be-f] | "1" [0-9a-f]))',
  number:
    '"-"? (("0" | [1-9] [0-9]{0,20}) ("." [0-9]{1,17})? | [0-9] ("." [0-9]{1,17})? [eE] ("-" [0-9]{1,3} | "+"? ([0-9]{1,2} | [12] [0-9]{2} | "30" [0-7])))',
};

export interface SchemaRules {
  /** Returns a rule for the values that fit; null if none does. Throws validation with the keyword and its path. */
  rule(schema: unknown, at: Loc): string | null;
  fits(value: unknown, schema: unknown, at: Loc): boolean;
  /** Adds a rule with this body and returns its name. Throws validation if the grammar becomes too large. */
  add(body: string): string;
  /** Returns the whole grammar, beginning with the given rule. */
  gbnf(root: string): string;
}

/** A text as a GBNF literal. */
export const literal = (text: string): string =>
  `"${text.replace(/[\\"]/g, "\\$&").replace(/[^ -~]/gu, (character) => codePoint(character.codePointAt(0)!))}"`;

function codePoint(point: number): string {
  const hex = point.toString(16);
  if (point <= 0xff) return `\\x${hex.padStart(2, "0")}`;
  return point <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}

export function createSchemaRules(): SchemaRules {
  const writer = new Writer();
  const item = (schema: unknown, at: Loc): Item => ({ schema, at, root: { schema, at }, followed: [] });
  return {
    rule: (schema, at) => writer.value([item(schema, at)], 0),
    fits: (value, schema, at) => writer.shapes.fits(value, [item(schema, at)]),
    add: (body) => writer.add(body),
    gbnf: (root) => writer.gbnf(root),
  };
}

/** The grammar of an answer that fits the schema. Throws validation. */
export function schemaGrammar(schema: unknown, at: Loc): string {
  const rules = createSchemaRules();
  const root = rules.rule(schema, at);
  if (root === null) throw invalid(at, "no value matches the schema");
  return rules.gbnf(root);
}

class Writer {
  readonly shapes = new Shapes();
  readonly #rules = new Map<string, string>();
  /** Rules of values, by the schemas that they must fit and their depth. */
  readonly #values = new Map<string, string | null>();
  /** Rule names by body, so that equal bodies share one rule. */
  readonly #names = new Map<string, string>();
  readonly #automata = new Map<Automaton, string>();
  readonly #exceptions = new Map<string, Automaton>();
  #characters = 0;

  gbnf(root: string): string {
    const lines = [...this.#rules, ...Object.entries(shared)].map(([name, body]) => `${name} ::= ${body}`);
    return [`root ::= ${root}`, ...lines, ""].join("\n");
  }

  add(body: string): string {
    const known = this.#names.get(body);
    if (known !== undefined) return known;
    const name = this.#reserve();
    this.#define(name, body);
    this.#names.set(body, name);
    return name;
  }

  #reserve(): string {
    if (this.#rules.size >= mostRules) throw tooLarge();
    const name = `r${this.#rules.size}`;
    this.#rules.set(name, "");
    return name;
  }

  #define(name: string, body: string): void {
    this.#characters += body.length;
    if (this.#characters > mostCharacters) throw tooLarge();
    this.#rules.set(name, body);
  }

  /** Rule for a value; null if no value fits within the depth limit. */
  value(items: readonly Item[], depth: number): string | null {
    const key = `${depth} ${JSON.stringify(items.map(({ schema, root }) => [schema, root.at]))}`;
    const known = this.#values.get(key);
    if (known !== undefined) return known;
    const bodies = new Set(this.shapes.of(items).flatMap((shape) => this.#shape(shape, depth)));
    const rule = bodies.size === 0 ? null : this.add([...bodies].join(" | "));
    this.#values.set(key, rule);
    return rule;
  }

  #shape(shape: Shape, depth: number): string[] {
    if (shape.literals !== null) return shape.literals.map(spaced);
    const bodies: (string | null)[] = [];
    if (shape.types.has("null")) bodies.push('"null"');
    if (shape.types.has("boolean")) bodies.push('"true"', '"false"');
    if (shape.types.has("integer")) bodies.push(integers(shape));
    if (shape.types.has("number")) bodies.push(numbers(shape));
    if (shape.types.has("string")) bodies.push(this.#string(shape));
    if (shape.types.has("array") && depth < deepest) bodies.push(this.#array(shape, depth + 1));
    if (shape.types.has("object") && depth < deepest) bodies.push(this.#object(shape, depth + 1));
    return bodies.filter((body) => body !== null);
  }

  #string(shape: Shape): string | null {
    if (shape.automaton !== null) return this.#automaton(shape.automaton);
    if (shape.maxLength !== null && shape.maxLength < shape.minLength) return null;
    return `"\\"" ${this.#repeat("char", shape.minLength, shape.maxLength)} "\\""`;
  }

  /** Body for a quoted text that the automaton accepts. It is escaped canonically, so that no text has two spellings. */
  #automaton(automaton: Automaton): string | null {
    if (isEmpty(automaton)) return null;
    let first = this.#automata.get(automaton);
    if (first === undefined) {
      const names = automaton.map(() => this.#reserve());
      for (const [at, { accepts, edges }] of automaton.entries()) {
        const ways = edges.map(({ set, to }) => `${characters(set)} ${names[to]}`);
        this.#define(names[at]!, [...(accepts ? ['"\\""'] : []), ...ways].join(" | "));
      }
      first = names[0]!;
      this.#automata.set(automaton, first);
    }
    return `"\\"" ${first}`;
  }

  #array(shape: Shape, depth: number): string | null {
    const { minItems, prefix } = shape;
    const rest = this.value(shape.items, depth);
    let most = shape.maxItems;
    if (rest === null) most = Math.min(most ?? prefix.length, prefix.length);
    const first: string[] = [];
    for (const items of prefix.slice(0, most ?? prefix.length)) {
      const rule = this.value(items, depth);
      // No value fits at this index, so the array ends before it.
      if (rule === null) most = first.length;
      if (rule === null) break;
      first.push(rule);
    }
    if (most !== null && most < minItems) return null;
    if (most === 0) return '"[" ws "]"';
    const next = (rule: string): string => `"," ws ${rule} ws`;
    const free = most === null ? null : most - first.length;
    let tail =
      free === 0 ? '""' : this.#repeat(this.add(next(rest!)), Math.max(0, minItems - Math.max(1, first.length)), free);
    if (first.length === 0) {
      const others = this.#repeat(this.add(next(rest!)), Math.max(0, minItems - 1), most === null ? null : most - 1);
      const filled = `${rest} ws ${others}`;
      return minItems === 0 ? `"[" ws (${filled})? "]"` : `"[" ws ${filled} "]"`;
    }
    for (const [index, rule] of [...first.entries()].reverse()) {
      const here = `${index === 0 ? `${rule} ws` : next(rule)} ${this.add(tail)}`;
      tail = index < minItems ? here : `${here} | ""`;
    }
    return `"[" ws ${this.add(tail)} "]"`;
  }

  /**
   * Body for an object whose members are a chain, in order. At each place there are two rules for the rest: one if a member
   * came before (with a comma), one if none did. So n optional members cost 2n rules, not 2^n.
   */
  #object(shape: Shape, depth: number): string | null {
    const members: { rule: string; isRequired: boolean }[] = [];
    for (const [name, items] of shape.properties) {
      const isRequired = shape.required.has(name);
      const rule = this.value(items, depth);
      if (rule === null && isRequired) return null;
      if (rule !== null) members.push({ rule: `${literal(JSON.stringify(name))} ws ":" ws ${rule} ws`, isRequired });
    }
    const other = this.#otherMember(shape, depth);
    let [after, first] = ['""', '""'];
    if (other !== null) {
      const more = this.add(`"," ws ${other}`);
      [after, first] = [`${more}*`, `(${other} ${more}*)?`];
    }
    for (const { rule, isRequired } of members.reverse()) {
      const [then, alone] = [this.add(after), this.add(first)];
      const member = this.add(rule);
      after = `"," ws ${member} ${then}${isRequired ? "" : ` | ${then}`}`;
      first = `${member} ${then}${isRequired ? "" : ` | ${alone}`}`;
    }
    return `"{" ws ${this.add(first)} "}"`;
  }

  /** Rule for a member that the schema does not name; null if no such member is allowed. */
  #otherMember(shape: Shape, depth: number): string | null {
    const value = this.value(shape.additional, depth);
    if (value === null) return null;
    const names = [...shape.properties.keys()];
    const key = names.length === 0 ? '"\\"" char* "\\""' : this.#automaton(this.#except(names))!;
    return this.add(`${this.add(key)} ws ":" ws ${value} ws`);
  }

  #except(names: readonly string[]): Automaton {
    const key = JSON.stringify(names);
    const automaton = this.#exceptions.get(key) ?? allBut(names);
    this.#exceptions.set(key, automaton);
    return automaton;
  }

  /** Expression that repeats a rule from `least` to `most` times. A null `most` means no limit. */
  #repeat(rule: string, least: number, most: number | null): string {
    if (most === 0) return '""';
    if (least <= portion && (most === null || most <= portion)) return `${rule}{${least},${most ?? ""}}`;
    const parts: string[] = [];
    const whole = this.add(`${rule}{${portion}}`);
    const hundreds = Math.floor(least / portion);
    if (hundreds > 0) parts.push(`${this.add(`${whole}{${hundreds}}`)}`);
    if (least % portion > 0) parts.push(`${rule}{${least % portion}}`);
    if (most === null) parts.push(`${rule}*`);
    else {
      const free = most - least;
      if (free >= portion) parts.push(`${whole}{0,${Math.floor(free / portion) - 1}}`, `${rule}{0,${portion}}`);
      if (free % portion > 0) parts.push(`${rule}{0,${free % portion}}`);
    }
    return this.add(parts.join(" "));
  }
}

function allBut(names: readonly string[]): Automaton {
  try {
    return except(names);
  } catch (error) {
    throw error instanceof TooManyStates ? tooLarge() : error;
  }
}

/** Rule body for one value, with optional white space. */
function spaced(value: unknown): string {
  const list = (values: string[]): string => values.join(' "," ws ');
  if (Array.isArray(value)) return `"[" ws ${list(value.map((item) => `${spaced(item)} ws`))} "]"`;
  if (typeof value !== "object" || value === null) return literal(JSON.stringify(value));
  const members = Object.entries(value).map(
    ([name, member]) => `${literal(JSON.stringify(name))} ws ":" ws ${spaced(member)} ws`,
  );
  return `"{" ws ${list(members)} "}"`;
}

function tooLarge() {
  return invalid(["body"], "the grammar of the schemas is too large");
}

/** Expression for whole numbers. They have up to 16 digits, so a bound beyond that has no effect or excludes all of them. */
function integers({ low, high }: Shape): string | null {
  if ((low?.value ?? 0) >= 1e16 || (high?.value ?? 0) <= -1e16) return null;
  const inside = (bound: Shape["low"], round: (value: number) => number, step: bigint): bigint | null => {
    if (bound === null || Math.abs(bound.value) >= 1e16) return null;
    const at = BigInt(round(bound.value));
    return bound.isExclusive && Number.isInteger(bound.value) ? at + step : at;
  };
  return integersBetween(inside(low, Math.ceil, 1n), inside(high, Math.floor, -1n));
}

function numbers({ low, high }: Shape): string | null {
  if (low === null && high === null) return "number";
  // A bound this large excludes all numbers that are written or, on the other side, has no effect.
  if ((low?.value ?? 0) >= 1e15 || (high?.value ?? 0) <= -1e15) return null;
  return numbersBetween(
    low !== null && low.value <= -1e15 ? null : low,
    high !== null && high.value >= 1e15 ? null : high,
  );
}

const raw: CodePoints = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0x10ffff],
];
/** Control characters, which JSON text must escape. */
const controls: CodePoints = [[0, 0x1f]];

/** Expression for any one of the code points, as JSON.stringify writes it within quotes. */
function characters(set: CodePoints): string {
  const plain = intersection(set, raw);
  const ways: string[] = [];
  if (plain.length > 0)
    ways.push(
      `[${plain.map(([from, to]) => (from === to ? codePoint(from) : `${codePoint(from)}-${codePoint(to)}`)).join("")}]`,
    );
  for (const escaped of [0x22, 0x5c])
    if (contains(set, escaped)) ways.push(literal(`\\${String.fromCodePoint(escaped)}`));
  const among = intersection(set, controls);
  if (among.length === 1 && among[0]![0] === 0 && among[0]![1] === 0x1f) ways.push("control");
  else
    for (const [from, to] of among)
      for (let point = from; point <= to; point++)
        ways.push(literal(JSON.stringify(String.fromCodePoint(point)).slice(1, -1)));
  return ways.length === 1 ? ways[0]! : `(${ways.join(" | ")})`;
}
