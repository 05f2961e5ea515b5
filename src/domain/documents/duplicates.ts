// Finds paragraphs that occur in several documents, word for word or nearly so. Compares MinHash signatures of their runs of five words.
import { createHash } from "node:crypto";
import { bandsOf, nearDuplicate, signatureBytes, signatureOf, similarityOf } from "../../base/minhash.ts";
import type { PlainBlock } from "./chunk.ts";

const shingle = 5;
/** Minimum number of words of a paragraph that is compared. Shorter paragraphs can be alike by chance. */
const leastWords = 10;
/** Maximum number of duplicates that are kept for one paragraph. */
const mostOthers = 20;

/**
 * Sizes in bytes of a paragraph's record. The head has start and end in the clean text (2 × 32 bit) and a digest of the words (8 bytes).
 * The MinHash signature follows.
 */
const headBytes = 16;
const recordBytes = headBytes + signatureBytes;

export interface Duplicate {
  start: number;
  end: number;
  document_id: string;
  other_start: number;
  other_end: number;
  similarity: number;
}

const wordsOf = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];

function* runsOf(words: readonly string[]): Iterable<string> {
  for (let at = 0; at + shingle <= words.length; at++) yield words.slice(at, at + shingle).join(" ");
}

/** Returns the records, one after the other, of the paragraphs that are long enough to be compared. */
export function signaturesOf(text: string, blocks: readonly PlainBlock[]): Uint8Array {
  const records: Buffer[] = [];
  for (const { type, start, end } of blocks) {
    if (type === "heading" || type === "row") continue;
    const words = wordsOf(text.slice(start, end));
    if (words.length < leastWords) continue;
    const record = Buffer.alloc(recordBytes);
    record.writeUInt32LE(start, 0);
    record.writeUInt32LE(end, 4);
    createHash("sha256").update(words.join(" ")).digest().copy(record, 8, 0, 8);
    signatureOf(runsOf(words)).copy(record, headBytes);
    records.push(record);
  }
  return Buffer.concat(records);
}

const recordsOf = (bytes: Uint8Array): Buffer[] => {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: all.length / recordBytes }, (_, i) =>
    all.subarray(i * recordBytes, (i + 1) * recordBytes),
  );
};

const signatureIn = (record: Buffer): Buffer => record.subarray(headBytes);
const digestIn = (record: Buffer): string => record.toString("latin1", 8, headBytes);

/**
 * Finds the paragraphs of `own` that also occur in `others`. The most similar duplicates of a paragraph come first; equally similar
 * ones are in the order of `others`. A paragraph that a document repeats is compared once, because a log can have a million equal lines.
 */
export function duplicatesOf(own: Uint8Array, others: readonly { id: string; signatures: Uint8Array }[]): Duplicate[] {
  /** Records with the same words. */
  const mine = [...Map.groupBy(recordsOf(own), digestIn).values()];
  const byBand = new Map<number, number[]>();
  for (const [index, [record]] of mine.entries())
    for (const key of bandsOf(signatureIn(record!))) {
      const held = byBand.get(key);
      if (held) held.push(index);
      else byBand.set(key, [index]);
    }
  const found = new Map<number, Omit<Duplicate, "start" | "end">[]>();
  for (const { id, signatures } of others) {
    const seen = new Map<string, number>();
    for (const record of recordsOf(signatures)) {
      const digest = digestIn(record);
      const times = seen.get(digest) ?? 0;
      seen.set(digest, times + 1);
      // The first ones fill every list, because equally similar ones keep their order.
      if (times >= mostOthers) continue;
      const candidates = new Set<number>();
      for (const key of bandsOf(signatureIn(record))) for (const index of byBand.get(key) ?? []) candidates.add(index);
      for (const index of candidates) {
        const ours = mine[index]![0]!;
        const same = digestIn(ours) === digest;
        // An estimate of 1 with different words is not an exact duplicate.
        const similarity = same ? 1 : Math.min(similarityOf(signatureIn(ours), signatureIn(record)), 0.999);
        if (similarity < nearDuplicate) continue;
        const list = found.get(index) ?? [];
        list.push({
          document_id: id,
          other_start: record.readUInt32LE(0),
          other_end: record.readUInt32LE(4),
          similarity: Math.round(similarity * 1000) / 1000,
        });
        found.set(index, list);
      }
    }
  }
  return [...found].flatMap(([index, list]) => {
    const kept = list.toSorted((a, b) => b.similarity - a.similarity).slice(0, mostOthers);
    return mine[index]!.flatMap((record) =>
      kept.map((one) => ({ start: record.readUInt32LE(0), end: record.readUInt32LE(4), ...one })),
    );
  });
}
