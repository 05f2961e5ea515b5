// What an alignment would take, before it starts: rows by the plain forms of its documents, time by what the trainer's arithmetic allows
// on this machine. Figures are ranges; none is a promise.
import type { Recipe } from "../../contract/run-folder.ts";
import type { Trainer, TrainingEstimate } from "../../engine/trainer.ts";
import { shapeOf } from "../../run/folder/adapter-shape.ts";
import type { Planned } from "../../study/plain.ts";

export interface Range {
  low: number;
  likely: number;
  high: number;
}

/** Of plain rows so many were left: those go that have two answers or meet a question, and a writer's take the place of some. */
const keptShare: Range = { low: 0.85, likely: 0.97, high: 1.1 };
/** Characters of a token, over languages that a tokenizer was and was not made for. */
const charactersPerToken: Range = { low: 4.2, likely: 3.6, high: 2 };
/** Of what the device's matrix products allow, training took so much in measurements; the rest is everything else. */
const reached: Range = { low: 0.9, likely: 0.6, high: 0.4 };
/** Guards, checks, repair and packaging, as a share of the training. */
const besides: Range = { low: 0.2, likely: 0.45, high: 0.9 };

/** What a run takes with passes of so many tokens. */
export interface Need {
  passTokens: number;
  memoryBytes: number;
  /** 0 where it uses no GPU. */
  gpuMemoryBytes: number;
}

export interface RunCost {
  /** From the largest passes that are of use to the smallest that hold a row: who comes late takes smaller ones. */
  needs: Need[];
  /** Tokens a second that training may reach; null where the trainer cannot tell. */
  tokensPerSecond: number | null;
  /** Of the GPU that the run is trained on; null where it is trained on the CPU. */
  gpuBytes: number | null;
}

/**
 * What training the base by the recipe takes on this machine, by the trainer's own figures for the device at hand. Before and after
 * it, the run needs what serving the base needs, where serving has its place. `hasGpu`: that answers are known to be on a GPU.
 */
export async function costOf(
  trainer: Trainer,
  {
    base,
    recipe,
    threads,
    hasGpu,
  }: { base: { path: string; memory_bytes: number }; recipe: Recipe; threads: number; hasGpu: boolean },
): Promise<RunCost> {
  try {
    const { rank, targets, dropout = 0 } = shapeOf(recipe);
    const { devices, noGpu } = await trainer.hello();
    // A GPU that the trainer cannot use is there too.
    const device = devices.find(({ kind }) => kind === (noGpu === null ? "cuda" : "cpu"))!;
    const longestRow = recipe.rendering.max_seq_len;
    const estimated = (kind: "cpu" | "cuda", passTokens: number) =>
      trainer.estimate({ path: base.path, rank, targets, dropout, longestRow, passTokens, threads, device: kind });
    // Choosing the adapter's strength takes a second one beside it.
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
    // Where the GPU fails when it is opened, the CPU trains: with the smallest passes there is room for that.
    const memoryBytes = Math.max(bytesOf(await estimated("cpu", longestRow)), base.memory_bytes);
    return { needs: needs.map((need) => ({ ...need, memoryBytes })), tokensPerSecond, gpuBytes: device.memoryBytes };
  } finally {
    await trainer.close();
  }
}

/** All rows of a step at once, and halves of that as the trainer takes them where memory is short; a row is never cut. */
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

/** Where the device's speed is not known, the minutes are not either. */
export function estimateOf(planned: Planned, recipe: Recipe, { needs, tokensPerSecond: limit }: RunCost) {
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
  };
}
