// A light reading of an English clause: who, which verb, what about it. Enough to turn most statements of company documents
// around; what it does not understand it says so (null), and only safe rows are made from that.
import { attributes } from "./attributes.ts";
import { type Corpus, lowered } from "./corpus.ts";
import { capitalised } from "./text.ts";

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
}

const auxiliaries = new Set(
  "is are was were has have had can may must will should shall does do did cannot could would might".split(" "),
);
const forms = new Set(["is", "are", "was", "were"]);
const modals = new Set("can may must will should shall cannot could would might does do did".split(" "));
export const prepositions = new Set(
  "in on at by of for from to with within after before until under over between near every each since during per via up as about against into through off out above below behind beside opposite".split(
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

const more =
  "accept add agree apply appear arrange arrive ask assemble assign attend belong bring calibrate come compete connect cool cost count cover deal decide depend dispatch do dry earn end enter exceed expect expire explain extend fall fill finish fit follow gain give go grow handle have heat help include inform inspect invest keep know learn leave let listen lock look lose maintain mark measure meet mix monitor mount need note notify offer open operate order organise own pack park pass pay perform place plan power prefer prepare present print protect provide publish put qualify raise read receive recommend record register relate remain remove rent repair report represent reserve rest retain return rise say see send separate set share show sign sit sound spend split stay stock stop supervise support switch teach tell test think train transfer treat turn update visit wait walk want wash watch wear win wire work wrap write employ name test weigh";

const irregular: Record<string, [string, string]> = {
  build: ["built", "built"],
  buy: ["bought", "bought"],
  bring: ["brought", "brought"],
  begin: ["began", "begun"],
  come: ["came", "come"],
  cost: ["cost", "cost"],
  cut: ["cut", "cut"],
  do: ["did", "done"],
  draw: ["drew", "drawn"],
  drive: ["drove", "driven"],
  fall: ["fell", "fallen"],
  find: ["found", "found"],
  get: ["got", "got"],
  give: ["gave", "given"],
  go: ["went", "gone"],
  grow: ["grew", "grown"],
  hang: ["hung", "hung"],
  have: ["had", "had"],
  hold: ["held", "held"],
  keep: ["kept", "kept"],
  know: ["knew", "known"],
  lead: ["led", "led"],
  leave: ["left", "left"],
  lend: ["lent", "lent"],
  let: ["let", "let"],
  lie: ["lay", "lain"],
  lose: ["lost", "lost"],
  make: ["made", "made"],
  mean: ["meant", "meant"],
  meet: ["met", "met"],
  pay: ["paid", "paid"],
  put: ["put", "put"],
  read: ["read", "read"],
  rise: ["rose", "risen"],
  run: ["ran", "run"],
  say: ["said", "said"],
  see: ["saw", "seen"],
  sell: ["sold", "sold"],
  send: ["sent", "sent"],
  set: ["set", "set"],
  show: ["showed", "shown"],
  sit: ["sat", "sat"],
  speak: ["spoke", "spoken"],
  spend: ["spent", "spent"],
  spin: ["spun", "spun"],
  split: ["split", "split"],
  stand: ["stood", "stood"],
  take: ["took", "taken"],
  teach: ["taught", "taught"],
  tell: ["told", "told"],
  think: ["thought", "thought"],
  wear: ["wore", "worn"],
  win: ["won", "won"],
  write: ["wrote", "written"],
  freeze: ["froze", "frozen"],
  oversee: ["oversaw", "overseen"],
};
const doubling = new Set(["ship", "stop", "plan", "cap", "fit", "split", "dub", "permit", "refer", "submit", "wrap"]);
const vowelEnd = /[aeiou]y$/;

const thirdOf = (base: string): string =>
  base === "have"
    ? "has"
    : base === "do" || base === "go"
      ? `${base}es`
      : /(?:s|x|z|ch|sh)$/.test(base)
        ? `${base}es`
        : /y$/.test(base) && !vowelEnd.test(base)
          ? `${base.slice(0, -1)}ies`
          : `${base}s`;

const regularPast = (base: string): string =>
  doubling.has(base)
    ? `${base}${base.at(-1)}ed`
    : /e$/.test(base)
      ? `${base}d`
      : /y$/.test(base) && !vowelEnd.test(base)
        ? `${base.slice(0, -1)}ied`
        : `${base}ed`;

const bases = new Set(
  [
    ...Object.values(attributes).flatMap((attribute) => attribute.verbs.split("|").map((verb) => verb.split(" ")[0]!)),
    ...more.split(" "),
  ].filter((verb) => verb !== "" && verb !== "be" && verb !== "exist since"),
);
const third = new Map<string, string>();
const past = new Map<string, string>();
const participle = new Map<string, string>();
for (const base of bases) {
  third.set(thirdOf(base), base);
  past.set(irregular[base]?.[0] ?? regularPast(base), base);
  participle.set(irregular[base]?.[1] ?? regularPast(base), base);
}
// «found» is the past of find and a base of its own; in documents of this kind «founded» decides, «found» is find.
past.delete("lay");

const participleOf = (word: string): string | null =>
  participle.get(word) ?? (/[a-z]{3}ed$/.test(word) ? word.replace(/ed$/, "") : null);

export function tokensOf(text: string): Token[] {
  return [...text.matchAll(/[\p{L}\p{N}][\p{L}\p{N}'’.&/-]*[\p{L}\p{N}]|[\p{L}\p{N}]/gu)].map((match) => ({
    word: match[0].toLowerCase(),
    start: match.index,
    end: match.index + match[0].length,
  }));
}

/** The index of a verb that can carry a sentence, at or after `from`; -1 = none understood. */
function finiteAt(tokens: Token[], from: number): number {
  for (let i = from; i < tokens.length; i++) {
    const { word } = tokens[i]!;
    if (relatives.has(word) && i > from) return -1;
    if (auxiliaries.has(word)) return i;
    const before = tokens[i - 1]?.word ?? "";
    const after = tokens[i + 1]?.word ?? "";
    if (determiners.has(before) || prepositions.has(before) || before === "and" || auxiliaries.has(after)) continue;
    if (third.has(word) || past.has(word)) return i;
    if (bases.has(word) && (pluralSubjects.has(before) || (/[^s]s$/.test(before) && !prepositions.has(after))))
      return i;
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
      : (third.get(head.word) ?? past.get(head.word) ?? head.word);
    const tense = third.has(head.word) || bases.has(head.word) ? "present" : "past";
    return { ...base, auxiliary: null, verb: head, lemma, passive: false, tense };
  }
  let i = at + 1;
  let be = forms.has(head.word);
  const tense = /^(was|were|had|did)$/.test(head.word) ? "past" : "present";
  for (; i < tokens.length; i++) {
    const { word } = tokens[i]!;
    if (word === "be" || word === "been" || word === "being") be = true;
    else if (!adverbs.has(word) && !/ly$/.test(word)) break;
  }
  const next = tokens[i];
  if (be) {
    const lemma = next ? participleOf(next.word) : null;
    if (next && lemma) return { ...base, auxiliary: head, verb: next, lemma, passive: true, tense };
    const verb = { start: head.start, end: tokens[i - 1]!.end };
    return { ...base, auxiliary: head, verb, lemma: "be", passive: false, tense };
  }
  if (!next) return null;
  const lemma = modals.has(head.word) ? next.word : (participleOf(next.word) ?? next.word);
  return { ...base, auxiliary: head, verb: next, lemma, passive: false, tense };
}

/** «has 40 staff» against «has grown». */
function isMainHave(tokens: Token[], at: number): boolean {
  if (!/^(has|have|had)$/.test(tokens[at]!.word)) return false;
  const next = tokens.slice(at + 1).find((token) => !adverbs.has(token.word));
  return !next || (participleOf(next.word) === null && next.word !== "been");
}

const bare = (text: string): string => text.replace(/[.!]+$/, "");

const tidy = (text: string): string =>
  text
    .replace(/\s+/g, " ")
    .replace(/\s+([,.;:])/g, "$1")
    .replace(/[,;:\s]+$/, "")
    .trim();

/** «Who leads the plant?»: the clause with its subject asked for. */
export function askSubject(clause: Clause, wh: string): string {
  return `${wh}${bare(clause.text.slice(clause.subject.end))}?`;
}

/** «Who carries the parcels?»: a passive clause with its agent asked for in the active; null when there is more to say. */
export function askAgent(clause: Clause, hole: { start: number; end: number }, corpus: Corpus): string | null {
  if (!clause.passive) return null;
  const auxiliary = clause.text.slice(clause.auxiliary!.start, clause.verb.start).trim().toLowerCase();
  const verb = /^(is|are)$/.test(auxiliary)
    ? thirdOf(clause.lemma)
    : /^(was|were)$/.test(auxiliary)
      ? (irregular[clause.lemma]?.[0] ?? regularPast(clause.lemma))
      : auxiliary.endsWith(" be")
        ? `${auxiliary.slice(0, -3)} ${clause.lemma}`
        : null;
  if (verb === null) return null;
  const subject = lowered(clause.text.slice(clause.subject.start, clause.subject.end), corpus);
  const between = clause.text.slice(clause.verb.end, hole.start);
  return `${tidy(`Who ${verb} ${subject} ${between} ${bare(clause.text.slice(hole.end))}`)}?`;
}

/** The clause around a hole: «does the warranty last» for a question, «the warranty lasts» for a question inside another. */
export function askFor(
  clause: Clause,
  hole: { start: number; end: number },
  corpus: Corpus,
): { direct: string; indirect: string } {
  const cut = (start: number, end: number) =>
    hole.start >= start && hole.end <= end
      ? `${clause.text.slice(start, hole.start)} ${clause.text.slice(hole.end, end)}`
      : clause.text.slice(start, end);
  const subject = lowered(clause.text.slice(clause.subject.start, clause.subject.end), corpus);
  const rest = (from: number) => bare(cut(from, clause.text.length));
  const indirect = tidy(`${subject} ${rest(clause.subject.end)}`);
  if (clause.auxiliary) {
    const auxiliary = clause.text.slice(clause.auxiliary.start, clause.auxiliary.end);
    return { direct: tidy(`${auxiliary} ${subject} ${rest(clause.auxiliary.end)}`), indirect };
  }
  const support = clause.tense === "past" ? "did" : clause.plural ? "do" : "does";
  return { direct: tidy(`${support} ${subject} ${clause.lemma} ${rest(clause.verb.end)}`), indirect };
}

/** Words after which a verb belongs to a clause inside the clause. */
export const embeds = /\b(?:that|which|who|whose|how|why|whether|where|when|if)\b/;

/** A sentence as clauses that each can stand alone: «X opened in 1987 and employs 62 people» is two with one subject. */
export function clausesOf(sentence: string): string[] {
  const parts = sentence.split(/;\s+|,\s+(?:and|but|while)\s+(?=(?:the|it|they|we|its|each|every|all|a|an|\p{Lu})\b)/u);
  return parts.flatMap((part) => {
    const clause = readClause(part);
    if (!clause) return [capitalised(part)];
    const subject = part.slice(0, clause.subject.end);
    const cuts = [...part.matchAll(/,?\s+(?:and|but)\s+/g)].filter((match) => {
      if (match.index < clause.verb.end || embeds.test(part.slice(0, match.index))) return false;
      const next = tokensOf(part.slice(match.index + match[0].length, match.index + match[0].length + 40));
      const word = next[0]?.word ?? "";
      return auxiliaries.has(word) || third.has(word) || (past.has(word) && !participleLike(clause));
    });
    const pieces: string[] = [];
    let at = 0;
    for (const cut of cuts) {
      pieces.push(part.slice(at, cut.index));
      at = cut.index + cut[0].length;
    }
    pieces.push(part.slice(at));
    return pieces.map((piece, index) => capitalised(index === 0 ? piece : `${subject} ${piece}`));
  });
}

/** After «was founded …» a bare «and opened» is a second participle: give it no clause of its own. */
const participleLike = (clause: Clause): boolean => clause.passive;
