// The values that a clause mentions, each with what has to be taken out of the clause to ask for it.
import { type Clause, embeds, prepositions, readClause, tokensOf } from "./clauses.ts";
import { conceptOf, conceptOfVerb } from "./concepts.ts";
import type { Corpus } from "./corpus.ts";
import { type Value, valuesOf } from "./values.ts";

/** What is taken out of the clause: the value with its preposition and the noun it counts. */
export interface Hole {
  start: number;
  end: number;
  preposition: string;
  /** «printing house» in «the printing house Moe», «annual leave» in «28 days of annual leave». */
  noun: string | null;
}

const stops = /^(?:and|or|but|who|which|that|when|if|as|so|than|while|also|only|not)$/;

/** Left to right; where no value has a form of its own, what follows the verb. */
export function mentionsOf(text: string, clause: Clause | null, corpus: Corpus): Value[] {
  const first = /^\p{L}+/u.exec(text)?.[0] ?? "";
  const values = grown(text, joined(text, valuesOf(text)))
    .map((value) => favoured(text, value, clause))
    .filter((value) => {
      if (value.kind !== "name") return true;
      if (value.start === 0 && !value.text.includes(" ") && !corpus.names.has(first)) return false;
      return !(clause && value.start > clause.verb.end && embeds.test(text.slice(clause.verb.end, value.start)));
    });
  const rest = clause && values.every((value) => value.start < clause.verb.end) ? complement(text, clause) : null;
  const goods = clause && rest === null ? objectOf(text, clause) : null;
  return [...values, ...[rest, goods].filter((value) => value !== null)].sort((a, b) => a.start - b.start);
}

/** «sponsors the rowing club of Lund»: the whole object is the answer. */
function favoured(text: string, value: Value, clause: Clause | null): Value {
  if (value.kind !== "name" || !clause || conceptOfVerb(clause.lemma, "", "name") !== "sponsored") return value;
  const object = /^\s(?:the\s)?(?:\p{Ll}+\s){1,4}(?:of|in|from)\s$/u.exec(text.slice(clause.verb.end, value.start));
  const start = clause.verb.end + 1;
  return object ? { ...value, start, text: text.slice(start, value.end) } : value;
}

/** «Lund and Sons» is one answer. */
export function joined(text: string, values: readonly Value[]): Value[] {
  const out: Value[] = [];
  for (const value of values) {
    const open = out.at(-1);
    const link = open ? text.slice(open.end, value.start) : "";
    if (open?.kind === "name" && value.kind === "name" && /^(?: and | & |, )$/.test(link)) {
      open.end = value.end;
      open.text = text.slice(open.start, open.end);
    } else out.push({ ...value });
  }
  return out;
}

/** A name with the nouns it stands before: «Tarnby service desk». */
function grown(text: string, values: readonly Value[]): Value[] {
  return values.map((value) => {
    if (value.kind !== "name" || value.start === 0) return value;
    let end = value.end;
    for (const token of tokensOf(text.slice(value.end)).slice(0, 3)) {
      const said = text.slice(value.end + token.start, value.end + token.end);
      const adjoins = text.slice(end, value.end + token.start) === " ";
      if (
        !adjoins ||
        !/^\p{Ll}+$/u.test(said) ||
        stops.test(said) ||
        prepositions.has(said) ||
        /(?:ly|ed|ing)$/.test(said)
      )
        break;
      if (readClause(`x ${said} x`) !== null) break;
      end = value.end + token.end;
    }
    return { ...value, end, text: text.slice(value.start, end) };
  });
}

/** Last words of names that are no person's. */
const institution =
  /\b(?:and|&|Limited|Ltd|Inc|Corp|Company|Group|Holding|Industries|Trading|Brothers|Sons|Daughters|Partners|Supply|Works|Yard|Mill|Depot|Foundry|Plant|House|Hall|Office|Store|Shop|Street|Road|Station|Bank|School|Project|Department|Team|Site|Club)\b/;
const personal = /^\p{Lu}[\p{L}'’-]+(?:\s\p{Lu}[\p{L}'’-]+){1,2}$/u;

/** Two or three capitalised words and nothing else: most likely somebody. */
export const isPersonal = (name: string): boolean => personal.test(name) && !institution.test(name);
export const isPerson = (text: string, { subject }: Clause): boolean =>
  isPersonal(text.slice(subject.start, subject.end));

const gives = /^(?:supply|provide|deliver|make|produce|sell|manufacture|store|build)$/;

/** «supplies glass jars to …», «is supplied with glass jars by …»: what is given, beside the names of those who give and take. */
function objectOf(text: string, clause: Clause): Value | null {
  if (!gives.test(clause.lemma)) return null;
  const lead = clause.passive ? /^\s+with\s+/ : /^\s+/;
  const from = clause.verb.end + (lead.exec(text.slice(clause.verb.end))?.[0].length ?? 0);
  if (from === clause.verb.end) return null;
  const phrase = /^(?:\p{Ll}[\p{Ll}-]*\s){0,3}?\p{Ll}[\p{Ll}-]*(?=\s(?:to|for|from|by|in|at|under)\s|[.,]|$)/u.exec(
    text.slice(from),
  )?.[0];
  if (!phrase || /^(?:by|to|for|from|in|at|the|a|an)\b/.test(phrase)) return null;
  return { text: phrase, start: from, end: from + phrase.length, kind: "text", noun: null };
}

/** What stands before the noun of an office or a class: «our new», «a». */
const classed = /^(?:our|the|a|an)\s+(?:new\s+)?(?=\p{Ll}+(?:\s\p{Ll}+){0,3}$)/u;

/** «a housing of matt ceramic» */
const ownNoun = /^an?\s(\p{Ll}+)\sof\s(.+)$/u;

/** «in stock», «in writing»: no place. */
const manner =
  /^(?:stock|writing|use|order|progress|place|time|advance|force|general|demand|full|private|public|person|cash|detail|common|turn|addition|danger|need|practice)$/;

/** «oiled beech», «the workshop lead», the office after «joins us as». */
function complement(text: string, clause: Clause): Value | null {
  const office = /\sas\s+(?:(?:our|the|a|an)\s+)?(?:new\s+)?((?:\p{Ll}+\s){0,3}\p{Ll}+)\s*[.!]?$/u.exec(text);
  if (office && office.index >= clause.verb.end - 1) {
    const start = text.lastIndexOf(office[1]!);
    return { text: office[1]!, start, end: start + office[1]!.length, kind: "text", noun: null };
  }
  const from = clause.verb.end;
  const match = /^\s+((?:[a-z]+\s+)?)(.+?)\s*[.!]?$/u.exec(text.slice(from));
  if (!match) return null;
  const lead = prepositions.has(match[1]!.trim()) ? match[1]!.length : 0;
  const phrase = text
    .slice(from)
    .trimStart()
    .slice(lead)
    .replace(/\s*[.!]$/, "");
  if (phrase.split(/\s+/).length > 9 || phrase === "" || (lead > 0 && manner.test(phrase))) return null;
  const skipped = clause.lemma === "be" && isPerson(text, clause) ? (classed.exec(phrase)?.[0].length ?? 0) : 0;
  const start = text.indexOf(phrase, from + lead);
  const named = ownNoun.exec(phrase);
  if (named && /^(?:have|come|feature)$/.test(clause.lemma) && conceptOf(named[1]!, "text", "").exact)
    return {
      text: named[2]!,
      start: start + phrase.length - named[2]!.length,
      end: start + phrase.length,
      kind: "text",
      noun: null,
    };
  const said = phrase.slice(skipped);
  return start < 0
    ? null
    : { text: said, start: start + skipped, end: start + phrase.length, kind: "text", noun: null };
}

const hedges = /^(?:a|an|the|about|around|only|least|most|exactly)$/;
const apposed = /(?:^|\s)(?:the|our|her|his|their|its|a|an)\s+((?:\p{Ll}[\p{L}-]*\s+){1,3})$/u;
const measured = /^ of (\p{Ll}[\p{L}-]*(?: \p{Ll}[\p{L}-]*)?)(?=[.,;]|$| (?:per|a|each|every|and)\b)/u;

/** The value, the preposition before it («up to» and «every» too), the noun that it counts, measures or stands by. */
export function holeOf(text: string, value: Value): Hole {
  const beside = value.kind === "name" ? apposed.exec(text.slice(0, value.start)) : null;
  const title = beside && !prepositions.has(beside[1]!.trim().split(/\s+/).at(-1)!) ? beside : null;
  const from = title ? value.start - title[1]!.length : value.start;
  const before = tokensOf(text.slice(0, from)).filter((token) => !hedges.test(token.word));
  const last = before.at(-1);
  const preposition = last && prepositions.has(last.word) ? last.word : "";
  const up = preposition === "to" && before.at(-2)?.word === "up" ? before.at(-2)! : null;
  const plain = /(?:^|\s)(?:a|an|the)\s+$/.exec(text.slice(0, value.start));
  const article = title
    ? title.index + title[0].search(/\S/)
    : plain
      ? plain.index + plain[0].search(/\S/)
      : value.start;
  const start = up?.start ?? (preposition ? last!.start : article);
  const of = value.kind === "name" || value.kind === "text" ? null : measured.exec(text.slice(value.end));
  if (of) return { start, end: value.end + of[0].length, preposition, noun: of[1]! };
  return {
    start,
    end: holeEnd(text, value),
    preposition: up ? "up to" : preposition,
    noun: title?.[1]?.trim() ?? null,
  };
}

function holeEnd(text: string, value: Value): number {
  if (value.kind !== "number" || value.noun === null) return value.end;
  const end = text.indexOf(value.noun, value.end);
  return end < 0 ? value.end : end + value.noun.length;
}
