// The adapter from which the training of documents starts. It was trained on other material, so it has already learned to answer
// questions from memory, in whatever words they are asked. Then fewer steps are needed to learn what new documents say, and more questions
// in wordings that were not trained find their answer. It is known for full fine-tuning that models learn documents better once they have
// learned to answer questions about other documents (Jiang et al., «Instruction-tuned Language Models are Better Knowledge Learners», 2024).
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import { sha256OfFile, temporaryName } from "../../base/files.ts";
import { readValues } from "../../engine/gguf/adapter-file.ts";
import { readGgufHeader } from "../../engine/gguf/header.ts";
import type { ShippedAdapter } from "../../engine/train/shipped-adapter.ts";
import type { AdapterShape, Trainer } from "../../engine/train/trainer.ts";
import { mainLanguage } from "../../study/languages.ts";
import type { Run } from "../context.ts";
import type { Prepared } from "../rows.ts";

/**
 * Loads the warm start of the documents' main language into a new adapter of this shape, which then computes what the warm start computes.
 * Returns its hash. Returns null and loads nothing if the recipe wants none, if none was made for this base, or if an adapter of this shape
 * cannot represent it. Throws installation_damaged.
 */
export async function loadWarmStart(
  run: Run,
  trainer: Trainer,
  { adapter, shape, prepared }: { adapter: string; shape: AdapterShape; prepared: Pick<Prepared, "report"> },
): Promise<string | null> {
  const { base, recipe } = run.request;
  if (recipe.adapter.warm_start === false) return null;
  const found = run.parts.warmStart(mainLanguage(prepared.report.study.languages));
  if (found === null || found.base.sha256 !== base.sha256) return null;
  if (!canHold(shape, found.shape)) {
    await tell(run, `Training starts from the base, because the shipped warm start needs ${needsOf(found.shape)}`);
    return null;
  }
  if ((await sha256OfFile(found.path)) !== found.sha256)
    throw new Failure("installation_damaged", `${found.path} is not the adapter that its card describes`);
  await embed(trainer, { adapter, shape }, found, run.folder);
  await tell(run, "Training starts from the shipped warm start, an adapter that has learned to answer from memory");
  return found.sha256;
}

const tell = (run: Run, message: string): Promise<void> =>
  run.events.append({ kind: "decision", phase: run.phase, message });

/** Whether an adapter of this shape can compute what one of the other shape computes. */
export const canHold = (shape: AdapterShape, other: AdapterShape): boolean =>
  shape.rank >= other.rank &&
  (shape.firstLayer ?? 0) <= (other.firstLayer ?? 0) &&
  other.targets.every((target) => shape.targets.includes(target));

const needsOf = ({ rank, firstLayer = 0, targets }: AdapterShape): string =>
  `a rank of at least ${rank}, layers from ${firstLayer} on, and ${targets.join(", ")}`;

/**
 * Loads into a new adapter the weights of one that its shape can hold. The file that this takes is made in `folder` and removed. Throws
 * installation_damaged.
 */
export async function embed(
  trainer: Trainer,
  { adapter, shape }: { adapter: string; shape: AdapterShape },
  found: ShippedAdapter,
  folder: string,
): Promise<void> {
  const path = temporaryName(join(folder, "warm-start.gguf"));
  try {
    await trainer.exportGguf(adapter, path, {});
    await fill(path, shape, found);
    await trainer.load(adapter, path);
  } finally {
    await rm(path, { force: true });
  }
}

/**
 * Writes the warm start's matrices into a new adapter, whose A is random and whose B is 0. A larger rank keeps its further rows of A, and its
 * further columns of B stay 0. B is scaled, because the two adapters may scale B A by different alpha / rank.
 */
async function fill(path: string, shape: AdapterShape, found: ShippedAdapter): Promise<void> {
  const scale = found.shape.alpha / found.shape.rank / (shape.alpha / shape.rank);
  const own = new Map(readGgufHeader(path).tensors.map((tensor) => [tensor.name, tensor]));
  const [source, file] = await Promise.all([open(found.path), open(path, "r+")]);
  try {
    for (const tensor of readGgufHeader(found.path).tensors) {
      const isA = tensor.name.endsWith(".lora_a");
      const place = own.get(tensor.name);
      // A is [inputs, rank], B [rank, outputs].
      const [rank, size] = isA ? tensor.shape.toReversed() : tensor.shape;
      if (place === undefined || rank !== found.shape.rank || size !== place.shape[isA ? 0 : 1])
        throw new Failure("installation_damaged", `${found.path} is not of the shape that its card describes`);
      const values = await readValues(source, tensor);
      const filled = isA ? values : widened(values, { columns: rank, to: place.shape[0]!, scale });
      await file.write(new Uint8Array(filled.buffer), 0, filled.byteLength, place.offset);
    }
  } finally {
    await Promise.all([source.close(), file.close()]);
  }
}

/** Appends columns of 0 to a matrix in row order, and multiplies it by `scale`. */
function widened(
  values: Float32Array,
  { columns, to, scale }: { columns: number; to: number; scale: number },
): Float32Array {
  const wide = new Float32Array((values.length / columns) * to);
  for (const [at, value] of values.entries()) wide[Math.floor(at / columns) * to + (at % columns)] = value * scale;
  return wide;
}
