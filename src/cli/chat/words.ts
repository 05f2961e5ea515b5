// An answer as it arrives, word by word: what is printed of it, and how sure the model was of each word.

export interface Word {
  text: string;
  /** Of its least probable token; null where that was not told. */
  probability: number | null;
}

export interface Token {
  token: string;
  logprob: number;
}

/** Words less probable than this are marked. */
export const unsure = 0.5;

/** How an answer is printed. */
export interface Rendering {
  word(word: Word): string;
  /** A character of white space. */
  space(character: string): string;
}

export interface Words {
  /** What can be printed now: whole words, for a later token may belong to the last one. */
  add(content: string, tokens: readonly Token[]): string;
  /** What is left of it. */
  end(): string;
  /** Those below `unsure`, the least certain first. */
  leastCertain(most: number): { text: string; probability: number }[];
}

export function createWords(rendering: Rendering): Words {
  const words: Word[] = [];
  let word: Word = { text: "", probability: null };

  function endWord(): string {
    if (word.text === "") return "";
    const ended = word;
    words.push(ended);
    word = { text: "", probability: null };
    return rendering.word(ended);
  }

  function addPart(text: string, probability: number | null): string {
    let shown = "";
    for (const one of text)
      if (/\s/.test(one)) shown += endWord() + rendering.space(one);
      else {
        word.text += one;
        word.probability = least(word.probability, probability);
      }
    return shown;
  }

  return {
    add(content, tokens) {
      // Where a character takes several tokens, their texts are not the content's: all of it is as sure as the least of them.
      if (tokens.map(({ token }) => token).join("") === content)
        return tokens.map(({ token, logprob }) => addPart(token, Math.exp(logprob))).join("");
      const probability = tokens.map(({ logprob }) => Math.exp(logprob)).reduce<number | null>(least, null);
      return addPart(content, probability);
    },
    end: endWord,
    leastCertain: (most) =>
      words
        .filter((one): one is Word & { probability: number } => one.probability !== null && one.probability < unsure)
        .sort((a, b) => a.probability - b.probability)
        .slice(0, most),
  };
}

function least(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}
