// The questions that a clause answers in its own words.
import type { Clause } from "./clauses.ts";
import { type Corpus, lowered } from "./corpus.ts";
import { type Hole, isPersonal } from "./mentions.ts";
import { unitOf, type Value } from "./values.ts";
import { alternatives, pastOf, thirdOf } from "./verbs.ts";

const place = /^(?:in|at|near|on|from|to)$/;
/** «carried over» is not «transported over». */
const particle = /^\s+(?:over|out|off|up|down|away|back|on|around|along|together|forward)\b(?!\s+(?:the|a|an)\b)/;
const frames = ["Can you tell me {q}?", "Do you know {q}?", "I would like to know {q}.", "Tell me {q}."];

/** Question words for a value where it stands, best first. */
function questionWords(value: Value, { preposition, noun }: Hole): string[] {
  const unit = unitOf(value.text);
  const many = unit.length > 2 ? [`how many ${/s$/.test(unit) ? unit : `${unit}s`}`] : [];
  if (noun !== null && value.kind === "name") return [`${preposition} which ${noun}`.trim()];
  if (noun !== null) return [`how much ${noun}`, ...many.map((word) => `${word} of ${noun}`)];
  if (preposition === "up to" && many.length > 0) return [`up to ${many[0]}`, `${many[0]} at most`];
  if (preposition === "up to") return ["up to how much", "how much at most"];
  switch (value.kind) {
    case "money":
      return ["how much", ...(/^(?:euro|dollar|pound|franc|crown|cent)/.test(unit) ? many : [])];
    case "percent":
      return preposition === "by" ? ["by how many percent"] : ["how much", "what percentage"];
    case "date":
      if (preposition === "every") return ["how often", "on which days"];
      return preposition === "by" || preposition === "until" ? ["by when"] : ["when", "on which day"];
    case "year":
      return ["when", "in which year"];
    case "time":
      return preposition === "until" ? ["until when", "until what time"] : ["at what time", "when"];
    case "duration":
      if (preposition === "within" || preposition === "in") return ["within what time", "how quickly", "how soon"];
      if (preposition === "every") return ["how often", "how frequently", "at what interval"];
      return preposition === "after" ? ["after how long", "when"] : ["how long", ...many];
    case "number":
      return [value.noun === null ? "what number" : `how many ${value.noun}`];
    case "measure":
      return [...many, "how much"];
    case "name":
      if (place.test(preposition)) return ["where", `${preposition} which place`];
      if (preposition === "") return isPersonal(value.text) ? ["who"] : ["what", "who"];
      return [/^(?:by|with|to|from|for)$/.test(preposition) ? `${preposition} whom` : `${preposition} what`];
    default:
      return [preposition === "" ? "what" : `${preposition} what`];
  }
}

const bare = (text: string): string => text.replace(/[.!]+$/, "");

const tidy = (text: string): string =>
  text
    .replace(/\s+/g, " ")
    .replace(/\s+([,.;:])/g, "$1")
    .replace(/[,;:\s]+$/, "")
    .trim();

/** «Who leads the plant?»: the clause with its subject asked for. */
function askSubject(clause: Clause, wh: string): string {
  return `${wh}${bare(clause.text.slice(clause.subject.end))}?`;
}

/** «Who carries the parcels?»: a passive clause with its agent asked for in the active; null when there is more to say. */
function askAgent(clause: Clause, hole: { start: number; end: number }, corpus: Corpus): string | null {
  if (!clause.passive) return null;
  const auxiliary = clause.text.slice(clause.auxiliary!.start, clause.verb.start).trim().toLowerCase();
  const verb = /^(is|are)$/.test(auxiliary)
    ? thirdOf(clause.lemma)
    : /^(was|were)$/.test(auxiliary)
      ? pastOf(clause.lemma)
      : auxiliary.endsWith(" be")
        ? `${auxiliary.slice(0, -3)} ${clause.lemma}`
        : null;
  if (verb === null) return null;
  const subject = lowered(clause.text.slice(clause.subject.start, clause.subject.end), corpus);
  const between = clause.text.slice(clause.verb.end, hole.start);
  return `${tidy(`Who ${verb} ${subject} ${between} ${bare(clause.text.slice(hole.end))}`)}?`;
}

/** The clause around a hole: «does the warranty last» for a question, «the warranty lasts» for a question inside another. */
function askFor(
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

/** Direct questions, the same ones inside a request, and both with another verb. */
export function ownQuestions(clause: Clause, value: Value, hole: Hole, corpus: Corpus): string[] {
  const said = clause.text.slice(clause.verb.start, clause.verb.end);
  const out = clauseQuestions(clause, value, hole, corpus);
  if (particle.test(clause.text.slice(clause.verb.end))) return out;
  for (const other of alternatives(clause.lemma, said, clause.auxiliary === null)) {
    const [first, ...particle] = other.split(" ");
    const shift = other.length - said.length;
    const text = clause.text.slice(0, clause.verb.start) + other + clause.text.slice(clause.verb.end);
    const verb = { start: clause.verb.start, end: clause.verb.end + shift };
    // Questions with «do» take the base form, which the first word of the other verb is only in the plural present.
    if (
      clause.auxiliary === null &&
      value.start > clause.verb.start &&
      first === other &&
      particle.length === 0 &&
      !clause.plural
    )
      continue;
    const moved = (at: number) => (at >= clause.verb.end ? at + shift : at);
    const there = { ...hole, start: moved(hole.start), end: moved(hole.end) };
    const swapped = { ...clause, text, verb };
    out.push(
      ...clauseQuestions(swapped, { ...value, start: moved(value.start), end: moved(value.end) }, there, corpus).slice(
        0,
        2,
      ),
    );
  }
  return out;
}

/** «Who is the location?» is no question. */
const placeNoun = /\b(?:location|place|site|town|city|office|address|seat|venue)\b/i;

function clauseQuestions(clause: Clause, value: Value, hole: Hole, corpus: Corpus): string[] {
  const asked = clause.text.slice(clause.subject.start, clause.subject.end);
  const words = questionWords(value, hole).filter((word) => word !== "who" || !placeNoun.test(asked));
  const inSubject = value.start >= clause.subject.start && value.start < clause.subject.end;
  const acts =
    value.kind === "name" &&
    (isPersonal(value.text) || !(clause.passive || /^(?:be|stand|lie|sit|open|have|hold)$/.test(clause.lemma)));
  if (inSubject) return [askSubject(clause, acts ? "Who" : "What")];
  const between = clause.text.slice(clause.verb.end, hole.start).trim();
  if (clause.lemma === "be" && /\s/.test(between)) return [];
  const out: string[] = [];
  const agent = hole.preposition === "by" && value.kind !== "date" ? askAgent(clause, hole, corpus) : null;
  if (agent) out.push(agent);
  const early = value.start < clause.subject.start;
  const around = askFor(clause, early ? { start: 0, end: 0 } : hole, corpus);
  for (const [index, word] of words.entries()) {
    out.push(`${word} ${around.direct}?`);
    const frame = frames[(clause.text.length + index) % frames.length]!;
    out.push(frame.replace("{q}", () => `${word} ${around.indirect}`));
  }
  return out;
}

/** For an amount that a clause mentions by the way: «a fee of 35 euros is deducted». */
export function amountQuestions(thing: string): string[] {
  const asks = [
    "How much is {t}?",
    "How high is {t}?",
    "What is the amount of {t}?",
    "Can you tell me how large {t} is?",
  ];
  return asks.map((ask) => ask.replace("{t}", () => thing));
}
