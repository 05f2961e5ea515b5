// Writes raised figures so that they are told from what stands before them.
import { type Piece, wordsOf } from "../elements.ts";

const figures = /^\s*[+−-]?\d[\d\s,)]*$/;
const signs = new Map([..."0123456789+-−)"].map((sign, index) => [sign, "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁾"[index]!]));

/**
 * Raised figures after the text `before`: with "^" after a number, as in "10^6", else in raised signs, as in "m²". Raised signs after a
 * number would be read as part of it where texts are compared.
 */
export function asRaised(pieces: Piece[], before: string): Piece[] {
  const [first] = pieces;
  if (first === undefined || !figures.test(wordsOf(pieces))) return pieces;
  if (/[\p{N})]$/u.test(before)) return [{ ...first, text: "^" }, ...pieces];
  return pieces.map((piece) => ({ ...piece, text: [...piece.text].map((sign) => signs.get(sign) ?? sign).join("") }));
}
