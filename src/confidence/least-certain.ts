// Finds the part of an answer of which the model was least certain: the word around the least probable token.
import type { GeneratedToken, Tokenizer } from "../engine/generator.ts";

export interface UncertainSpan {
  text: string;
  /** Offsets of the span, in code points: of a chat's content, or of a completion's text. */
  start: number;
  end: number;
  /** Probability of the whole word in [0, 1]: the product over its tokens that were not forced. */
  probability: number;
}

export type AnswerStep = Pick<GeneratedToken, "token" | "logprob" | "isForced">;

/**
 * Maximum length of a word, in UTF-16 units. For a longer stretch, as in languages without spaces between words, the span is the token
 * alone.
 */
const longestWord = 40;

/**
 * Returns the span around the least probable token that was not forced. `shown` is the length of the returned text in UTF-16 units,
 * without what a stop string cut off. If `isTrimmed`, the client gets the text without the white space at its beginning, so offsets
 * do not count it. Null if there is no text.
 */
export function leastCertainSpan(
  steps: readonly AnswerStep[],
  tokenizer: Tokenizer,
  shown: number,
  isTrimmed = false,
): UncertainSpan | null {
  const bytes = steps.map((step) => tokenizer.bytesOf(step.token));
  const text = Buffer.concat(bytes).toString("utf8").slice(0, shown);
  const starts = startsOf(bytes);
  let least = -1;
  for (const [at, { logprob, isForced }] of steps.entries()) {
    if (isForced || (least >= 0 && logprob >= steps[least]!.logprob)) continue;
    if (text.slice(starts[at], starts[at + 1]).trim() !== "") least = at;
  }
  if (least < 0) return null;
  const [start, end] = wordAround(text, starts[least]!, starts[least + 1]!);
  let logprob = 0;
  for (const [at, step] of steps.entries()) {
    const [from, to] = [starts[at]!, starts[at + 1]!];
    // A token that only continues a code point has length 0 in the text, at the position where the code point ends.
    const isRest = from === to && bytes[at]!.length > 0 && start < from && from <= end;
    if (!step.isForced && (isRest || (from < end && to > start))) logprob += step.logprob;
  }
  const blanks = isTrimmed ? text.length - text.trimStart().length : 0;
  const before = [...text.slice(blanks, start)].length;
  const word = text.slice(start, end);
  return { text: word, start: before, end: before + [...word].length, probability: Math.exp(logprob) };
}

/**
 * Returns the offset at which each token starts in the text, followed by the text's length, in UTF-16 units. A code point that is split
 * between tokens counts for the first of them.
 */
function startsOf(bytes: readonly Uint8Array[]): number[] {
  const starts: number[] = [];
  let at = 0;
  for (const piece of bytes) {
    starts.push(at);
    // A code point is counted at its first byte. One of four bytes takes two UTF-16 units.
    for (const byte of piece) if ((byte & 0xc0) !== 0x80) at += byte >= 0xf0 ? 2 : 1;
  }
  return [...starts, at];
}

/** The word that contains [from, to), without the blanks around it; the token alone if the word is longer than `longestWord`. */
function wordAround(text: string, from: number, to: number): [number, number] {
  const isBlank = (at: number): boolean => /\s/.test(text[at]!);
  let [start, end] = [from, Math.min(to, text.length)];
  while (isBlank(start)) start++;
  while (isBlank(end - 1)) end--;
  const token: [number, number] = [start, end];
  while (start > 0 && !isBlank(start - 1)) start--;
  while (end < text.length && !isBlank(end)) end++;
  return end - start > longestWord ? token : [start, end];
}
