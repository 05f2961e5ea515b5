// plumbline bench: measures this machine, for comparison with others and with earlier results.
import { availableParallelism } from "node:os";
import { type Command, InvalidArgumentError, Option } from "commander";
import { readConfig } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import type { ServeBench } from "./bench/serve.ts";
import { type ShapeName, shapes } from "./bench/shapes.ts";
import type { TrainBench } from "./bench/train.ts";
import { answers, bytesText } from "./output.ts";
import { startProgress } from "./progress.ts";

export function register(program: Command): void {
  const bench = program.command("bench").description("measure training or serving on this machine");
  registerTrain(bench);
  registerServe(bench);
}

function registerTrain(bench: Command): void {
  const command = bench
    .command("train")
    .description("train an adapter on token rows and report tokens per second, peak memory and losses")
    .option("--model <file>", "base model, as a GGUF file")
    .addOption(
      new Option("--shape <name>", "use random weights in the shape of a real model instead of a file").choices(
        Object.keys(shapes),
      ),
    )
    .option("--quant <type>", "how the weights of --shape are stored, by ggml's name", "q4_k")
    .requiredOption("--rows <file>", 'JSONL of {"tokens": [ids], "weights": [0 or 1 per token]}')
    .option("--rank <n>", "rank of the adapter", wholeNumber, 32)
    .option("--alpha <x>", "alpha of the adapter", positive, 32)
    .option("--batch <n>", "rows per step", wholeNumber, 16)
    .option("--steps <n>", "optimizer steps", wholeNumber, 20)
    .option("--warmup <n>", "first steps, which are not timed", (text) => (text === "0" ? 0 : wholeNumber(text)), 2)
    .option("--lr <x>", "learning rate", positive, 1e-3)
    .addOption(
      new Option("--lr-schedule <name>", "schedule of the learning rate")
        .choices(["constant", "linear", "cosine"])
        .default("constant"),
    )
    .option(
      "--grad-clip <x>",
      "maximum norm of the gradient; 0 for no clipping",
      (text) => (text === "0" ? 0 : positive(text)),
      0,
    )
    .option("--dropout <x>", "dropout of the adapter's inputs, in [0, 1)", dropoutRate, 0)
    .option("--threads <n>", "threads of the trainer", wholeNumber, availableParallelism())
    .addOption(
      new Option("--precision <name>", "precision of training (default: the best for the device)").choices([
        "bf16",
        "fp32",
      ]),
    )
    .option(
      "--seed <n>",
      "seed of the adapter and of the order of batches",
      (text) => (text === "0" ? 0 : wholeNumber(text)),
      0,
    )
    .option("--init <folder>", "PEFT adapter to start from, with its rank, alpha and targets")
    .option("--in-order", "keep the rows in file order, to compare loss curves", false);
  answers<Omit<TrainBench, "source"> & { model?: string; shape?: ShapeName; quant: string }>(
    command,
    async (options) => {
      const { benchTraining } = await import("./bench/train.ts");
      if ((options.model === undefined) === (options.shape === undefined))
        throw new Failure("usage", "give either --model or --shape, not both");
      const source = options.shape
        ? { shape: { ...shapes[options.shape], quantisation: options.quant } }
        : { path: options.model! };
      const progress = startProgress();
      try {
        const figures = await benchTraining({ ...options, source }, readConfig().trainer, (step, loss) =>
          progress.show({
            phase: "training",
            done: step,
            total: options.steps,
            unit: "steps",
            note: `loss ${loss.toFixed(4)}`,
          }),
        );
        const text =
          `${figures.tokens_per_second.toFixed(0)} tokens per second over ${figures.tokens} tokens, ` +
          `peak memory ${bytesText(figures.peak_memory_bytes)}, loss ${figures.loss.at(-1)?.toFixed(4)}, ` +
          `${(100 * figures.floor_fraction).toFixed(0)} % of the arithmetic floor`;
        return { json: figures, text };
      } finally {
        progress.end();
      }
    },
  );
}

function registerServe(bench: Command): void {
  const command = bench
    .command("serve")
    .description(
      "send requests to a running appliance from many clients, and report tokens per second and waiting times",
    )
    .requiredOption("--key <key>", "API key")
    .requiredOption("--model <id>", "model that answers")
    .option("--url <address>", "address of the appliance (default: from the settings)")
    .option("--clients <n>", "clients at the same time", wholeNumber, 8)
    .option("--requests <n>", "requests of all clients together", wholeNumber, 32)
    .option("--prompt-words <n>", "average words per prompt", wholeNumber, 256)
    .option("--max-tokens <n>", "average and maximum tokens per answer", wholeNumber, 128);
  answers<Omit<ServeBench, "url"> & { url?: string }>(command, async (options) => {
    const { benchServing } = await import("./bench/serve.ts");
    const { addressOf } = await import("./connection.ts");
    const url = (options.url ?? addressOf(readConfig())).replace(/\/+$/, "");
    const progress = startProgress();
    try {
      const figures = await benchServing({ ...options, url }, (done) =>
        progress.show({ phase: "asking", done, total: options.requests, unit: "requests" }),
      );
      const text =
        `${figures.tokens_per_second.toFixed(1)} tokens per second with ${figures.clients} clients, ` +
        `first token after ${figures.first_token_ms.p50?.toFixed(0)} ms (median), ${figures.failures} failures`;
      return { json: figures, text, exit: figures.failures === 0 ? "ok" : "failure" };
    } finally {
      progress.end();
    }
  });
}

function dropoutRate(text: string): number {
  const rate = Number(text);
  if (text.trim() === "" || !(rate >= 0 && rate < 1)) throw new InvalidArgumentError("must be in [0, 1)");
  return rate;
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new InvalidArgumentError("must be a whole number above 0");
  return Number(text);
}

function positive(text: string): number {
  const number = Number(text);
  if (text.trim() === "" || !Number.isFinite(number) || number <= 0)
    throw new InvalidArgumentError("must be a number above 0");
  return number;
}
