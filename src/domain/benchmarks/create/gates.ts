// The gates that need no model, in order; what one drops, the next never sees. Reference: alignment note, gates 3 and 6 to 9.
import { nearDuplicate, signatureOf, similarityOf } from "../../../base/minhash.ts";
import { containsWords, normalised, wordsOf } from "../../../base/text.ts";
import type { ItemCandidate, Wording } from "../../../study/items/candidates.ts";
import { type ItemKind, takeByShare } from "../../../study/items/kinds.ts";
import type { SourceDocument } from "./parts.ts";

/** How many came to a gate and how many passed. */
export interface GateCount {
  gate: string;
  in: number;
  out: number;
  /** Why the gate stood open. */
  skipped?: string;
}

/** A candidate that is asked in one wording. */
export interface Draft extends Omit<ItemCandidate, "wordings"> {
  question: string;
}

/** Its passage must be among so many that a search by the question finds first. */
const foundWithin = 2;
/** Characters of a question that people would still ask. */
const longestQuestion = 300;
/** Characters of a quote: see the contract. */
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

/** With the wordings that pass; without any, a candidate is gone. */
const worded = (
  all: readonly ItemCandidate[],
  passes: (wording: Wording, one: ItemCandidate) => boolean,
): ItemCandidate[] =>
  all
    .map((one) => ({ ...one, wordings: one.wordings.filter((wording) => passes(wording, one)) }))
    .filter(({ wordings }) => wordings.length > 0);

const isQuestion = ({ question }: Wording): boolean =>
  question.length <= longestQuestion && !question.includes("\n") && /\p{L}.*[?？]$/u.test(question);

/** The answer stands in the passage word for word, and in the last quote, which like the others is the document's own characters. */
function isGrounded({ citations, response, chunk, type }: ItemCandidate, textOf: ReadonlyMap<string, string>): boolean {
  if (type === "refusal") return citations.length === 0;
  const last = citations.at(-1);
  if (last === undefined || !stands(chunk, response)) return false;
  const isVerbatim = citations.every(
    ({ document, start, end, quote }) =>
      quote.trim() !== "" && quote.length <= longestQuote && textOf.get(document)?.slice(start, end) === quote,
  );
  // Between the answer's words the document may have marks, which its plain text has not.
  return isVerbatim && (stands(last.quote, response) || containsWords(last.quote, response));
}

/** Cells are parted by commas, as thousands are: a part is found by what it does not go on with. */
function stands(whole: string, part: string): boolean {
  const letter = /[\p{L}\p{N}]/u;
  for (let at = whole.indexOf(part); at >= 0; at = whole.indexOf(part, at + 1)) {
    const isCut = (inside: string | undefined, outside: string | undefined): boolean =>
      letter.test(inside ?? "") && letter.test(outside ?? "");
    if (!isCut(part[0], whole[at - 1]) && !isCut(part.at(-1), whole[at + part.length])) return true;
  }
  return false;
}

/** Leads to its passage by itself, and is silent about its own answer. */
const standsAlone = ({ question, rank }: Wording, { response, type, choices }: ItemCandidate): boolean =>
  rank <= foundWithin &&
  (type === "refusal" || !containsWords(question, response)) &&
  !choices.some((choice) => containsWords(question, choice));

/** A wording that asks for two answers has none. By its words: a small model that is shown another passage takes its answer from there. */
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
 * One question for what is said once, with one answer. Rows of a table ask alike on purpose, and are of other clusters. The sets that
 * MinHash compares are of single words: one word changed in a question changes most of its runs.
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

/** Cosine from which on two questions are one. MiniLM gives 0.91 to «Sales» and «the Sales department», 0.88 to siblings. */
const sameMeaning = 0.9;

/** Vectors of unit length, one for each text. */
export type Embed = (texts: readonly string[]) => Promise<readonly Float32Array[]>;

/** Of what one document says of one thing twice, with one answer, the first. Nothing else is embedded. */
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

/** One right answer among them, and none that another holds. */
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
 * In the order they are to be checked, so that wherever the checking ends, what was kept covers the documents: one draft of every
 * passage before a second of any, what a model wrote before plain forms, and among those the kind that is furthest behind its share.
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
