// What the writer of a folder asks of the material's passages that it was never trained on, and what the gates say of each question.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readConfig } from "../../../src/base/config.ts";
import { createLog } from "../../../src/base/log.ts";
import { documentOf, isHeldOut, readMaterial } from "../../../src/cli/train-writer.ts";
import { openTokenizer } from "../../../src/engine/serve/generator.ts";
import { startTrainer } from "../../../src/engine/train/trainer-process.ts";
import { createSpeaker } from "../../../src/run/speaker.ts";
import { passGates } from "../../../src/study/gates.ts";
import { lexiconOf } from "../../../src/study/lexicon.ts";
import { type Passage, passagesOf } from "../../../src/study/passages.ts";
import { isClause, studyTargets } from "../../../src/study/targets.ts";
import type { WriterCard } from "../../../src/study/writers/card.ts";
import { manners } from "../../../src/study/writers/format.ts";
import { shippedWriter } from "../../../src/study/writers/shipped.ts";
import type { Written } from "../../../src/study/writers/writer.ts";
import { memoryInProcess } from "../../helpers/memory.ts";

export interface Asked {
  passage: Passage;
  question: string;
  answer: string;
  /** Its manner, and whether it passes every gate, every one but those on how it is written (fluent, knows_names), or not. */
  kind: string;
  /** Nats a token. */
  fluency: number;
}

const manner = ["plain", "in other words", "as a situation"];

/** Greedy, in every manner, of every clause of so many passages in English. */
export async function askedByWriter(folder: string, passages: number): Promise<Asked[]> {
  const config = readConfig();
  const log = createLog("error", () => {});
  const { languages, adapter } = JSON.parse(readFileSync(join(folder, "card.json"), "utf8")) as WriterCard;
  const held = (await readMaterial()).filter((one) => one.language === "en" && isHeldOut(one));
  const chosen = passagesOf(
    held.filter((_, at) => at % Math.max(1, Math.floor(held.length / passages)) === 0).map(documentOf),
  );
  const { tokenizer, dispose } = await openTokenizer(config.starterModel, log);
  const trainer = startTrainer({ executable: config.trainer, log });
  try {
    await trainer.open({ path: config.starterModel, threads: 2, memoryBytes: 0 });
    const { sha256: _, ...shape } = adapter;
    await trainer.createAdapter("writer", shape);
    await trainer.load("writer", join(folder, "adapter.gguf"));
    const speaker = (name: string | null) =>
      createSpeaker(
        { turn: async () => {} },
        { name: name ?? "base", tokenizer, memory: memoryInProcess(), trainer: async () => trainer, adapter: name },
      );
    const writer = shippedWriter(speaker("writer"), { languages, seed: 7 });
    const targets = chosen.flatMap((passage) => studyTargets(passage, []).filter(isClause));
    const said = await writer.write(targets);
    const written = targets.flatMap((target, at) => said[at]!.map((question): Written => ({ target, question })));
    const nats = await writer.fluency!(written);
    const lexicon = lexiconOf(chosen);
    const passing = async (of: typeof writer) =>
      new Set((await passGates(written, { lexicon, writer: of, base: speaker(null) })).kept);
    const [all, butHowWritten] = [await passing(writer), await passing({ ...writer, fluency: null })];
    return written.map((one, at) => ({
      passage: one.target.passage,
      question: one.question,
      answer: one.target.answer,
      kind: `${manner[at % manners.length]}, ${all.has(one) ? "kept" : butHowWritten.has(one) ? "kept but for how it is written" : "dropped"}`,
      fluency: nats[at]!,
    }));
  } finally {
    await trainer.close();
    await dispose();
  }
}
