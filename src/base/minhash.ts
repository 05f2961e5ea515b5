// MinHash (Broder 1997) estimates the Jaccard similarity of two sets from signatures of fixed size: the estimate is the share of
// permutations under which both sets have the same least element. For a similarity J, its standard error is sqrt(J (1 − J) / 128).
// Bands of eight values find candidates among many sets: two sets share a band with probability 0.95 if their similarity is 0.8, and
// with probability 0.06 if it is 0.5.
import { hashOf } from "./text.ts";

const permutations = 128;
const bands = 16;
const rows = permutations / bands;
const bandBytes = bands * 4;

/** Estimated similarity from which two texts count as near-duplicates. */
export const nearDuplicate = 0.8;

/** Bytes of a signature: the hashes of its 16 bands (32 bits each), then the last byte of each of its 128 least values. */
export const signatureBytes = bandBytes + permutations;

/** The finaliser of MurmurHash3 (Appleby), in which every bit of the input affects every bit of the output. */
function mixed(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

const seeds = Array.from({ length: permutations }, (_, i) => mixed(0x9e3779b9 * (i + 1)));

/** The least value of a set's elements under each permutation. Elements may repeat. */
export function leastValues(elements: Iterable<string>): Uint32Array {
  const least = new Uint32Array(permutations).fill(0xffffffff);
  for (const element of elements) {
    const hash = hashOf(element);
    for (let p = 0; p < permutations; p++) {
      const value = mixed(hash ^ seeds[p]!);
      if (value < least[p]!) least[p] = value;
    }
  }
  return least;
}

export function signatureOf(elements: Iterable<string>): Buffer {
  const least = leastValues(elements);
  const signature = Buffer.alloc(signatureBytes);
  for (let band = 0; band < bands; band++) {
    let h = mixed(band + 1);
    for (let row = 0; row < rows; row++) h = mixed(h ^ least[band * rows + row]!);
    signature.writeUInt32LE(h, band * 4);
  }
  for (let p = 0; p < permutations; p++) signature[bandBytes + p] = least[p]! & 0xff;
  return signature;
}

/** The hashes of a signature's bands. Two signatures that share a hash are worth comparing. */
export const bandsOf = (signature: Buffer): number[] =>
  Array.from({ length: bands }, (_, band) => signature.readUInt32LE(band * 4));

/** Estimated Jaccard similarity: the share of equal least values, corrected for last bytes that are equal by chance. */
export function similarityOf(a: Buffer, b: Buffer): number {
  let equal = 0;
  for (let at = bandBytes; at < signatureBytes; at++) if (a[at] === b[at]) equal++;
  const share = equal / permutations;
  return Math.max(0, (share - 1 / 256) / (1 - 1 / 256));
}
