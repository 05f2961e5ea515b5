// What a model is asked to write for a benchmark, and how its answer is read: strictly, line by line. It writes in one message, and in
// another, without its own answers before it, answers what it wrote from the passages alone: what it then answers otherwise is dropped.
import { containsWords } from "../../base/text.ts";
import { filled, ownOrEnglish } from "../languages.ts";
import { headingOf, type Passage } from "../passages.ts";
import { type ItemKind, isItemKind } from "./kinds.ts";
import type { ItemPlan } from "./plan.ts";

/** A question as somebody wrote it. */
export interface Written {
  kind: ItemKind;
  question: string;
  /** As it stands in a passage; empty where the passages do not answer. */
  answer: string;
}

/** Whether a reader who saw the passages alone came to the same. */
export interface Verified extends Written {
  verified: boolean;
}

/** Questions of a passage that are read, at most. */
const mostQuestions = 16;

const textOf = (passage: Passage): string => `${headingOf(passage)}\n---\n${passage.text}`;
const textsOf = (passages: readonly Passage[]): string => passages.map(textOf).join("\n\n");

export const shownTo = ({ passage, near }: ItemPlan): Passage[] => (near === null ? [passage] : [passage, near]);

/** One message to a chat model: questions for the planned spans, and what else the passage gives. */
export function quizPrompt(plan: ItemPlan): string {
  const spans = plan.spans.map(({ text, asks }) => `- ${JSON.stringify(text)} (${asks})`).join("\n");
  return filled(ownOrEnglish(plan.passage.language, "quiz"), { spans, passages: textsOf(shownTo(plan)) });
}

/** Lines of JSON {kind, question, answer}. A line that is none, and an answer that the passages do not have, is not read. */
export function readQuiz(said: string, plan: ItemPlan): Written[] {
  const read = linesOf(said).flatMap((value): Written[] => {
    const { kind, question, answer } = value as Record<string, unknown>;
    if (!isItemKind(kind) || typeof question !== "string" || question.trim() === "") return [];
    if (kind === "unanswerable") return answer === null ? [{ kind, question: question.trim(), answer: "" }] : [];
    if (typeof answer !== "string" || answer.trim() === "") return [];
    const within = kind === "multi_hop" ? shownTo(plan) : [plan.passage];
    if (!within.some(({ text }) => text.includes(answer.trim()))) return [];
    return [{ kind, question: question.trim(), answer: answer.trim() }];
  });
  return read.slice(0, mostQuestions);
}

/** Another message: what the passages answer to each question. */
export function verifyPrompt(passages: readonly Passage[], questions: readonly string[]): string {
  const numbered = questions.map((question, at) => `${at + 1}. ${question}`).join("\n");
  const prompt = ownOrEnglish(passages[0]!.language, "verify");
  return filled(prompt, { questions: numbered, passages: textsOf(passages) });
}

/** Of each question its answer, null where there is none; undefined where the line is missing or cannot be read. */
export function readAnswers(said: string, questions: number): (string | null | undefined)[] {
  const answers = new Array<string | null | undefined>(questions).fill(undefined);
  for (const value of linesOf(said)) {
    const { number, answer } = value as Record<string, unknown>;
    if (!Number.isInteger(number) || (number as number) < 1 || (number as number) > questions) continue;
    if (answer === null || typeof answer === "string") answers[(number as number) - 1] = answer;
  }
  return answers;
}

/** The reader may copy more or fewer words around the answer. */
export const isSameReading = (read: string | null | undefined, { kind, answer }: Written): boolean =>
  kind === "unanswerable"
    ? read === null
    : typeof read === "string" && (containsWords(read, answer) || containsWords(answer, read));

function linesOf(said: string): object[] {
  return said.split("\n").flatMap((line) => {
    try {
      const value: unknown = JSON.parse(line.trim().replace(/,$/, ""));
      return typeof value === "object" && value !== null && !Array.isArray(value) ? [value] : [];
    } catch {
      return [];
    }
  });
}
