// A real exam about something else than what was learned: the questions of Debian's hamexam (amateur radio), four answers each.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { readConfig } from "../../../src/base/config.ts";
import { writeJsonDurably } from "../../../src/base/files.ts";
import { createLog } from "../../../src/base/log.ts";
import { seeded } from "../../../src/base/statistics/random.ts";
import { shuffled } from "../../../src/base/text.ts";
import { shapeOf as modelShapeOf } from "../../../src/engine/gguf/gpu.ts";
import { readGgufHeader } from "../../../src/engine/gguf/header.ts";
import { openTokenizer } from "../../../src/engine/serve/generator.ts";
import type { Trainer } from "../../../src/engine/train/trainer.ts";
import { startTrainer } from "../../../src/engine/train/trainer-process.ts";
import { shapeOf } from "../../../src/run/folder/adapter-shape.ts";
import { readRequest } from "../../../src/run/folder/request.ts";
import { choose } from "../../../src/run/guards/measure.ts";
import { adapterName } from "../../../src/run/training.ts";
import { unpacked } from "./debian.ts";
import { starterModel } from "./experiment.ts";

const log = createLog("error");

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

/**
 * Which questions are answered right, each choice scored as the answer; kept in a file. Asked of the trainer, which goes through a
 * question once for all its answers. `run`: the finished run whose adapter sits it; null for the base.
 */
export async function sitExam(
  path: string,
  run: string | null,
  questions: readonly ExamQuestion[],
  threads: number,
): Promise<boolean[]> {
  if (existsSync(path)) return JSON.parse(readFileSync(path, "utf8")) as boolean[];
  const { tokenizer, dispose } = await openTokenizer(starterModel, log);
  const trainer = startTrainer({ executable: readConfig().trainer, log });
  try {
    await trainer.open({ path: starterModel, threads, memoryBytes: 0 });
    const adapter = run === null ? null : await loadAdapter(trainer, run);
    // Its first choice is an item's right one.
    const items = questions.map(({ ask, choices, right }) => ({
      ask,
      stem: "",
      choices: [choices[right]!, ...choices.filter((_, index) => index !== right)],
    }));
    const answered = await choose({ trainer, adapter, tokenizer, turn: async () => {} }, items);
    await writeJsonDurably(path, answered);
    return answered;
  } finally {
    await trainer.close();
    await dispose();
  }
}

/** What a run made, at the scale it chose, under the name it has in the trainer. */
async function loadAdapter(trainer: Trainer, run: string): Promise<string> {
  const peft = join(run, "artefact/peft");
  const { lora_alpha: alpha } = JSON.parse(readFileSync(join(peft, "adapter_config.json"), "utf8")) as {
    lora_alpha: number;
  };
  const { base, recipe } = await readRequest(run);
  const { layers } = modelShapeOf(readGgufHeader(base.path));
  await trainer.createAdapter(adapterName, { ...shapeOf(recipe, layers), alpha });
  await trainer.load(adapterName, peft);
  return adapterName;
}
