// A model says a question in other words. Rules have found what is asked and what is right; a wording that loses any of it is not
// taken, and the rules' own stays.
import type { Draft } from "./gates.ts";
import { standsAlone } from "./gates.ts";

/** Characters of a question that people would still ask. */
const longest = 300;

export const phrasingOf = ({ question }: Draft): string =>
  `Say this question in other words. Keep every name and number as it is, add nothing, and answer with the question alone.\n\n${question}`;

/** The question of the model's answer; null where it is none, or has lost a name, or says more than it should. */
export function phrased(answer: string, draft: Draft): string | null {
  const question = answer.trim().replace(/^["'«“]+|["'»”]+$/g, "");
  if (question.length > longest || question.includes("\n") || !question.endsWith("?")) return null;
  if (question === draft.question) return null;
  const kept = [...draft.question.matchAll(/(?<=\S\s)[\p{Lu}\d][\p{L}\p{N}.,:-]*[\p{L}\p{N}]/gu)].map(([name]) => name);
  const names = [...draft.about.names.filter((name) => draft.question.includes(name)), ...kept];
  return names.every((name) => question.includes(name)) && standsAlone(question, draft) ? question : null;
}
