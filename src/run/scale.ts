// The adapter at a reduced scale λ: W + λ · alpha / rank · B A, with the same A and B and a smaller alpha. It is loaded in addition to the
// trained adapter, from a PEFT folder whose configuration states alpha.
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { temporaryName, writeJsonDurably } from "../base/files.ts";
import type { Run } from "./context.ts";
import { adapterName, type Training } from "./training.ts";

const scaledName = "scaled";

/** Loads a copy of the trained adapter's current weights at the given scale. Returns the copy's name in the trainer. */
export async function loadScaled(run: Run, training: Training, scale: number): Promise<string> {
  const { trainer, shape } = training;
  const alpha = shape.alpha * scale;
  await removeScaled(training);
  await trainer.createAdapter(scaledName, { ...shape, alpha });
  training.scaled = true;
  const folder = temporaryName(join(run.folder, "scaled"));
  try {
    await trainer.exportPeft(adapterName, folder, {});
    const path = join(folder, "adapter_config.json");
    const config = JSON.parse(await readFile(path, "utf8")) as Record<string, unknown>;
    await writeJsonDurably(path, { ...config, lora_alpha: alpha });
    await trainer.load(scaledName, folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return scaledName;
}

export async function removeScaled(training: Training): Promise<void> {
  if (training.scaled) await training.trainer.dropAdapter(scaledName);
  training.scaled = false;
}
