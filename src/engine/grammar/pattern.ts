// Regular expressions of JSON schemas → syntax trees: the part of ECMAScript's that a finite automaton can represent.
// Backreferences, word boundaries and lookaround are refused by name. Regexpp reads the pattern: it knows the language's
// whole grammar, with and without the flag u.
import { type AST, RegExpParser } from "@eslint-community/regexpp";
import { type CodePoints, complement, matching, union } from "./code-points.ts";

export type Node =
  | { kind: "set"; set: CodePoints }
  | { kind: "sequence"; parts: Node[] }
  | { kind: "choice"; parts: Node[] }
  /** `most`: null for no limit. */
  | { kind: "repeat"; part: Node; least: number; most: number | null };

/** Why a pattern cannot be read; the message goes to the caller. */
export class PatternError extends Error {}

const mostRepeats = 1000;
const parser = new RegExpParser({ ecmaVersion: 2025 });
const anything: Node = { kind: "repeat", part: { kind: "set", set: complement([]) }, least: 0, most: null };

/** As in JSON schema, a pattern matches anywhere in a text unless it is anchored. Throws PatternError. */
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

/** Means something else without the flag u: "\\p{L}" would be a "p" and what follows. */
const needsFlag = /\\[pPu]\{/;

/** With the flag u, as JSON schema says. A pattern that can only be read without it, such as "\\-", is read without it. */
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

/** Lazy and greedy quantifiers match the same texts. */
function repeatOf({ element, min, max, raw }: AST.Quantifier): Node {
  const most = max === Number.POSITIVE_INFINITY ? null : max;
  if (Math.max(min, most ?? 0) > mostRepeats)
    throw new PatternError(`repeats ${raw.slice(element.raw.length)}; the limit is ${mostRepeats} times`);
  return { kind: "repeat", part: nodeOf(element), least: min, most };
}

/** Surrogates that a range crosses are left out; half a pair by itself is refused. */
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
