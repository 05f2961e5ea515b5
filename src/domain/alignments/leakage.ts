// Whether training rows give a benchmark question away. The rows are made without sight of the benchmark; what coincides
// with a question all the same is found here, so that the run can drop it and report that none remains.

import { jaccard, ngramsOf, wordsOf } from "../../base/text.ts";
import type { Example } from "./examples.ts";

/** Words of a run that may not be shared; a shorter question counts as a whole. */
const runLength = 13;
/** Words of a gram, and the share of grams from which on two questions are one. */
const gramLength = 4;
const nearCopy = 0.7;

export interface OverlapItem {
  /** Index into the questions and into the examples. */
  question: number;
  example: number;
  reason: "shared_run" | "near_copy";
}

/** One item per (question, row) that overlap; `overlap` counts the rows that any question meets. */
export interface Overlap {
  overlap: number;
  items: OverlapItem[];
}

/** Questions whose words (n in a row, n = min(13, length)) or 4-grams (Jaccard ≥ 0.7 with a row's question) stand in the rows. */
export function findOverlap(questions: readonly string[], examples: readonly Example[]): Overlap {
  const asked = questions.map((text) => wordsOf(text));
  const runs = new Map<number, Map<string, number[]>>();
  asked.forEach((words, index) => {
    const n = Math.min(runLength, words.length);
    if (n > 0) for (const gram of ngramsOf(words, n)) remember(runs, n, gram, index);
  });
  const grams = asked.map((words) => ngramsOf(words, Math.min(gramLength, words.length)));
  const byGram = new Map<string, number[]>();
  grams.forEach((set, index) => {
    for (const gram of set) listed(byGram, gram).push(index);
  });

  const items: OverlapItem[] = [];
  examples.forEach((example, row) => {
    const found = new Map<number, OverlapItem["reason"]>();
    for (const { role, content } of example.messages) {
      const words = wordsOf(content);
      for (const [n, known] of runs)
        for (let i = 0; i + n <= words.length; i++)
          for (const index of known.get(words.slice(i, i + n).join(" ")) ?? []) found.set(index, "shared_run");
      if (role !== "user") continue;
      const own = ngramsOf(words, Math.min(gramLength, words.length));
      const candidates = new Set([...own].flatMap((gram) => byGram.get(gram) ?? []));
      for (const index of candidates)
        if (!found.has(index) && jaccard(grams[index]!, own) >= nearCopy) found.set(index, "near_copy");
    }
    for (const [question, reason] of found) items.push({ question, example: row, reason });
  });
  return { overlap: new Set(items.map((item) => item.example)).size, items };
}

function remember(runs: Map<number, Map<string, number[]>>, n: number, gram: string, index: number): void {
  const known = runs.get(n) ?? new Map<string, number[]>();
  runs.set(n, known);
  listed(known, gram).push(index);
}

function listed(map: Map<string, number[]>, key: string): number[] {
  const list = map.get(key) ?? [];
  map.set(key, list);
  return list;
}
