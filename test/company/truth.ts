// Whether an item that was made of a company's documents is right, judged by what the company was drawn from. It knows nothing of
// how items are made.
import { normalised } from "../../src/base/text.ts";
import type { Company, Fact } from "./company.ts";

export interface JudgedItem {
  instruction: string;
  response: string;
  type: string;
  choices: readonly string[];
  /** Names of the documents that are cited. */
  cited: readonly string[];
}

export type Judgement = "right" | "no such fact" | "answerable after all" | "two right choices";

const holds = (whole: string, part: string): boolean => ` ${normalised(whole)} `.includes(` ${normalised(part)} `);

/** The name alone: «Sales» of «the Sales department», «Tivo» of «Project Tivo». */
const nameOf = (fact: Fact): string => fact.entity.replace(/^(?:the|Project) | department$/g, "");

const says = (fact: Fact, answer: string): boolean =>
  [fact.value, ...fact.aliases].some(
    (form) => holds(answer, form) && normalised(answer).replace(/^every /, "").length <= normalised(form).length,
  );

/** What the question asks for, less the names in it, is what the fact is about. */
const asks = (fact: Fact, question: string, names: readonly string[]): boolean =>
  fact.about.test(names.reduce((text, name) => text.replaceAll(name, " "), question));

export function judge(company: Company, item: JudgedItem): Judgement {
  const { instruction, response, type, choices, cited } = item;
  const names = [...new Set(company.facts.map(nameOf))].filter((name) => holds(instruction, name));
  const isAsked = (fact: Fact, of: string): boolean =>
    (fact.kind === "policy" || holds(of, nameOf(fact))) && asks(fact, instruction, names);
  if (type === "refusal")
    return company.facts.some((fact) => holds(instruction, nameOf(fact)) && asks(fact, instruction, names))
      ? "answerable after all"
      : "right";
  const of = [instruction, ...hopsFrom(company, instruction)].join("\n");
  const found = company.facts.filter((fact) => isAsked(fact, of) && cited.includes(fact.document));
  const fact = found.find((one) => says(one, response));
  if (fact === undefined) return "no such fact";
  return choices.filter((choice) => says(fact, choice)).length > 1 ? "two right choices" : "right";
}

/** What the things that a question names have as values: the thing that a question in two steps is about. */
const hopsFrom = (company: Company, question: string): string[] =>
  company.facts
    .filter((fact) => ["manager", "lead", "designer", "made_at", "head"].includes(fact.attribute))
    .filter((fact) => holds(question, nameOf(fact)) && asks(fact, question, [nameOf(fact)]))
    .map((fact) => fact.value);
