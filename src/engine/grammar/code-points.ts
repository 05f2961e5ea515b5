// Sets of code points, as intervals [from, to] in ascending order that neither touch nor overlap. Surrogates are left out,
// because JSON text in UTF-8 cannot contain them.

export type CodePoints = readonly (readonly [from: number, to: number])[];

export const everything: CodePoints = [
  [0, 0xd7ff],
  [0xe000, 0x10ffff],
];

export function union(...sets: readonly CodePoints[]): CodePoints {
  const sorted = sets.flat().sort((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [from, to] of sorted) {
    const last = merged.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

export function intersection(a: CodePoints, b: CodePoints): CodePoints {
  const common: [number, number][] = [];
  for (let [i, j] = [0, 0]; i < a.length && j < b.length; ) {
    const [from, to] = [Math.max(a[i]![0], b[j]![0]), Math.min(a[i]![1], b[j]![1])];
    if (from <= to) common.push([from, to]);
    if (a[i]![1] < b[j]![1]) i++;
    else j++;
  }
  return common;
}

export function complement(set: CodePoints): CodePoints {
  const rest: [number, number][] = [];
  let next = 0;
  for (const [from, to] of set) {
    if (from > next) rest.push([next, from - 1]);
    next = to + 1;
  }
  if (next <= 0x10ffff) rest.push([next, 0x10ffff]);
  return intersection(rest, everything);
}

export const single = (character: string): CodePoints => [[character.codePointAt(0)!, character.codePointAt(0)!]];

export function contains(set: CodePoints, point: number): boolean {
  let [first, end] = [0, set.length];
  while (first < end) {
    const middle = (first + end) >> 1;
    if (set[middle]![1] < point) first = middle + 1;
    else end = middle;
  }
  return first < set.length && set[first]![0] <= point;
}

/** Number of code points that are tested together. */
const together = 4096;
const known = new Map<string, CodePoints>();

/** The code points that an escape such as "\\d" or "\\p{L}", or ".", matches. Cached, because each set takes milliseconds. */
export function matching(source: string): CodePoints {
  const earlier = known.get(source);
  if (earlier !== undefined) return earlier;
  const runs = new RegExp(`(?:${source})+`, "gu");
  const found: [number, number][] = [];
  for (const [first, last] of everything)
    for (let from = first; from <= last; from += together) {
      const points = Array.from({ length: Math.min(together, last + 1 - from) }, (_, at) => from + at);
      for (const [run] of String.fromCodePoint(...points).matchAll(runs)) {
        const start = run.codePointAt(0)!;
        found.push([start, start + [...run].length - 1]);
      }
    }
  const set = union(found);
  known.set(source, set);
  return set;
}
