// Reads JSON and JSON Lines into elements. Lists of flat objects become tables, flat properties become "name: value", and
// deeper values get their name as heading. In a list where an object has deeper values, each object has a heading of its own.
// jsonc-parser gives the position of each value.
import { type Node, type ParseError, parseTree, printParseErrorCode } from "jsonc-parser";
import { Failure } from "../../../base/errors.ts";
import { isQuestion } from "../../../base/text.ts";
import type { Element, Piece, Reading } from "../elements.ts";
import { mostDepth } from "../limits.ts";

/** Reads a JSON file. Offsets count in `text`, the decoded file. Throws document_invalid, document_limit. */
export const readJson = (text: string, name: string): Reading => reading(text, [parsed(text, 0, name)], false);

export function readJsonLines(text: string, name: string): Reading {
  const values: Node[] = [];
  for (const { 0: line, index } of text.matchAll(/[^\r\n]+/g))
    if (line.trim() !== "") values.push(parsed(line, index, name));
  return reading(text, values, true);
}

/** Whether the whole text is a JSON object or array, not a mere string or number. */
export function looksLikeJson(text: string): boolean {
  if (!/^\s*[[{]/.test(text) || !/[\]}]\s*$/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Whether there are at least two lines, and each of the first twenty is a whole JSON object or array. Blank lines do not count. */
export function looksLikeJsonLines(text: string): boolean {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== "");
  return lines.length > 1 && lines.slice(0, 20).every((line) => /^\s*[[{]/.test(line) && looksLikeJson(line));
}

function parsed(text: string, offset: number, name: string): Node {
  checkDepth(text, name);
  const errors: ParseError[] = [];
  const root = parseTree(text, errors, { disallowComments: true, allowTrailingComma: false, allowEmptyContent: false });
  const [error] = errors;
  if (error || !root)
    throw new Failure(
      "document_invalid",
      `${name} is not valid JSON: ${error ? printParseErrorCode(error.error) : "nothing"} at character ${offset + (error?.offset ?? 0)}`,
    );
  if (offset > 0) shift(root, offset);
  return root;
}

function shift(node: Node, by: number): void {
  (node as { offset: number }).offset += by;
  for (const child of node.children ?? []) shift(child, by);
}

/** Throws document_limit if brackets outside strings are nested too deeply, because the parser recurses once for each level. */
function checkDepth(text: string, name: string): void {
  let depth = 0;
  for (const { 0: token } of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
    if (token === "[" || token === "{") depth++;
    else if (token === "]" || token === "}") depth--;
    if (depth > mostDepth)
      throw new Failure("document_limit", `${name} is nested too deeply; the limit is ${mostDepth} levels`);
  }
}

function reading(text: string, values: Node[], lines: boolean): Reading {
  const writer = new Writer(text);
  if (lines) writer.list(values, 1, null);
  else writer.value(values[0]!, 1, null);
  return { pages: null, elements: writer.elements, warnings: [] };
}

const isFlat = (node: Node): boolean => node.type !== "object" && node.type !== "array";
const propertiesOf = (node: Node): [Node, Node][] =>
  (node.children ?? []).flatMap((property) =>
    property.children?.length === 2 ? [property.children as [Node, Node]] : [],
  );

const mostColumns = 100;
/** Maximum characters of a value that names an object. A longer value is a text. */
const longestName = 100;

class Writer {
  readonly elements: Element[] = [];
  #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  value(node: Node, level: number, key: Piece[] | null): void {
    if (node.type === "array") this.list(node.children ?? [], level, key);
    else if (node.type === "object") {
      this.#heading(key, level);
      const own = propertiesOf(node);
      // The flat ones come first, because after the heading of a deeper one they would belong to that one.
      for (const [name, value] of own.filter(([, value]) => isFlat(value)))
        this.elements.push({ type: "paragraph", pieces: this.#property([name, value]) });
      for (const [name, value] of own.filter(([, value]) => !isFlat(value)))
        this.value(value, key === null ? level : level + 1, this.#pieces(name));
    } else this.elements.push({ type: "paragraph", pieces: this.#pieces(node) });
  }

  list(values: readonly Node[], level: number, key: Piece[] | null): void {
    this.#heading(key, level);
    const columns = columnsOf(values);
    if (columns !== null) {
      this.#table(values, columns);
      return;
    }
    // A heading within one object would otherwise reach into the next object.
    const areNamed = values.some(
      (value) => value.type === "object" && propertiesOf(value).some(([, held]) => !isFlat(held)),
    );
    for (const [at, value] of values.entries()) {
      if (isFlat(value)) this.elements.push({ type: "item", depth: 0, mark: null, pieces: this.#pieces(value) });
      else if (value.type === "object" && areNamed)
        this.value(value, key === null ? level : level + 1, this.#nameOf(value, at + 1));
      else this.value(value, level + 1, null);
    }
  }

  /**
   * The heading of a list's object: its first property whose value can be a name, as the first cell names a row, or else its number in
   * the list. The name alone could equal an item that refers to the object, and a study drops items that equal a heading (passages.ts).
   * But a question stands alone, because a study asks it as the heading has it (targets.ts).
   */
  #nameOf(object: Node, number: number): Piece[] {
    const named = propertiesOf(object).find(
      ([, { type, value }]) => type === "number" || (type === "string" && isName(value)),
    );
    if (named === undefined) return [mark(String(number), object)];
    return isQuestion(String(named[1].value)) ? this.#pieces(named[1]) : this.#property(named);
  }

  #heading(key: Piece[] | null, level: number): void {
    if (key !== null) this.elements.push({ type: "heading", level: Math.min(level, 6), pieces: key });
  }

  #table(values: readonly Node[], columns: Map<string, Node>): void {
    this.elements.push({ type: "row", first: true, cells: [...columns.values()].map((name) => this.#pieces(name)) });
    for (const value of values) {
      const own = new Map(propertiesOf(value).map(([name, held]) => [name.value as string, held]));
      const cells = [...columns.keys()].map((name) => {
        const held = own.get(name);
        return held === undefined || held.type === "null" ? [] : this.#pieces(held);
      });
      this.elements.push({ type: "row", first: false, cells });
    }
  }

  #property([name, value]: [Node, Node]): Piece[] {
    return [...this.#pieces(name), mark(": ", value), ...this.#pieces(value)];
  }

  /** The value as it is written in the file. A string has no quotes, and its escapes are decoded. */
  #pieces(node: Node): Piece[] {
    const written = this.#text.slice(node.offset, node.offset + node.length);
    if (node.type !== "string" && node.type !== "property") return [{ text: written, page: 0, start: node.offset }];
    return [{ text: String(node.value), page: 0, start: node.offset + 1 }];
  }
}

const isName = (text: string): boolean => /\S/.test(text) && text.length <= longestName && !text.includes("\n");

const mark = (text: string, before: Node): Piece => ({
  text,
  page: 0,
  start: Math.max(0, before.offset - text.length),
});

/** Column names, each with the node where it occurs first. Null if this is not a list of flat objects, or has too many columns. */
function columnsOf(values: readonly Node[]): Map<string, Node> | null {
  const columns = new Map<string, Node>();
  for (const value of values) {
    if (value.type !== "object") return null;
    for (const [name, held] of propertiesOf(value)) {
      if (!isFlat(held)) return null;
      if (!columns.has(name.value)) columns.set(name.value, name);
    }
  }
  return columns.size > 0 && columns.size <= mostColumns ? columns : null;
}
