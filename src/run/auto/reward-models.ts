// The models other than the base that a reward names. The run loads none of them: it asks the appliance and keeps the
// answers in its folder. So a run that was killed asks no question twice and gives the same rewards again.
import type { ModelQuestion } from "../../contract/run-lines.ts";
import { filled, ownOrEnglish } from "../../study/languages.ts";
import type { Run } from "../context.ts";
import { Unanswered } from "../control.ts";
import { answerTo, openMemory } from "../folder/memory.ts";
import type { Judge, PreferenceModel } from "../rewards/judged.ts";

/** domain/alignments/snapshot.ts removes the file by this name. */
const fileName = "reward-models.jsonl";

export interface AskedModels {
  judge: Judge;
  preferenceModel: PreferenceModel;
  /** Seconds that earlier processes took for the answers that they left. */
  secondsBefore: number;
  close(): Promise<void>;
}

export async function openRewardModels({
  folder,
  parts: { control, clock },
}: Pick<Run, "folder" | "parts">): Promise<AskedModels> {
  const memory = await openMemory(folder, { fileName, clock });
  /** Questions whose answers are pending, so that equal answers of a group are asked about once. */
  const underWay = new Map<string, Promise<string>>();

  async function ask(question: ModelQuestion): Promise<unknown> {
    const key = JSON.stringify(question);
    const say = async (): Promise<string> => JSON.stringify(await control.ask(question));
    const asked = underWay.get(key) ?? answerTo(memory, key, say).finally(() => underWay.delete(key));
    underWay.set(key, asked);
    return JSON.parse(await asked) as unknown;
  }

  return {
    secondsBefore: memory.secondsBefore,
    async judge(criteria, prompt, answer) {
      const { ask: wording, yes, no } = ownOrEnglish(null, "judge");
      const verdicts: (boolean | null)[] = [];
      for (const criterion of criteria) {
        const content = filled(wording, { question: prompt, answer, criterion });
        verdicts.push(verdictOf(await ask({ of: "judge", content, choices: [yes, no] }), yes, no));
      }
      return verdicts;
    },
    async preferenceModel(pairs) {
      const scores: number[] = [];
      for (const [prompt, own] of Map.groupBy(pairs.keys(), (at) => pairs[at]!.prompt)) {
        const answers = [...new Set(own.map((at) => pairs[at]!.answer))];
        const said = await ask({ of: "preference_model", prompt, answers });
        if (!Array.isArray(said) || said.length !== answers.length)
          throw new Unanswered(`${answers.length} answers should have been scored`);
        const scoreOf = new Map(answers.map((answer, at) => [answer, said[at] as number]));
        for (const at of own) scores[at] = scoreOf.get(pairs[at]!.answer)!;
      }
      return scores;
    },
    close: () => memory.close(),
  };
}

/** Verdict by the first word of the judge's reply; null where that word is neither yes nor no. */
function verdictOf(said: unknown, yes: string, no: string): boolean | null {
  const first = typeof said === "string" ? /\p{L}+/u.exec(said)?.[0].toLowerCase() : undefined;
  if (first === yes.toLowerCase()) return true;
  return first === no.toLowerCase() ? false : null;
}
