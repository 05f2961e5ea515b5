// A teacher is another model that reads a passage and writes questions about it. The appliance calls the teacher; a run never does.
// The teacher's replies come with the run's folder and are read here.

import { holdsUncut } from "../../base/text.ts";
import { headingOf } from "../heading.ts";
import { filled, ownOrEnglish } from "../languages.ts";
import type { Passage } from "../passages.ts";
import { objectsIn, statedIn } from "../replies.ts";
import type { Target } from "../targets.ts";
import type { Writer } from "./writer.ts";

/** What a teacher wrote about one passage. */
export interface TeacherReply {
  asks: { answer: string; questions: string[] }[];
  /** Number of facts that are not used, because the passage does not contain their answer. */
  unfounded: number;
}

/** Maximum questions read for one answer of a reply. */
const mostQuestions = 8;

/** Returns a prompt that asks a chat model for questions in the passage's language. */
export function teacherPrompt(passage: Passage): string {
  return filled(ownOrEnglish(passage.language, "teach"), shownOf(passage));
}

/**
 * Returns a second prompt. It asks for more questions for the answers of the first reply, unlike the questions in that reply. The more
 * wordings of a question are trained, the more often a wording that was not trained finds the answer.
 */
export function furtherPrompt(passage: Passage, { asks }: Pick<TeacherReply, "asks">): string {
  const lines = asks.map((ask) => JSON.stringify(ask)).join("\n");
  return filled(ownOrEnglish(passage.language, "teach_further"), { ...shownOf(passage), asks: lines });
}

/** What a teacher is shown of a passage. The text before it tells whom and what the passage speaks of. */
function shownOf(passage: Passage): Record<"before" | "heading" | "text", string> {
  const { language, before, text } = passage;
  const told = before === "" ? "" : filled(ownOrEnglish(language, "teach_before"), { before });
  return { before: told, heading: headingOf(passage), text };
}

/** Joins both replies. For each answer, the questions of the first reply come before those of the second. */
export function joinedReplies(first: TeacherReply, further: TeacherReply): TeacherReply {
  const asks = Map.groupBy([...first.asks, ...further.asks], ({ answer }) => answer);
  return {
    asks: [...asks].map(([answer, own]) => ({
      answer,
      questions: [...new Set(own.flatMap(({ questions }) => questions))],
    })),
    unfounded: first.unfounded + further.unfounded,
  };
}

/** Reads the JSON objects of a reply, wherever they stand in it. Skips those whose answer the passage does not contain. */
export function readReply(said: string, passage: Pick<Passage, "text">): TeacherReply {
  const asks: TeacherReply["asks"] = [];
  let unfounded = 0;
  for (const value of objectsIn(said)) {
    const { answer, questions } = value as { answer?: unknown; questions?: unknown };
    if (typeof answer !== "string" || answer.trim() === "" || !Array.isArray(questions)) continue;
    const texts = questions.filter((one): one is string => typeof one === "string" && one.trim() !== "");
    if (texts.length === 0) continue;
    const stated = statedIn(passage.text, answer);
    if (stated === null) unfounded++;
    else asks.push({ answer: stated, questions: texts.slice(0, mostQuestions) });
  }
  return { asks, unfounded };
}

/**
 * Interleaves the lists: the first item of each, then the second of each, and so on. Rows are taken from the beginning, so no fact
 * of a sentence waits until the questions for another are used up.
 */
const inTurn = (lists: readonly (readonly string[])[]): string[] =>
  Array.from({ length: Math.max(0, ...lists.map(({ length }) => length)) }, (_, at) =>
    lists.flatMap((list) => list.slice(at, at + 1)),
  ).flat();

/** Returns a writer that gives the questions of a teacher's replies. `replies`: by the passage's id. */
export function teacherWriter(name: string, replies: ReadonlyMap<string, TeacherReply>): Writer {
  const asksOf = (passage: Passage): TeacherReply["asks"] => replies.get(passage.id)?.asks ?? [];
  return {
    name,
    isTeacher: true,
    propose: async (passages) => passages.map((passage) => asksOf(passage).map(({ answer }) => answer)),
    write: async (targets) =>
      targets.map(({ passage, answer, kind }: Target) =>
        kind === "asked"
          ? []
          : inTurn(
              asksOf(passage)
                .filter((ask) => (kind === "clause" ? holdsUncut(answer, ask.answer) : ask.answer === answer))
                .map(({ questions }) => questions),
            ),
      ),
    // Training these short answers as well as whole sentences helps a natural question find its answer among many. In `prove:study`,
    // 41.5 instead of 23.6 of 100 questions in other words were answered, with less divergence from the base.
    answerTo: ({ passage, kind }, question) =>
      kind === "clause"
        ? (asksOf(passage).find(({ questions }) => questions.includes(question))?.answer ?? null)
        : null,
    fluency: null,
    read: null,
  };
}
