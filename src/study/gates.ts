// Gates: what drops a written question, without a list of any language. Each counts what came to it and what passed.
import { containsWords, jaccard, normalised, wordsOf } from "../base/text.ts";
import type { Lexicon } from "./lexicon.ts";
import type { Target } from "./targets.ts";
import type { Speaker, Writer, Written } from "./writers/writer.ts";

export interface GateCount {
  gate: string;
  in: number;
  out: number;
}

/** Words of a question. */
const longest = 45;
/** A search by the question's words must find its passage among so many. */
const foundWithin = 2;
/** Share of all passages instead, for a teacher's: words that the passage has not are what it is asked for. */
const taughtWithin = 0.25;
/** Share of words that two questions of one target may have in common. */
const alike = 0.7;
/** Nats that seeing the passage must make the answer likelier by. */
const needed = 2;
/** Nats of an answer that nobody guesses from the question alone: with 10, one in 22,000. */
const unguessed = 10;
/** Nats a token, by the writer itself; and nats by which the question makes its answer likelier to the base, which sees nothing else. */
const leastFluent = -1.2;
const leastRaised = 18;

export interface GateParts {
  lexicon: Lexicon;
  writer: Pick<Writer, "fluency" | "read" | "isTeacher">;
  /** The base, without an adapter. */
  base: Speaker;
}

/** Questions that pass every gate, in their order. */
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
  left = gate("hides_answer", left, ({ target, question }) => !containsWords(question, target.answer));
  const within = writer.isTeacher ? Math.max(foundWithin, taughtWithin * lexicon.passages) : foundWithin;
  left = gate("stands_alone", left, ({ target, question }) => lexicon.rankOf(question, target.passage) <= within);
  const siblings = new Map<Target, Set<string>[]>();
  left = gate("unlike_siblings", left, ({ target, question }) => {
    const words = new Set(wordsOf(question));
    const others = siblings.get(target) ?? [];
    if (others.some((other) => jaccard(other, words) >= alike)) return false;
    siblings.set(target, [...others, words]);
    return true;
  });
  if (writer.fluency !== null) {
    const nats = await writer.fluency(left);
    left = gate("fluent", left, (_, at) => nats[at]! >= leastFluent);
    const raised = await raisedBy(left, base);
    left = gate("raises_answer", left, (_, at) => raised[at]! >= leastRaised);
  }
  if (writer.read !== null) {
    const answers = await writer.read(left);
    left = gate("answered_in_view", left, ({ target }, at) => sameAnswer(answers[at]!, target.answer));
  }
  const needing = await needingPassage(left, base);
  left = gate("needs_passage", left, ({ target }) => needing.has(target));
  return { kept: left, counts };
}

/** Log-likelihood of each answer to the base, nats. `shown`: what comes before «Answer:». */
async function answersBy(base: Speaker, rows: readonly { shown: string; target: Target }[]): Promise<number[]> {
  const scored = await base.score(
    rows.map(({ shown, target }) => ({ prompt: `${shown}Answer:`, text: ` ${target.answer}` })),
  );
  return scored.map(({ logprobs }) => logprobs.reduce((sum, one) => sum + one, 0));
}

const asking = (question: string): string => `Question: ${question}\n`;

/** Nats by which each question makes its answer likelier than no question does. */
async function raisedBy(written: readonly Written[], base: Speaker): Promise<number[]> {
  const targets = [...new Set(written.map(({ target }) => target))];
  const unasked = await answersBy(
    base,
    targets.map((target) => ({ shown: "", target })),
  );
  const before = new Map(targets.map((target, at) => [target, unasked[at]!]));
  const asked = await answersBy(
    base,
    written.map(({ target, question }) => ({ shown: asking(question), target })),
  );
  return written.map(({ target }, at) => asked[at]! - before.get(target)!);
}

/**
 * Targets whose answer is likelier with the passage in view, by their first question: it is the answer that is known or not. An answer
 * that nobody would guess is not read again with its passage, which takes several times as long.
 */
async function needingPassage(written: readonly Written[], base: Speaker): Promise<ReadonlySet<Target>> {
  const firsts = [...Map.groupBy(written, ({ target }) => target).values()].map(([one]) => one!);
  const likely = (asked: readonly Written[], inView: boolean): Promise<number[]> =>
    answersBy(
      base,
      asked.map(({ target, question }) => ({
        shown: `${inView ? `${target.passage.text}\n\n` : ""}${asking(question)}`,
        target,
      })),
    );
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
  !question.includes("\n") && question.split(/\s+/).length <= longest && wordsOf(question).length >= 3;

/** The same words, or one within the other with at most half as many again. */
export function sameAnswer(said: string, gold: string): boolean {
  const [a, b] = [normalised(said), normalised(gold)];
  if (a === "" || b === "") return false;
  if (a === b) return true;
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  return containsWords(long, short) && wordsOf(long).length <= Math.max(2, 1.5 * wordsOf(short).length);
}

/**
 * One question, two answers: each is asked again under its headings, and what then still has two is dropped. `under`: the question
 * with its headings before it.
 */
export function withoutContradictions<T extends { question: string; answer: string }>(
  rows: readonly T[],
  under: (row: T) => T,
): { kept: T[]; qualified: number; dropped: number } {
  const disputed = (all: readonly T[]): Set<string> => {
    const answers = new Map<string, string>();
    const found = new Set<string>();
    for (const { question, answer } of all) {
      const key = normalised(question);
      const known = answers.get(key);
      if (known === undefined) answers.set(key, normalised(answer));
      else if (known !== normalised(answer)) found.add(key);
    }
    return found;
  };
  const first = disputed(rows);
  const asked = rows.map((row) => (first.has(normalised(row.question)) ? under(row) : row));
  const still = disputed(asked);
  const kept = asked.filter((row) => !still.has(normalised(row.question)));
  const qualified = asked.filter((row, at) => row !== rows[at] && !still.has(normalised(row.question))).length;
  return { kept, qualified, dropped: asked.length - kept.length };
}
