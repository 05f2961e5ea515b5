// The map from clean text back to the original. It lists the stretches of both that correspond.
import type { Place } from "../../contract/documents.ts";

/**
 * Stretches in the order of the clean text, five numbers each: start in the clean text, length there, page of the original (from 0),
 * start on that page, length there. If the two lengths differ, the stretch is one unit that is written differently in the clean text.
 */
export type SourceMap = number[];
const width = 5;

/** Builds clean text. Text added with a place can be traced back to the original. Marks, which the original lacks, have no place. */
export class CleanText {
  readonly map: SourceMap = [];
  #parts: string[] = [];
  length = 0;

  /** Adds `text`. In the original, it is the `span` characters from offset `start` on page `page` (from 0). */
  add(text: string, page: number, start: number, span: number = text.length): void {
    if (text === "") return;
    const { map } = this;
    const last = map.length - width;
    const straight = span === text.length && last >= 0 && map[last + 1] === map[last + 4];
    const follows =
      last >= 0 &&
      map[last]! + map[last + 1]! === this.length &&
      map[last + 2] === page &&
      map[last + 3]! + map[last + 4]! === start;
    if (straight && follows) {
      map[last + 1]! += text.length;
      map[last + 4]! += span;
    } else map.push(this.length, text.length, page, start, span);
    this.mark(text);
  }

  /** Adds text that the original does not have. */
  mark(text: string): void {
    this.#parts.push(text);
    this.length += text.length;
  }

  toString(): string {
    return this.#parts.join("");
  }
}

/** Index of the first stretch that ends after `at`. */
function stretchAfter(map: SourceMap, at: number): number {
  let low = 0;
  let high = map.length / width;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (map[middle * width]! + map[middle * width + 1]! > at) high = middle;
    else low = middle + 1;
  }
  return low * width;
}

/** The place in the original of the clean text from `start` to `end`. `paged` tells whether the original has numbered pages. */
export function placeOf(map: SourceMap, start: number, end: number, paged: boolean): Place {
  const number = (page: number): number | null => (paged ? page + 1 : null);
  if (map.length === 0) return { page: number(0), start: 0, last_page: number(0), end: 0 };
  const first = Math.min(stretchAfter(map, start), map.length - width);
  let last = Math.min(stretchAfter(map, Math.max(start, end - 1)), map.length - width);
  // If the end lies in a mark, which is not in the original, use the stretch before it.
  if (last > first && map[last]! >= end) last -= width;
  const exact = (stretch: number): boolean => map[stretch + 1] === map[stretch + 4];
  const into = Math.max(0, Math.min(start - map[first]!, map[first + 1]!));
  const upTo = Math.max(0, Math.min(end - map[last]!, map[last + 1]!));
  let from = map[first + 3]! + (exact(first) ? into : 0);
  let to = map[last + 3]! + (exact(last) ? upTo : map[last + 4]!);
  // The clean text may have values in another order than the file, so the first and the last stretch need not be the outermost ones.
  if (map[first + 2] === map[last + 2])
    for (let i = first; i < last; i += width) {
      from = Math.min(from, map[i + width + 3]!);
      to = Math.max(to, map[i + 3]! + map[i + 4]!);
    }
  return { page: number(map[first + 2]!), start: from, last_page: number(map[last + 2]!), end: to };
}

/**
 * The offset in the clean text at which each page begins. A page without text gets the offset of the next page with text. Pages after
 * the last text are left out.
 */
export function pageStarts(map: SourceMap): number[] {
  const starts: number[] = [];
  for (let i = 0; i < map.length; i += width) while (starts.length <= map[i + 2]!) starts.push(map[i]!);
  return starts;
}

/** The stretches that the clean text from `from` to `to` touches. */
export function* stretchesOf(
  map: SourceMap,
  from: number,
  to: number,
): Generator<{ clean: number; length: number; page: number; start: number; span: number }> {
  for (let i = stretchAfter(map, from); i < map.length && map[i]! < to; i += width)
    yield { clean: map[i]!, length: map[i + 1]!, page: map[i + 2]!, start: map[i + 3]!, span: map[i + 4]! };
}
