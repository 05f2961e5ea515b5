// Measures how informative words are in these documents, without a word list of any language. A word in most units says nothing,
// and a rare word identifies its passage. Also searches passages by words. The gate stands_alone uses this search, because a
// question must find its own passage among all passages.
import { segmentedWordsOf } from "../base/text.ts";
import { headingOf } from "./heading.ts";
import type { Passage } from "./passages.ts";
import { type Tables, tablesOf } from "./tables.ts";

export interface Lexicon {
  /** How many passages there are. */
  passages: number;
  /** ln((N + 1) / (n + ½)) for a word that n of N units contain, nats; highest for a word that none contains. */
  weightOf(word: string): number;
  /** Whether a word is informative: too rare to be a function word, or mostly after figures, as a unit of measurement is. */
  tells(word: string): boolean;
  /**
   * Rank of the passage, from 1, in a search by the question's words. Equal scores share a rank. For a passage with none of the
   * words, the rank is greater than the number of passages.
   */
  rankOf(question: string, passage: Passage): number;
  /** The passages that contain any of the question's words, best first. */
  search(question: string): Passage[];
  tables: Tables;
}

/** Maximum share of the units that may contain an informative word. */
const common = 0.06;
/** Minimum of that limit, in units. Without it, every word would count as common if there are few units. */
const always = 3;

export function lexiconOf(passages: readonly Passage[]): Lexicon {
  const units = passages.flatMap((passage) => passage.units.map(({ text }) => segmentedWordsOf(text)));
  const counts = countsOf(units);
  const afterFigures = countsOf(units.map((words) => words.filter((_, at) => /^\p{N}/u.test(words[at - 1] ?? ""))));
  const total = units.length;
  const most = Math.max(always, common * total);
  const weightOf = (word: string): number => Math.log((total + 1) / ((counts.get(word) ?? 0) + 0.5));

  const holders = new Map<string, { at: number; times: number }[]>();
  const lengths: number[] = [];
  const places = new Map<string, number>();
  for (const [at, passage] of passages.entries()) {
    places.set(passage.id, at);
    const words = segmentedWordsOf(`${headingOf(passage)}\n${passage.text}`);
    lengths.push(words.length);
    const times = new Map<string, number>();
    for (const word of words) times.set(word, (times.get(word) ?? 0) + 1);
    for (const [word, n] of times) {
      const known = holders.get(word);
      if (known) known.push({ at, times: n });
      else holders.set(word, [{ at, times: n }]);
    }
  }
  const usual = lengths.reduce((sum, n) => sum + n, 0) / Math.max(1, lengths.length);

  /** BM25 (Robertson and Zaragoza 2009) with k1 1.2 and b 0.75, over passages under their headings. */
  const scores = (question: string): Map<number, number> => {
    const found = new Map<number, number>();
    for (const word of new Set(segmentedWordsOf(question))) {
      const holding = holders.get(word) ?? [];
      const weight = Math.log(1 + (passages.length - holding.length + 0.5) / (holding.length + 0.5));
      for (const { at, times } of holding) {
        const score = (weight * times * 2.2) / (times + 1.2 * (0.25 + (0.75 * lengths[at]!) / usual));
        found.set(at, (found.get(at) ?? 0) + score);
      }
    }
    return found;
  };

  return {
    passages: passages.length,
    weightOf,
    tells(word) {
      const count = counts.get(word) ?? 0;
      return (word.length > 1 && count <= most) || (count > 0 && (afterFigures.get(word) ?? 0) >= count / 2);
    },
    rankOf(question, passage) {
      const found = scores(question);
      const own = found.get(places.get(passage.id)!) ?? 0;
      return 1 + [...found.values()].filter((score) => score > own).length + (own === 0 ? passages.length : 0);
    },
    search: (question) =>
      [...scores(question)].sort(([at, one], [place, other]) => other - one || at - place).map(([at]) => passages[at]!),
    tables: tablesOf(passages),
  };
}

/** Number of units that contain each word. */
function countsOf(units: readonly (readonly string[])[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const words of units) for (const word of new Set(words)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
