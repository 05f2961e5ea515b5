// 1 if the answer is the reference or an alias of it, and nothing else. Otherwise 0, or `declined` if the answer declines.
import { atLeastZero, type Options, type RewardItem, UnusableReference, type Verify } from "./item.ts";
import { plain, withoutArticles, wordsIn } from "./words.ts";

/** Returns the words without articles. If the text has no words, only signs, returns the text itself. */
function normalForm(text: string): string {
  const words = wordsIn(text).map((word) => word.text);
  return words.length > 0 ? withoutArticles(words).join(" ") : plain(text).trim();
}

/** Returns the reference and its aliases, without empty texts, which are never right answers. */
export const goldsOf = ({ reference, aliases }: RewardItem): string[] =>
  reference === null ? [] : [reference, ...aliases].filter((text) => text.trim() !== "");

/**
 * `declined` is the reward for an answer that says that it does not know. At 0.5, compared with declining, a wrong answer loses as much as
 * a right one gains.
 */
export const exactDefaults = { declined: "0" };

/** Makes the verifier. `declines` returns whether an answer says that it does not know. Throws UnusableReference. */
export function exact(options: Options, declines: (answer: string) => boolean): Verify {
  const declined = atLeastZero("declined", options.declined!);
  if (declined > 1) throw new UnusableReference("declined must be at most 1, the reward of a correct answer");
  return (answer, item) => {
    const golds = goldsOf(item);
    if (golds.length === 0) return null;
    const said = normalForm(answer);
    if (golds.some((gold) => normalForm(gold) === said)) return 1;
    return declined > 0 && declines(answer) ? declined : 0;
  };
}
