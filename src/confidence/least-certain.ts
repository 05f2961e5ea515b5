// The part of an answer that its model was least sure of: the word around the least probable token.
import type { GeneratedToken, Tokenizer } from "../engine/generator.ts";

export interface UncertainSpan {
  text: string;
  /** Code points of the generated text before the span, and up to its end. */
  start: number;
  end: number;
  /** Probability of the whole word in [0, 1], over its tokens that were not forced. */
  probability: number;
}

export type AnswerStep = Pick<GeneratedToken, "token" | "logprob" | "isForced">;

/** Longest word in UTF-16 units. Where words are not separated by spaces, a longer stretch gives way to the token alone. */
const longestWord = 40;

/** `shown`: UTF-16 units of the text that was returned, without what a stop string cut off. null when there is no text. */
export function leastCertainSpan(
  steps: readonly AnswerStep[],
  tokenizer: Tokenizer,
  shown: number,
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
    // A token that only continues a code point has no length in the text: it stands where the code point ends.
    const isRest = from === to && bytes[at]!.length > 0 && start < from && from <= end;
    if (!step.isForced && (isRest || (from < end && to > start))) logprob += step.logprob;
  }
  const before = [...text.slice(0, start)].length;
  const word = text.slice(start, end);
  return { text: word, start: before, end: before + [...word].length, probability: Math.exp(logprob) };
}

/**
 * Where each token starts in the text, in UTF-16 units, and the text's end. A split code point counts for its first token.
 */
function startsOf(bytes: readonly Uint8Array[]): number[] {
  const starts: number[] = [];
  let at = 0;
  for (const piece of bytes) {
    starts.push(at);
    // Each code point counts where its first byte is; those of four bytes are two units.
    for (const byte of piece) if ((byte & 0xc0) !== 0x80) at += byte >= 0xf0 ? 2 : 1;
  }
  return [...starts, at];
}

/** The word that contains [from, to), without the blanks around it. */
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
