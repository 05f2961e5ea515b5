// Checks drafts with a model, which sees the draft's chunk and nothing else of the documents. A small model cannot be
// trusted to write an answer. Instead, it must find the right answer likelier than the wrong ones.
import { choose as likeliest } from "../../../base/likelihood.ts";
import type { Draft } from "./gates.ts";

export interface Verdict {
  /**
   * Mean log-prob per token of the right answer given the chunk, minus that of the likeliest wrong answer. If there is
   * no wrong answer, that of the right answer without the chunk is subtracted instead, and `leastGain` too. Null for a
   * refusal and if `tooLong`.
   */
  margin: number | null;
  /** Whether the model answered correctly without a document; false for a refusal. */
  known: boolean;
  /** For a choice, whether the model picked the right option from the options alone. Null for other types and if `tooLong`. */
  guessed: boolean | null;
  /** Whether a prompt does not fit the checker's context. If so, the checker was asked only the question, without the chunk. */
  tooLong: boolean;
}

export interface Scored {
  prompt: string;
  answer: string;
}

/** Returns ln p of each answer's tokens after its prompt. Calls `onRow` for each row, in order, as soon as it is scored. */
export type Score = (rows: readonly Scored[], onRow: (index: number) => void) => Promise<Float64Array[]>;
/** Returns the greedy answer to each question, without a document. */
export type Answer = (questions: readonly string[]) => Promise<string[]>;
/** Whether prompt and answer fit the model's context. */
export type Fits = (row: Scored) => boolean;
/** Whether an answer is right. */
export type Grade = (answer: string, draft: Draft) => boolean;

/** Nats per token that the chunk must add if there is no wrong answer to compare with. */
const leastGain = 0.5;
/** Maximum number of wrong answers that are compared. */
const mostRivals = 2;

export const openBook = ({ chunk, question }: Draft): string =>
  `${chunk.trim()}\n\n${question}\nAnswer in as few words as possible.`;
const closedBook = ({ question }: Draft): string => `${question}\nAnswer in as few words as possible.`;
const optionsOnly = ({ choices }: Draft): string =>
  `One of these answers is right. Which one?\n${choices.map((choice) => `- ${choice}`).join("\n")}`;

const isAnswerable = ({ margin, tooLong }: Verdict): boolean => !tooLong && (margin === null || margin > 0);

/** Checks the drafts. Calls `onDraft` once for each draft, as soon as its likelihoods are known, because they take longest. */
export async function checkDrafts(
  drafts: readonly Draft[],
  {
    score,
    answer,
    grade,
    fits,
    onDraft,
  }: { score: Score; answer: Answer; grade: Grade; fits: Fits; onDraft: () => void },
): Promise<Verdict[]> {
  const rows = drafts.map((draft) => {
    const [open, options] = [openRows(draft), optionRows(draft)];
    const tooLong = ![...open, ...options].every(fits);
    return tooLong ? { open: [], options: [], tooLong } : { open, options, tooLong };
  });
  const left = rows.map(({ open, options }) => open.length + options.length);
  for (const count of left) if (count === 0) onDraft();
  const draftOf = rows.flatMap(({ open, options }, index) => [...open, ...options].map(() => index));
  const scores = await score(
    rows.flatMap(({ open, options }) => [...open, ...options]),
    (row) => {
      if (--left[draftOf[row]!]! === 0) onDraft();
    },
  );
  const answers = await answer(drafts.map((draft) => closedBook(draft)));
  let at = 0;
  return drafts.map((draft, index) => {
    const { open, options, tooLong } = rows[index]!;
    const ofOpen = scores.slice(at, at + open.length);
    const ofOptions = scores.slice(at + open.length, at + open.length + options.length);
    at += open.length + options.length;
    const known = draft.type !== "refusal" && grade(answers[index]!, draft);
    if (tooLong) return { margin: null, known, guessed: null, tooLong };
    return {
      margin: marginOf(draft, ofOpen),
      known,
      tooLong,
      guessed:
        draft.type === "choice" ? draft.choices[likeliest(draft.choices, ofOptions).index] === draft.response : null,
    };
  });
}

/**
 * Returns the right answer and then up to `mostRivals` wrong ones, each given the chunk. If there is no wrong answer,
 * returns the right answer with the chunk and without it. Empty for a refusal.
 */
function openRows(draft: Draft): Scored[] {
  if (draft.type === "refusal") return [];
  const prompt = openBook(draft);
  const right = { prompt, answer: draft.response };
  const wrong = draft.type === "choice" ? draft.choices.filter((choice) => choice !== draft.response) : draft.rivals;
  if (wrong.length === 0) return [right, { prompt: closedBook(draft), answer: draft.response }];
  return [right, ...wrong.slice(0, mostRivals).map((answer) => ({ prompt, answer }))];
}

const optionRows = (draft: Draft): Scored[] =>
  draft.type === "choice" ? draft.choices.map((answer) => ({ prompt: optionsOnly(draft), answer })) : [];

/**
 * Returns the margin of a verdict. With this margin, SmolLM2-135M passed 10 of 16 correct items. An alternative margin
 * compares how much the chunk raises the likelihood of each answer; it passed 2 of the first 8 items, where this margin
 * passed 5.
 */
function marginOf(draft: Draft, scores: readonly Float64Array[]): number | null {
  if (draft.type === "refusal") return null;
  const [right, ...others] = scores.map(
    (logprobs) => logprobs.reduce((sum, value) => sum + value, 0) / logprobs.length,
  );
  const hasRivals = draft.type === "choice" || draft.rivals.length > 0;
  return right! - Math.max(...others) - (hasRivals ? 0 : leastGain);
}

export interface Checked {
  draft: Draft;
  verdict: Verdict;
}

/** Maximum share of items whose answer the model already knows. They become the retention split. */
const mostKnown = 0.3;
/**
 * Maximum share of unanswerable items. No likelihood check drops them, so they would dominate wherever few other items
 * pass.
 */
const mostDeclined = 0.2;

/**
 * Chooses the items of the benchmark from the drafts that pass the checks, in the order of `checked`. Known items
 * are limited to `mostKnown`, declined ones to `mostDeclined`, and choices that are guessed from the options to what chance gives. Also returns how
 * many drafts pass each step.
 */
export function choose(
  checked: readonly Checked[],
  wanted: number,
): { chosen: Checked[]; read: number; answerable: number; needed: number; fair: number; shared: number } {
  const read = checked.filter(({ verdict }) => !verdict.tooLong).length;
  const answerable = checked.filter(({ verdict }) => isAnswerable(verdict));
  const needed = upTo(answerable, mostKnown, ({ verdict }) => verdict.known);
  const fair = withoutGuessed(needed);
  const shared = upTo(fair, mostDeclined, ({ draft }) => draft.type === "refusal");
  return {
    chosen: shared.slice(0, wanted),
    read,
    answerable: answerable.length,
    needed: needed.length,
    fair: fair.length,
    shared: shared.length,
  };
}

/**
 * Moves drafts about passages without an item to the front, so that a passage whose first draft failed has another one checked before any
 * passage gets a second item. A refusal says nothing about its passage, so it covers none.
 */
export function uncoveredFirst<T extends { draft: Pick<Draft, "passage"> }>(
  left: readonly T[],
  checked: readonly Checked[],
): T[] {
  const covered = new Set(
    checked
      .filter(({ draft, verdict }) => draft.type !== "refusal" && isAnswerable(verdict))
      .map(({ draft }) => draft.passage),
  );
  const isCovered = ({ draft }: T): boolean => covered.has(draft.passage);
  return [...left.filter((one) => !isCovered(one)), ...left.filter(isCovered)];
}

/** Drops the last items for which `isOfSort` holds, so that they make up at most `share` of the result. */
function upTo(all: readonly Checked[], share: number, isOfSort: (one: Checked) => boolean): Checked[] {
  const others = all.filter((one) => !isOfSort(one)).length;
  const room = Math.floor((share / (1 - share)) * others);
  let taken = 0;
  return all.filter((one) => !isOfSort(one) || ++taken <= room);
}

/** Drops guessed choices, the last first, until their number is at most one standard deviation above chance. */
function withoutGuessed(all: readonly Checked[]): Checked[] {
  const choices = all.filter(({ verdict }) => verdict.guessed !== null);
  let guessed = choices.filter(({ verdict }) => verdict.guessed).length;
  let left = choices.length;
  const surplus = new Set<Checked>();
  for (const one of choices.toReversed()) {
    const chance = 1 / one.draft.choices.length;
    if (guessed <= left * chance + Math.sqrt(left * chance * (1 - chance))) break;
    if (!one.verdict.guessed) continue;
    surplus.add(one);
    guessed--;
    left--;
  }
  return all.filter((one) => !surplus.has(one));
}
