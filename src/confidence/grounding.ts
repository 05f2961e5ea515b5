// How far an answer is grounded in the documents: whether the passages that its question is about contain its words.
//
//   w   = ln((N + 1) / (m + ½)) of each word that m of N passages hold
//   h_i = Σ w of the answer's words that passage i holds / Σ w of all of them
//   o_i = the same of the question's words, o = the greatest of them
//
//   share_i = h_i
//   about_i = h_i · o_i / o
//   gap_i   = h_i · (1 + o_i − o)
//
// The features of an answer are the greatest of each over all passages; its sources (sources.ts) are the passages with the
// greatest about_i. All three are 1 for an answer that is contained whole in the passage with most of the question's words,
// and 0 for an answer that no passage contains. In between, a passage counts by the share of the answer that it holds,
// reduced the less of the question it holds: in proportion (about) or by the difference (gap). The question's words do not
// count as part of an answer, nor do function words. Function words of languages other than English weigh little anyway,
// because many passages hold them.

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
  /** Called once per question, for any number of answers. */
  about(question: string): GroundingOf;
}

/** Maximum number of words kept: one megabyte of an artefact, from more than a megabyte of text. Of larger documents a sample is kept. */
export const mostWords = 180_000;

/** null when there are no passages. */
export function groundingReference(passages: readonly string[]): GroundingReference | null {
  if (passages.length === 0) return null;
  return { words: packed(passages, (text) => text).map(({ words }) => words) };
}

/** Each passage with the hashes of its words. Beyond `mostWords` in all, an even sample of about that many words. */
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
  /** Called once per question, for any number of answers. */
  about(question: string): (answer: string) => PassageScores;
}

/** The space of passages given by their words, as from `packed`. */
export function passageSpace(words: readonly string[]): PassageSpace {
  /** Indices of the passages that hold each word. */
  const holders = new Map<number, number[]>();
  for (const [place, hashes] of words.entries())
    for (const hash of new Uint32Array(Uint8Array.from(Buffer.from(hashes, "base64")).buffer)) {
      const known = holders.get(hash);
      if (known) known.push(place);
      else holders.set(hash, [place]);
    }

  /** The weighted share of a text's words that each passage holds; all 0 for a text without words. */
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
        // An answer that only uses the question's words, such as one of two options, is looked for with all its words.
        const share = shares(own.size > 0 ? own : said);
        return {
          share,
          // If no passage has any of the question's words, the question is about none of them.
          about: share.map((held, at) => (most === 0 ? 0 : held * (about[at]! / most))),
          gap: share.map((held, at) => held * (1 + about[at]! - most)),
        };
      };
    },
  };
}

const connecting: ReadonlySet<number> = new Set([...functionWords].map(hashOf));
const hashesOf = (text: string): Set<number> => new Set(wordsOf(text).map(hashOf));
