// The shipped writer, which is an adapter of the starter model (config/writer). It was trained on short passages. Its questions are
// used only if enough of them pass the gates in a probe. It asks for whole clauses, because so small a model cannot tell which
// words of a clause a question asks for.

import { headingOf } from "../heading.ts";
import { isClause, type Target } from "../targets.ts";
import { askingPrompt, continuation, type Manner, manners } from "./format.ts";
import type { Speaker, Writer } from "./writer.ts";

/** Maximum tokens of a question; a word takes more tokens in a language that the model has seen little of. */
const questionTokens = 56;

/** Returns the shipped writer. `speaker`: the starter model with the adapter. */
export function shippedWriter(
  speaker: Speaker,
  { languages, seed }: { languages: readonly string[]; seed: number },
): Writer {
  /** The manner in which each question was requested. The fluency of the question is scored in the same manner. */
  const mannerOf = new Map<string, Manner>();

  return {
    name: "shipped",
    isTeacher: false,
    propose: async (passages) => passages.map(() => []),
    async write(targets) {
      const asked = targets.filter((target) => isClause(target) && languages.includes(target.passage.language ?? ""));
      const prompts = asked.flatMap(({ passage, answer }) =>
        manners.map((manner) => askingPrompt(headingOf(passage), answer, manner)),
      );
      const said = await speaker.say(prompts, { temperature: 0, seed, maxTokens: questionTokens });
      const questions = new Map<Target, string[]>();
      asked.forEach((target, at) => {
        const own = said.slice(at * manners.length, (at + 1) * manners.length).map((text) => text.trim());
        for (const [manner, question] of own.entries()) mannerOf.set(question, manners[manner]!);
        questions.set(target, own);
      });
      return targets.map((target) => questions.get(target) ?? []);
    },
    answerTo: null,
    async fluency(written) {
      const scored = await speaker.score(
        written.map(({ target: { passage, answer }, question }) => ({
          prompt: askingPrompt(headingOf(passage), answer, mannerOf.get(question) ?? manners[0]),
          text: continuation(question),
        })),
      );
      return scored.map(({ logprobs }) => sum(logprobs) / Math.max(1, logprobs.length));
    },
    // This writer does not read. The clause that it found to be the likeliest answer did not tell right questions from wrong ones.
    read: null,
  };
}

const sum = (values: readonly number[]): number => values.reduce((total, one) => total + one, 0);
