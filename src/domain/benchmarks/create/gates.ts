// The gates that need no chat model, in order. What one gate drops does not reach the next. Reference: alignment note, gates 3 and 6
// to 9.
import { nearDuplicate, signatureOf, similarityOf } from "../../../base/minhash.ts";
import { containsWords, holdsUncut, isQuestion, normalised, wordsOf } from "../../../base/text.ts";
import type { ReadDocument } from "../../../contract/documents.ts";
import type { ItemCandidate, Wording } from "../../../study/items/candidates.ts";
import { type ItemKind, takeByShare } from "../../../study/items/kinds.ts";

/** A document as it is cited: all `start` and `end` offsets count characters of `text`. */
export type SourceDocument = Pick<ReadDocument, "id" | "name" | "media_type" | "text" | "pages" | "blocks">;

/** The number of candidates that reached a gate, and the number that passed. */
export interface GateCount {
  gate: string;
  in: number;
  out: number;
  /** Why the gate let everything pass. */
  skipped?: string;
}

/** A candidate with the one wording that the benchmark uses. */
export interface Draft extends Omit<ItemCandidate, "wordings"> {
  question: string;
}

/** The passage must be among this many first results of a search by the question. */
const foundWithin = 2;
/** Maximum characters of a question; people would not ask longer ones. */
const longestQuestion = 300;
/** Maximum characters of a quote; see the contract. */
const longestQuote = 20_000;

/**
 * Passes the candidates through the gates, and returns the drafts in the order in which to check them. `unwritten` tells
 * why no model wrote questions; null if one did.
 */
export function passGates(
  candidates: readonly ItemCandidate[],
  documents: readonly Pick<SourceDocument, "id" | "text">[],
  unwritten: string | null,
): { drafts: Draft[]; gates: GateCount[] } {
  const gates: GateCount[] = [];
  const pass = <In, Out>(gate: string, from: readonly In[], through: (from: readonly In[]) => Out[]): Out[] => {
    const out = through(from);
    gates.push({ gate, in: from.length, out: out.length });
    return out;
  };
  const ofWriter = <T>(gate: string, from: readonly T[], through: (from: readonly T[]) => T[]): readonly T[] => {
    if (unwritten === null) return pass(gate, from, through);
    gates.push({ gate, in: from.length, out: from.length, skipped: unwritten });
    return from;
  };
  const textOf = new Map(documents.map(({ id, text }) => [id, text]));
  const phrased = ofWriter("phrased", candidates, (all) => worded(all, isPhrased));
  const verified = ofWriter("verified", phrased, (all) => worded(all, (wording) => wording.verified));
  const grounded = pass("grounded", verified, (all) => all.filter((one) => isGrounded(one, textOf)));
  const alone = pass("stand_alone", grounded, (all) => worded(all, standsAlone));
  const unique = pass("unique", alone, withoutContradiction);
  const unleaked = pass("no_leak", unique, (all) => worded(all, ({ leaks }) => !leaks));
  const asked = unleaked.map(({ wordings, ...one }): Draft => ({ ...one, question: wordings[0]!.question }));
  const distinct = pass("duplicate", asked, withoutDuplicates);
  return { drafts: inOrder(pass("choices", distinct, (all) => all.filter(isFairChoice))), gates };
}

/** Keeps the wordings that pass, and drops candidates without any. */
const worded = (
  all: readonly ItemCandidate[],
  passes: (wording: Wording, one: ItemCandidate) => boolean,
): ItemCandidate[] =>
  all
    .map((one) => ({ ...one, wordings: one.wordings.filter((wording) => passes(wording, one)) }))
    .filter(({ wordings }) => wordings.length > 0);

const isPhrased = ({ question }: Wording): boolean =>
  question.length <= longestQuestion && !question.includes("\n") && /\p{L}/u.test(question) && isQuestion(question);

/**
 * Whether the answer occurs word for word in the passage and in the last quote, and every quote is verbatim from its
 * document. A refusal must have no citations.
 */
function isGrounded({ citations, response, chunk, type }: ItemCandidate, textOf: ReadonlyMap<string, string>): boolean {
  if (type === "refusal") return citations.length === 0;
  const last = citations.at(-1);
  if (last === undefined || !holdsUncut(chunk, response)) return false;
  const isVerbatim = citations.every(
    ({ document, start, end, quote }) =>
      quote.trim() !== "" && quote.length <= longestQuote && textOf.get(document)?.slice(start, end) === quote,
  );
  // The document may have marks between the answer's words that the passage lacks.
  return isVerbatim && (holdsUncut(last.quote, response) || containsWords(last.quote, response));
}

/**
 * Whether a search by the question alone finds its passage, and the question contains neither its answer nor a choice. A plain question
 * contains whole cells, so it may be too long.
 */
const standsAlone = ({ question, rank }: Wording, { response, type, choices }: ItemCandidate): boolean =>
  question.length <= longestQuestion &&
  rank <= foundWithin &&
  (type === "refusal" || !containsWords(question, response)) &&
  !choices.some((choice) => containsWords(question, choice));

/**
 * Drops wordings that have different answers in different candidates. Compares only words and asks no model, because a
 * small model that is shown another passage takes its answer from that passage.
 */
function withoutContradiction(all: readonly ItemCandidate[]): ItemCandidate[] {
  const answers = new Map<string, Set<string>>();
  for (const { wordings, response } of all)
    for (const { question } of wordings) {
      const key = normalised(question);
      answers.set(key, (answers.get(key) ?? new Set()).add(normalised(response)));
    }
  return worded(all, ({ question }) => answers.get(normalised(question))!.size === 1);
}

/**
 * Keeps the first of several identical questions, and of several near-identical questions with the same cluster and
 * answer. Questions about rows of one table are alike on purpose, but are in different clusters. MinHash compares sets
 * of single words here, because one changed word in a question changes most of its runs of words.
 */
function withoutDuplicates(all: readonly Draft[]): Draft[] {
  const kept = new Map<string, Buffer[]>();
  const asked = new Set<string>();
  return all.filter((one) => {
    const key = normalised(one.question);
    if (asked.has(key)) return false;
    asked.add(key);
    const same = `${one.cluster}\n${normalised(one.response)}`;
    const signature = signatureOf(wordsOf(one.question));
    const before = kept.get(same) ?? [];
    if (before.some((other) => similarityOf(other, signature) >= nearDuplicate)) return false;
    kept.set(same, [...before, signature]);
    return true;
  });
}

/**
 * Two questions count as the same from this cosine on. MiniLM gives 0.91 for questions about "Sales" and "the Sales
 * department", but 0.88 for questions about sibling subjects.
 */
const sameMeaning = 0.9;

/** Returns a vector of unit length for each text. */
export type Embed = (texts: readonly string[]) => Promise<readonly Float32Array[]>;

/**
 * Drops a question that means the same as an earlier question with the same document, answer and subject. Only
 * questions that share document and answer are embedded. Keeps all refusals.
 */
export async function withoutParaphrases(all: readonly Draft[], embed: Embed): Promise<Draft[]> {
  const together = Map.groupBy(
    all.filter(({ type }) => type !== "refusal"),
    ({ document, response }) => `${document}\n${normalised(response)}`,
  );
  const compared = [...together.values()].filter((group) => group.length > 1);
  if (compared.length === 0) return [...all];
  const found = await embed(compared.flat().map(({ question }) => question));
  const vectors = new Map(compared.flat().map((one, at) => [one, found[at]!]));
  const dropped = new Set<Draft>();
  for (const group of compared)
    group.forEach((one, at) => {
      const before = group.slice(0, at).filter((other) => !dropped.has(other) && isOneThing(one, other));
      if (before.some((other) => cosine(vectors.get(one)!, vectors.get(other)!) >= sameMeaning)) dropped.add(one);
    });
  return all.filter((one) => !dropped.has(one));
}

const isOneThing = ({ subject: a }: Draft, { subject: b }: Draft): boolean =>
  containsWords(a, b) || containsWords(b, a);

const cosine = (a: Float32Array, b: Float32Array): number => a.reduce((sum, value, at) => sum + value * b[at]!, 0);

/** Whether a choice has at least three options, all different, of which exactly one is the right answer. */
function isFairChoice({ type, choices, response }: Draft): boolean {
  if (type !== "choice") return true;
  const texts = choices.map(normalised);
  return (
    choices.length >= 3 &&
    new Set(texts).size === texts.length &&
    texts.filter((text) => text === normalised(response)).length === 1
  );
}

/**
 * Sorts the drafts for checking, so that the items cover the documents even if checking ends early. Every passage gets
 * one draft before any gets a second. Within a passage, drafts that a model wrote come before plain forms, and among
 * equals the kind comes first that is furthest behind its share.
 */
function inOrder(drafts: readonly Draft[]): Draft[] {
  const passages = [...Map.groupBy(drafts, ({ passage }) => passage).values()].map((own) => ({
    written: own.filter(({ isWritten }) => isWritten),
    plain: own.filter(({ isWritten }) => !isWritten),
  }));
  const taken = new Map<ItemKind, number>();
  const ordered: Draft[] = [];
  while (ordered.length < drafts.length)
    for (const { written, plain } of passages) {
      const left = written.length > 0 ? written : plain;
      if (left.length > 0) ordered.push(takeByShare(left, ({ category }) => category, taken));
    }
  return ordered;
}
