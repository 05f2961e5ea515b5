// Does llama-server, with the adapter the worker exported, say of its own greedy answers what the worker says of them?
// Not part of `npm test`: it needs llama-server, built from the llama.cpp source that node-llama-cpp carries.
//
//   node --import tsx test/engine/against-llama-server.ts <llama-server> <base.gguf>
//
// An adapter is trained for a few steps on the prompts themselves, so that it changes what is said. Ten prompts, 64 tokens each,
// greedy, with the adapter and with its scale at 0; the bounds are those of every verified adapter.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { startProcess } from "../../src/base/processes.ts";
import { sleep } from "../../src/base/time.ts";
import { compareScores } from "../../src/engine/adapter-check.ts";
import { type Rows, startTrainer, type Trainer } from "../../src/engine/trainer.ts";
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

/** Some steps on random continuations of nothing in particular: enough to move every log-prob. */
async function trainAdapter(trainer: Trainer, vocabulary: number): Promise<void> {
  await trainer.createAdapter("a", { rank: 16, alpha: 32, seed: 3, targets: everyTarget });
  const rows = Array.from({ length: 8 }, (_, r) =>
    Array.from({ length: 24 }, (_, i) => (r * 7919 + i * 104_729) % vocabulary),
  );
  const { tokens, rowLengths } = joined(rows);
  const weights = Float32Array.from(tokens, (_, i) => (i % 24 === 0 ? 0 : 1 / (8 * 23)));
  for (let i = 0; i < 12; i++) {
    await trainer.forwardBackward("a", { tokens, rowLengths, weights });
    await trainer.optimStep("a", step(1e-3));
  }
}

async function scored(
  trainer: Trainer,
  adapter: string | null,
  promptTokens: number[][],
  answers: Completion[],
): Promise<Float32Array[]> {
  const rows = promptTokens.map((prompt, i) => [...prompt, ...answers[i]!.tokens]);
  const flat = await trainer.score(
    adapter,
    joined(rows),
    Int32Array.from(promptTokens, ({ length }) => length),
  );
  let at = 0;
  return rows.map((row, i) => {
    at += row.length;
    return flat.slice(at - answers[i]!.tokens.length, at);
  });
}

async function main(server: string, base: string): Promise<void> {
  const trainer = startTrainer({ executable, log: silentLog });
  const { fileType, vocabulary } = await trainer.open({ path: base, threads: 2, memoryBytes: 0 });
  await trainAdapter(trainer, vocabulary);
  const adapter = join(scratch(), "adapter.gguf");
  await trainer.exportGguf("a", adapter, {});

  const child = startProcess(server, [
    "-m",
    base,
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
    const promptTokens: number[][] = [];
    for (const content of prompts)
      promptTokens.push((await post<{ tokens: number[] }>("/tokenize", { content })).tokens);
    const ask = async (scale: number): Promise<Completion[]> => {
      const answers: Completion[] = [];
      for (const prompt of promptTokens)
        answers.push(
          await post<Completion>("/completion", {
            prompt,
            n_predict: answerTokens,
            temperature: 0,
            n_probs: 1,
            return_tokens: true,
            ignore_eos: true,
            cache_prompt: false,
            lora: [{ id: 0, scale }],
          }),
        );
      return answers;
    };
    const aligned = await ask(1);
    const plain = await ask(0);
    const changed = aligned.filter(({ tokens }, i) => tokens.join() !== plain[i]!.tokens.join()).length;
    const reported = (answers: Completion[]) =>
      answers.map(({ completion_probabilities }) => completion_probabilities.map(({ logprob }) => logprob));
    const comparison = compareScores({
      trainer: {
        base: await scored(trainer, null, promptTokens, plain),
        aligned: await scored(trainer, "a", promptTokens, aligned),
      },
      generator: { base: reported(plain), aligned: reported(aligned) },
      quantised: fileType !== "f32",
    });
    console.log(JSON.stringify({ base, fileType, changedAnswers: changed, ...comparison }));
    if (!comparison.faithful || changed === 0) process.exitCode = 1;
  } finally {
    child.kill();
    await trainer.close();
  }
}

const [server, base] = process.argv.slice(2);
if (server === undefined || base === undefined) {
  console.error(
    readFileSync(new URL(import.meta.url), "utf8")
      .split("\n")
      .slice(0, 8)
      .join("\n"),
  );
  process.exit(2);
}
await main(server, base);
