// Measures whether a text reads like running text, with the measures and limits by which Gopher's training text was filtered
// (Rae et al. 2021, arXiv:2112.11446, appendix A1.1). A text beyond a limit gets a warning and is never refused.
import type { DocumentReport } from "../../contract/documents.ts";
import type { PlainBlock } from "./chunk.ts";
import type { Warning } from "./elements.ts";

/** The most common words of each language. Running text has many of them, lists have few. */
const stopWords: Record<string, ReadonlySet<string>> = {
  en: new Set("the be to of and that have with in is for on are as by this it an or not".split(" ")),
  de: new Set("der die das und in zu den mit von ist nicht ein eine für auf im des sich dem werden".split(" ")),
  fr: new Set("le la les de des et en un une du est que pour dans qui par sur au pas ne".split(" ")),
  es: new Set("el la los las de y en un una que es por con para del se no al lo como".split(" ")),
  it: new Set("il la di e che in un una per con del della è non si le dei da al come".split(" ")),
  pt: new Set("o a os as de e em um uma que do da para com não por se no na dos".split(" ")),
  nl: new Set("de het een en van in is op te dat die voor met zijn niet aan om er door ook".split(" ")),
};

const round = (value: number): number => Math.round(value * 1000) / 1000;
const share = (part: number, whole: number): number => (whole === 0 ? 0 : round(part / whole));

/** Number of characters at the start of a text that are measured. Only the word count is that of the whole text. */
const sampled = 2_000_000;

function countWords(text: string): number {
  let words = 0;
  for (const _ of text.matchAll(/[^\s|]+/g)) words++;
  return words;
}

export function qualityOf(
  text: string,
  blocks: readonly PlainBlock[],
  language: string | null,
): { quality: DocumentReport["quality"]; warnings: Warning[] } {
  const sample = text.slice(0, sampled);
  const words = sample.match(/[^\s|]+/g) ?? [];
  const letters = words.filter((word) => /\p{L}/u.test(word));
  const symbols = sample.match(/#(?=\S)|…|\.\.\./g)?.length ?? 0;
  const known = language === null ? undefined : stopWords[language];
  const stops = known && words.filter((word) => known.has(word.toLowerCase())).length;
  const quality = {
    words: countWords(text),
    mean_word_length: round(words.length === 0 ? 0 : words.reduce((sum, word) => sum + word.length, 0) / words.length),
    symbols: round(symbols / Math.max(1, words.length)),
    wordless: share(words.length - letters.length, words.length),
    stop_words: stops === undefined ? null : share(stops, words.length),
    repeated_lines: repeatedLines(sample),
    repeated_phrases: repeatedPhrases(words),
  };
  const rows = blocks.filter((block) => block.type === "row" || block.type === "code").length;
  // The limits are for running text. They do not apply to a text that is mostly tables and listings, or that is very short.
  const warnings = rows * 2 > blocks.length || words.length < 50 ? [] : warningsOf(quality, language);
  return { quality, warnings: [...warnings, ...tooLittle(text, quality.words)] };
}

/**
 * In a text below both of these, an alignment finds hardly a sentence to ask about. Characters count as well, because languages
 * without spaces have few words and many characters.
 */
const littleText = { words: 40, characters: 240 };

const tooLittle = (text: string, words: number): Warning[] =>
  words >= littleText.words || text.length >= littleText.characters
    ? []
    : [{ code: "little_text", message: `There are only ${words} words: hardly anything can be learned from so few` }];

function warningsOf(quality: DocumentReport["quality"], language: string | null): Warning[] {
  const spaced = !["zh", "ja", "th", "lo", "km", "my"].includes(language ?? "");
  const { mean_word_length, symbols, wordless, stop_words, repeated_lines, repeated_phrases } = quality;
  const found: [boolean, string, string][] = [
    [
      spaced && (mean_word_length < 3 || mean_word_length > 10),
      "odd_words",
      `Words are ${mean_word_length} characters long on average`,
    ],
    [symbols > 0.1, "many_symbols", `There are ${symbols} symbols per word`],
    [spaced && wordless > 0.2, "few_letters", `${percent(wordless)} of the words contain no letter`],
    [
      stop_words !== null && stop_words < 0.05,
      "few_stop_words",
      "It has fewer of the language's most common words than running text has",
    ],
    [repeated_lines > 0.3, "repeated_lines", `${percent(repeated_lines)} of the lines occur more than once`],
    [repeated_phrases > 0.1, "repeated_phrases", `${percent(repeated_phrases)} of the text repeats the same ten words`],
  ];
  return found.filter(([is]) => is).map(([, code, message]) => ({ code, message }));
}

const percent = (value: number): string => `${Math.round(value * 100)} %`;

function repeatedLines(text: string): number {
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !/^[|\s:-]+$/.test(line));
  return share(lines.length - new Set(lines).size, lines.length);
}

/** Share of the words that are in a run of ten words that has occurred before. */
function repeatedPhrases(words: readonly string[]): number {
  const length = 10;
  const seen = new Set<string>();
  let repeated = 0;
  let covered = 0;
  for (let i = 0; i + length <= words.length; i++) {
    const phrase = words.slice(i, i + length).join(" ");
    if (seen.has(phrase)) {
      repeated += i + length - Math.max(covered, i);
      covered = i + length;
    } else seen.add(phrase);
  }
  return share(repeated, words.length);
}
