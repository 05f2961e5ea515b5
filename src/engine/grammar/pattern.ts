// Converts the regular expressions of JSON schemas to syntax trees. Only what a finite automaton can represent is supported:
// backreferences, word boundaries and lookaround are refused by name. Regexpp parses the pattern, because it knows the whole
// grammar of ECMAScript's regular expressions, with and without the flag u.
import { type AST, RegExpParser } from "@eslint-community/regexpp";
import { type CodePoints, complement, matching, union } from "./code-points.ts";

export type Node =
  | { kind: "set"; set: CodePoints }
  | { kind: "sequence"; parts: Node[] }
  | { kind: "choice"; parts: Node[] }
  /** A null `most` means no limit. */
  | { kind: "repeat"; part: Node; least: number; most: number | null };

/** Why a pattern cannot be read; the message goes to the caller. */
export class PatternError extends Error {}

const mostRepeats = 1000;
const parser = new RegExpParser({ ecmaVersion: 2025 });
const anything: Node = { kind: "repeat", part: { kind: "set", set: complement([]) }, least: 0, most: null };

/** Parses a pattern. As in JSON schema, it matches anywhere in a text unless it is anchored. Throws PatternError. */
export function parsePattern(source: string): Node {
  const { alternatives } = parse(source);
  const parts = alternatives.map(({ elements }): Node => {
    const fromStart = isEdge(elements[0], "start");
    const toEnd = isEdge(elements.at(-1), "end");
    const inner = elements.slice(fromStart ? 1 : 0, toEnd ? -1 : undefined);
    return {
      kind: "sequence",
      parts: [...(fromStart ? [] : [anything]), ...inner.map(nodeOf), ...(toEnd ? [] : [anything])],
    };
  });
  return { kind: "choice", parts };
}

const isEdge = (element: AST.Element | undefined, kind: "start" | "end"): boolean =>
  element?.type === "Assertion" && element.kind === kind;

/** Escapes that mean something else without the flag u: "\\p{L}" would match the text "p{L}". */
const needsFlag = /\\[pPu]\{/;

/**
 * Parses with the flag u, as JSON schema recommends. A pattern that is valid only without the flag, such as "\\-", is parsed
 * without it.
 */
function parse(source: string): AST.Pattern {
  const read = (unicode: boolean): AST.Pattern => parser.parsePattern(source, 0, source.length, { unicode });
  try {
    return read(true);
  } catch (error) {
    const wrong = new PatternError(`is not a regular expression: ${(error as Error).message}`);
    if (needsFlag.test(source)) throw wrong;
    try {
      return read(false);
    } catch {
      throw wrong;
    }
  }
}

function nodeOf(element: AST.Element): Node {
  switch (element.type) {
    case "Group":
      if (element.modifiers !== null) throw new PatternError("sets flags inside a group");
      return choiceOf(element.alternatives);
    case "CapturingGroup":
      return choiceOf(element.alternatives);
    case "Quantifier":
      return repeatOf(element);
    case "Assertion":
      if (element.kind === "start") throw new PatternError("has a ^ that is not at the start");
      if (element.kind === "end") throw new PatternError("has a $ that is not at the end");
      throw new PatternError(`has ${element.raw}, which a grammar cannot express: it looks ahead or behind`);
    case "Backreference":
      throw new PatternError(`has ${element.raw}, which a grammar cannot express`);
    default:
      return { kind: "set", set: setOf(element) };
  }
}

function choiceOf(alternatives: readonly AST.Alternative[]): Node {
  const parts = alternatives.map(({ elements }): Node => ({ kind: "sequence", parts: elements.map(nodeOf) }));
  return parts.length === 1 ? parts[0]! : { kind: "choice", parts };
}

/** Lazy and greedy quantifiers are treated alike, because they match the same texts. */
function repeatOf({ element, min, max, raw }: AST.Quantifier): Node {
  const most = max === Number.POSITIVE_INFINITY ? null : max;
  if (Math.max(min, most ?? 0) > mostRepeats)
    throw new PatternError(`repeats ${raw.slice(element.raw.length)}; the limit is ${mostRepeats} times`);
  return { kind: "repeat", part: nodeOf(element), least: min, most };
}

/** The code points of a set. Surrogates within a range are left out; half a surrogate pair by itself is refused. */
function setOf(element: AST.Element | AST.CharacterClassElement): CodePoints {
  switch (element.type) {
    case "Character":
      if (isSurrogate(element.value)) throw new PatternError("contains half a surrogate pair");
      return [[element.value, element.value]];
    case "CharacterClassRange":
      return complement(complement([[element.min.value, element.max.value]]));
    case "CharacterClass": {
      const set = union(...element.elements.map(setOf));
      return element.negate ? complement(set) : set;
    }
    case "CharacterSet":
      return matching(element.raw);
    default:
      throw new PatternError(`has ${element.raw}, which a grammar cannot express`);
  }
}

const isSurrogate = (point: number): boolean => point >= 0xd800 && point <= 0xdfff;
