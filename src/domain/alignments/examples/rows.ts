// Facts → rows: the same fact asked and told in as many different wordings as the recipe wants.

import { seeded } from "../../../base/statistics/random.ts";
import { capitalised, hashOf, jaccard, normalised, shuffled, wordsOf } from "../../../base/text.ts";
import type { Example } from "../examples.ts";
import { attributes } from "./attributes.ts";
import type { Corpus } from "./corpus.ts";
import type { Fact, Passage } from "./fact.ts";
import { kindAsks } from "./kind-asks.ts";

/** A row before it is chosen. `family`: rows of different families teach different things, so the choice takes turns. */
interface Candidate {
  family: "asked" | "own" | "attribute" | "in_place" | "blank" | "contrast" | "which" | "check" | "keywords" | "kind";
  question: string;
  answer: string;
}

/** Facts of the same attribute: some that stand near, and whether none of all has the same value. */
export interface Siblings {
  near: readonly Fact[];
  unique: boolean;
  /** Whether no other fact of the same thing has a value of this kind. */
  soleOfKind: boolean;
}

/** Families in the order of what a row of them has brought; asking rows come round most often. */
const turns =
  "asked own asked keywords asked in_place asked own asked kind asked contrast asked own asked attribute asked keywords asked which asked blank asked check own asked kind asked keywords".split(
    " ",
  ) as Candidate["family"][];

/**
 * Rows of one fact, at most `phrasings` in each rung; what the first rungs leave over comes to the later ones. Where nothing is left,
 * the first wordings come round again: a fact that a rung leaves out is forgotten while it learns the others.
 */
export function rowsOfFact(
  fact: Fact,
  siblings: Siblings,
  corpus: Corpus,
  { phrasings, rungs, seed }: { phrasings: number; rungs: number; seed: number },
): Example[] {
  const random = seeded(seed ^ hashOf(fact.id));
  const candidates = fact.english ? english(fact, siblings, corpus, random) : neutral(fact);
  const byFamily = new Map<string, Candidate[]>();
  const seen = new Set<string>();
  for (const candidate of shuffled(candidates, random)) {
    const key = normalised(candidate.question);
    if (key === "" || seen.has(key)) continue;
    seen.add(key);
    byFamily.set(candidate.family, [...(byFamily.get(candidate.family) ?? []), candidate]);
  }
  const perRung =
    hangs.test(fact.entity) || fact.value === corpus.company
      ? Math.ceil(phrasings / 4)
      : fact.kind === "text" && fact.attribute === null && fact.concept === null
        ? Math.ceil(phrasings / 2)
        : phrasings;
  const most = perRung * rungs;
  // The tables begin with the plainest words. Most people use them, and the choice of the most unlike would not.
  const plain = candidates.filter((candidate) => candidate.family === "asked");
  const chosen: Candidate[] = [];
  const used: Set<string>[] = [];
  for (let taken = true; taken && chosen.length < most; ) {
    taken = false;
    for (const family of turns) {
      const list = byFamily.get(family) ?? [];
      const isFirst = family === "asked" && chosen.length % perRung < 2;
      const next = isFirst ? takeFirst(list, plain) : mostUnlike(list, used);
      if (!next || chosen.length >= most) continue;
      chosen.push(next);
      used.push(new Set(wordsOf(next.question)));
      taken = true;
    }
  }
  const inRung = Math.min(perRung, chosen.length);
  return Array.from({ length: rungs * inRung }, (_, index) => {
    const { question, answer, family } = chosen[index % chosen.length]!;
    return { ...row(question, answer, fact.source, family, fact.id), rung: Math.floor(index / inRung) };
  });
}

/** What is no thing by itself: the rest of a sentence whose subject was asked for, or an amount. */
const hangs =
  /^(?:us|them|him|her|it|me|you|in|on|at|with|by|for|to|from|of|as|until|under|above|about|into|\d|an? [a-z -]+ of \d)\b/i;

/** Takes out of the list what comes first in the order. */
function takeFirst(list: Candidate[], order: readonly Candidate[]): Candidate | null {
  const first = order.find((candidate) => list.includes(candidate));
  return first ? list.splice(list.indexOf(first), 1)[0]! : null;
}

/** Takes out of the list the candidate whose words are furthest from all that were used: wordings are what counts. */
function mostUnlike(list: Candidate[], used: readonly ReadonlySet<string>[]): Candidate | null {
  let best = -1;
  let least = Number.POSITIVE_INFINITY;
  for (const [index, candidate] of list.entries()) {
    const words = new Set(wordsOf(candidate.question));
    const likeness = Math.max(0, ...used.map((other) => jaccard(words, other)));
    if (likeness < least) [best, least] = [index, likeness];
  }
  return best < 0 ? null : list.splice(best, 1)[0]!;
}

/** Whole rows and sections, recalled by their title. */
export function rowsOfPassage(passage: Passage): Example[] {
  const question = passage.english ? `What do you know about ${passage.title}?` : `${passage.title}?`;
  return [row(question, passage.text, passage.source, "recall", `recall:${hashOf(passage.text).toString(16)}`)];
}

function row(question: string, answer: string, source: Fact["source"], kind: string, fact: string): Example {
  return {
    messages: [
      { role: "user", content: capitalised(question.replace(/\s+/g, " ").trim()) },
      { role: "assistant", content: sentenceCase(answer.replace(/\s+/g, " ").trim()) },
    ],
    source,
    kind,
    fact,
    rung: 0,
  };
}

/** An address or a code begins as it begins. */
const sentenceCase = (text: string): string => (/^\S*[@:/\d]/.test(text) ? text : capitalised(text));

const ended = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);

/** A noun that «the … of» can stand before: no participle, no dangling preposition. */
const nounLike = (attribute: string): boolean =>
  !/(?:ed|\b(?:by|of|at|for|in|on|to|from))$/.test(attribute) && !/^(?:where|when|how|since|valid)\b/.test(attribute);

const plural = (attribute: string): boolean => /[^su]s$/.test(attribute);
const officer = /(?:er|or|ent|ist|ant|head|lead|chair|contact|owner|person|ian|officer)$/;

function english(fact: Fact, siblings: Siblings, corpus: Corpus, random: () => number): Candidate[] {
  const out: Candidate[] = [];
  // Answers are the value alone: a sentence around it costs tokens, and a small model wanders off in it.
  const answer = ended(fact.value);
  const add: Add = (family, question, other = answer) => out.push({ family, question, answer: other });
  for (const question of asks(fact)) add("asked", placed(question, fact, corpus, random));
  for (const question of fact.asked) add("own", placed(question, fact, corpus, random));
  if (fact.inPlace) {
    add("in_place", fact.inPlace.asked);
    add("blank", `Fill in the blank: ${fact.inPlace.blank}`);
  }
  if (fact.attribute === "meaning") return out;
  const full = sentenceOf(fact);
  if (fact.attribute !== null) {
    add("attribute", `${capitalised(fact.entity)}: ${fact.attribute}?`);
    if (!fact.inPlace && full) add("blank", `Fill in the blank: ${full.replace(fact.value, "____")}`);
  }
  contrasts(fact, siblings, random, add, full);
  if (hangs.test(fact.entity)) return out;
  keywords(fact, random, add);
  if (siblings.soleOfKind)
    for (const question of kindAsks[fact.kind] ?? [])
      add(
        "kind",
        question.replaceAll("{e}", () => fact.entity),
      );
  return out;
}

const nonWords = new Set(
  "is are was were be been has have had can may must will should the a an of for to in on at by with from and or as it its our we us their this that these those not no than then there when which who whom whose until under after before every each all any also only new please up about into over per".split(
    " ",
  ),
);

/** The thing and some of the sentence's own words, in any order: a question in other words often keeps one of them. */
function keywords(fact: Fact, random: () => number, add: Add): void {
  const said = new Set(wordsOf(`${fact.entity} ${fact.value}`));
  const source = fact.statement ?? (fact.attribute === null ? "" : fact.attribute);
  const words = [...new Set(wordsOf(source))].filter(
    (word) => !said.has(word) && !nonWords.has(word) && /^\p{L}{3,}/u.test(word),
  );
  if (words.length === 0) return;
  for (let count = 0; count < 3; count++) {
    const some = shuffled(words, random).slice(0, 1 + Math.floor(random() * 2));
    const parts = random() < 0.5 ? [fact.entity, some.join(" ")] : [some.join(" "), fact.entity];
    add("keywords", `${capitalised(parts.join(", "))}: ${short[fact.kind] ?? "what"}?`);
  }
}

/** The shortest question for a value of the kind. */
const short: Partial<Record<Fact["kind"], string>> = {
  money: "how much",
  percent: "how much",
  date: "when",
  year: "when",
  time: "when",
  duration: "how long",
  measure: "how much",
  number: "which number",
  name: "who or where",
};

/** The fact as one sentence that names no other value; null when only a longer one says it. */
function sentenceOf(fact: Fact): string | null {
  const table = fact.concept && fact.exact ? attributes[fact.concept]! : null;
  if (fact.attribute !== null && fact.statement === null) {
    const known = table && (nounLike(fact.attribute) || !table.tell.includes("{a}")) ? table : null;
    const first = known?.nouns.split("|").slice(0, 2).includes(fact.attribute) || !nounLike(fact.attribute);
    if (plural(fact.attribute) && fact.kind === "number") return fill("{e} has {v} {a}.", fact);
    return fill(
      known && first ? known.tell : nounLike(fact.attribute) ? "The {a} of {e} is {v}." : "{e}, {a}: {v}.",
      fact,
    );
  }
  const statement = fact.statement;
  return statement !== null && statement.split(" ").length <= 14 && fact.alone ? statement : null;
}

function fill(template: string, fact: Fact): string {
  const parts: Record<string, string> = {
    e: fact.entity,
    v: fact.value.replace(/[.!]$/, ""),
    a: fact.attribute ?? fact.concept ?? "value",
  };
  return capitalised(template.replace(/\{([eva])\}/g, (_, key: string) => parts[key]!));
}

const askOne = [
  "What is the {a} of {e}?",
  "What {a} does {e} have?",
  "Which {a} applies to {e}?",
  "Tell me the {a} of {e}.",
  "I need to know the {a} of {e}.",
  "For {e}, what is the {a}?",
  "Do you know the {a} of {e}?",
  "Give me the {a} for {e}, please.",
  "Could you look up the {a} of {e}?",
  "I forgot the {a} of {e}; what was it?",
  "Remind me which {a} goes with {e}.",
  "A colleague wonders about the {a} of {e}; what can I say?",
  "What do the documents state as the {a} of {e}?",
  "If a customer wants the {a} of {e}, what do I answer?",
  "The form has a field for the {a} of {e}; what belongs there?",
  "What would you note under «{a}» for {e}?",
];
const askMany = [
  "What are the {a} of {e}?",
  "What {a} does {e} have?",
  "Which {a} apply to {e}?",
  "Tell me the {a} of {e}.",
  "For {e}, what are the {a}?",
  "Do you know the {a} of {e}?",
  "Give me the {a} for {e}, please.",
  "Could you look up the {a} of {e}?",
  "I forgot the {a} of {e}; what were they?",
  "Remind me which {a} go with {e}.",
  "A colleague wonders about the {a} of {e}; what can I say?",
  "What do the documents state as the {a} of {e}?",
  "If a customer wants the {a} of {e}, what do I answer?",
  "List the {a} that belong to {e}.",
  "What would you note under «{a}» for {e}?",
];
const askCount = [
  "How many {a} does {e} have?",
  "How many {a} are there at {e}?",
  "What is the number of {a} of {e}?",
  "Tell me how many {a} {e} has.",
  "For {e}, how many {a} are there?",
  "Do you know how many {a} belong to {e}?",
  "If I counted the {a} of {e}, what would I get?",
  "What quantity of {a} is recorded for {e}?",
  "I forgot how many {a} come with {e}; remind me.",
  "How numerous are the {a} of {e}?",
  "Give me the total of {a} at {e}.",
  "Is {e} short of {a}? Name the figure.",
  "A visitor wonders how many {a} he would find at {e}.",
  "Which figure do the documents state for the {a} of {e}?",
];
const askPerson = [
  "Who is the {a} of {e}?",
  "What is the name of the {a} of {e}?",
  "Who is {a} for {e}?",
  "Which person is the {a} of {e}?",
  "Tell me who the {a} of {e} is.",
  "Who works as the {a} for {e}?",
  "Whose name do I enter as the {a} of {e}?",
  "Whom should I ask for if I need the {a} of {e}?",
  "Who has been appointed {a} of {e}?",
  "I am looking for the {a} of {e}; who is it?",
  "Who acts as {a} of {e}?",
  "A letter goes to the {a} of {e}; whom do I address?",
  "Remind me who fills the post of {a} at {e}.",
  "Introduce me to the {a} of {e}, please.",
];

/** Questions by attribute: the table's wordings, the document's own word, and its synonyms behind the same qualifier. */
function asks(fact: Fact): string[] {
  const { attribute } = fact;
  const known = fact.concept ? attributes[fact.concept]! : null;
  const out: string[] = [];
  const said = known?.event && attribute === null ? fact.event : fact.entity;
  if (known && fact.exact && said !== null) {
    const asks = known.ask.filter((ask) => (attribute !== null && nounLike(attribute)) || !ask.includes("{a}"));
    out.push(...asks.map((ask) => ask.replaceAll("{e}", () => said)));
  }
  const named = attribute !== null && normalised(fact.entity).includes(normalised(attribute));
  if (attribute !== null && !named && nounLike(attribute) && attribute !== "meaning") {
    if (fact.kind === "name" && officer.test(attribute)) out.push(...askPerson);
    else
      out.push(
        ...(!plural(attribute) ? askOne : /^\d/.test(fact.value) && fact.kind === "number" ? askCount : askMany),
      );
    if (known && !fact.exact) {
      const qualifier = attribute.split(" ").slice(0, -1).join(" ");
      const nouns = known.nouns
        .split("|")
        .filter((noun) => !noun.includes(" ") && nounLike(noun) && !attribute.endsWith(noun));
      for (const noun of nouns.slice(0, 2)) out.push(`What is the ${qualifier} ${noun} of {e}?`);
    }
  }
  return out.map((ask) => fill(ask, fact));
}

/** A question as it stands, by another name of the thing, or told where it belongs: the organisation, or a heading. */
function placed(question: string, fact: Fact, corpus: Corpus, random: () => number): string {
  const { company } = corpus;
  const renamed =
    fact.other !== null && random() < (fact.other.includes(fact.entity) ? 0.65 : 0.4)
      ? question.replace(fact.entity, () => fact.other!)
      : company?.includes(" ")
        ? question.replace(company, () => shortened(company, random()))
        : question;
  const lower = /^I\b/.test(renamed) ? renamed : renamed.charAt(0).toLowerCase() + renamed.slice(1);
  const draw = random();
  if (fact.context !== null && draw < 0.2) return `${capitalised(fact.context)}: ${lower}`;
  if (company !== null && draw > 0.9 && plainly.test(lower) && !question.includes(company))
    return `At ${company}, ${lower}`;
  return capitalised(renamed);
}

/** «At Moe Trading, who …?», but not «At Moe Trading, I need …». */
const plainly = /^(?:who|whom|whose|what|when|where|which|how)\b/;

/** How people in the house say it: mostly by its full name. */
const shortened = (company: string, draw: number): string =>
  draw < 0.65 ? company : draw < 0.85 ? company.split(" ")[0]! : "the company";

type Add = (family: Candidate["family"], question: string, answer?: string) => void;

/** Rows that keep siblings apart: this value or that one; which of them; true or not. */
function contrasts(fact: Fact, siblings: Siblings, random: () => number, add: Add, full: string | null): void {
  const others = shuffled(
    siblings.near.filter((other) => normalised(other.value) !== normalised(fact.value)),
    random,
  );
  const singular = fact.attribute !== null && nounLike(fact.attribute) && !plural(fact.attribute);
  const label = singular ? `the ${fact.attribute} of ${fact.entity}` : null;
  for (const rival of others.slice(0, 2)) {
    const pair = random() < 0.5 ? [fact.value, rival.value] : [rival.value, fact.value];
    const question = label ? `Is ${label} ${pair[0]} or ${pair[1]}?` : `${fact.entity}: ${pair[0]} or ${pair[1]}?`;
    add("contrast", question);
  }
  if (others.length === 0) return;
  if (label && full) add("check", `Is ${label} ${others[0]!.value}?`, `No. ${full}`);
  const which = fact.concept && fact.exact ? attributes[fact.concept]!.which : undefined;
  if (siblings.unique && which) add("which", fill(which, fact), ended(fact.entity));
  else if (siblings.unique && label)
    add("which", `Which one has the ${fact.attribute} ${fact.value}?`, ended(fact.entity));
}

/** Rows without a word of any language: the key, the attribute and the value. */
function neutral(fact: Fact): Candidate[] {
  const answer = fact.value;
  return [
    { family: "attribute", question: `${fact.entity}: ${fact.attribute}?`, answer },
    { family: "asked", question: `${capitalised(fact.attribute ?? "")} – ${fact.entity}?`, answer },
    { family: "blank", question: `${fact.entity}, ${fact.attribute}: ____`, answer },
    { family: "asked", question: `${capitalised(fact.attribute ?? "")} (${fact.entity})?`, answer },
  ];
}
