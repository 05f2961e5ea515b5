// Makes the prompts with which a model writes benchmark questions, and reads its replies. The model writes questions with answers in
// one message. In another message it answers the questions from the passages alone, without seeing its first answers. A question that
// it then answers differently is dropped.
import { containsWords } from "../../base/text.ts";
import { headingOf } from "../heading.ts";
import { filled, ownOrEnglish } from "../languages.ts";
import type { Passage } from "../passages.ts";
import { objectsIn, statedIn } from "../replies.ts";
import { type ItemKind, isItemKind } from "./kinds.ts";
import type { ItemPlan } from "./plan.ts";

/** A question as a model wrote it. */
export interface Written {
  kind: ItemKind;
  question: string;
  /** Verbatim from a passage; empty if the passages do not answer the question. */
  answer: string;
}

/** A question, and whether a reader who saw only the passages gave the same answer. */
export interface Verified extends Written {
  verified: boolean;
  /** For an unanswerable question, whether other passages were searched for an answer. */
  searched?: boolean;
}

/** Maximum number of questions read from a reply. */
const mostQuestions = 16;

const textOf = (passage: Passage): string => `${headingOf(passage)}\n---\n${passage.text}`;
const textsOf = (passages: readonly Passage[]): string => passages.map(textOf).join("\n\n");

export const shownTo = ({ passage, near }: ItemPlan): Passage[] => (near === null ? [passage] : [passage, near]);

/** Returns a prompt that asks a chat model for questions about the planned spans, and about what else the passage states. */
export function quizPrompt(plan: ItemPlan): string {
  const spans = plan.spans.map(({ text, asks }) => `- ${JSON.stringify(text)} (${asks})`).join("\n");
  return filled(ownOrEnglish(plan.passage.language, "quiz"), { spans, passages: textsOf(shownTo(plan)) });
}

/** Reads the objects {kind, question, answer} of a reply. Skips other objects, and questions whose answer the passages do not contain. */
export function readQuiz(said: string, plan: ItemPlan): Written[] {
  const read = objectsIn(said).flatMap((value): Written[] => {
    const { kind, question, answer } = value as Record<string, unknown>;
    if (!isItemKind(kind) || typeof question !== "string" || question.trim() === "") return [];
    if (kind === "unanswerable") return answer === null ? [{ kind, question: question.trim(), answer: "" }] : [];
    if (typeof answer !== "string" || answer.trim() === "") return [];
    const within = kind === "multi_hop" ? shownTo(plan) : [plan.passage];
    const stated = within.map(({ text }) => statedIn(text, answer.trim())).find((one) => one !== null);
    return stated === undefined ? [] : [{ kind, question: question.trim(), answer: stated }];
  });
  return read.slice(0, mostQuestions);
}

/** Returns a second prompt, which asks a chat model to answer each question from the passages. */
export function verifyPrompt(passages: readonly Passage[], questions: readonly string[]): string {
  const numbered = questions.map((question, at) => `${at + 1}. ${question}`).join("\n");
  const prompt = ownOrEnglish(passages[0]!.language, "verify");
  return filled(prompt, { questions: numbered, passages: textsOf(passages) });
}

/** Reads the answer to each question: null if there is none, undefined if its object is missing or cannot be read. */
export function readAnswers(said: string, questions: number): (string | null | undefined)[] {
  const answers = new Array<string | null | undefined>(questions).fill(undefined);
  for (const value of objectsIn(said)) {
    const { number, answer } = value as Record<string, unknown>;
    if (!Number.isInteger(number) || (number as number) < 1 || (number as number) > questions) continue;
    if (answer === null || typeof answer === "string") answers[(number as number) - 1] = answer;
  }
  return answers;
}

/** Whether a reader gave the same answer, possibly with more or fewer of the surrounding words. */
export const isSameReading = (read: string | null | undefined, { kind, answer }: Written): boolean =>
  kind === "unanswerable"
    ? read === null
    : typeof read === "string" && (containsWords(read, answer) || containsWords(answer, read));
