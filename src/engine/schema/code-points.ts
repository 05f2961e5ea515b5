// Sets of code points, as intervals [from, to] in ascending order that neither touch nor overlap. Surrogates are left out:
// JSON text in UTF-8 cannot contain them.

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

export const contains = (set: CodePoints, point: number): boolean =>
  set.some(([from, to]) => from <= point && point <= to);
