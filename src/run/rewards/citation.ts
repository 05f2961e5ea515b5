// The share of the answer's quotations that occur in the passage word for word. Case, punctuation and Unicode form are ignored. An answer
// without a quotation scores 0.
import { atLeastZero, type Options, type Verify } from "./item.ts";
import { occurrences, wordsIn } from "./words.ts";

export const citationDefaults = {
  /** Fewer words are a term in quotation marks rather than a quotation. They could be found in any passage. */
  min_words: "3",
};

// The search for a closing mark also ends at the next opening mark, so that many opening marks do not slow it down.
const quoted = /"([^"]+)"|“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|「([^「」]+)」/gu;
/** Marks an omission within a quotation. */
const ellipsis = /\[(?:…|\.{3})\]|…|\.{3}/u;
/** Maximum number of quotations that are looked for, because each is looked for in the whole passage. Others count as not found. */
const mostQuotations = 100;

export function citation(options: Options): Verify {
  const least = atLeastZero("min_words", options.min_words!);
  return (answer, { passage }) => {
    if (passage === null) return null;
    const text = wordsIn(passage).map((word) => word.text);
    const quotations = quotationsIn(answer).filter((parts) => parts.flat().length >= Math.max(1, least));
    const found = quotations.slice(0, mostQuotations).filter((parts) => standIn(text, parts));
    return quotations.length === 0 ? 0 : found.length / quotations.length;
  };
}

/**
 * Returns [quotation][part between ellipses][word]. A quotation is a text between quotation marks, or a block of lines that begin
 * with ">".
 */
function quotationsIn(answer: string): string[][][] {
  const lines = answer.split("\n");
  const blocks: string[][] = [];
  let isOpen = false;
  for (const line of lines) {
    const block = /^ {0,3}>(.*)$/u.exec(line);
    if (block !== null && !isOpen) blocks.push([]);
    if (block !== null) blocks.at(-1)!.push(block[1]!);
    isOpen = block !== null;
  }
  const outside = lines.filter((line) => !/^ {0,3}>/u.test(line)).join("\n");
  const spans = [...outside.matchAll(quoted)].map((match) => match.slice(1).find((span) => span !== undefined)!);
  return [...spans, ...blocks.map((block) => block.join("\n"))].map((span) =>
    span
      .split(ellipsis)
      .map((part) => wordsIn(part).map((word) => word.text))
      .filter((words) => words.length > 0),
  );
}

/** Whether the parts occur in the text in this order, without overlap. */
function standIn(text: readonly string[], parts: readonly string[][]): boolean {
  let from = 0;
  return parts.every((words) => {
    const start = occurrences(text, words).find((at) => at >= from);
    from = (start ?? 0) + words.length;
    return start !== undefined;
  });
}
