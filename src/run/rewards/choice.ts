// Multiple choice: 1 if the answer names the right option and no other, by its letter or in its words; otherwise 0.
import type { RewardItem, Verify } from "./item.ts";
import { occurrences, plain, type Word, wordsIn } from "./words.ts";

const textsOf = (text: string): string[] => wordsIn(text).map((word) => word.text);

const letterIndex = (letter: string): number => letter.toUpperCase().charCodeAt(0) - 65;

export const choice: Verify = (answer, item) => {
  const right = rightOf(item);
  if (right === null) return null;
  const named = namedBy(answer, item.choices);
  return named.size === 1 && named.has(right) ? 1 : 0;
};

/**
 * Returns the options of a question that lists them line by line, such as "A) …", "(A) …" or "A. …". Returns none unless
 * the letters run from A.
 */
export function optionsIn(question: string): string[] {
  const found = question.split("\n").flatMap((line) => {
    const [, letter, text] = /^\(?([A-Z])[).:]\s+(\S.*)$/u.exec(line.trim()) ?? [];
    return letter === undefined ? [] : [{ letter, text: text! }];
  });
  const isList = found.length > 1 && found.every(({ letter }, at) => letterIndex(letter) === at);
  return isList ? found.map(({ text }) => text) : [];
}

/** Returns the index of the right option, from a reference that is its text or its letter; null if it is neither. */
function rightOf({ reference, choices }: RewardItem): number | null {
  if (reference === null) return null;
  const words = textsOf(reference).join(" ");
  const same = words === "" ? -1 : choices.findIndex((option) => textsOf(option).join(" ") === words);
  if (same >= 0) return same;
  const letter = /^\W*([A-Za-z])\W*$/.exec(reference)?.[1];
  return letter !== undefined && letterIndex(letter) < choices.length ? letterIndex(letter) : null;
}

function namedBy(answer: string, choices: readonly string[]): Set<number> {
  const words = wordsIn(answer);
  const named = new Set<number>();
  // Longer options come first, because one may contain a shorter option, which is then not named. New York City is not New York.
  const options = choices
    .map((option, index) => ({ index, wanted: optionWords(option) }))
    .sort((a, b) => b.wanted.length - a.wanted.length);
  const left: string[] = words.map((word) => word.text);
  for (const { index, wanted } of options)
    for (const start of occurrences(left, wanted)) {
      named.add(index);
      left.fill(taken, start, start + wanted.length);
    }
  const text = plain(answer);
  for (const [at, word] of words.entries())
    if (left[at] !== taken && isLetter(word, text, words.length === 1)) {
      const index = letterIndex(word.raw);
      if (index < choices.length) named.add(index);
    }
  return named;
}

/** Replaces a word that has been matched. No real word is empty. */
const taken = "";

/** Returns the words of an option without a leading article, because an answer may leave it out. */
function optionWords(option: string): string[] {
  const words = textsOf(option);
  return words.length > 1 && /^(?:a|an|the)$/.test(words[0]!) ? words.slice(1) : words;
}

/**
 * Whether the word is an option's letter: a single capital letter, or a single small letter that is the whole answer or a
 * label such as (b) or b).
 */
function isLetter({ raw, to }: Word, text: string, isAlone: boolean): boolean {
  if (/^[A-Z]$/.test(raw)) return true;
  return /^[a-z]$/.test(raw) && (isAlone || text[to] === ")");
}
