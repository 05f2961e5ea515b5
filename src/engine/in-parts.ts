// Long texts as tokens, a part after the other: the library reads a text at once, on the one thread that serves everybody. The tokens
// are those of the whole. A text is only cut where every tokenizer begins a new piece, before a single space or mark between a letter
// and another, and only where no token of the vocabulary has these two characters side by side.
import { remembered } from "../base/remembered.ts";
import { givingWay } from "../base/time.ts";
import type { Tokenizer } from "./generator.ts";

/** Characters of a part: some milliseconds. */
const partLength = 8_192;

/** A letter or digit, what follows it, and a letter: a text may be cut before the second of them. */
const seam = /(?<=([\p{L}\p{N}]))([ \n\p{P}])(?=\p{L})/gu;
/** The same within a token, whatever comes after it. */
const inside = /(?=([\p{L}\p{N}])([ \n\p{P}]))/gu;

interface Seams {
  /** keep: a part begins with its space. drop: the tokenizer puts a space before every text itself. null: no text is cut. */
  space: "keep" | "drop" | null;
  /** Pairs of characters that a token has side by side. */
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

/** Found by trying, as vocabularies differ in what they put before a text. */
function spaceOf(tokenizer: Pick<Tokenizer, "encode">): Seams["space"] {
  const read = (text: string): number[] => tokenizer.encode(text, false);
  const whole = read("the end of it").join();
  if (whole === [...read("the end"), ...read(" of it")].join()) return "keep";
  return whole === [...read("the end"), ...read("of it")].join() ? "drop" : null;
}

/** As `tokenizer.encode` gives them. A text without a place to cut, as one word of it all, is read at once. */
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

/** The first at or after a place; null where there is none. */
function nextSeam(text: string, from: number, { space, joined }: Seams): number | null {
  seam.lastIndex = from;
  for (let match = seam.exec(text); match !== null; match = seam.exec(text)) {
    const [, before, after] = match;
    // What a tokenizer puts before a text is a space and no mark.
    const fits = space === "keep" || after === " ";
    if (fits && !joined.has(`${before}${after}`)) return match.index;
  }
  return null;
}
