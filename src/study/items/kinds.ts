// What a benchmark asks for, and how much of each. A kind is told by the text's own signs; which of them a question really is, whoever
// writes it says.
import type { Unit } from "../passages.ts";
import type { Span } from "../spans.ts";

/** Shares of a benchmark, in per cent. What the documents cannot fill goes to the others. */
export const shares = {
  fact: 30,
  numeric: 15,
  condition: 10,
  step: 10,
  multi_hop: 10,
  unanswerable: 10,
  comparison: 5,
  definition: 5,
  negation: 5,
} as const;

export type ItemKind = keyof typeof shares;

export const isItemKind = (text: unknown): text is ItemKind => typeof text === "string" && Object.hasOwn(shares, text);

/** Words of a value that describes, rather than names. */
const describing = 4;

/** What a question for a span would be. `isStep`: the span stands in an item of a numbered list. */
export function kindOf({ type }: Unit, { kind }: Pick<Span, "kind">, text: string, isStep: boolean): ItemKind {
  if (isStep) return "step";
  if (kind === "number" || kind === "time") return "numeric";
  if (kind === "part") return "condition";
  // A term is introduced between quotation marks, or as the key of a line that says what it is.
  if (kind === "quote") return "definition";
  if (/\p{N}/u.test(text)) return "numeric";
  return type === "pair" && text.split(/\s+/).length >= describing ? "definition" : "fact";
}

/**
 * Takes out of `left` one of the kind that has least for its share, as seats are given by D'Hondt; `taken` counts them. What nothing
 * answers is no more of all than its share, whatever else the documents lack.
 */
export function takeByShare<T>(left: T[], kindOf: (one: T) => ItemKind, taken: Map<ItemKind, number>): T {
  const all = 1 + taken.values().reduce((sum, n) => sum + n, 0);
  const claimOf = (one: T): number => {
    const kind = kindOf(one);
    const next = 1 + (taken.get(kind) ?? 0);
    return kind === "unanswerable" && 100 * next > shares[kind] * all ? 0 : shares[kind] / next;
  };
  let best = 0;
  for (let at = 1; at < left.length; at++) if (claimOf(left[at]!) > claimOf(left[best]!)) best = at;
  const [one] = left.splice(best, 1) as [T];
  taken.set(kindOf(one), (taken.get(kindOf(one)) ?? 0) + 1);
  return one;
}
