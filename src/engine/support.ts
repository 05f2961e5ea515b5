// What the documents say for an answer: whether the passages that its question is nearest to hold its words.
//
//   w   = ln((N + 1) / (m + ½)) of each word of the answer, of which m of N passages hold it
//   h_i = Σ w of the words that passage i holds / Σ w of all
//   c_i = cosine of the question and passage i, n = the greatest of them
//
//   support_share   = greatest h_i
//   support_gap     = greatest h_i · (1 + c_i − n), less 1
//   support_nearest = h of the passage nearest to the question
//
// Of an answer that stands whole in some passages and not at all in others, the gap is c − n of the nearest that holds it: 0 when
// that is the nearest of all, −1 when there is none. A longer answer rarely stands whole anywhere: a passage then counts by the
// share it holds, so that a smaller share of a nearer passage can outweigh a larger one far off. The question's words are no part
// of an answer, nor are those that only hold sentences together; what a language has of the latter beyond English weighs little,
// for many passages hold it.
import { spread } from "../base/spread.ts";
import { functionWords, hashOf, wordsOf } from "../base/text.ts";
import { cosine, packVectors, unpackVectors } from "./unit-vectors.ts";

/** The order of the vector. */
export const supportFeatureNames = ["support_share", "support_gap", "support_nearest"] as const;

/** Read with the encoder that drift is measured with. */
export interface SupportReference {
  dimensions: number;
  /** Packed vectors [N][dimensions] of passages, */
  vectors: string;
  /** and the words of each: Uint32 hashes, rising, in base64. The text itself is not kept. */
  words: string[];
}

/** The features of an answer, in the order of `supportFeatureNames`. */
export type SupportOf = (answer: string) => number[];

export interface SupportSpace {
  /** Once a question, however many answers it has. */
  about(question: { text: string; vector: Float32Array }): SupportOf;
}

/** Evenly over all: some 600 kB of text, and one megabyte of an artefact. Of larger documents no more than that can speak. */
export const mostPassages = 1024;

/** null of no passages. */
export function supportReference(passages: readonly { text: string; vector: Float32Array }[]): SupportReference | null {
  if (passages.length === 0) return null;
  const kept = spread(passages, mostPassages);
  return {
    dimensions: kept[0]!.vector.length,
    vectors: packVectors(kept.map(({ vector }) => vector)),
    words: kept.map(({ text }) => {
      const hashes = Uint32Array.from(hashesOf(text)).sort();
      return Buffer.from(hashes.buffer).toString("base64");
    }),
  };
}

/** Decodes a reference for many questions. */
export function supportSpace({ dimensions, vectors, words }: SupportReference): SupportSpace {
  const passages = unpackVectors(vectors, dimensions);
  /** Places of the passages that hold a word. */
  const holders = new Map<number, number[]>();
  for (const [place, packed] of words.entries())
    for (const hash of new Uint32Array(Uint8Array.from(Buffer.from(packed, "base64")).buffer)) {
      const known = holders.get(hash);
      if (known) known.push(place);
      else holders.set(hash, [place]);
    }

  /** h of every passage; all 0 of an answer without words. */
  function shares(answer: ReadonlySet<number>): Float64Array {
    const held = new Float64Array(passages.length);
    let total = 0;
    for (const hash of answer) {
      const places = holders.get(hash) ?? [];
      const weight = Math.log((passages.length + 1) / (places.length + 0.5));
      total += weight;
      for (const place of places) held[place]! += weight;
    }
    return total === 0 ? held : held.map((weight) => weight / total);
  }

  return {
    about({ text, vector }) {
      const asked = hashesOf(text);
      const cosines = passages.map((passage) => cosine(vector, passage));
      const nearest = cosines.reduce((best, value, at) => (value > cosines[best]! ? at : best), 0);
      return (answer) => {
        const said = hashesOf(answer);
        const own = new Set([...said].filter((hash) => !asked.has(hash) && !connecting.has(hash)));
        // An answer in the question's own words, such as one of two that it names, is looked for as it is.
        const share = shares(own.size > 0 ? own : said);
        let most = 0;
        for (const [at, value] of share.entries())
          most = Math.max(most, value * (1 + (cosines[at]! - cosines[nearest]!)));
        return [Math.max(...share), most - 1, share[nearest]!];
      };
    },
  };
}

const connecting: ReadonlySet<number> = new Set([...functionWords].map(hashOf));
const hashesOf = (text: string): Set<number> => new Set(wordsOf(text).map(hashOf));
