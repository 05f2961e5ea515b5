// What the documents say for an answer: whether the passages that its question is about hold its words.
//
//   w   = ln((N + 1) / (m + ½)) of each word that m of N passages hold
//   h_i = Σ w of the answer's words that passage i holds / Σ w of all of them
//   o_i = the same of the question's words, o = the greatest of them
//
//   share_i = h_i
//   about_i = h_i · o_i / o
//   gap_i   = h_i · (1 + o_i − o)
//
// The features of an answer are the greatest of each; its sources (sources.ts) are the passages with the greatest abouts.
// All are 1 of an answer that stands whole in the passage that has most of its question's words, and 0 of one that stands nowhere.
// Between them a passage counts by the share of the answer that it holds, and less the less of the question is in it: in proportion,
// or by what it lacks. The question's words are no part of an answer, nor are those that only hold sentences together; what a
// language has of the latter beyond English weighs little, for many passages hold it.

import { remembered } from "../base/remembered.ts";
import { spread } from "../base/spread.ts";
import { functionWords, hashOf, wordsOf } from "../base/text.ts";

/** The order of the vector. */
export const supportFeatureNames = ["support_share", "support_about", "support_gap"] as const;

export interface SupportReference {
  /** The words of each passage: Uint32 hashes, rising, in base64. The text itself is not kept. */
  words: string[];
}

/** The features of an answer, in the order of `supportFeatureNames`. */
export type SupportOf = (answer: string) => number[];

export interface SupportSpace {
  /** Once a question, however many answers it has. */
  about(question: string): SupportOf;
}

/** One megabyte of an artefact, of more than a megabyte of text. Of larger documents no more than that can speak. */
export const mostWords = 180_000;

/** null of no passages. */
export function supportReference(passages: readonly string[]): SupportReference | null {
  if (passages.length === 0) return null;
  return { words: packed(passages, (text) => text).map(({ words }) => words) };
}

/** Each passage with the hashes of its words. Of more than `mostWords` words as many passages as have so many, evenly over all. */
export function packed<T>(passages: readonly T[], textOf: (passage: T) => string): { passage: T; words: string }[] {
  const all = passages.map((passage) => ({ passage, hashes: Uint32Array.from(hashesOf(textOf(passage))).sort() }));
  const total = all.reduce((sum, { hashes }) => sum + hashes.length, 0);
  const kept = spread(all, Math.max(1, Math.floor(all.length * Math.min(1, mostWords / total))));
  return kept.map(({ passage, hashes }) => ({ passage, words: Buffer.from(hashes.buffer).toString("base64") }));
}

/** The same space of the same reference. */
export const supportSpace = remembered(({ words }: SupportReference): SupportSpace => {
  const passages = passageSpace(words);
  return {
    about(question) {
      const scoresOf = passages.about(question);
      return (answer) => {
        const { share, about, gap } = scoresOf(answer);
        return [share, about, gap].map(greatest);
      };
    },
  };
});

const greatest = (values: Float64Array): number => values.reduce((best, value) => Math.max(best, value), 0);

/** What each passage says for an answer, in the passages' order. */
export interface PassageScores {
  share: Float64Array;
  about: Float64Array;
  gap: Float64Array;
}

export interface PassageSpace {
  /** Once a question, however many answers it has. */
  about(question: string): (answer: string) => PassageScores;
}

/** Of passages by their words, as `packed` gives them. */
export function passageSpace(words: readonly string[]): PassageSpace {
  /** Places of the passages that hold a word. */
  const holders = new Map<number, number[]>();
  for (const [place, hashes] of words.entries())
    for (const hash of new Uint32Array(Uint8Array.from(Buffer.from(hashes, "base64")).buffer)) {
      const known = holders.get(hash);
      if (known) known.push(place);
      else holders.set(hash, [place]);
    }

  /** What each passage holds of a text; all 0 of one without words. */
  function shares(text: ReadonlySet<number>): Float64Array {
    const held = new Float64Array(words.length);
    let total = 0;
    for (const hash of text) {
      const places = holders.get(hash) ?? [];
      const weight = Math.log((words.length + 1) / (places.length + 0.5));
      total += weight;
      for (const place of places) held[place]! += weight;
    }
    return total === 0 ? held : held.map((weight) => weight / total);
  }

  return {
    about(question) {
      const asked = hashesOf(question);
      const about = shares(asked.difference(connecting));
      const most = greatest(about);
      return (answer) => {
        const said = hashesOf(answer);
        const own = said.difference(asked).difference(connecting);
        // An answer in the question's own words, such as one of two that it names, is looked for as it is.
        const share = shares(own.size > 0 ? own : said);
        return {
          share,
          // A question of words that no passage has is about none.
          about: share.map((held, at) => (most === 0 ? 0 : held * (about[at]! / most))),
          gap: share.map((held, at) => held * (1 + about[at]! - most)),
        };
      };
    },
  };
}

const connecting: ReadonlySet<number> = new Set([...functionWords].map(hashOf));
const hashesOf = (text: string): Set<number> => new Set(wordsOf(text).map(hashOf));
