// The marks of list items at the start of lines. A line may also begin with a number, a letter or a dash because a sentence was
// wrapped there.

/** A letter with a full stop that another one follows is an abbreviation, such as "z. B." */
const pattern = /^(?!\p{L}\.\s*\p{L}\.)(?:[•◦▪‣●○■□∙–—·*-]|\(?(?<count>\d{1,3}|[a-z]|[ivx]{1,5})[.)])\s+(?=\S)/u;
const bullet = /^[•◦▪‣●○■□∙]/;
const romans = "i ii iii iv v vi vii viii ix x xi xii xiii xiv xv".split(" ");

export interface Mark {
  /** The mark and the spaces after it. */
  text: string;
  /** The mark without its count, the same for all items of a list. */
  style: string;
  /** What the mark may count: "i" is the letter and the number. Empty if it does not count. */
  counts: number[];
  /** Whether the mark begins nothing but items. */
  isBullet: boolean;
}

/** The mark with which a line begins, or null. */
export function markOf(line: string): Mark | null {
  const found = pattern.exec(line);
  if (found === null) return null;
  const text = found[0];
  const isBullet = bullet.test(text);
  const count = found.groups!.count;
  if (count === undefined) return { text, style: text.trim(), counts: [], isBullet };
  const isNumber = /^\d/.test(count);
  const style = text.trim().replace(count, isNumber ? "1" : "a");
  if (isNumber) return { text, style, counts: [Number(count)], isBullet };
  const letter = count.length === 1 ? [count.charCodeAt(0) - 96] : [];
  return { text, style, counts: [...letter, romans.indexOf(count) + 1].filter((one) => one > 0), isBullet };
}

/**
 * Whether a mark goes on a list whose last mark of its style counted `last`: its count is 1 or the next one. A mark that does not count
 * goes on if the list has its style.
 */
export const goesOn = ({ counts }: Mark, last: readonly number[] | undefined): boolean =>
  counts.length === 0 ? last !== undefined : counts.some((count) => count === 1 || last?.includes(count - 1));
