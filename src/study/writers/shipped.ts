// The shipped writer: an adapter of the starter model (config/writer). It was trained on short passages of four languages, and is used
// where a probe finds its questions good.
import type { Passage } from "../passages.ts";
import { headingOf } from "../passages.ts";
import type { Target } from "../targets.ts";
import { askingPrompt, manners, notStated, readingPrompt, spansPrompt } from "./format.ts";
import type { Speaker, Writer } from "./writer.ts";

/** Tokens of what it writes; languages it has seen little of take more for a word. */
const questionTokens = 56;
const answerTokens = 32;
const spansTokens = 80;

const about = (passage: Passage) => ({ title: headingOf(passage), text: passage.text });

/** `speaker`: the starter model with the adapter. */
export function shippedWriter(speaker: Speaker, languages: readonly string[], seed: number): Writer {
  const greedy = { temperature: 0, seed };
  return {
    name: "shipped",
    isTeacher: false,
    languages,
    async propose(passages) {
      const said = await speaker.say(
        passages.map((passage) => spansPrompt(about(passage))),
        { ...greedy, maxTokens: spansTokens },
      );
      return said.map((text) => text.split("\n").map((line) => line.trim()));
    },
    async write(targets) {
      const asked = targets.filter((target) => target.span !== null);
      const prompts = asked.flatMap((target) =>
        manners.map((manner) => askingPrompt(about(target.passage), target.span!, manner)),
      );
      const said = await speaker.say(prompts, { ...greedy, maxTokens: questionTokens });
      const questions = new Map<Target, string[]>();
      asked.forEach((target, at) => {
        const own = said.slice(at * manners.length, (at + 1) * manners.length);
        questions.set(
          target,
          own.map((text) => text.trim()),
        );
      });
      return targets.map((target) => questions.get(target) ?? []);
    },
    async read(asked) {
      const prompts = asked.map(({ passage, question }) => readingPrompt(about(passage), question));
      const said = await speaker.say(prompts, { ...greedy, maxTokens: answerTokens });
      return said.map((text) => (text.includes(notStated) ? "" : text.trim()));
    },
  };
}
