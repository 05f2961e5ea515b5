// Words, n-grams and hashes for comparing texts, and other helpers for texts and lists.
/**
 * Returns the words of a text in lower case and NFKC form, without English articles and punctuation. Points, commas and colons inside a
 * number stay.
 */
export function wordsOf(text: string): string[] {
  const plain = text.normalize("NFKC").toLowerCase().replace(/[’‘]/g, "'");
  return (plain.match(/\p{N}+(?:[.,:]\p{N}+)*|[\p{L}\p{M}\p{N}]+/gu) ?? []).filter((word) => !articles.has(word));
}

/** Character class of the scripts without spaces. The long mark of Katakana is of no single script, so script extensions are compared. */
const unspacedScripts = String.raw`[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}]`;
/** Matches a letter or figure of these scripts, each of which counts as a word where answers are compared. */
export const unspacedLetter = String.raw`(?=[\p{L}\p{M}\p{N}])${unspacedScripts}`;
const unspacedWord = new RegExp(unspacedLetter, "u");
/** Whether a text has a letter of a script without spaces. */
export const isUnspaced = (text: string): boolean => unspacedWord.test(text);
const segmenter = new Intl.Segmenter(undefined, { granularity: "word" });

/** As `wordsOf`, but a clause in a script without spaces, which is a single word there, is split into its words. */
export const segmentedWordsOf = (text: string): string[] =>
  wordsOf(text).flatMap((word) =>
    isUnspaced(word) ? Array.from(segmenter.segment(word), ({ segment }) => segment) : [word],
  );

/** The words between white space, each with its offset. A clause in a script without spaces is split into its words. */
export const placedWordsOf = (text: string): { word: string; at: number }[] =>
  [...text.matchAll(/\S+/g)].flatMap(({ 0: word, index }) =>
    isUnspaced(word)
      ? Array.from(segmenter.segment(word))
          .filter(({ isWordLike }) => isWordLike)
          .map((part) => ({ word: part.segment, at: index + part.index }))
      : [{ word, at: index }],
  );

/** Number of words between white space. A clause in a script without spaces is counted by its words. */
export const countWords = (text: string): number =>
  text.split(/\s+/).reduce((sum, word) => sum + (isUnspaced(word) ? segmentedWordsOf(word).length : 1), 0);

/**
 * A letter that words may be joined to without a sign. Korean has spaces, but writes particles onto its words, and Burmese has no spaces.
 * Digits are none, because numbers have ends in every script.
 */
const joinedLetter = String.raw`(?!\p{Nd})(?:${unspacedLetter}|(?=[\p{L}\p{M}])[\p{scx=Hang}\p{scx=Mymr}])`;
/** A letter or figure where words and numbers have ends. */
const spacedLetter = String.raw`(?!${joinedLetter})[\p{L}\p{M}\p{N}]`;
const begins = `(?:(?<!${spacedLetter})|(?!${spacedLetter}))`;
const ends = String.raw`(?:(?!${spacedLetter})|(?<!${spacedLetter})|(?<=\p{N})(?!\p{N}))`;

/**
 * Returns a pattern for words that are not cut out of a longer word or number. `words`: source of a pattern. A number ends at a letter,
 * as in "26th", and at a comma or point, because these signs separate cells and sentences too.
 */
export const uncut = (words: string, flags: string): RegExp => new RegExp(`${begins}(?:${words})${ends}`, flags);

const beginsAt = new RegExp(begins, "uy");
const endsAt = new RegExp(ends, "uy");

/**
 * Offset of the first place where `part` occurs in `whole` word for word and is not cut out of a longer word or number; −1 if there is
 * none. No pattern is made of `part`, because a pattern of a long text is too large, and one pattern for each part is slow to compile.
 */
export function placeUncut(whole: string, part: string): number {
  if (part === "") return -1;
  for (let at = whole.indexOf(part); at >= 0; at = whole.indexOf(part, at + 1)) {
    beginsAt.lastIndex = at;
    endsAt.lastIndex = at + part.length;
    if (beginsAt.test(whole) && endsAt.test(whole)) return at;
  }
  return -1;
}

/** Whether `part` occurs in `whole` word for word, and is not cut out of a longer word or number. */
export const holdsUncut = (whole: string, part: string): boolean => placeUncut(whole, part) >= 0;

const articles = new Set(["a", "an", "the"]);

export const normalised = (text: string): string => wordsOf(text).join(" ");

/** Every run of n words, joined by spaces. */
export function ngramsOf(words: readonly string[], n: number): Set<string> {
  const grams = new Set<string>();
  for (let i = 0; i + n <= words.length; i++) grams.add(words.slice(i, i + n).join(" "));
  return grams;
}

/** Jaccard similarity of two sets: 0 if they are disjoint or both empty, 1 if they are equal. */
export function jaccard(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  let shared = 0;
  for (const item of a) if (b.has(item)) shared++;
  return shared === 0 ? 0 : shared / (a.size + b.size - shared);
}

const eachJoined = new RegExp(joinedLetter, "gu");
/** Normalised, and each letter that words may be joined to is a word of its own. */
const parted = (text: string): string => normalised(text).replace(eachJoined, " $& ").replace(/ {2,}/g, " ").trim();

/** Whether `part` occurs in `whole` as whole words, after normalising both. */
export const containsWords = (whole: string, part: string): boolean => wordsWithin(whole)(part);

/** As `containsWords`, for many parts of one long text, which is normalised only once. */
export function wordsWithin(whole: string): (part: string) => boolean {
  const words = ` ${parted(whole)} `;
  return (part) => {
    const wanted = parted(part);
    return wanted !== "" && words.includes(` ${wanted} `);
  };
}

/** Whether a text ends with a question mark. Chinese and Japanese have a wide one, and Arabic, Persian and Urdu a mirrored one. */
export const isQuestion = (text: string): boolean => /[?\uff1f\u061f]$/.test(text);

/** A copy in random order. */
export function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const out = [...items];
  for (let i = out.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [out[i], out[j]] = [out[j]!, out[i]!];
  }
  return out;
}

/** A stable 32-bit hash of a text (FNV-1a over its UTF-16 units). As part of a seed, it gives each fact its own random stream. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

export const capitalised = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** English function words, which carry no content of their own. */
export const functionWords: ReadonlySet<string> = new Set(
  "the of and to in is are was for with on by at from as that this it be has have its or an a not which must may can will".split(
    " ",
  ),
);
