// Splits text into sentences, in any language. What follows a full stop may still belong to the sentence, as after an abbreviation; how
// the document uses the words beside it tells.

const segmenter = new Intl.Segmenter(undefined, { granularity: "sentence" });
/** Matches text that ends in what may be an abbreviation or an ordinal: "Dr.", "No.", "z. B.", "3." */
const abbreviated = /(?:^|[\s(])(?:\p{Lu}\p{L}{0,2}|\p{L}|\p{N}{1,2}|(?:\p{L}\.\s?)+\p{L})\.$/u;

/** How a document uses its words. */
export interface Usage {
  /** Words that also occur with a lower-case first letter. */
  small: ReadonlySet<string>;
  /** Words that also occur without a full stop after them. */
  bare: ReadonlySet<string>;
}

export function usageOf(text: string): Usage {
  const small = new Set<string>();
  const bare = new Set<string>();
  for (const { 0: word, index } of text.matchAll(/\p{L}+/gu)) {
    if (/^\p{Ll}/u.test(word)) small.add(word);
    if (text[index + word.length] !== ".") bare.add(word);
  }
  return { small, bare };
}

/** Returns the sentences in order. `usage`: of the document that has the text. */
export function sentencesOf(text: string, usage: Usage): string[] {
  const sentences: string[] = [];
  for (const { segment } of segmenter.segment(text)) {
    const piece = segment.trim();
    const last = sentences.at(-1);
    if (piece === "") continue;
    const goesOn =
      last !== undefined && (/^[\p{Ll})]/u.test(piece) || (abbreviated.test(last) && !isEnd(last, piece, usage)));
    if (goesOn) sentences[sentences.length - 1] = `${last} ${piece}`;
    else sentences.push(piece);
  }
  return sentences;
}

/**
 * Whether a sentence ends although its last word looks like an abbreviation or an ordinal. After a number, it ends if the next word occurs
 * in lower case elsewhere and so is no name. After a word, it ends if that word also occurs without a full stop.
 */
function isEnd(last: string, next: string, { small, bare }: Usage): boolean {
  const first = /^\p{Lu}\p{L}*/u.exec(next)?.[0];
  if (first === undefined) return false;
  const word = /(\p{Lu}\p{L}{1,2})\.$/u.exec(last)?.[1];
  return word === undefined ? /\p{N}\.$/u.test(last) && small.has(first.toLowerCase()) : bare.has(word);
}
