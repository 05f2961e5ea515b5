// Paragraphs that stand in several documents, word for word or nearly so. MinHash (Broder 1997): of two sets of word runs the
// share of permutations under which both have the same least element estimates their Jaccard similarity. Bands of eight such
// values find candidates: one alike in 0.8 of its runs shares a band with a probability of 0.95, one in 0.5 with 0.06.
import { createHash } from "node:crypto";
import type { PlainBlock } from "./structure.ts";

const shingle = 5;
const permutations = 128;
const bands = 16;
const rows = permutations / bands;
/** Words: what is shorter is alike by chance. */
const leastWords = 10;
const leastSimilarity = 0.8;
/** Others that one paragraph is linked with, at most. */
const mostOthers = 20;

/**
 * One paragraph in bytes: start and end in the clean text (2 × 32 bit), digest of its words (8 bytes), the bands (16 × 32 bit),
 * and the last byte of each least value (128).
 */
const headBytes = 16;
const bandBytes = bands * 4;
const recordBytes = headBytes + bandBytes + permutations;

export interface Duplicate {
  start: number;
  end: number;
  document_id: string;
  other_start: number;
  other_end: number;
  similarity: number;
}

const wordsOf = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];

/** The finisher of MurmurHash3 (Appleby): every bit of the input moves every bit of the output. */
function mixed(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

const seeds = Array.from({ length: permutations }, (_, i) => mixed(0x9e3779b9 * (i + 1)));

/** FNV-1a over UTF-16 code units. */
function hashOf(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 0;
}

/** Of each run of five words; of a shorter text the whole. */
export function leastValues(words: readonly string[]): Uint32Array {
  const least = new Uint32Array(permutations).fill(0xffffffff);
  for (let i = 0; i + shingle <= Math.max(words.length, shingle); i++) {
    const run = hashOf(words.slice(i, i + shingle).join(" "));
    for (let p = 0; p < permutations; p++) {
      const value = mixed(run ^ seeds[p]!);
      if (value < least[p]!) least[p] = value;
    }
  }
  return least;
}

/** Records of the paragraphs that are long enough to be compared. */
export function signaturesOf(text: string, blocks: readonly PlainBlock[]): Uint8Array {
  const records: Buffer[] = [];
  for (const { type, start, end } of blocks) {
    if (type === "heading" || type === "row") continue;
    const words = wordsOf(text.slice(start, end));
    if (words.length < leastWords) continue;
    const least = leastValues(words);
    const record = Buffer.alloc(recordBytes);
    record.writeUInt32LE(start, 0);
    record.writeUInt32LE(end, 4);
    createHash("sha256").update(words.join(" ")).digest().copy(record, 8, 0, 8);
    for (let band = 0; band < bands; band++) {
      let h = mixed(band + 1);
      for (let row = 0; row < rows; row++) h = mixed(h ^ least[band * rows + row]!);
      record.writeUInt32LE(h, headBytes + band * 4);
    }
    for (let p = 0; p < permutations; p++) record[headBytes + bandBytes + p] = least[p]! & 0xff;
    records.push(record);
  }
  return Buffer.concat(records);
}

/** Share of equal least values, less what equal last bytes are by chance. */
function similarityOf(a: Buffer, b: Buffer): number {
  let equal = 0;
  for (let p = headBytes + bandBytes; p < recordBytes; p++) if (a[p] === b[p]) equal++;
  const share = equal / permutations;
  return Math.max(0, (share - 1 / 256) / (1 - 1 / 256));
}

const recordsOf = (bytes: Uint8Array): Buffer[] => {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: all.length / recordBytes }, (_, i) =>
    all.subarray(i * recordBytes, (i + 1) * recordBytes),
  );
};

/** Paragraphs of `own` that others have too; those most alike first, then by the order of the others. */
export function duplicatesOf(own: Uint8Array, others: readonly { id: string; signatures: Uint8Array }[]): Duplicate[] {
  const mine = recordsOf(own);
  const byBand = new Map<number, number[]>();
  for (const [index, record] of mine.entries())
    for (let band = 0; band < bands; band++) {
      const key = record.readUInt32LE(headBytes + band * 4);
      const held = byBand.get(key);
      if (held) held.push(index);
      else byBand.set(key, [index]);
    }
  const found = new Map<number, Duplicate[]>();
  for (const { id, signatures } of others)
    for (const record of recordsOf(signatures)) {
      const candidates = new Set<number>();
      for (let band = 0; band < bands; band++)
        for (const index of byBand.get(record.readUInt32LE(headBytes + band * 4)) ?? []) candidates.add(index);
      for (const index of candidates) {
        const ours = mine[index]!;
        const same = ours.subarray(8, 16).equals(record.subarray(8, 16));
        // One that merely estimates to be the same is not: the words differ.
        const similarity = same ? 1 : Math.min(similarityOf(ours, record), 0.999);
        if (similarity < leastSimilarity) continue;
        const list = found.get(index) ?? [];
        list.push({
          start: ours.readUInt32LE(0),
          end: ours.readUInt32LE(4),
          document_id: id,
          other_start: record.readUInt32LE(0),
          other_end: record.readUInt32LE(4),
          similarity: Math.round(similarity * 1000) / 1000,
        });
        found.set(index, list);
      }
    }
  return [...found.values()].flatMap((list) =>
    list.toSorted((a, b) => b.similarity - a.similarity).slice(0, mostOthers),
  );
}
