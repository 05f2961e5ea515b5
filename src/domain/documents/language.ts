// Detects the languages of a document from its paragraphs. The library eld distinguishes about sixty languages by their letter
// n-grams, offline and in microseconds.
import { eld } from "eld/small";
import type { DocumentReport } from "../../contract/documents.ts";
import type { PlainBlock } from "./chunk.ts";

/** Minimum number of characters of a paragraph that is examined. A shorter one says too little about its language. */
const least = 40;
/** Maximum number of paragraphs examined, spread over the document. */
const most = 400;

export function languagesOf(text: string, blocks: readonly PlainBlock[]): DocumentReport["language"] {
  const long = blocks.filter((block) => block.type !== "code" && block.end - block.start >= least);
  const step = Math.max(1, long.length / most);
  const characters = new Map<string, number>();
  for (let i = 0; i < long.length; i += step) {
    const { start, end } = long[Math.floor(i)]!;
    const found = eld.detect(text.slice(start, Math.min(end, start + 2000)));
    if (found.language !== "" && found.isReliable())
      characters.set(found.language, (characters.get(found.language) ?? 0) + end - start);
  }
  const all = [...characters.values()].reduce((sum, n) => sum + n, 0);
  const [main, ...others] = [...characters]
    .map(([language, n]) => ({ language, share: Math.round((n / all) * 1000) / 1000 }))
    .sort((a, b) => b.share - a.share);
  return { main: main?.language ?? null, share: main?.share ?? 0, others: others.filter((one) => one.share >= 0.01) };
}
