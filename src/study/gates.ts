// Filters written questions through gates, without a word list of any language. Each gate counts the questions that came in and
// the questions that passed.
import { containsWords, countWords, jaccard, normalised, segmentedWordsOf, wordsOf } from "../base/text.ts";
import { headingOf } from "./heading.ts";
import type { Lexicon } from "./lexicon.ts";
import type { Target } from "./targets.ts";
import type { Speaker, Writer, Written } from "./writers/writer.ts";

export interface GateCount {
  gate: string;
  in: number;
  out: number;
}

/** Maximum words of a question. */
const longest = 45;
/** Maximum rank of the passage in a search by the question's words. */
const foundWithin = 2;
/**
 * The same for a teacher, as a share of all passages. It is larger because a teacher's questions are meant to use words that the
 * passage does not have.
 */
const teacherWithin = 0.25;
/** Jaccard similarity of words at which two questions of one target are too alike. */
const alike = 0.7;
/** Minimum gain in an answer's log-likelihood from seeing the passage, in nats. */
const needed = 2;
/** Surprise, in nats, from which an answer counts as not to be guessed from the question alone. 10 nats are a chance of 1 in 22,000. */
const unguessed = 10;
/**
 * The same for a teacher, whose questions need no proof that the passage answers them: answers that are likelier than not are known. A
 * short figure such as "20" is never unlikely, and a small base that does not read a table finds it no likelier with the table in view.
 */
const teacherUnguessed = Math.LN2;
/**
 * Minimum mean log-likelihood of a question under its writer, in nats per token. At −1.2, two of three questions that the shipped writer
 * asked about texts unlike its material were wrong, by two readers (test/e2e/RESULTS.md).
 */
const leastFluent = -0.3;

export interface GateParts {
  lexicon: Lexicon;
  writer: Pick<Writer, "fluency" | "read" | "isTeacher" | "answerTo">;
  /** The base model without an adapter. */
  base: Speaker;
}

/** Returns the questions that pass every gate, in their order, and the counts of each gate. */
export async function passGates(
  written: readonly Written[],
  { lexicon, writer, base }: GateParts,
): Promise<{ kept: Written[]; counts: GateCount[] }> {
  const counts: GateCount[] = [];
  const gate = (name: string, came: readonly Written[], passes: (one: Written, at: number) => boolean): Written[] => {
    const kept = came.filter(passes);
    counts.push({ gate: name, in: came.length, out: kept.length });
    return kept;
  };
  let left = gate("readable", written, readable);
  // The writer's own answer is the one that is trained.
  const answersTo = ({ target, question }: Written): string[] => [
    target.answer,
    writer.answerTo?.(target, question) ?? "",
  ];
  left = gate("hides_answer", left, (one) => !answersTo(one).some((answer) => containsWords(one.question, answer)));
  const within = writer.isTeacher ? Math.max(foundWithin, teacherWithin * lexicon.passages) : foundWithin;
  left = gate("stands_alone", left, ({ target, question }) => lexicon.rankOf(question, target.passage) <= within);
  // Questions for several facts of one clause may be alike.
  const siblings = new Map<string, Set<string>[]>();
  left = gate("unlike_siblings", left, ({ target, question }) => {
    const words = new Set(segmentedWordsOf(question));
    const fact = `${target.id} ${writer.answerTo?.(target, question) ?? ""}`;
    const others = siblings.get(fact) ?? [];
    if (others.some((other) => jaccard(other, words) >= alike)) return false;
    siblings.set(fact, [...others, words]);
    return true;
  });
  if (writer.fluency !== null) {
    const nats = await writer.fluency(left);
    left = gate("fluent", left, (_, at) => nats[at]! >= leastFluent);
    left = gate("knows_names", left, namesAreKnown);
  }
  if (writer.read !== null) {
    const answers = await writer.read(left);
    left = gate("answered_in_view", left, ({ target }, at) => sameAnswer(answers[at]!, target.answer));
  }
  const needing = await needingPassage(left, base, writer.isTeacher ? teacherUnguessed : unguessed);
  left = gate("needs_passage", left, ({ target }) => needing.has(target));
  return { kept: left, counts };
}

/**
 * Returns the targets whose answer the base does not know without the passage. These are answers that cannot be guessed from the
 * question, and answers that become clearly likelier with the passage in view. Only the first question of each target is scored,
 * because the answer is what is tested. Scoring with the passage takes several times as long, so it is left out for answers that
 * cannot be guessed.
 */
async function needingPassage(
  written: readonly Written[],
  base: Speaker,
  unguessed: number,
): Promise<ReadonlySet<Target>> {
  const firsts = [...Map.groupBy(written, ({ target }) => target).values()].map(([one]) => one!);
  /** Log-likelihood of each answer under the base, in nats. */
  const likely = async (asked: readonly Written[], inView: boolean): Promise<number[]> => {
    const scored = await base.score(
      asked.map(({ target: { passage, answer }, question }) => ({
        prompt: `${inView ? `${passage.text}\n\n` : ""}Question: ${question}\nAnswer:`,
        text: ` ${answer}`,
      })),
    );
    return scored.map(({ logprobs }) => logprobs.reduce((sum, one) => sum + one, 0));
  };
  const without = await likely(firsts, false);
  const guessable = firsts.flatMap((one, at) => (without[at]! > -unguessed ? [{ one, nats: without[at]! }] : []));
  const inView = await likely(
    guessable.map(({ one }) => one),
    true,
  );
  const known = new Set(guessable.flatMap(({ one, nats }, at) => (inView[at]! - nats < needed ? [one.target] : [])));
  return new Set(firsts.map(({ target }) => target).filter((target) => !known.has(target)));
}

const readable = ({ question }: Written): boolean =>
  !question.includes("\n") && countWords(question) <= longest && segmentedWordsOf(question).length >= 3;

/** Matches words, and the marks after which a capital letter makes no name. */
const wordsAndEnds = /[\p{L}\p{N}]+|[.!?:]/gu;

/**
 * Whether every name and figure of a question occurs in its passage or headings. This is checked because a small writer garbles what
 * it copies. A capital letter at the beginning of a sentence, or alone, makes no name.
 */
function namesAreKnown({ target: { passage }, question }: Written): boolean {
  const known = new Set(wordsOf(`${headingOf(passage)} ${passage.text}`));
  const pieces = question.match(wordsAndEnds) ?? [];
  return pieces.every((piece, at) => {
    const begins = at === 0 || /[.!?:]/.test(pieces[at - 1]!);
    const isName = /^\p{N}/u.test(piece) || (/^\p{Lu}./u.test(piece) && !begins);
    return !isName || wordsOf(piece).every((word) => known.has(word));
  });
}

/**
 * Whether both have the same words, or one contains the other and has at most half as many words again. A longer answer of two words
 * always passes.
 */
export function sameAnswer(said: string, gold: string): boolean {
  const [a, b] = [normalised(said), normalised(gold)];
  if (a === "" || b === "") return false;
  if (a === b) return true;
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  const [fewer, more] = [segmentedWordsOf(short).length, segmentedWordsOf(long).length];
  return containsWords(long, short) && more <= Math.max(2, 1.5 * fewer);
}

/** Returns the normalised questions that have several answers. */
export function disputed(all: readonly { question: string; answer: string }[]): Set<string> {
  const answers = new Map<string, string>();
  const found = new Set<string>();
  for (const { question, answer } of all) {
    const key = normalised(question);
    const known = answers.get(key);
    if (known === undefined) answers.set(key, normalised(answer));
    else if (known !== normalised(answer)) found.add(key);
  }
  return found;
}

/**
 * Resolves contradictions, which are questions with several answers. The question of each such row is put under its headings, and
 * the row is dropped if the question still has several answers. `under` returns a row with the headings before its question.
 */
export function withoutContradictions<T extends { question: string; answer: string }>(
  rows: readonly T[],
  under: (row: T) => T,
): { kept: T[]; qualified: number; dropped: number } {
  const first = disputed(rows);
  const asked = rows.map((row) => (first.has(normalised(row.question)) ? under(row) : row));
  const still = disputed(asked);
  const kept = asked.filter((row) => !still.has(normalised(row.question)));
  const qualified = asked.filter((row, at) => row !== rows[at] && !still.has(normalised(row.question))).length;
  return { kept, qualified, dropped: asked.length - kept.length };
}
