// Does llama-server, with the adapter the worker exported, say of its own greedy answers what the worker says of them?
// Not part of `npm test`: it needs llama-server, built from the llama.cpp source that node-llama-cpp carries.
//
//   node test/engine/against-llama-server.ts <llama-server> <base.gguf>
//
// An adapter is trained for a few steps, so that it changes what is said. Ten prompts, 64 tokens each, greedy, with the adapter;
// the same tokens again with its scale at 0. The bounds are those of every verified adapter.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { startProcess } from "../../src/base/processes.ts";
import { sleep } from "../../src/base/time.ts";
import { openTokenizer } from "../../src/engine/serve/generator.ts";
import { compareScores } from "../../src/engine/train/adapter-check.ts";
import type { Rows, Trainer } from "../../src/engine/train/trainer.ts";
import { startTrainer } from "../../src/engine/train/trainer-process.ts";
import { everyTarget, executable, scratch, silentLog, step } from "./trainer-fixture.ts";

const prompts = [
  "The keeper of the lighthouse wrote in his log that",
  "To make bread you need flour, water, salt and",
  "Question: What is the capital of France?\nAnswer:",
  "In 1969 two people walked on the moon. Their names were",
  "The three primary colours are",
  "def add(a, b):\n    return",
  "Dear Ms Okafor,\n\nthank you for your letter of",
  "Water boils at a lower temperature on a mountain because",
  "Once upon a time, in a village by the sea,",
  "The committee met on Tuesday and decided",
];
const answerTokens = 64;
const port = 18_231;
const url = `http://127.0.0.1:${port}`;

interface Completion {
  tokens: number[];
  completion_probabilities: { id: number; logprob: number }[];
}

async function post<T>(path: string, body: unknown): Promise<T> {
  const answer = await fetch(url + path, { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`llama-server answers ${answer.status}: ${await answer.text()}`);
  return (await answer.json()) as T;
}

async function awaitServer(): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    const answer = await fetch(`${url}/health`).catch(() => null);
    if (answer?.ok) return;
    await sleep(200);
  }
  throw new Error("llama-server does not answer");
}

const joined = (rows: number[][]): Rows => ({
  tokens: Int32Array.from(rows.flat()),
  rowLengths: Int32Array.from(rows, ({ length }) => length),
});

/** A few steps on the prompts themselves: what it says changes, and stays language. */
async function trainAdapter(trainer: Trainer, promptTokens: number[][]): Promise<void> {
  await trainer.createAdapter("a", { rank: 16, alpha: 32, seed: 3, targets: everyTarget });
  const { tokens, rowLengths } = joined(promptTokens);
  const weights = new Float32Array(tokens.length).fill(1 / (tokens.length - rowLengths.length));
  let first = 0;
  for (const length of rowLengths) {
    weights[first] = 0;
    first += length;
  }
  for (let i = 0; i < 12; i++) {
    await trainer.forwardBackward("a", { tokens, rowLengths, weights });
    await trainer.optimStep("a", step(1e-3));
  }
}

/** Greedy, with the raw log-prob of each chosen token. */
const complete = (request: Record<string, unknown>): Promise<Completion> =>
  post<Completion>("/completion", { temperature: 0, n_probs: 1, return_tokens: true, ...request });

/** The base's log-probs of tokens that somebody else chose: each is forced by a bias, which the reported log-prob does not see. */
async function baseLogprobs(prompt: number[], tokens: number[]): Promise<number[]> {
  const logprobs: number[] = [];
  for (const [i, token] of tokens.entries()) {
    const request = { prompt: [...prompt, ...tokens.slice(0, i)], n_predict: 1, logit_bias: [[token, 1e4]] };
    const [chosen] = (await complete({ ...request, lora: [{ id: 0, scale: 0 }] })).completion_probabilities;
    if (chosen?.id !== token) throw new Error(`llama-server chose ${chosen?.id} where ${token} was forced`);
    logprobs.push(chosen.logprob);
  }
  return logprobs;
}

async function scored(
  trainer: Trainer,
  adapter: string | null,
  promptTokens: number[][],
  answers: number[][],
): Promise<Float32Array[]> {
  const rows = promptTokens.map((prompt, i) => [...prompt, ...answers[i]!]);
  const flat = await trainer.score(
    adapter,
    joined(rows),
    Int32Array.from(promptTokens, ({ length }) => length),
  );
  let at = 0;
  return rows.map((row, i) => {
    at += row.length;
    return flat.slice(at - answers[i]!.length, at);
  });
}

async function main(server: string, model: string): Promise<void> {
  const trainer = startTrainer({ executable, log: silentLog });
  const { fileType } = await trainer.open({ path: model, threads: 2, memoryBytes: 0, precision: "fp32" });
  const { tokenizer, dispose } = await openTokenizer(model, silentLog);
  const promptTokens = prompts.map((prompt) => tokenizer.encode(prompt, false));
  await dispose();
  await trainAdapter(trainer, promptTokens);
  const adapter = join(scratch(), "adapter.gguf");
  await trainer.exportGguf("a", adapter, {});

  const child = startProcess(server, [
    "-m",
    model,
    "--lora",
    adapter,
    "-np",
    "1",
    "-c",
    "1024",
    "-t",
    "2",
    "--port",
    String(port),
  ]);
  child.stdout.resume();
  child.stderr.resume();
  try {
    await awaitServer();
    const answers: Completion[] = [];
    for (const prompt of promptTokens)
      answers.push(await complete({ prompt, n_predict: answerTokens, ignore_eos: true, lora: [{ id: 0, scale: 1 }] }));
    const tokens = answers.map((answer) => answer.tokens);
    const reported = answers.map(({ completion_probabilities }) =>
      completion_probabilities.map(({ logprob }) => logprob),
    );
    const base: number[][] = [];
    for (const [i, prompt] of promptTokens.entries()) base.push(await baseLogprobs(prompt, tokens[i]!));
    const comparison = compareScores({
      trainer: {
        base: await scored(trainer, null, promptTokens, tokens),
        aligned: await scored(trainer, "a", promptTokens, tokens),
      },
      generator: { base, aligned: reported },
      quantised: fileType !== "f32",
    });
    console.log(JSON.stringify({ model, fileType, ...comparison }));
    if (!comparison.faithful) process.exitCode = 1;
  } finally {
    child.kill();
    await trainer.close();
  }
}

const [server, model] = process.argv.slice(2);
if (server === undefined || model === undefined) {
  console.error(
    readFileSync(new URL(import.meta.url), "utf8")
      .split("\n")
      .slice(0, 8)
      .join("\n"),
  );
  process.exit(2);
}
await main(server, model);
