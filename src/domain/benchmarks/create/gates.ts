// The gates that need no model, in order; what one drops, the next never sees. Reference: alignment note, gates 3 and 6 to 9.
import { nearDuplicate, signatureOf, similarityOf } from "../../../base/minhash.ts";
import { containsWords, normalised, wordsOf } from "../../../base/text.ts";
import type { Candidate, Category, SourceDocument } from "./candidates.ts";
import { plan } from "./candidates.ts";

/** How many came to a gate and how many passed. */
export interface GateCount {
  gate: string;
  in: number;
  out: number;
  /** Why the gate stood open. */
  skipped?: string;
}

/** A candidate that is asked in one wording. */
export interface Draft extends Omit<Candidate, "wordings"> {
  question: string;
}

export function passGates(
  candidates: readonly Candidate[],
  documents: readonly SourceDocument[],
  /** Whether a training row made of the documents gives the question away. */
  leaks: ReadonlySet<string>,
): { drafts: Draft[]; gates: GateCount[] } {
  const gates: GateCount[] = [];
  const pass = <In, Out>(gate: string, from: readonly In[], through: (from: readonly In[]) => Out[]): Out[] => {
    const out = through(from);
    gates.push({ gate, in: from.length, out: out.length });
    return out;
  };
  const textOf = new Map(documents.map(({ id, text }) => [id, text]));
  const grounded = pass("grounded", candidates, (all) => all.filter((one) => isGrounded(one, textOf)));
  const alone = pass("stand_alone", grounded, (all) =>
    all
      .map((one) => ({ ...one, wordings: one.wordings.filter((wording) => standsAlone(wording, one)) }))
      .filter(({ wordings }) => wordings.length > 0),
  );
  const unique = pass("unique", alone, withoutContradiction);
  const asked = pass("no_leak", unique, (all) =>
    all.flatMap(({ wordings, ...one }): Draft[] => {
      const question = wordings.find((wording) => !leaks.has(wording));
      return question === undefined ? [] : [{ ...one, question }];
    }),
  );
  const distinct = pass("duplicate", asked, withoutDuplicates);
  return { drafts: inOrder(pass("choices", distinct, (all) => all.filter(isFairChoice))), gates };
}

/** The quotes stand where they say and in the chunk, and the answer in the last; its unit may stand in the head of the table. */
function isGrounded({ citations, response, chunk, type }: Candidate, textOf: ReadonlyMap<string, string>): boolean {
  if (type === "refusal") return citations.length === 0;
  const last = citations.at(-1);
  if (last === undefined) return false;
  const isVerbatim = citations.every(
    ({ document, start, end, quote }) =>
      quote !== "" && textOf.get(document)?.slice(start ?? 0, end ?? 0) === quote && chunk.includes(quote),
  );
  const [first, ...others] = response.split(/\s+/);
  const shown = new Set(wordsOf(chunk));
  return isVerbatim && stands(last.quote, first!) && others.flatMap(wordsOf).every((word) => shown.has(word));
}

/** Cells are parted by commas, as thousands are: a part is found by what it does not go on with. */
function stands(quote: string, part: string): boolean {
  const letter = /[\p{L}\p{N}]/u;
  for (let at = quote.indexOf(part); at >= 0; at = quote.indexOf(part, at + 1))
    if (!letter.test(quote[at - 1] ?? "") && !letter.test(quote[at + part.length] ?? "")) return true;
  return false;
}

const pointing =
  /\b(?:according to|(?:the|this|that|these|above|following|given) (?:text|document|passage|section|table|paragraph|excerpt|list))\b/i;
const pronoun = /\b(?:it|its|they|them|their|he|him|his|she|her|we|our|us|this|these|those)\b/i;

/** Understood by somebody who has no document before them, and silent about its own answer. */
export function standsAlone(
  question: string,
  { response, about, type, choices }: Pick<Candidate, "response" | "about" | "type" | "choices">,
): boolean {
  if (pointing.test(question)) return false;
  if (type !== "refusal" && ` ${normalised(question)} `.includes(` ${normalised(response)} `)) return false;
  if (choices.some((choice) => ` ${normalised(question)} `.includes(` ${normalised(choice)} `))) return false;
  // The heading or the thing itself must have a name; a pronoun must come after what it stands for.
  const bare = question.replace(
    /^(?:What|Which|Who|Whom|When|Where|How|At|From|For|In|Of|To|If|By|On|A|Someone|Somebody|Suppose|Under)\b/,
    "",
  );
  if (!/\p{Lu}|\d/u.test(bare)) return false;
  const found = pronoun.exec(question);
  const named = about.names.map((name) => question.indexOf(name)).filter((at) => at >= 0);
  return found === null || (named.length > 0 && Math.min(...named) < found.index);
}

/**
 * The same attribute of the same thing with another value, here or in another document, is no question with one answer; no more is
 * a wording in which another thing is asked for. By rule: a
 * small model that is shown another chunk takes its answer from there. Of 16 right items, each with the nearest chunk that has a
 * value of the same kind, SmolLM2-135M found such a value likelier in 16 and answered with one in 4.
 */
function withoutContradiction(all: readonly Candidate[]): Candidate[] {
  const key = ({ about, category }: Candidate): string =>
    `${normalised(about.entity)}\n${normalised(about.attribute)}\n${category === "unanswerable" ? "unanswerable" : ""}`;
  const groups = Map.groupBy(all, (one) => (one.about.attribute === "" ? one.cluster : key(one)));
  const left = [...groups.values()].flatMap((group) => (answersOf(group).size === 1 ? group : []));
  const asked = Map.groupBy(
    left.flatMap(({ wordings, response }) => wordings.map((wording) => ({ wording: normalised(wording), response }))),
    ({ wording }) => wording,
  );
  return left
    .map((one) => ({
      ...one,
      wordings: one.wordings.filter((wording) => answersOf(asked.get(normalised(wording))!).size === 1),
    }))
    .filter(({ wordings }) => wordings.length > 0);
}

const answersOf = (all: readonly { response: string }[]): Set<string> =>
  new Set(all.map(({ response }) => normalised(response)));

const answerAbout = ({ response, about }: Draft): string =>
  `${normalised(response)}\n${about.names.map(normalised).join("\n")}`;

/**
 * One question per thing, attribute and answer. Siblings ask alike on purpose, and have other answers or other names. The sets that
 * MinHash compares are of single words: one word changed in a question changes most of its runs.
 */
export function withoutDuplicates(all: readonly Draft[]): Draft[] {
  const kept = new Map<string, Buffer[]>();
  const asked = new Set<string>();
  return all.filter((one) => {
    if (asked.has(normalised(one.question))) return false;
    asked.add(normalised(one.question));
    const signature = signatureOf(wordsOf(one.question));
    const before = kept.get(answerAbout(one)) ?? [];
    if (before.some((other) => similarityOf(other, signature) >= nearDuplicate)) return false;
    kept.set(answerAbout(one), [...before, signature]);
    return true;
  });
}

/** Cosine from which on two questions are one. MiniLM gives 0.91 to «Sales» and «the Sales department», 0.88 to siblings. */
const sameMeaning = 0.9;

/** Vectors of unit length, one for each text. */
export type Embed = (texts: readonly string[]) => Promise<readonly Float32Array[]>;

/** Of what one document says of one thing in two of its names, with one answer, the first. Nothing else is embedded. */
export async function withoutParaphrases(all: readonly Draft[], embed: Embed): Promise<Draft[]> {
  const together = Map.groupBy(
    all.filter(({ type }) => type !== "refusal"),
    ({ about, response }) => `${about.document}\n${normalised(response)}`,
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

const isOneThing = ({ about: a }: Draft, { about: b }: Draft): boolean =>
  containsWords(a.entity, b.entity) || containsWords(b.entity, a.entity);

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
 * In the order they are to be checked, so that wherever the checking ends, what was kept follows the coverage plan: categories by
 * their shares, and in each category one of every document before a second of any.
 */
function inOrder(drafts: readonly Draft[]): Draft[] {
  const placed = [...Map.groupBy(drafts, (draft) => draft.category)].flatMap(([category, list]) => {
    const ranked = [...Map.groupBy(list, (draft) => draft.about.document).values()]
      .flatMap((ofDocument) => ofDocument.map((draft, rank) => ({ draft, rank })))
      .sort((a, b) => a.rank - b.rank);
    return ranked.map(({ draft }, at) => ({ draft, place: (at + 0.5) / plan[category as Category] }));
  });
  return placed.sort((a, b) => a.place - b.place).map(({ draft }) => draft);
}
