// Whether training rows give a benchmark question away. The rows are made without sight of the benchmark; what coincides with a
// question all the same is found here, so that the run drops it and reports that none remains.
//
// A run may not see the sealed questions, and must drop the rows that meet them: it is given their marks, salted hashes of their
// runs of words, which say whether a text holds a question and not what the question is.
import { hashOf, ngramsOf, wordsOf } from "../base/text.ts";
import type { StudyRow } from "./row.ts";

/** Words of a run that may not be shared; a shorter question counts as a whole. */
const runLength = 13;
/** Words of a gram, and the share of grams from which on two questions are one. */
const gramLength = 4;
const nearCopy = 0.7;

export interface QuestionMark {
  /** Words of its runs. */
  length: number;
  /** Hashes of its runs and of its grams. */
  runs: string[];
  grams: string[];
}

export interface QuestionMarks {
  /** Of this run alone: the same question has other marks elsewhere. */
  salt: string;
  questions: QuestionMark[];
}

export interface OverlapItem {
  /** Index into the questions and into the rows. */
  question: number;
  row: number;
  reason: "shared_run" | "near_copy";
}

/** One item per (question, row) that overlap; `overlap` counts the rows that any question meets. */
export interface Overlap {
  overlap: number;
  items: OverlapItem[];
}

type Asked = Pick<StudyRow, "messages">;

/** 64 bits: rows of millions of runs meet a question by chance about never. */
const marked = (salt: string, gram: string): string =>
  `${hashOf(`${salt}\n${gram}`).toString(36)}.${hashOf(`${gram}\n${salt}`).toString(36)}`;

export function marksOf(questions: readonly string[], salt: string): QuestionMarks {
  const hashes = (grams: Iterable<string>): string[] => [...grams].map((gram) => marked(salt, gram)).sort();
  return {
    salt,
    questions: questions.map((text) => {
      const words = wordsOf(text);
      const length = Math.min(runLength, words.length);
      const runs = length === 0 ? [] : hashes(ngramsOf(words, length));
      return { length, runs, grams: hashes(ngramsOf(words, Math.min(gramLength, words.length))) };
    }),
  };
}

/** Questions whose words (n in a row, n = min(13, length)) or 4-grams (Jaccard ≥ 0.7 with a row's question) stand in the rows. */
export const findOverlap = (questions: readonly string[], rows: readonly Asked[]): Overlap =>
  overlapOf(marksOf(questions, ""), rows);

/** The same by the questions' marks. */
export function overlapOf({ salt, questions }: QuestionMarks, rows: readonly Asked[]): Overlap {
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
      const words = wordsOf(content);
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

/** Rows repeat each other: a gram is hashed once. */
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
