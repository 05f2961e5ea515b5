// The questions that a clause answers in its own words.
import { askAgent, askFor, askSubject, type Clause } from "./clauses.ts";
import type { Corpus } from "./corpus.ts";
import type { Value } from "./values.ts";

/** What is taken out of the clause: the value with its preposition and the noun it counts. */
export interface Hole {
  start: number;
  end: number;
  preposition: string;
}

const place = /^(?:in|at|near|on|from|to)$/;
const frames = ["Can you tell me {q}?", "Do you know {q}?", "I would like to know {q}.", "Tell me {q}."];

/** Question words for a value where it stands, best first. */
function questionWords(value: Value, preposition: string): string[] {
  const unit = /(\p{L}[\p{L}\s]*)$/u.exec(value.text)?.[1] ?? "";
  const many = unit.length > 2 ? [`how many ${/s$|[a-z]{2}(?:Hz|kg)$/.test(unit) ? unit : `${unit}s`}`] : [];
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
      return preposition === "" ? ["what", "who"] : [`${preposition} whom`];
    default:
      return [preposition === "" ? "what" : `${preposition} what`];
  }
}

/** Direct questions, and the same ones inside a request. */
export function ownQuestions(clause: Clause, value: Value, hole: Hole, corpus: Corpus): string[] {
  const words = questionWords(value, hole.preposition);
  const inSubject = value.start >= clause.subject.start && value.start < clause.subject.end;
  if (inSubject) return [askSubject(clause, value.kind === "name" ? "Who" : "What")];
  const between = clause.text.slice(clause.verb.end, hole.start).trim();
  if (clause.lemma === "be" && /\s/.test(between)) return [];
  const out: string[] = [];
  const agent = hole.preposition === "by" && value.kind !== "date" ? askAgent(clause, hole, corpus) : null;
  if (agent) out.push(agent);
  const around =
    value.start < clause.subject.start ? askFor(clause, { start: 0, end: 0 }, corpus) : askFor(clause, hole, corpus);
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
