// Deterministic finite automata over code points. An automaton accepts the strings that a schema allows. Patterns, formats,
// lengths and forbidden words are combined as products, so that they can be used together in any combination. A grammar made
// from an automaton is never ambiguous.
import { type CodePoints, complement, contains, intersection, single, union } from "./code-points.ts";
import type { Node } from "./pattern.ts";

export interface State {
  accepts: boolean;
  /** Edges whose sets do not overlap. */
  edges: { set: CodePoints; to: number }[];
}

/**
 * Starts in state 0. Every state can reach an accepting one, except the single state of the automaton that accepts nothing.
 */
export type Automaton = readonly State[];

export class TooManyStates extends Error {}

const mostStates = 3000;
/** Limit on the steps of building all automata of a schema, which take a few tenths of a second. */
const mostSteps = 2_000_000;

/**
 * Counts the steps of building automata. All automata of a schema share one limit, because a schema can have hundreds of
 * patterns, and no other request is handled while their automata are built.
 */
export class Steps {
  #left = mostSteps;

  take(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) throw new TooManyStates();
  }
}

export const isEmpty = (automaton: Automaton): boolean =>
  automaton.length === 1 && !automaton[0]!.accepts && automaton[0]!.edges.length === 0;

export function accepts(automaton: Automaton, text: string): boolean {
  let at = 0;
  for (const character of text) {
    const point = character.codePointAt(0)!;
    const edge = automaton[at]!.edges.find(({ set }) => contains(set, point));
    if (edge === undefined) return false;
    at = edge.to;
  }
  return automaton[at]!.accepts;
}

/** Accepts strings of `least` to `most` code points. A null `most` means no limit. */
export function ofLength(least: number, most: number | null): Automaton {
  const last = most ?? least;
  if (last >= mostStates) throw new TooManyStates();
  const all = complement([]);
  return trimmed(
    Array.from({ length: last + 1 }, (_, length) => ({
      accepts: length >= least,
      edges: length < last ? [{ set: all, to: length + 1 }] : most === null ? [{ set: all, to: length }] : [],
    })),
  );
}

/** Accepts all strings except these. */
export function except(words: readonly string[]): Automaton {
  const prefixes = new Map<string, number>([["", 0]]);
  for (const word of words) {
    let prefix = "";
    for (const character of word) {
      prefix += character;
      if (!prefixes.has(prefix)) prefixes.set(prefix, prefixes.size);
    }
  }
  if (prefixes.size >= mostStates) throw new TooManyStates();
  const free = prefixes.size;
  const all = complement([]);
  const forbidden = new Set(words);
  const states: State[] = [];
  for (const prefix of prefixes.keys()) {
    const edges: State["edges"] = [];
    states.push({ accepts: !forbidden.has(prefix), edges });
  }
  for (const [prefix, at] of prefixes) {
    if (prefix === "") continue;
    const last = [...prefix].at(-1)!;
    const parent = prefixes.get(prefix.slice(0, -last.length))!;
    states[parent]!.edges.push({ set: single(last), to: at });
  }
  for (const state of states) {
    const other = intersection(all, complement(union(...state.edges.map(({ set }) => set))));
    state.edges.push({ set: other, to: free });
  }
  return [...states, { accepts: true, edges: [{ set: all, to: free }] }];
}

/** Accepts the strings that both accept. */
export function both(a: Automaton, b: Automaton, budget: Steps): Automaton {
  const known = new Map<number, number>();
  const pairs: [number, number][] = [];
  const idOf = (i: number, j: number): number => {
    const key = i * b.length + j;
    let id = known.get(key);
    if (id === undefined) {
      if (pairs.length >= mostStates) throw new TooManyStates();
      id = pairs.push([i, j]) - 1;
      known.set(key, id);
    }
    return id;
  };
  idOf(0, 0);
  const states: State[] = [];
  for (let at = 0; at < pairs.length; at++) {
    const [i, j] = pairs[at]!;
    const edges: State["edges"] = [];
    for (const mine of a[i]!.edges)
      for (const other of b[j]!.edges) {
        budget.take(mine.set.length + other.set.length);
        const set = intersection(mine.set, other.set);
        if (set.length > 0) edges.push({ set, to: idOf(mine.to, other.to) });
      }
    states.push({ accepts: a[i]!.accepts && b[j]!.accepts, edges });
  }
  return trimmed(states);
}

/** Removes states that cannot reach an accepting one. */
function trimmed(states: readonly State[]): Automaton {
  const sources = states.map((): number[] => []);
  for (const [from, { edges }] of states.entries()) for (const { to } of edges) sources[to]!.push(from);
  const alive = new Set([...states.keys()].filter((at) => states[at]!.accepts));
  for (const at of alive) for (const from of sources[at]!) alive.add(from);
  if (!alive.has(0)) return [{ accepts: false, edges: [] }];
  const kept = [...alive].sort((a, b) => a - b);
  const renamed = new Map(kept.map((at, index) => [at, index]));
  return kept.map((at) => ({
    accepts: states[at]!.accepts,
    edges: states[at]!.edges.flatMap(({ set, to }) => (renamed.has(to) ? [{ set, to: renamed.get(to)! }] : [])),
  }));
}

/** Builds the automaton of a syntax tree by Thompson's construction, followed by the subset construction. */
export function fromPattern(node: Node, budget: Steps): Automaton {
  const machine = new Machine();
  const start = machine.state();
  const end = machine.add(node, start);
  return machine.determined(start, end, budget);
}

class Machine {
  readonly #free: number[][] = [];
  readonly #moves: { set: CodePoints; to: number }[][] = [];

  state(): number {
    if (this.#free.length >= 10 * mostStates) throw new TooManyStates();
    this.#moves.push([]);
    return this.#free.push([]) - 1;
  }

  /** Adds the states and moves that read the node, starting in state `from`. Returns the state in which the node has been read. */
  add(node: Node, from: number): number {
    if (node.kind === "set") {
      const to = this.state();
      this.#moves[from]!.push({ set: node.set, to });
      return to;
    }
    if (node.kind === "sequence") return node.parts.reduce((at, part) => this.add(part, at), from);
    if (node.kind === "choice") {
      const to = this.state();
      for (const part of node.parts) this.#free[this.add(part, from)]!.push(to);
      return to;
    }
    let at = from;
    for (let count = 0; count < node.least; count++) at = this.add(node.part, at);
    const to = this.state();
    if (node.most === null) {
      const again = this.state();
      this.#free[at]!.push(again);
      this.#free[this.add(node.part, again)]!.push(again);
      this.#free[again]!.push(to);
      return to;
    }
    for (let count = node.least; count < node.most; count++) {
      this.#free[at]!.push(to);
      // Use a new state, so that what is read here cannot enter a loop of an earlier part.
      const next = this.state();
      this.#free[at]!.push(next);
      at = this.add(node.part, next);
    }
    this.#free[at]!.push(to);
    return to;
  }

  determined(start: number, end: number, budget: Steps): Automaton {
    const known = new Map<string, number>();
    const subsets: number[][] = [];
    const idOf = (states: Iterable<number>): number => {
      const subset = this.#closure(states);
      budget.take(subset.length);
      const key = subset.join();
      let id = known.get(key);
      if (id === undefined) {
        if (subsets.length >= mostStates) throw new TooManyStates();
        id = subsets.push(subset) - 1;
        known.set(key, id);
      }
      return id;
    };
    idOf([start]);
    const states: State[] = [];
    for (let at = 0; at < subsets.length; at++) {
      const moves = subsets[at]!.flatMap((state) => this.#moves[state]!);
      const targets = new Map<number, CodePoints[]>();
      const cut = pieces(moves.map((move) => move.set));
      budget.take(cut.length * moves.length);
      for (const set of cut) {
        const to = idOf(moves.filter((move) => contains(move.set, set[0]![0])).map((move) => move.to));
        const sets = targets.get(to);
        if (sets === undefined) targets.set(to, [set]);
        else sets.push(set);
      }
      const edges = [...targets].map(([to, sets]) => ({ set: union(...sets), to }));
      states.push({ accepts: subsets[at]!.includes(end), edges });
    }
    return trimmed(states);
  }

  #closure(states: Iterable<number>): number[] {
    const reached = new Set(states);
    for (const state of reached) for (const next of this.#free[state]!) reached.add(next);
    return [...reached].sort((a, b) => a - b);
  }
}

/** The union of the sets, split wherever one of them begins or ends. */
function pieces(sets: readonly CodePoints[]): CodePoints[] {
  const cuts = new Set<number>();
  for (const [from, to] of sets.flat()) cuts.add(from).add(to + 1);
  const sorted = [...cuts].sort((a, b) => a - b);
  const all = union(...sets);
  return sorted.flatMap((from, index) => {
    const to = (sorted[index + 1] ?? from + 1) - 1;
    return contains(all, from) ? [[[from, to] as const]] : [];
  });
}
