// npm run prove:representations [-- --passages 50 --language en --threads 2]: the profile of the starter model's representations over
// passages that no writer was trained on, and what rank-one edits would miss of a constant there: figures, no verdict on edits.
import { parseArgs } from "node:util";
import { readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import { documentOf, isHeldOut, readMaterial } from "../../src/cli/train-writer.ts";
import { grade } from "../../src/domain/evaluations/grade.ts";
import { openTokenizer } from "../../src/engine/serve/generator.ts";
import { startTrainer } from "../../src/engine/train/trainer-process.ts";
import { drawMaterial } from "../../src/run/auto/represent/material.ts";
import { profileOf } from "../../src/run/auto/represent/profile.ts";
import type { Run } from "../../src/run/context.ts";
import type { Prepared } from "../../src/run/rows.ts";
import { createSpeaker } from "../../src/run/speaker.ts";
import { study } from "../../src/study/study.ts";
import { memoryInProcess } from "../helpers/memory.ts";

const { values } = parseArgs({
  options: {
    passages: { type: "string", default: "50" },
    language: { type: "string", default: "en" },
    threads: { type: "string", default: "2" },
  },
});
const config = readConfig();
const log = createLog("error", () => {});
const held = (await readMaterial()).filter((one) => one.language === values.language && isHeldOut(one));
const documents = held.slice(0, Number(values.passages)).map(documentOf);
const { tokenizer, dispose } = await openTokenizer(config.starterModel, log);
const trainer = startTrainer({ executable: config.trainer, log });
try {
  const hello = await trainer.hello();
  const model = await trainer.open({
    ...{ path: config.starterModel, threads: Number(values.threads), memoryBytes: 0, device: "cpu" },
  });
  const began = performance.now();
  const spoken = { name: "base", tokenizer, memory: memoryInProcess(), trainer: async () => trainer, adapter: null };
  const { rows } = await study(
    { documents, organisation: null },
    {
      base: createSpeaker({ turn: async () => {} }, spoken),
      writer: async () => null,
      progress: async () => {},
    },
    { phrasings: 3, stages: 1, seed: 7 },
  );
  const run = {
    tokenizer,
    snapshot: { documents },
    request: { organisation: null, recipe: { rendering: { max_seq_len: 1024 } } },
    parts: { grade, control: { signal: new AbortController().signal } },
    turn: async () => {},
    progress: async () => {},
  } as unknown as Run;
  const base = { trainer, hello, model };
  const studied = performance.now();
  const material = await drawMaterial(run, base, { adapter: null, rows: rows as unknown as Prepared["rows"], seed: 7 });
  const drawn = performance.now();
  const { profile } = await profileOf(run, base, null, material.contrasts);
  const { layers, ...told } = profile;
  for (const layer of layers) process.stdout.write(`${JSON.stringify(layer)}\n`);
  const seconds = {
    study: (studied - began) / 1000,
    draws: (drawn - studied) / 1000,
    profile: (performance.now() - drawn) / 1000,
  };
  process.stdout.write(`${JSON.stringify({ asked: material.asked, ...told, seconds })}\n`);
} finally {
  await trainer.close();
  await dispose();
}
