// Finds training rows that give a benchmark question away. The rows are made without sight of the benchmark, but some may overlap
// a question by chance. The run drops these rows and reports that none remains.
//
// A run must not see the sealed questions, but must drop the rows that overlap them. It is therefore given the marks of the
// questions: salted hashes of runs of words, which show whether a text contains a question but not what the question is.
import { hashOf, ngramsOf, segmentedWordsOf, wordsOf } from "../base/text.ts";
import type { StudyRow } from "./row.ts";

/** Number of consecutive words that a row must not share with a question. A shorter question is matched as a whole. */
const runLength = 13;
/** Number of words in a gram, and the Jaccard similarity of grams from which two questions count as the same. */
const gramLength = 4;
const nearCopy = 0.7;

export interface QuestionMark {
  /** Number of words in each run. */
  length: number;
  /** Hashes of the question's runs and grams. */
  runs: string[];
  grams: string[];
}

export interface QuestionMarks {
  /** Random for each run's snapshot, so that the same question has different marks elsewhere. */
  salt: string;
  /** Whether clauses in scripts without spaces were split into words. They were not before there was this field. */
  segmented?: boolean;
  questions: QuestionMark[];
}

export interface OverlapItem {
  /** Index into the questions and into the rows. */
  question: number;
  row: number;
  reason: "shared_run" | "near_copy";
}

/** One item per overlapping (question, row) pair; `overlap` counts the rows that overlap any question. */
export interface Overlap {
  overlap: number;
  items: OverlapItem[];
}

type Asked = Pick<StudyRow, "messages">;

/** Returns a 64-bit hash of a gram. With 64 bits, even rows with millions of runs almost never match a question by chance. */
const marked = (salt: string, gram: string): string =>
  `${hashOf(`${salt}\n${gram}`).toString(36)}.${hashOf(`${gram}\n${salt}`).toString(36)}`;

export function marksOf(questions: readonly string[], salt: string): QuestionMarks {
  const hashes = (grams: Iterable<string>): string[] => [...grams].map((gram) => marked(salt, gram)).sort();
  return {
    salt,
    segmented: true,
    questions: questions.map((text) => {
      const words = segmentedWordsOf(text);
      const length = Math.min(runLength, words.length);
      const runs = length === 0 ? [] : hashes(ngramsOf(words, length));
      return { length, runs, grams: hashes(ngramsOf(words, Math.min(gramLength, words.length))) };
    }),
  };
}

/**
 * Finds the pairs of a question and a row that overlap. They overlap if they share n consecutive words, where n = min(13, number of
 * words in the question), or if the 4-grams of the question and of the row's question have a Jaccard similarity of at least 0.7.
 */
export const findOverlap = (questions: readonly string[], rows: readonly Asked[]): Overlap =>
  overlapOf(marksOf(questions, ""), rows);

/** As findOverlap, but from the questions' marks. */
export function overlapOf({ salt, segmented = false, questions }: QuestionMarks, rows: readonly Asked[]): Overlap {
  const runs = new Map<number, Map<string, number[]>>();
  const byGram = new Map<string, number[]>();
  for (const [index, { length, runs: own, grams }] of questions.entries()) {
    const known = runs.get(length) ?? new Map<string, number[]>();
    if (length > 0) runs.set(length, known);
    for (const run of own) listed(known, run).push(index);
    for (const gram of grams) listed(byGram, gram).push(index);
  }
  const hash = remembered(salt);

  const items: OverlapItem[] = [];
  for (const [row, { messages }] of rows.entries()) {
    const found = new Map<number, OverlapItem["reason"]>();
    for (const { role, content } of messages) {
      const words = segmented ? segmentedWordsOf(content) : wordsOf(content);
      for (const [n, known] of runs)
        for (let i = 0; i + n <= words.length; i++)
          for (const index of known.get(hash(words.slice(i, i + n).join(" "))) ?? []) found.set(index, "shared_run");
      if (role !== "user") continue;
      const own = [...ngramsOf(words, Math.min(gramLength, words.length))].map(hash);
      const shared = new Map<number, number>();
      for (const gram of own)
        for (const index of byGram.get(gram) ?? []) shared.set(index, (shared.get(index) ?? 0) + 1);
      for (const [index, count] of shared) {
        const union = own.length + questions[index]!.grams.length - count;
        if (!found.has(index) && count / union >= nearCopy) found.set(index, "near_copy");
      }
    }
    for (const [question, reason] of found) items.push({ question, row, reason });
  }
  return { overlap: new Set(items.map((item) => item.row)).size, items };
}

/** Returns a function that hashes grams, each of them only once, because rows repeat each other. */
function remembered(salt: string): (gram: string) => string {
  const known = new Map<string, string>();
  return (gram) => {
    const before = known.get(gram);
    if (before !== undefined) return before;
    const made = marked(salt, gram);
    known.set(gram, made);
    return made;
  };
}

function listed<K>(map: Map<K, number[]>, key: K): number[] {
  const list = map.get(key) ?? [];
  map.set(key, list);
  return list;
}
