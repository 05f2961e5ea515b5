// Estimates what an alignment would take before it starts. Rows are estimated from the plain rows of its documents, and
// time from the speed that the trainer states for this machine. The figures are ranges, not promises.
import type { Recipe } from "../../contract/recipe.ts";
import type { Trainer, TrainingEstimate } from "../../engine/train/trainer.ts";
import { shapeOf } from "../../run/folder/adapter-shape.ts";
import type { Planned } from "../../study/plain.ts";

export interface Range {
  low: number;
  likely: number;
  high: number;
}

/**
 * Training rows as a share of the plain rows. Rows with two answers and rows that match a benchmark question are
 * dropped, and a writer's rows replace some others.
 */
const keptShare: Range = { low: 0.85, likely: 0.97, high: 1.1 };
/** Characters per token: most for the languages that the tokenizer was made for, fewest for others. */
const charactersPerToken: Range = { low: 4.2, likely: 3.6, high: 2 };
/** Measured speed as a share of the speed that matrix products alone would allow on the device. */
const reached: Range = { low: 0.9, likely: 0.6, high: 0.4 };
/** Time of guards, checks, repair and packaging, as a share of the training time. */
const besides: Range = { low: 0.2, likely: 0.45, high: 0.9 };

/** Memory of a run with passes of this many tokens. */
export interface Need {
  passTokens: number;
  memoryBytes: number;
  /** 0 if the run uses no GPU. */
  gpuMemoryBytes: number;
}

export interface RunCost {
  /** From the largest useful passes to the smallest that hold a row. A run that finds less free memory takes smaller passes. */
  needs: Need[];
  /** Tokens a second that training may reach; null if the trainer cannot tell. */
  tokensPerSecond: number | null;
  /** Memory of the GPU that the run is trained on; null if it is trained on the CPU. */
  gpuBytes: number | null;
}

/**
 * Returns what training the base by the recipe takes on this machine, by the trainer's own figures for its device, and
 * closes the trainer. Before and after training, the run evaluates the model. That takes `memory_bytes`, on the GPU or
 * in the machine's memory as for serving. `hasGpu` tells whether inference is known to run on a GPU.
 */
export async function costOf(
  trainer: Trainer,
  {
    base,
    recipe,
    threads,
    hasGpu,
  }: {
    base: { path: string; layers: number; memory_bytes: number };
    recipe: Recipe;
    threads: number;
    hasGpu: boolean;
  },
): Promise<RunCost> {
  try {
    const { rank, targets, dropout = 0, firstLayer = 0 } = shapeOf(recipe, base.layers);
    const { devices, noGpu } = await trainer.hello();
    // The list may also contain a GPU that the trainer cannot use.
    const device = devices.find(({ kind }) => kind === (noGpu === null ? "cuda" : "cpu"))!;
    const longestRow = recipe.rendering.max_seq_len;
    const estimated = (kind: "cpu" | "cuda", passTokens: number) =>
      trainer.estimate({
        path: base.path,
        rank,
        targets,
        dropout,
        firstLayer,
        longestRow,
        passTokens,
        threads,
        device: kind,
      });
    // Choosing the adapter's strength needs a second adapter in memory.
    const bytesOf = (one: TrainingEstimate): number => one.totalBytes + one.adapterBytes;

    const needs: Need[] = [];
    let tokensPerSecond: number | null = null;
    for (const passTokens of passSizes(device.passTokens, longestRow, recipe.training.batch_size)) {
      const one = await estimated(device.kind, passTokens);
      const bytes = Math.max(bytesOf(one), base.memory_bytes);
      const onGpu = device.kind === "cuda";
      needs.push({
        passTokens,
        memoryBytes: onGpu ? 0 : bytes,
        gpuMemoryBytes: onGpu ? bytes : hasGpu ? base.memory_bytes : 0,
      });
      tokensPerSecond ??= one.tokensPerSecond;
    }
    if (device.kind === "cpu") return { needs, tokensPerSecond, gpuBytes: null };
    // If the GPU fails when it is opened, training runs on the CPU, with the smallest passes.
    const memoryBytes = Math.max(bytesOf(await estimated("cpu", longestRow)), base.memory_bytes);
    return { needs: needs.map((need) => ({ ...need, memoryBytes })), tokensPerSecond, gpuBytes: device.memoryBytes };
  } finally {
    await trainer.close();
  }
}

/**
 * Returns the possible pass sizes in tokens, largest first. The first holds all rows of a step, up to `most`. Each
 * further size is half the one before, as the trainer does when memory is short. A pass always holds the longest row,
 * because a row is never cut.
 */
function passSizes(most: number, longestRow: number, rows: number): number[] {
  const sizes = [Math.max(longestRow, Math.min(rows * longestRow, most))];
  while (sizes.at(-1)! > longestRow) sizes.push(Math.max(longestRow, Math.floor(sizes.at(-1)! / 2)));
  return sizes;
}

const ends = ["low", "likely", "high"] as const;
const range = (of: (end: (typeof ends)[number]) => number): Range => ({
  low: of("low"),
  likely: of("likely"),
  high: of("high"),
});

/** Messages to a teacher for each passage, besides the one about its facts: one in each round for every six facts that its reply names. */
const furtherMessages = { low: 0.5, likely: 1.3, high: 2.5 };

/**
 * Estimates rows, tokens, memory in bytes and time. `minutes` is null if the device's speed is not known, `teacher_messages` without a
 * teacher.
 */
export function estimateOf(
  planned: Planned,
  recipe: Recipe,
  { needs, tokensPerSecond: limit }: RunCost,
  { isTaught }: { isTaught: boolean },
) {
  const { training, dataset } = recipe;
  const replayed = 1 / (1 - dataset.replay_share);
  const rows = range((end) => Math.round(planned.rows * keptShare[end] * replayed));
  const tokens = range((end) =>
    Math.round(((planned.characters * keptShare[end]) / charactersPerToken[end]) * replayed * training.epochs),
  );
  const minutes =
    limit === null
      ? null
      : range((end) => Math.ceil(((tokens[end] / (limit * reached[end])) * (1 + besides[end])) / 60));
  return {
    passages: planned.passages,
    targets: planned.targets,
    rows,
    train_tokens: tokens,
    memory_bytes: needs[0]!.memoryBytes,
    gpu_memory_bytes: needs[0]!.gpuMemoryBytes,
    minutes,
    teacher_messages: isTaught
      ? range((end) => Math.ceil(planned.passages * (1 + (dataset.teacher_rounds ?? 1) * furtherMessages[end])))
      : null,
  };
}
