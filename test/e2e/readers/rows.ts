// The rows that the product makes of documents with its shipped writer and the recipe `standard`, without training on them.
import { readConfig } from "../../../src/base/config.ts";
import { createLog } from "../../../src/base/log.ts";
import type { SnapshotDocument } from "../../../src/contract/run-folder.ts";
import { readRecipes } from "../../../src/domain/alignments/recipes.ts";
import { openTokenizer } from "../../../src/engine/serve/generator.ts";
import { startTrainer } from "../../../src/engine/train/trainer-process.ts";
import { createSpeaker } from "../../../src/run/speaker.ts";
import { study } from "../../../src/study/study.ts";
import { installedWriter } from "../../../src/study/writers/installed.ts";
import { shippedWriter } from "../../../src/study/writers/shipped.ts";
import { memoryInProcess } from "../../helpers/memory.ts";

export async function studiedRows(documents: readonly SnapshotDocument[], threads: number) {
  const config = readConfig();
  const log = createLog("error", () => {});
  const { dataset, training } = (await readRecipes("config/recipes")).get("standard")!;
  const { languages, path, shape } = installedWriter()!;
  const { tokenizer, dispose } = await openTokenizer(config.starterModel, log);
  const trainer = startTrainer({ executable: config.trainer, log });
  try {
    await trainer.open({ path: config.starterModel, threads, memoryBytes: 0 });
    await trainer.createAdapter("writer", shape);
    await trainer.load("writer", path);
    const speaker = (name: string | null) =>
      createSpeaker(
        { turn: async () => {} },
        { name: name ?? "base", tokenizer, memory: memoryInProcess(), trainer: async () => trainer, adapter: name },
      );
    return await study(
      { documents: [...documents], organisation: null },
      {
        base: speaker(null),
        writer: async () => shippedWriter(speaker("writer"), { languages, seed: training.seed }),
        progress: async () => {},
      },
      { phrasings: dataset.phrasings, stages: dataset.rungs ?? 1, seed: training.seed },
    );
  } finally {
    await trainer.close();
    await dispose();
  }
}
