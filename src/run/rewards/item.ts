// What a sampled answer is judged against.

/** As "Rubrics as Rewards" has them (Gunjal et al., 2025): what an answer must, should and may do. */
export type Importance = "essential" | "important" | "optional";

export interface Criterion {
  text: string;
  level: Importance;
}

export interface RewardItem {
  prompt: string;
  /** The answer that is right; null where none is known. */
  reference: string | null;
  /** Other words for the reference. */
  aliases: readonly string[];
  /** The text that the answer may quote. */
  passage: string | null;
  /** The options, in the order of their letters; empty unless it is multiple choice. */
  choices: readonly string[];
  /** Absolute, of a number. */
  tolerance: number | null;
  /** Whether the material answers the question: if not, to decline is right. */
  answerable: boolean;
  rubric: readonly Criterion[];
}

/** A question of which nothing is known but what is said here. */
export const plainItem = (
  known: Pick<RewardItem, "prompt" | "reference"> & Partial<Pick<RewardItem, "aliases" | "rubric">>,
): RewardItem => ({
  aliases: [],
  passage: null,
  choices: [],
  tolerance: null,
  answerable: true,
  rubric: [],
  ...known,
});

/** From 0 to 1; null: it cannot be judged by this, which is not 0. */
export type Verify = (answer: string, item: RewardItem) => number | null;

/** Options of a verifier as they stand in its reference, defaults filled in; "" where a default is the item's. */
export type Options = Readonly<Record<string, string>>;

/** What is wrong with a reference; its message goes to whoever wrote it. */
export class UnusableReference extends Error {}

/** A number of at least 0. */
export function atLeastZero(name: string, text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !(value >= 0 && value < Number.POSITIVE_INFINITY))
    throw new UnusableReference(`${name} must be a number of at least 0`);
  return value;
}

export function oneOf<const T extends string>(name: string, text: string, known: readonly T[]): T {
  if (!(known as readonly string[]).includes(text))
    throw new UnusableReference(`${name} must be one of ${known.join(", ")}`);
  return text as T;
}
