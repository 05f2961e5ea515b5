// Normalises line ends, drops control characters and composes letters, so that the same words have the same characters.
import { CleanText, type SourceMap } from "./source-map.ts";

/** The clean text of an original that is itself text, and the map from the clean text back to the original. */
export function cleanOriginal(original: string): { text: string; map: SourceMap } {
  const out = new CleanText();
  addNormalised(out, original, 0, 0);
  return { text: out.toString(), map: out.map };
}

export function normalise(text: string): string {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(/[\p{Cc}\u{feff}]/gu, (character) => (character === "\n" || character === "\t" ? character : ""))
    .normalize("NFC");
}

const removed = "(?![\\n\\t\\r])[\\p{Cc}\\u{feff}]";
const lineEnd = /\r\n?/g;
const anyRemoved = new RegExp(removed, "u");
/** Matches a character with the combining marks and removed characters after it. Hangul vowels and final consonants combine as well. */
const cluster = new RegExp(`\\r\\n|[\\s\\S](?:[\\p{M}\\u1160-\\u11ff]|${removed})*`, "gu");

/** Normalises `text` and adds it to `out`. In the original, `text` is at offset `start` of page `page`. */
function addNormalised(out: CleanText, text: string, page: number, start: number): void {
  if (anyRemoved.test(text) || text.normalize("NFC") !== text) {
    for (const { 0: match, index } of text.matchAll(cluster)) {
      const clean = normalise(match);
      out.add(clean, page, start + index, match.length);
    }
    return;
  }
  let at = 0;
  for (const { 0: match, index } of text.matchAll(lineEnd)) {
    out.add(text.slice(at, index), page, start + at);
    // The line feed maps to the last character of the line end, so that the next line continues from there.
    out.add("\n", page, start + index + match.length - 1);
    at = index + match.length;
  }
  out.add(text.slice(at), page, start + at);
}
