// Encodes long texts part by part, because the library encodes a text in one call, on the thread that serves all requests. The
// tokens are the same as those of the whole text. A text is cut only where every tokenizer begins a new piece: before a single
// space, line break or punctuation mark that stands between a letter or digit and a letter. It is not cut there if any token of
// the vocabulary contains the character before the cut followed by the character after it.
import { remembered } from "../../base/remembered.ts";
import { givingWay } from "../../base/time.ts";
import type { Tokenizer } from "../generator.ts";

/** Minimum number of characters in every part but the last. To encode that many takes a few milliseconds. */
const partLength = 8_192;

/** Matches a space, line break or punctuation mark between a letter or digit and a letter. A text may be cut before the match. */
const seam = /(?<=([\p{L}\p{N}]))([ \n\p{P}])(?=\p{L})/gu;
/** Finds letters and digits that are followed by a space, line break or punctuation mark within a token. */
const inside = /(?=([\p{L}\p{N}])([ \n\p{P}]))/gu;

interface Seams {
  /**
   * keep: a part begins with the space at the cut. drop: this space is left out, because the tokenizer adds one before every
   * text. null: texts are never cut.
   */
  space: "keep" | "drop" | null;
  /** Pairs of adjacent characters that occur within a token. */
  joined: ReadonlySet<string>;
}

const seamsOf = remembered(async (tokenizer: Pick<Tokenizer, "encode" | "pieceOf" | "vocabulary">): Promise<Seams> => {
  const joined = new Set<string>();
  const giveWay = givingWay();
  for (let token = 0; token < tokenizer.vocabulary; token++) {
    for (const [, before, after] of tokenizer.pieceOf(token).matchAll(inside)) joined.add(`${before}${after}`);
    if (token % 256 === 0) await giveWay();
  }
  return { space: spaceOf(tokenizer), joined };
});

/** Finds out by trial how to treat the space, because tokenizers differ in what they add before a text. */
function spaceOf(tokenizer: Pick<Tokenizer, "encode">): Seams["space"] {
  const read = (text: string): number[] => tokenizer.encode(text, false);
  const whole = read("the end of it").join();
  if (whole === [...read("the end"), ...read(" of it")].join()) return "keep";
  return whole === [...read("the end"), ...read("of it")].join() ? "drop" : null;
}

/** Returns the same tokens as `tokenizer.encode`. A text that cannot be cut, such as one long word, is encoded in one call. */
export async function encodeInParts(tokenizer: Tokenizer, text: string, parseSpecial: boolean): Promise<number[]> {
  if (text.length < 2 * partLength) return tokenizer.encode(text, parseSpecial);
  const seams = await seamsOf(tokenizer);
  const ids: number[] = [];
  const giveWay = givingWay(5);
  for (let from = 0; from < text.length; ) {
    const cut = seams.space === null ? null : nextSeam(text, from + partLength, seams);
    for (const id of tokenizer.encode(text.slice(from, cut ?? text.length), parseSpecial)) ids.push(id);
    from = cut === null ? text.length : cut + (seams.space === "drop" ? 1 : 0);
    await giveWay();
  }
  return ids;
}

/** Index of the first place to cut at or after `from`; null if there is none. */
function nextSeam(text: string, from: number, { space, joined }: Seams): number | null {
  seam.lastIndex = from;
  for (let match = seam.exec(text); match !== null; match = seam.exec(text)) {
    const [, before, after] = match;
    // With `drop`, only a space can be left out, because a space is what the tokenizer adds.
    const fits = space === "keep" || after === " ";
    if (fits && !joined.has(`${before}${after}`)) return match.index;
  }
  return null;
}
