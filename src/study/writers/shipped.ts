// The shipped writer: an adapter of the starter model (config/writer). It was trained on short passages, and is used
// where a probe finds its questions good. It asks for whole clauses: which words of one a question is after, so small a model cannot tell.

import { headingOf, type Passage } from "../passages.ts";
import { clauseTextsOf } from "../spans.ts";
import { isClause, type Target } from "../targets.ts";
import { askingPrompt, continuation, type Manner, manners, oneLine, readingPrompt } from "./format.ts";
import type { Speaker, Writer, Written } from "./writer.ts";

/** Tokens of a question; languages it has seen little of take more for a word. */
const questionTokens = 56;
/** Words of a clause that tell it from the others of its passage: more takes time, and follows from them. */
const telling = 6;
/** Nats by which a question must be likelier for its clause than for every other of the passage. */
const lead = 4;

const firstWords = (text: string): string => oneLine(text).split(" ").slice(0, telling).join(" ");

const about = (passage: Passage) => ({ title: headingOf(passage), text: passage.text });

/** `speaker`: the starter model with the adapter. */
export function shippedWriter(
  speaker: Speaker,
  { languages, seed }: { languages: readonly string[]; seed: number },
): Writer {
  /** In which manner a question was asked for: it is weighed in the same. */
  const mannerOf = new Map<string, Manner>();
  const asking = (passage: Passage, clause: string, question: string) => ({
    prompt: askingPrompt(about(passage), clause, mannerOf.get(question) ?? manners[0]),
    text: continuation(question),
  });

  return {
    name: "shipped",
    isTeacher: false,
    languages,
    propose: async (passages) => passages.map(() => []),
    async write(targets) {
      const asked = targets.filter((target) => isClause(target) && languages.includes(target.passage.language ?? ""));
      const prompts = asked.flatMap(({ passage, answer }) =>
        manners.map((manner) => askingPrompt(about(passage), answer, manner)),
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
    async fluency(written) {
      const scored = await speaker.score(
        written.map(({ target, question }) => asking(target.passage, target.answer, question)),
      );
      return scored.map(({ logprobs }) => sum(logprobs) / Math.max(1, logprobs.length));
    },
    /** The clause that the question is likeliest for, by a lead, if it is also the likeliest answer; else empty. */
    async read(written) {
      const choices = written.map(({ target }) => clauseTextsOf(target.passage));
      const weigh = async (rowOf: (one: Written, clause: string) => { prompt: string; text: string }) => {
        const scored = await speaker.score(
          written.flatMap((one, at) => choices[at]!.map((clause) => rowOf(one, clause))),
        );
        let from = 0;
        return choices.map((clauses) => {
          const ranked = clauses
            .map((clause, at) => ({ clause, nats: sum(scored[from + at]!.logprobs) }))
            .sort((a, b) => b.nats - a.nats);
          from += clauses.length;
          return ranked;
        });
      };
      const asked = await weigh(({ target, question }, clause) => asking(target.passage, clause, question));
      const answered = await weigh(({ target, question }, clause) => ({
        prompt: readingPrompt(about(target.passage), question),
        text: continuation(firstWords(clause)),
      }));
      return asked.map(([first, second], at) => {
        const leads = second === undefined || first!.nats - second.nats >= lead;
        return leads && first?.clause === answered[at]![0]!.clause ? first.clause : "";
      });
    },
  };
}

const sum = (values: readonly number[]): number => values.reduce((total, one) => total + one, 0);
