// Splits a text into words in the form in which answers are compared. Case, Unicode form, dashes and punctuation are ignored. Signs that
// change the meaning are kept: the sign of a number, signs inside a number, symbols, and the signs in names such as C++ and C#.
import { unspacedLetter } from "../../base/text.ts";

export interface Word {
  text: string;
  /** The word in its original case. */
  raw: string;
  /** End of the word in the plain text. */
  to: number;
}

const word = new RegExp(
  [
    String.raw`(?<![\p{L}\p{N}])-?\d+(?:[.,:/]\d+)*`,
    unspacedLetter,
    String.raw`(?:(?!${unspacedLetter})[\p{L}\p{M}\p{N}])+(?:'[\p{L}\p{M}]+)*[+#]*`,
    String.raw`[\p{S}%&]`,
  ].join("|"),
  "gu",
);

/** Unifies dashes, apostrophes and compatibility forms. */
export const plain = (text: string): string =>
  text
    .normalize("NFKC")
    .replaceAll(/[\u2010-\u2015\u2212]/gu, "-")
    .replaceAll(/[’‘ʼ`]/gu, "'");

export const wordsIn = (text: string): Word[] =>
  [...plain(text).matchAll(word)].map(({ 0: raw, index }) => ({
    text: raw.toLowerCase().replaceAll("'", ""),
    raw,
    to: index + raw.length,
  }));

const articles = new Set(["a", "an", "the"]);

/** Returns the words without English articles; if there are only articles, returns all words. */
export function withoutArticles(words: readonly string[]): readonly string[] {
  const kept = words.filter((one) => !articles.has(one));
  return kept.length > 0 ? kept : words;
}

/** Returns the start positions of `wanted` in the text, overlapping ones included, in linear time (Knuth, Morris and Pratt). */
export function occurrences(text: readonly string[], wanted: readonly string[]): number[] {
  if (wanted.length === 0) return [];
  const border = borders(wanted);
  const starts: number[] = [];
  let matched = 0;
  for (const [at, one] of text.entries()) {
    while (matched > 0 && wanted[matched] !== one) matched = border[matched - 1]!;
    if (wanted[matched] === one) matched++;
    if (matched === wanted.length) {
      starts.push(at + 1 - matched);
      matched = border[matched - 1]!;
    }
  }
  return starts;
}

/** Returns for each prefix the length of its longest proper prefix that is also its suffix. */
function borders(words: readonly string[]): number[] {
  const border = [0];
  let length = 0;
  for (let at = 1; at < words.length; at++) {
    while (length > 0 && words[at] !== words[length]) length = border[length - 1]!;
    if (words[at] === words[length]) length++;
    border.push(length);
  }
  return border;
}
