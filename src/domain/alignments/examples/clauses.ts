// A light reading of an English clause: who, which verb, what about it. Enough to turn most statements of company documents
// around; what it does not understand it says so (null), and only safe rows are made from that.
import { baseOfParticiple, bases, ingOf, past, third } from "./verbs.ts";

/** Offsets in the clause's text. lemma «be» is the copula; `passive` is a form of be with a participle. */
export interface Clause {
  text: string;
  subject: { start: number; end: number };
  /** First auxiliary («was», «can»), or null when the main verb stands alone. */
  auxiliary: { start: number; end: number } | null;
  verb: { start: number; end: number };
  lemma: string;
  passive: boolean;
  tense: "present" | "past";
  plural: boolean;
}

interface Token {
  word: string;
  start: number;
  end: number;
  /** A verb inside a sentence is not capitalised: «Moe Works», «Moe Limited». */
  capital: boolean;
}

export const auxiliaries = new Set(
  "is are was were has have had can may must will should shall does do did cannot could would might".split(" "),
);
const forms = new Set(["is", "are", "was", "were"]);
const modals = new Set("can may must will should shall cannot could would might does do did".split(" "));
export const prepositions = new Set(
  "in on at by of for from to with within after before until under over between near towards toward every each since during per via up as about against into through off out above below behind beside opposite".split(
    " ",
  ),
);
const determiners = new Set(
  "the a an our your its their his her my each every all no any this that these those per both some".split(" "),
);
const relatives = new Set("that which who whose where when if because while unless although".split(" "));
const adverbs = new Set(
  "not also usually always never now currently still only then once again often just normally generally exactly at least".split(
    " ",
  ),
);
const pluralSubjects = new Set(["we", "they", "you", "i", "staff", "people", "men", "women", "children", "crew"]);

export function tokensOf(text: string): Token[] {
  return [...text.matchAll(/[\p{L}\p{N}][\p{L}\p{N}'’.&/-]*[\p{L}\p{N}]|[\p{L}\p{N}]/gu)].map((match) => ({
    word: match[0].toLowerCase(),
    start: match.index,
    end: match.index + match[0].length,
    capital: /^\p{Lu}/u.test(match[0]),
  }));
}

/** The index of a verb that can carry a sentence, at or after `from`; -1 = none understood. */
function finiteAt(tokens: Token[], from: number): number {
  for (let i = from; i < tokens.length; i++) {
    const { word } = tokens[i]!;
    if (tokens[i]!.capital) continue;
    if (relatives.has(word) && i > from) return -1;
    if (auxiliaries.has(word)) return i;
    const before = tokens[i - 1]?.word ?? "";
    const after = tokens[i + 1]?.word ?? "";
    if (determiners.has(before) || prepositions.has(before) || before === "and" || auxiliaries.has(after)) continue;
    if (third.has(word) || past.has(word)) return i;
    if (/[a-z]{3}ed$/.test(word) && /^(?:the|a|an|its|\d.*|about|over|in|on|at|from|to|for)$/.test(after)) return i;
    if (bases.has(word) && (pluralSubjects.has(before) || (/[^s]s$/.test(before) && !prepositions.has(after))))
      return i;
    // «Calls for Ada Lund go to …»
    const joined = prepositions.has(tokens[1]?.word ?? "") && /[^s]s$/.test(tokens[0]!.word);
    if (bases.has(word) && joined && i > 2 && prepositions.has(after)) return i;
  }
  return -1;
}

/** Reads a clause whose subject begins at `from` (characters). */
export function readClause(text: string, from = 0): Clause | null {
  const tokens = tokensOf(text).filter((token) => token.start >= from);
  const at = finiteAt(tokens, 1);
  if (at < 1) return null;
  const head = tokens[at]!;
  const subject = { start: tokens[0]!.start, end: tokens[at - 1]!.end };
  const base = { text, subject, plural: forms.has(head.word) ? /^(are|were)$/.test(head.word) : !third.has(head.word) };
  if (!auxiliaries.has(head.word) || isMainHave(tokens, at)) {
    const lemma = /^(has|have|had)$/.test(head.word)
      ? "have"
      : (third.get(head.word) ?? past.get(head.word) ?? baseOfParticiple(head.word) ?? head.word);
    const tense = third.has(head.word) || bases.has(head.word) ? "present" : "past";
    return { ...base, auxiliary: null, verb: head, lemma, passive: false, tense };
  }
  /** «has to be approved» is «must be approved». */
  const mustHave = /^ha(?:s|ve|d)$/.test(head.word) && tokens[at + 1]?.word === "to";
  let i = at + 1;
  let be = forms.has(head.word);
  const tense = /^(was|were|had|did)$/.test(head.word) ? "past" : "present";
  for (; i < tokens.length; i++) {
    const { word } = tokens[i]!;
    if (word === "be" || word === "been" || word === "being") be = true;
    else if (!adverbs.has(word) && !/ly$/.test(word) && !(word === "to" && (mustHave || tokens[i + 1]?.word === "be")))
      break;
  }
  const next = tokens[i];
  if (be) {
    const lemma = next && !next.capital ? baseOfParticiple(next.word) : null;
    if (next && lemma) return { ...base, auxiliary: head, verb: next, lemma, passive: true, tense };
    const verb = { start: head.start, end: tokens[i - 1]!.end };
    return { ...base, auxiliary: head, verb, lemma: "be", passive: false, tense };
  }
  if (!next) return null;
  const lemma = modals.has(head.word) || mustHave ? next.word : (baseOfParticiple(next.word) ?? next.word);
  return { ...base, auxiliary: head, verb: next, lemma, passive: false, tense };
}

/** «returning unused goods»: what a passive clause lets happen, up to the hole; null for other clauses. */
export function gerundOf(clause: Clause, hole: { start: number }, subject: string): string | null {
  if (!clause.passive) return null;
  const between = clause.text.slice(clause.verb.end, hole.start).trim();
  return between === "" ? `${ingOf(clause.lemma)} ${subject}` : null;
}

/** «has 40 staff» against «has grown». */
function isMainHave(tokens: Token[], at: number): boolean {
  if (!/^(has|have|had)$/.test(tokens[at]!.word)) return false;
  const next = tokens.slice(at + 1).find((token) => !adverbs.has(token.word));
  return !next || (baseOfParticiple(next.word) === null && next.word !== "been" && next.word !== "to");
}

/** Words after which a verb belongs to a clause inside the clause. */
export const embeds = /\b(?:that|which|who|whose|how|why|whether|where|when|if)\b/;
