// Tells what a hyphen at a line's end is for: whether it breaks a word, belongs to a word, or stands for the rest of a word.

/**
 * Conjunctions of languages that leave a word's second part out: "short- and long-term", "Haupt- und Nebenanlagen". Only a list tells
 * "und" from the ends of words, such as "der" and "in".
 */
const conjunctions = new Set("and or und oder bis bzw of en och eller og et ou y e o u".split(" "));

/**
 * What a hyphen between two lines is: it "breaks" a word and is dropped, it "belongs" to the word that goes on, or it "stands" for the
 * rest of a word and a space follows. Null if no hyphen is between them. `words` are the words within lines.
 */
export function hyphenBetween(
  before: string,
  after: string,
  words: ReadonlySet<string>,
): "breaks" | "belongs" | "stands" | null {
  const [end, start] = [before.slice(-60), after.slice(0, 60)];
  const hyphen = /[\p{L}\p{N}]([-\u00ad‐])$/u.exec(end)?.[1];
  const next = /^[\p{L}\p{N}][\p{L}\p{M}]*/u.exec(start)?.[0];
  if (hyphen === undefined || next === undefined) return null;
  if (hyphen === "\u00ad") return "breaks";
  const first = /\p{L}+(?=[-‐]$)/u.exec(end)?.[0];
  const joined = first === undefined ? null : (first + next).toLowerCase();
  const isKnown = joined !== null && words.has(joined);
  // "en" is Dutch for "and", and an ending in German, as in "Famili-" and "en".
  const isConjunction = conjunctions.has(next) && (next !== "en" || words.has(next));
  if (isConjunction && !isKnown && /^\p{L}+(?:[^\p{L}-]|$)/u.test(start)) return "stands";
  if (joined === null || !/^\p{Ll}/u.test(next)) return "belongs";
  // The word may occur with its hyphen elsewhere. If it occurs without one, or nowhere else, the hyphen only breaks it.
  const head = /[\p{L}-]+[-‐]$/u.exec(end)![0].replace("‐", "-");
  const tail = /^[\p{L}-]+/u.exec(start)![0];
  const isHyphenated = words.has(`${first}-${next}`.toLowerCase()) || words.has((head + tail).toLowerCase());
  return isHyphenated && !isKnown ? "belongs" : "breaks";
}

/** The words within the lines, in lower case. The first and last of a line are left out, because they may be parts of words. */
export function wordsWithin(lines: Iterable<string>): Set<string> {
  const words = new Set<string>();
  for (const line of lines)
    for (const word of line.split(/\s+/).slice(1, -1))
      words.add(word.toLowerCase().replace(/^[^\p{L}]+|[^\p{L}]+$/gu, ""));
  return words;
}
