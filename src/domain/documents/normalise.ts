// One form of line end, no control characters, composed letters: the same words are then the same characters.
import { CleanText, type SourceMap } from "./source-map.ts";

/** What an original in text says, and the way back to it. */
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
/** A letter with the marks after it, which compose; Hangul vowels and finals compose as well. */
const cluster = new RegExp(`\\r\\n|[\\s\\S](?:[\\p{M}\\u1160-\\u11ff]|${removed})*`, "gu");

/** Adds `text`, which stands at `start` of page `page`. */
export function addNormalised(out: CleanText, text: string, page: number, start: number): void {
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
    // The last character of the line end stands for it, so that the next line goes on from there.
    out.add("\n", page, start + index + match.length - 1);
    at = index + match.length;
  }
  out.add(text.slice(at), page, start + at);
}
