// Kinds of benchmark questions, and the share of each. The kind of a span is guessed from its surface features. The writer of a
// question then states the actual kind.
import type { Unit } from "../passages.ts";
import type { Span } from "../spans.ts";

/** Share of each kind in a benchmark, per cent. If the documents give too few questions of a kind, other kinds take their place. */
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

/** Minimum words of a value that describes something rather than naming it. */
const describing = 4;

/** Guesses the kind of question that a span leads to. `isStep`: the span is in an item of a numbered list. */
export function kindOf({ type }: Unit, { kind }: Pick<Span, "kind">, text: string, isStep: boolean): ItemKind {
  if (isStep) return "step";
  if (kind === "number" || kind === "time") return "numeric";
  if (kind === "part") return "condition";
  // Terms are introduced in quotation marks, or as the key of a line that defines them.
  if (kind === "quote") return "definition";
  if (/\p{N}/u.test(text)) return "numeric";
  return type === "pair" && text.split(/\s+/).length >= describing ? "definition" : "fact";
}

/**
 * Removes an item from `left` and returns it. The item is of the kind that is furthest behind its share, by the D'Hondt method.
 * `taken` counts the items of each kind, and the item is added to it. Once unanswerable questions have their share of all items, they
 * are taken only if no other kind is left.
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
