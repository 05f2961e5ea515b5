// Measures how far an answer is grounded in the documents: whether the passages that the question is about contain the answer's words.
//
//   w   = ln((N + 1) / (m + ½))      the weight of a word that m of N passages contain
//   h_i = Σ w of the answer's words that passage i contains / Σ w of all the answer's words
//   o_i = the same for the question's words; o is the greatest o_i
//
//   share_i = h_i
//   about_i = h_i · o_i / o
//   gap_i   = h_i · (1 + o_i − o)
//
// The features of an answer are the maxima of share_i, about_i and gap_i over all passages. Its sources (sources.ts) are the passages with
// the greatest about_i. All three features are 1 if the passage with most of the question's words contains all of the answer's words, and
// 0 if no passage contains any of them. In between, a passage counts by the share of the answer's words that it contains. For about_i and
// gap_i, this share is reduced if another passage contains more of the question's words: in proportion (about_i) or by the difference
// (gap_i). English function words and the question's words do not count as part of an answer, unless the answer has no other words.
// Function words of other languages weigh little anyway, because many passages contain them.

import { remembered } from "../base/remembered.ts";
import { spread } from "../base/spread.ts";
import { functionWords, hashOf, wordsOf } from "../base/text.ts";

/** Order of the feature vector. */
export const groundingFeatureNames = ["grounding_share", "grounding_about", "grounding_gap"] as const;

export interface GroundingReference {
  /** The words of each passage: Uint32 hashes, ascending, in base64. The text itself is not kept. */
  words: string[];
}

/** The features of an answer, in the order of `groundingFeatureNames`. */
export type GroundingOf = (answer: string) => number[];

export interface GroundingSpace {
  /** Called once per question. The returned function can be called for any number of answers. */
  about(question: string): GroundingOf;
}

/**
 * Maximum number of words kept. So many words take one megabyte of an artefact, and come from more than a megabyte of text. Of larger
 * documents, a sample of passages is kept.
 */
export const mostWords = 180_000;

/** Builds the reference for the passages of the documents. Null if there are no passages. */
export function groundingReference(passages: readonly string[]): GroundingReference | null {
  if (passages.length === 0) return null;
  return { words: packed(passages, (text) => text).map(({ words }) => words) };
}

/**
 * Returns each passage with the hashes of its words. If the passages have more than `mostWords` words in all, returns an even sample of the
 * passages with about that many words.
 */
export function packed<T>(passages: readonly T[], textOf: (passage: T) => string): { passage: T; words: string }[] {
  const all = passages.map((passage) => ({ passage, hashes: Uint32Array.from(hashesOf(textOf(passage))).sort() }));
  const total = all.reduce((sum, { hashes }) => sum + hashes.length, 0);
  const kept = spread(all, Math.max(1, Math.floor(all.length * Math.min(1, mostWords / total))));
  return kept.map(({ passage, hashes }) => ({ passage, words: Buffer.from(hashes.buffer).toString("base64") }));
}

/** The space of a reference, built once per reference object. */
export const groundingSpace = remembered(({ words }: GroundingReference): GroundingSpace => {
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

/** Scores of each passage for an answer, in the order of the passages. */
export interface PassageScores {
  share: Float64Array;
  about: Float64Array;
  gap: Float64Array;
}

export interface PassageSpace {
  /** Called once per question. The returned function can be called for any number of answers. */
  about(question: string): (answer: string) => PassageScores;
}

/** Builds the space of passages from their words, as `packed` returns them. */
export function passageSpace(words: readonly string[]): PassageSpace {
  /** Indices of the passages that contain each word, by the word's hash. */
  const holders = new Map<number, number[]>();
  for (const [place, hashes] of words.entries())
    for (const hash of new Uint32Array(Uint8Array.from(Buffer.from(hashes, "base64")).buffer)) {
      const known = holders.get(hash);
      if (known) known.push(place);
      else holders.set(hash, [place]);
    }

  /** The weighted share of a text's words that each passage contains; all 0 for a text without words. */
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
        // If an answer has no words of its own, for example because it is one of two options, all its words are looked up.
        const share = shares(own.size > 0 ? own : said);
        return {
          share,
          // If no passage contains any of the question's words, the question is about none of the passages.
          about: share.map((held, at) => (most === 0 ? 0 : held * (about[at]! / most))),
          gap: share.map((held, at) => held * (1 + about[at]! - most)),
        };
      };
    },
  };
}

const connecting: ReadonlySet<number> = new Set([...functionWords].map(hashOf));
const hashesOf = (text: string): Set<number> => new Set(wordsOf(text).map(hashOf));
