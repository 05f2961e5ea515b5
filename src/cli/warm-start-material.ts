// What the warm start is trained on: the facts of the material with all their wordings, but for those that are kept for its dev questions.
import { holdsUncut } from "../base/text.ts";
import type { SnapshotItem } from "../contract/run-folder.ts";
import { competition } from "../domain/evaluations/grade.ts";
import type { Passage } from "../study/passages.ts";
import { teacherPrompt } from "../study/writers/teacher.ts";
import type { MaterialPassage } from "./train-writer.ts";

interface Fact {
  answer: string;
  questions: string[];
}

/** Number of wordings of a fact in the first reply. */
const firstWordings = 4;

/**
 * Returns a teacher that replies as a model would that wrote the material: to a first prompt the facts of the passage, each with some of its
 * wordings, to a further prompt the other wordings of the facts that it names.
 */
export function teacherOf(passages: readonly Passage[], kept: readonly Fact[][]) {
  const factsOf = ({ document, text }: Passage): Fact[] =>
    kept[Number(document)]!.filter(({ answer }) => holdsUncut(text, answer));
  const firsts = new Map(
    passages.map((passage) => [
      teacherPrompt(passage),
      factsOf(passage).map(({ answer, questions }) => ({ answer, questions: questions.slice(0, firstWordings) })),
    ]),
  );
  const facts = passages.flatMap(factsOf);
  return async (prompt: string): Promise<string> =>
    JSON.stringify(
      firsts.get(prompt) ??
        facts
          .filter(({ questions }) => prompt.includes(JSON.stringify(questions[0])))
          .map(({ answer, questions }) => ({ answer, questions: questions.slice(firstWordings) })),
    );
}

/** Takes `count` of the list, at even distances. */
const spread = <T>(list: readonly T[], count: number): T[] =>
  Array.from({ length: Math.min(count, list.length) }, (_, at) => list[Math.floor((at * list.length) / count)]!);

/** Takes one wording each of `count` facts out of the material, and returns these as dev items. */
export function keptOut(material: readonly MaterialPassage[], count: number) {
  const facts = material.map(({ asks }) =>
    asks.map(({ answer, questions, further = [] }): Fact => ({ answer, questions: [...questions, ...further] })),
  );
  const chosen = new Map(spread(facts.flat(), count).map((fact, at) => [fact, at % fact.questions.length]));
  const kept = facts.map((asks) =>
    asks.map((fact) => ({
      answer: fact.answer,
      questions: fact.questions.filter((_, at) => at !== chosen.get(fact)),
    })),
  );
  const plain = [...chosen].map(([{ answer, questions }, at]) => ({
    instruction: questions[at]!,
    response: answer,
    aliases: [],
  }));
  const competitors = competition(plain);
  const items = plain.map(
    (item, at): SnapshotItem => ({ sample_num: at + 1, ...item, cluster: String(at), competitors: competitors(at) }),
  );
  return { kept, items };
}
