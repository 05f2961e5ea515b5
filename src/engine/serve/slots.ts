// Chooses the sequence id of a request. llama.cpp decodes a batch in one piece only if the ids of its sequences are consecutive and
// ascending (measured: a step takes 31 ms for 0–7, 46 ms for 0–7 without 3). So the ids of each adapter's group are kept together.

/**
 * Returns the fewest moves that make the ids of a group consecutive, as [from, to] pairs. Empty if the ids are consecutive already,
 * or if no run of ids that are free or the group's own is long enough.
 */
export function movesToAlign(
  slots: number,
  members: readonly number[],
  taken: (id: number) => boolean,
): [from: number, to: number][] {
  const own = new Set(members);
  const size = members.length;
  if (size < 2 || Math.max(...members) - Math.min(...members) + 1 === size) return [];
  let best: [number, number][] | null = null;
  for (let start = 0; start + size <= slots; start++) {
    const window = Array.from({ length: size }, (_, offset) => start + offset);
    if (window.some((id) => taken(id) && !own.has(id))) continue;
    const outside = members.filter((id) => id < start || id >= start + size);
    const holes = window.filter((id) => !own.has(id));
    if (best === null || outside.length < best.length) best = outside.map((from, index) => [from, holes[index]!]);
  }
  return best ?? [];
}

/**
 * Returns a free id between the ids of the group. If there is none, returns one beside them, and otherwise the first id of the longest
 * free run. −1 if all ids are taken.
 */
export function slotBeside(slots: number, members: readonly number[], taken: (id: number) => boolean): number {
  if (members.length > 0) {
    const [first, last] = [Math.min(...members), Math.max(...members)];
    const between = Array.from({ length: last - first + 1 }, (_, offset) => first + offset);
    for (const id of [...between, last + 1, first - 1]) if (id >= 0 && id < slots && !taken(id)) return id;
  }
  let best = -1;
  let longest = 0;
  for (let id = 0; id < slots; id++) {
    let length = 0;
    while (id + length < slots && !taken(id + length)) length++;
    if (length > longest) [best, longest] = [id, length];
    id += length;
  }
  return best;
}

export function commonPrefix(a: readonly number[], b: readonly number[]): number {
  let length = 0;
  while (length < a.length && length < b.length && a[length] === b[length]) length++;
  return length;
}
