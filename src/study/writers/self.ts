// The base as its own writer: shown a passage, it writes what there is to ask of it, as a teacher would, and answers from the passage
// whether what it wrote holds. Large bases write well so; small ones do not, and its first passages tell.

import { sameAnswer } from "../gates.ts";
import { readAnswers, verifyPrompt } from "../items/written.ts";
import type { Passage } from "../passages.ts";
import { type Lesson, readLesson, teacherPrompt, teacherWriter } from "./teacher.ts";
import type { Speaker, Writer } from "./writer.ts";

/** Tokens of what it writes of a passage, and of the answers to that. */
const lessonTokens = 512;
const answerTokens = 256;
/** Passages that it is asked about before it is known to write at all. */
const tried = 8;

/** `speaker`: the base, asked as a chat. */
export function selfWriter(speaker: Speaker, { seed }: { seed: number }): Writer {
  const lessons = new Map<string, Lesson>();
  const teacher = teacherWriter("self", lessons);
  let writes = true;

  async function ask(passages: readonly Passage[]): Promise<void> {
    const said = await speaker.chat(passages.map(teacherPrompt), { maxTokens: lessonTokens, temperature: 0, seed });
    for (const [at, passage] of passages.entries()) lessons.set(passage.id, readLesson(said[at]!, passage));
  }
  const asksOf = (passage: Passage): Lesson["asks"] => lessons.get(passage.id)?.asks ?? [];

  return {
    ...teacher,
    async propose(passages) {
      const known = lessons.size;
      if (writes && known < tried) {
        const first = passages.slice(0, tried - known);
        await ask(first);
        const asks = [...lessons.values()].reduce((sum, lesson) => sum + lesson.asks.length, 0);
        // A base that can write finds several answers in a passage.
        writes = asks >= lessons.size;
        if (writes && passages.length > first.length) await ask(passages.slice(first.length));
      } else if (writes) await ask(passages);
      return teacher.propose(passages);
    },
    /** The target's answer where the base gives it from the passage; else empty. */
    async read(written) {
      const byPassage = [...Map.groupBy(written, ({ target }) => target.passage)];
      const said = await speaker.chat(
        byPassage.map(([passage, own]) =>
          verifyPrompt(
            [passage],
            own.map(({ question }) => question),
          ),
        ),
        { maxTokens: answerTokens, temperature: 0, seed },
      );
      const answered = new Map(
        byPassage.flatMap(([passage, own], at) => {
          const answers = readAnswers(said[at]!, own.length);
          return own.map((one, index) => {
            const gold = asksOf(passage).find(({ questions }) => questions.includes(one.question))?.answer ?? "";
            return [one, sameAnswer(answers[index] ?? "", gold) ? one.target.answer : ""] as const;
          });
        }),
      );
      return written.map((one) => answered.get(one)!);
    },
  };
}
