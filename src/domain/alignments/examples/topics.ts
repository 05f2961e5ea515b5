// What a pronoun stands for: the thing and the person that were spoken of last.

import { capitalised, normalised } from "../../../base/text.ts";
import type { Clause } from "./clauses.ts";
import { conceptOf } from "./concepts.ts";
import { type Corpus, lowered } from "./corpus.ts";
import { isPersonal } from "./mentions.ts";

export interface Topic {
  thing: string | null;
  person: string | null;
}

const verbAhead = String.raw`(?=\s+(?:\p{Ll}+ly\s+)?(?:is|are|was|were|has|have|had|can|must|may|will|should|\p{Ll}+s|\p{Ll}+ed)\b)`;
const pronoun = new RegExp(`^(It|They|He|She|This|These|That)\\b${verbAhead}`, "u");
const irregularPast =
  /^(It|They|He|She)(?=\s(?:began|came|cost|found|gave|grew|had|held|kept|led|left|made|ran|rose|sold|stood|took|went|won|wrote)\b)/;
const possessive = /^(Its|Their|His|Her)\s/;
const house = "(?:company|firm|organi[sz]ation|business|group|foundation|institute|enterprise)";
const leading = new RegExp(`^(?:The|Our) (?:${house}|house)${verbAhead}(?!\\s\\S+\\s(?:is|are|was|were)\\b)`, "u");
const inside = new RegExp(
  `\\b(?:the|our) ${house}(?=[.,!]|$|\\s(?:is|was|has|had|in|at|on|with|from|by|for|since|and|as|to|after)\\b)`,
);

/** A leading pronoun gives way to what it stands for, «the company» to its name. */
export function resolved(text: string, topic: Topic, heading: string | null, corpus: Corpus): string {
  const { company } = corpus;
  if (company !== null && leading.test(text)) return text.replace(leading, company);
  const named = company !== null && (heading === null || heading === company);
  const said = named ? text.replace(inside, company) : text;
  const word = (pronoun.exec(said) ?? irregularPast.exec(said) ?? possessive.exec(said))?.[1];
  if (!word) return said;
  const stands = /^H|^S/.test(word) ? (topic.person ?? topic.thing) : topic.thing;
  if (stands === null) return said;
  return `${capitalised(stands)}${possessive.test(said) ? "'s" : ""}${said.slice(word.length)}`;
}

export const opensWithPronoun = (text: string): boolean =>
  pronoun.test(text) || irregularPast.test(text) || possessive.test(text);

/** After «The price of the oven is 5 euros» one goes on to speak of the oven, after «Ada Lund designed the oven» too. */
export function topicAfter(clause: Clause, before: Topic, heading: string | null, corpus: Corpus): Topic {
  const subject = lowered(clause.text.slice(clause.subject.start, clause.subject.end), corpus);
  if (/^(?:we|us|you|i|everybody|everyone|nobody|who\w*)\b/i.test(subject)) return before;
  const title = heading?.replace(/^the /, "") ?? null;
  const titled = title !== null && normalised(clause.text).includes(normalised(title));
  const named = titled && clause.text.includes(`the ${title}`) ? `the ${title}` : heading;
  if (isPerson(subject, heading, corpus)) {
    const object = clause.passive
      ? null
      : /^\s(the\s[^,.]+?)(?=\s(?:in|at|on|for|with|by|from|as)\s|[.,]|$)/u.exec(clause.text.slice(clause.verb.end));
    return { person: subject, thing: titled ? named : (object?.[1] ?? before.thing) };
  }
  const owned = /^(?:the|its|our)\s([a-z][a-z\s-]*?)\sof\s(.+)$/.exec(subject);
  const owner = owned !== null && (conceptOf(owned[1]!, "text", "").concept !== null || owned[2] === heading);
  const thing = owner ? owned[2]! : subject;
  return { person: before.person, thing: titled && !subject.startsWith("the ") ? named : thing };
}

function isPerson(name: string, heading: string | null, corpus: Corpus): boolean {
  return isPersonal(name) && name !== heading && name !== corpus.company;
}
