// Splits an answer into words as it arrives, to find out what can already be printed and how sure the model was of each word.

export interface Word {
  text: string;
  /** Probability of the word's least probable token; null if none was reported. */
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
  /** Renders one character of white space. */
  space(character: string): string;
}

export interface Words {
  /** Returns what can be printed now. This is whole words only, because a later token may belong to the last word. */
  add(content: string, tokens: readonly Token[]): string;
  /** Returns what remains to be printed. */
  end(): string;
  /** Returns at most `most` words with a probability below `unsure`, the least certain first. */
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
      // If a character takes several tokens, the tokens' texts do not add up to the content. The whole content then gets the
      // lowest of their probabilities.
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
