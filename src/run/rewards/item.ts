// What a sampled answer is judged against.

/** The levels of "Rubrics as Rewards" (Gunjal et al., 2025), for what an answer must, should and may do. */
export type Importance = "essential" | "important" | "optional";

export interface Criterion {
  text: string;
  level: Importance;
}

export interface RewardItem {
  prompt: string;
  /** The right answer; null if none is known. */
  reference: string | null;
  /** Other wordings of the reference. */
  aliases: readonly string[];
  /** The text that the answer may quote. */
  passage: string | null;
  /** The options, in the order of their letters; empty unless the question is multiple choice. */
  choices: readonly string[];
  /** Absolute tolerance, if the answer is a number. */
  tolerance: number | null;
  /** Whether the material answers the question. If not, it is right to decline. */
  answerable: boolean;
  rubric: readonly Criterion[];
}

/** Returns an item of which only the given fields are known. */
export const plainItem = (known: Pick<RewardItem, "prompt" | "reference"> & Partial<RewardItem>): RewardItem => ({
  aliases: [],
  passage: null,
  choices: [],
  tolerance: null,
  answerable: true,
  rubric: [],
  ...known,
});

/** A score from 0 to 1, or null if the verifier cannot judge the answer. Null does not count as a score of 0. */
export type Verify = (answer: string, item: RewardItem) => number | null;

/**
 * Options of a verifier, read from the string that names it (builtin:NAME?option=value), with the verifier's defaults filled in.
 * "" means that the value comes from the item, or is inferred.
 */
export type Options = Readonly<Record<string, string>>;

/** Thrown when the string that names a verifier is invalid. The message is written for the person who wrote that string. */
export class UnusableReference extends Error {}

/** Reads a number of at least 0. Throws UnusableReference. */
export function atLeastZero(name: string, text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !(value >= 0 && value < Number.POSITIVE_INFINITY))
    throw new UnusableReference(`${name} must be a number not below 0`);
  return value;
}

export function oneOf<const T extends string>(name: string, text: string, known: readonly T[]): T {
  if (!(known as readonly string[]).includes(text))
    throw new UnusableReference(`${name} must be one of ${known.join(", ")}`);
  return text as T;
}
