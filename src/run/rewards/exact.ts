// The answer says the reference or an alias of it, and nothing else.
import type { RewardItem, Verify } from "./item.ts";
import { plain, withoutArticles, wordsIn } from "./words.ts";

/** A reference of signs alone has no words: its signs are compared. */
function normalForm(text: string): string {
  const words = wordsIn(text).map((word) => word.text);
  return words.length > 0 ? withoutArticles(words).join(" ") : plain(text).trim();
}

/** An empty text is no answer that could be right. */
export const goldsOf = ({ reference, aliases }: RewardItem): string[] =>
  reference === null ? [] : [reference, ...aliases].filter((text) => text.trim() !== "");

export const exact: Verify = (answer, item) => {
  const golds = goldsOf(item);
  if (golds.length === 0) return null;
  const said = normalForm(answer);
  return golds.some((gold) => normalForm(gold) === said) ? 1 : 0;
};
