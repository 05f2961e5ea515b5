// The gates that need no model, in order; what one drops, the next never sees. Reference: alignment note, gates 3 and 6 to 9.
import { nearDuplicate, signatureOf, similarityOf } from "../../../base/minhash.ts";
import { containsWords, normalised, wordsOf } from "../../../base/text.ts";
import type { ReadDocument } from "../../../contract/documents.ts";
import type { ItemCandidate, Wording } from "../../../study/items/candidates.ts";
import { type ItemKind, takeByShare } from "../../../study/items/kinds.ts";

/** A document as it is cited: all `start` and `end` offsets count characters of `text`. */
export type SourceDocument = Pick<ReadDocument, "id" | "name" | "media_type" | "text" | "pages" | "blocks">;

/** How many came to a gate and how many passed. */
export interface GateCount {
  gate: string;
  in: number;
  out: number;
  /** Why the gate let everything pass. */
  skipped?: string;
}

/** A candidate with the one wording that is asked. */
export interface Draft extends Omit<ItemCandidate, "wordings"> {
  question: string;
}

/** Highest allowed rank of the passage in a search by the question. */
const foundWithin = 2;
/** Maximum characters of a question; people would not ask longer ones. */
const longestQuestion = 300;
/** Maximum characters of a quote; see the contract. */
const longestQuote = 20_000;

/** `unwritten`: why no model wrote questions; null where one did. */
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
  const phrased = ofWriter("phrased", candidates, (all) => worded(all, isQuestion));
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

const isQuestion = ({ question }: Wording): boolean =>
  question.length <= longestQuestion && !question.includes("\n") && /\p{L}.*[?？]$/u.test(question);

/**
 * Whether the answer is in the passage and in the last quote word for word, and all quotes are verbatim from their
 * documents. A refusal must have no citations.
 */
function isGrounded({ citations, response, chunk, type }: ItemCandidate, textOf: ReadonlyMap<string, string>): boolean {
  if (type === "refusal") return citations.length === 0;
  const last = citations.at(-1);
  if (last === undefined || !stands(chunk, response)) return false;
  const isVerbatim = citations.every(
    ({ document, start, end, quote }) =>
      quote.trim() !== "" && quote.length <= longestQuote && textOf.get(document)?.slice(start, end) === quote,
  );
  // The document may have marks between the answer's words that its plain text lacks.
  return isVerbatim && (stands(last.quote, response) || containsWords(last.quote, response));
}

/**
 * Whether `part` occurs in `whole` without being cut out of a longer word or number. Commas cannot decide that: they
 * separate cells as well as thousands.
 */
function stands(whole: string, part: string): boolean {
  const letter = /[\p{L}\p{N}]/u;
  for (let at = whole.indexOf(part); at >= 0; at = whole.indexOf(part, at + 1)) {
    const isCut = (inside: string | undefined, outside: string | undefined): boolean =>
      letter.test(inside ?? "") && letter.test(outside ?? "");
    if (!isCut(part[0], whole[at - 1]) && !isCut(part.at(-1), whole[at + part.length])) return true;
  }
  return false;
}

/** Whether the question by itself leads to its passage and does not contain its answer or one of its choices. */
const standsAlone = ({ question, rank }: Wording, { response, type, choices }: ItemCandidate): boolean =>
  rank <= foundWithin &&
  (type === "refusal" || !containsWords(question, response)) &&
  !choices.some((choice) => containsWords(question, choice));

/**
 * Drops wordings for which candidates have different answers. Compares words only: a small model that is shown another
 * passage takes its answer from there.
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
 * Keeps one of several near-identical questions with the same cluster and answer. Questions on rows of one table are
 * alike on purpose, but are in different clusters. MinHash compares sets of single words here, because one changed word
 * in a question changes most of its runs of words.
 */
export function withoutDuplicates(all: readonly Draft[]): Draft[] {
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
 * Minimum cosine of two questions that count as the same. MiniLM gives 0.91 for "Sales" and "the Sales department",
 * 0.88 for siblings.
 */
const sameMeaning = 0.9;

/** Vectors of unit length, one for each text. */
export type Embed = (texts: readonly string[]) => Promise<readonly Float32Array[]>;

/**
 * Drops a question that asks the same of one subject as an earlier one, with the same document and answer. Only
 * questions that share document and answer are embedded.
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
 * Sorts the drafts for checking, so that the kept ones cover the documents wherever the checking ends: one draft of
 * every passage before a second of any, model-written ones before plain forms, and among those the kind that is
 * furthest behind its share.
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
