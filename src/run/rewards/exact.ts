// The answer is the reference or an alias of it, and nothing else.
import { atLeastZero, type Options, type RewardItem, UnusableReference, type Verify } from "./item.ts";
import { plain, withoutArticles, wordsIn } from "./words.ts";

/** The words without articles. A text of signs alone has no words: its signs are compared. */
function normalForm(text: string): string {
  const words = wordsIn(text).map((word) => word.text);
  return words.length > 0 ? withoutArticles(words).join(" ") : plain(text).trim();
}

/** The reference and its aliases; an empty text is never a right answer. */
export const goldsOf = ({ reference, aliases }: RewardItem): string[] =>
  reference === null ? [] : [reference, ...aliases].filter((text) => text.trim() !== "");

/**
 * `declined`: reward for an answer that says that it does not know; at 0.5 a wrong answer costs what a right one gains.
 */
export const exactDefaults = { declined: "0" };

/** `declines`: whether an answer says that it does not know. Throws UnusableReference. */
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
