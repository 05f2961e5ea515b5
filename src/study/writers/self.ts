// The base as its own writer. It writes questions about a passage, as a teacher would, and then answers them from the passage to
// check them. Large bases do this well and small bases do not. The first passages show whether a base does.

import { sameAnswer } from "../gates.ts";
import { readAnswers, verifyPrompt } from "../items/written.ts";
import type { Passage } from "../passages.ts";
import { readReply, type TeacherReply, teacherPrompt, teacherWriter } from "./teacher.ts";
import type { Speaker, Writer } from "./writer.ts";

/** Maximum tokens of the base's questions about a passage, and of its answers to them. */
const replyTokens = 512;
const answerTokens = 256;
/** Number of passages on which the base is tried, to find out whether it can write at all. */
const tried = 8;

/** The passage after the text before it, in which a question may have found its names. */
const withBefore = (passage: Passage): Passage =>
  passage.before === "" ? passage : { ...passage, text: `${passage.before}\n${passage.text}` };

/** Returns a writer that uses the base itself. `speaker`: the base, which is called as a chat. */
export function selfWriter(speaker: Speaker, { seed }: { seed: number }): Writer {
  const replies = new Map<string, TeacherReply>();
  const teacher = teacherWriter("self", replies);
  let writes = true;

  async function ask(passages: readonly Passage[]): Promise<void> {
    const said = await speaker.chat(passages.map(teacherPrompt), { maxTokens: replyTokens, temperature: 0, seed });
    for (const [at, passage] of passages.entries()) replies.set(passage.id, readReply(said[at]!, passage));
  }
  const asksOf = (passage: Passage): TeacherReply["asks"] => replies.get(passage.id)?.asks ?? [];

  return {
    ...teacher,
    async propose(passages) {
      const known = replies.size;
      if (writes && known < tried) {
        const first = passages.slice(0, tried - known);
        await ask(first);
        const asks = [...replies.values()].reduce((sum, reply) => sum + reply.asks.length, 0);
        // A base that can write finds several answers in a passage, so fewer than one per passage means that it cannot.
        writes = asks >= replies.size;
        if (writes && passages.length > first.length) await ask(passages.slice(first.length));
      } else if (writes) await ask(passages);
      return teacher.propose(passages);
    },
    /** Returns the target's answer if the base, from the passage, repeats the answer that it gave with the question; otherwise "". */
    async read(written) {
      const byPassage = [...Map.groupBy(written, ({ target }) => target.passage)];
      const said = await speaker.chat(
        byPassage.map(([passage, own]) =>
          verifyPrompt(
            [withBefore(passage)],
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
