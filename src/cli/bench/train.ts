// Measures the trainer with the same calls that a run makes. Takes rows of tokens, and reports tokens per second, peak
// memory and losses.
import { createReadStream } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import { createLog } from "../../base/log.ts";
import { linesOf } from "../../base/processes.ts";
import type { Recipe } from "../../contract/recipe.ts";
import type { AdapterTarget, Losses, ModelSource, Trainer, WeightedRows } from "../../engine/train/trainer.ts";
import { startTrainer } from "../../engine/train/trainer-process.ts";
import { learningRateAt, microBatches, permutation } from "../../run/schedule.ts";

export interface TrainBench {
  source: ModelSource;
  rows: string;
  rank: number;
  alpha: number;
  batch: number;
  steps: number;
  /** Steps that are not timed. */
  warmup: number;
  lr: number;
  lrSchedule: Recipe["optimizer"]["lr_schedule"];
  dropout: number;
  gradClip: number;
  threads: number;
  precision?: "bf16" | "fp32";
  seed: number;
  /**
   * Whether batches take the rows in file order, to compare loss curves. Otherwise rows of similar length form a batch,
   * and the batches are shuffled.
   */
  inOrder: boolean;
  /** Folder of a PEFT adapter to start from; its rank, alpha and targets replace `rank`, `alpha` and the default targets. */
  init?: string;
}

export interface TrainFigures {
  tokens_per_second: number;
  tokens: number;
  seconds: number;
  /** Peak memory of the trainer's process; on a GPU, the peak use of the GPU's memory. */
  peak_memory_bytes: number;
  /** peak_memory_bytes plus the peak memory of this Node process; on a GPU the same as peak_memory_bytes. */
  peak_memory_of_all_bytes: number;
  device: "cpu" | "cuda";
  precision: "bf16" | "fp32";
  adapter_parameters: number;
  /** Mean loss over the trained tokens, per step. */
  loss: number[];
  /**
   * Tokens that went through the layers. A beginning that several rows share counts once, and tokens whose result is not
   * needed do not count.
   */
  computed_tokens: number;
  /** Each op's share of the time of all ops in the timed steps; empty on a GPU, which does not report times per op. */
  ops: Record<string, number>;
  /**
   * Time that the required arithmetic takes at the rate of the device's matrix products, divided by the time measured.
   */
  floor_fraction: number;
  gemm_flops_per_second: number;
  /**
   * The kernels that the trainer's matrix products used. They are reported because an OpenBLAS setting may rule out the
   * processor's best ones. For a GPU: its name and the device that its kernels were compiled for.
   */
  kernels: string;
}

interface TokenRow {
  tokens: number[];
  /** Loss weight of each token, at that token's own position. */
  weights: number[];
}

const targets: AdapterTarget[] = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
const adamw = { beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0 };
/** Steps sent ahead of the one being computed, so that the trainer never waits for this process. */
const stepsAhead = 2;
/** Maximum tokens of one call; a larger batch is split. */
const callTokens = 8192;

export async function benchTraining(
  bench: TrainBench,
  trainerPath: string,
  onStep: (step: number, loss: number) => void,
): Promise<TrainFigures> {
  const rows = await readRows(bench.rows);
  const trainer = startTrainer({ executable: trainerPath, log: createLog("warn") });
  try {
    const { device, precision } = await trainer.open({
      ...bench.source,
      threads: bench.threads,
      memoryBytes: 0,
      ...(bench.precision && { precision: bench.precision }),
    });
    const shape = { ...(await adapterShape(bench)), dropout: bench.dropout, seed: bench.seed };
    const { parameters } = await trainer.createAdapter("bench", shape);
    if (bench.init !== undefined) await trainer.load("bench", bench.init);
    const timed = await steps(bench, rows, trainer, onStep);
    // The peak is read before the rate of matrix products is measured, because measuring takes memory of its own.
    const { peakDeviceBytes, kernels } = await trainer.profile();
    const peak = device === "cuda" ? peakDeviceBytes : await peakMemoryOfChildren();
    const { counted, ...rest } = timed;
    const meanRow = Math.max(1, Math.round(rows.reduce((sum, row) => sum + row.tokens.length, 0) / rows.length));
    const { flopsPerToken, gemmFlopsPerSecond } = await trainer.estimate({
      ...bench.source,
      rank: shape.rank,
      targets: shape.targets,
      longestRow: meanRow,
      passTokens: meanRow,
      threads: bench.threads,
      device,
      precision,
    });
    // If the trainer did not count the ops' arithmetic, the estimate is used.
    const flops = counted > 0 ? counted : flopsPerToken * timed.computed_tokens;
    return {
      ...rest,
      device,
      precision,
      peak_memory_bytes: peak,
      peak_memory_of_all_bytes: device === "cuda" ? peak : peak + process.resourceUsage().maxRSS * 1024,
      adapter_parameters: parameters,
      floor_fraction: flops / gemmFlopsPerSecond! / timed.seconds,
      gemm_flops_per_second: gemmFlopsPerSecond!,
      kernels,
    };
  } finally {
    await trainer.close();
  }
}

/** Matrices by their names in PEFT. */
const peftModules: Record<string, AdapterTarget> = {
  q_proj: "attn_q",
  k_proj: "attn_k",
  v_proj: "attn_v",
  o_proj: "attn_output",
  gate_proj: "ffn_gate",
  up_proj: "ffn_up",
  down_proj: "ffn_down",
};

async function adapterShape(bench: TrainBench): Promise<{ rank: number; alpha: number; targets: AdapterTarget[] }> {
  if (bench.init === undefined) return { rank: bench.rank, alpha: bench.alpha, targets };
  const path = join(bench.init, "adapter_config.json");
  const config = JSON.parse(await readFile(path, "utf8")) as {
    r: number;
    lora_alpha: number;
    target_modules: string[];
  };
  const unknown = config.target_modules.find((name) => !(name in peftModules));
  if (unknown !== undefined)
    throw new Failure("usage", `${path}: ${unknown} is not a matrix that an adapter can change`);
  return {
    rank: config.r,
    alpha: config.lora_alpha,
    targets: config.target_modules.map((name) => peftModules[name]!),
  };
}

type Steps = Pick<TrainFigures, "tokens_per_second" | "tokens" | "seconds" | "loss" | "computed_tokens" | "ops"> & {
  /** Floating-point operations of all ops; 0 if the trainer does not count them. */
  counted: number;
};

async function steps(
  bench: TrainBench,
  rows: TokenRow[],
  trainer: Trainer,
  onStep: (step: number, loss: number) => void,
): Promise<Steps> {
  const nextBatch = batches(rows, bench);
  const loss: number[] = [];
  const sent: Promise<StepAnswer>[] = [];
  let computed = 0;
  const receive = async (): Promise<void> => {
    const answer = await sent.shift()!;
    loss.push(answer.loss);
    computed += answer.computedTokens;
    onStep(loss.length, loss.at(-1)!);
  };
  let tokens = 0;
  let startedMs = performance.now();
  let before = (await trainer.profile()).ops;
  for (let step = 0; step < bench.steps; step++) {
    if (step === bench.warmup) {
      while (sent.length > 0) await receive();
      before = (await trainer.profile()).ops;
      startedMs = performance.now();
      tokens = 0;
      computed = 0;
    }
    const batch = nextBatch();
    for (const row of batch) tokens += row.tokens.length;
    const answer = sendStep(bench, batch, step, trainer);
    // The answer is awaited later. Until then, its failure must not count as an unhandled rejection.
    answer.catch(() => {});
    sent.push(answer);
    if (sent.length > stepsAhead) await receive();
  }
  while (sent.length > 0) await receive();
  const seconds = (performance.now() - startedMs) / 1000;
  const after = (await trainer.profile()).ops;
  const timed = after.map((op, index) => ({
    name: op.name,
    seconds: op.seconds - before[index]!.seconds,
    flops: op.flops - before[index]!.flops,
  }));
  const total = timed.reduce((sum, op) => sum + op.seconds, 0);
  return {
    tokens_per_second: tokens / seconds,
    tokens,
    seconds,
    loss,
    computed_tokens: computed,
    ops: total > 0 ? Object.fromEntries(timed.map((op) => [op.name, op.seconds / total])) : {},
    counted: timed.reduce((sum, op) => sum + op.flops, 0),
  };
}

type StepAnswer = Pick<Losses, "loss" | "computedTokens">;

/** Sends all calls of one optimizer step before any is answered. Resolves to the step's mean loss and its computed tokens. */
async function sendStep(bench: TrainBench, batch: TokenRow[], step: number, trainer: Trainer): Promise<StepAnswer> {
  const trained = batch.reduce((sum, row) => sum + row.weights.reduce((a, b) => a + b, 0), 0);
  const lengthOf = (row: number): number => batch[row]!.tokens.length;
  const calls = microBatches([...batch.keys()], lengthOf, callTokens).map((call) =>
    trainer.forwardBackward(
      "bench",
      pack(
        call.map((row) => batch[row]!),
        1 / trained,
      ),
    ),
  );
  const schedule = { lr_schedule: bench.lrSchedule, warmup_ratio: 0 } as Recipe["optimizer"];
  const learningRate = learningRateAt(step + 1, bench.steps, bench.lr, schedule);
  const stepped = trainer.optimStep("bench", { ...adamw, learningRate, gradClipNorm: bench.gradClip });
  const answers = await Promise.all(calls);
  await stepped;
  return {
    loss: answers.reduce((sum, answer) => sum + answer.loss, 0),
    computedTokens: answers.reduce((sum, answer) => sum + answer.computedTokens, 0),
  };
}

function pack(rows: TokenRow[], scale: number): WeightedRows {
  return {
    tokens: Int32Array.from(rows.flatMap((row) => row.tokens)),
    rowLengths: Int32Array.from(rows, (row) => row.tokens.length),
    weights: Float32Array.from(rows.flatMap((row) => row.weights.map((weight) => weight * scale))),
  };
}

/** Returns a function that returns the next batch at each call, epoch after epoch without end. */
function batches(rows: TokenRow[], { batch, inOrder, seed }: TrainBench): () => TokenRow[] {
  const sorted = inOrder ? rows : [...rows].sort((a, b) => a.tokens.length - b.tokens.length);
  const groups: TokenRow[][] = [];
  for (let from = 0; from < sorted.length; from += batch) groups.push(sorted.slice(from, from + batch));
  let queue: TokenRow[][] = [];
  let epoch = 0;
  return () => {
    if (queue.length === 0)
      queue = inOrder ? [...groups] : [...permutation(seed, epoch++, groups.length)].map((index) => groups[index]!);
    return queue.shift()!;
  };
}

async function readRows(path: string): Promise<TokenRow[]> {
  const rows: TokenRow[] = [];
  let line = 0;
  for await (const text of linesOf(createReadStream(path))) {
    line++;
    if (text.trim() === "") continue;
    const row = parseRow(text);
    if (row === null) throw new Failure("usage", `${path}, line ${line}: not {"tokens": [ids], "weights": [numbers]}`);
    rows.push(row);
  }
  if (rows.length === 0) throw new Failure("usage", `${path} has no rows`);
  return rows;
}

function parseRow(text: string): TokenRow | null {
  try {
    const { tokens, weights } = JSON.parse(text) as Partial<TokenRow>;
    const sound =
      Array.isArray(tokens) && Array.isArray(weights) && tokens.length === weights.length && tokens.length > 0;
    // The first token is predicted from nothing, so the trainer accepts no weight on it.
    return sound ? { tokens, weights: [0, ...weights.slice(1)] } : null;
  } catch {
    return null;
  }
}

/** Largest peak memory of this process's living children, in bytes. The trainer is the only child. */
async function peakMemoryOfChildren(): Promise<number> {
  let most = 0;
  for (const entry of await readdir("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    const status = await readFile(`/proc/${entry}/status`, "utf8").catch(() => "");
    if (Number(/^PPid:\s+(\d+)/m.exec(status)?.[1]) !== process.pid) continue;
    most = Math.max(most, Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024);
  }
  return most;
}
