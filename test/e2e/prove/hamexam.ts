// A real exam about something else than what was learned: the questions of Debian's hamexam (amateur radio), four answers each.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { writeJsonDurably } from "../../../src/base/files.ts";
import { choose } from "../../../src/base/likelihood.ts";
import { seeded } from "../../../src/base/statistics/random.ts";
import { shuffled } from "../../../src/base/text.ts";
import { formatChat } from "../../../src/engine/chat-format.ts";
import type { ModelRef } from "../../../src/engine/generator.ts";
import { unpacked } from "./debian.ts";
import { withModel } from "./experiment.ts";

export interface ExamQuestion {
  ask: string;
  choices: string[];
  /** Of the choices, from 0. */
  right: number;
}

/** So many of the three pools together, in a seeded order; those about a figure are left out. */
export function examQuestions(folder: string, count: number, seed: number): ExamQuestion[] {
  const pools = join(unpacked(folder, "hamexam"), "usr/share/hamexam");
  const texts = ["T", "G", "E"].flatMap((pool) =>
    readdirSync(join(pools, pool))
      .sort()
      .map((file) => readFileSync(join(pools, pool, file), "utf8")),
  );
  const questions = texts.filter((text) => !/\bfigure\b/i.test(text)).map(parse);
  return shuffled(questions, seeded(seed)).slice(0, count);
}

/** «T0A01 (B)», the question, then «A. …» to «D. …», a line each. */
function parse(text: string): ExamQuestion {
  const match = /^\w+ \(([A-D])\).*\n([\s\S]+?)\nA\. (.+)\nB\. (.+)\nC\. (.+)\nD\. (.+)\s*$/.exec(text);
  if (match === null) throw new Error(`No question of the exam: ${text}`);
  const [, letter, ask, ...choices] = match;
  return { ask: ask!.replace(/\s+/g, " "), choices, right: "ABCD".indexOf(letter!) };
}

/** Which questions are answered right, each choice scored as the answer; kept in a file. */
export async function sitExam(
  path: string,
  model: ModelRef,
  questions: readonly ExamQuestion[],
  threads: number,
): Promise<boolean[]> {
  if (existsSync(path)) return JSON.parse(readFileSync(path, "utf8")) as boolean[];
  const right = await withModel(model, threads, async (generator) => {
    const tokenizer = generator.tokenizer(model.baseId);
    const rows = questions.flatMap(({ ask, choices }) => {
      const prompt = formatChat(tokenizer, [{ role: "user", content: ask }]);
      return choices.map((choice) => ({
        tokens: [...prompt, ...tokenizer.encode(choice, false)],
        promptLength: prompt.length,
      }));
    });
    const logprobs = await generator.score(model, rows, new AbortController().signal);
    return questions.map(({ choices, right }) => choose(choices, logprobs.splice(0, choices.length)).index === right);
  });
  await writeJsonDurably(path, right);
  return right;
}
