// What the step loop alone does, without HTTP: tokens a second for some clients at once, and what confidence takes of it. Not part
// of `npm test`: its figures are of the machine.
//
//   node test/bench/batcher.ts [--clients 8] [--requests 32] [--prompt-tokens 256] [--max-tokens 128]
//     [--threads 2] [--adapter <adapter.gguf>] [--rounds 5] [--confidence]
//
// Prompts and answers are half to one and a half times as long as given, each its own. --confidence takes turns between rounds
// that work out the features of every answer and rounds that do not, and prints the median of the ratios.
import { parseArgs } from "node:util";
import { readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import { createFeatures } from "../../src/engine/confidence-features.ts";
import { createGenerator, type ModelRef } from "../../src/engine/generator.ts";
import { createGpu } from "../../src/engine/gpu.ts";
import { requestOf } from "../engine/engine-fixture.ts";

const { values: options } = parseArgs({
  options: {
    clients: { type: "string", default: "8" },
    requests: { type: "string", default: "32" },
    "prompt-tokens": { type: "string", default: "256" },
    "max-tokens": { type: "string", default: "128" },
    threads: { type: "string", default: "2" },
    adapter: { type: "string" },
    rounds: { type: "string", default: "5" },
    confidence: { type: "boolean", default: false },
  },
});
const { starterModel } = readConfig({});
const threads = Number(options.threads);
const config = { threads, seats: 8, seatContext: 2048, queueLimit: 256 };
const generator = createGenerator({ config, log: createLog("error"), gpu: createGpu({ memoryBytes: 8e9, threads }) });
const model: ModelRef = {
  baseId: "base",
  basePath: starterModel,
  ...(options.adapter && { adapter: { id: "adapter", path: options.adapter } }),
};

const stretch = (index: number): number => 0.5 + ((index * 7919) % 101) / 100;
const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

interface Round {
  tokensPerSecond: number;
  firstTokenP95Ms: number;
}

let prompts = 0;

/** Every prompt is a new one: none is remembered from the last round. */
function promptOf(index: number): number[] {
  const { vocabulary } = generator.tokenizer("base");
  const length = Math.round(Number(options["prompt-tokens"]) * stretch(index));
  const seed = ++prompts;
  return Array.from({ length }, (_, at) => 1000 + ((at * 7919 + seed * 104_729) % (vocabulary - 2000)));
}

async function round(withFeatures: boolean): Promise<Round> {
  const firsts: number[] = [];
  let next = 0;
  let tokens = 0;
  const startedMs = performance.now();
  const client = async (): Promise<void> => {
    while (next < Number(options.requests)) {
      const index = next++;
      const maxTokens = Math.round(Number(options["max-tokens"]) * stretch(index + 53));
      const features = createFeatures();
      const askedMs = performance.now();
      const answer = generator.generate(requestOf(promptOf(index), { model, maxTokens, ignoreEos: true }));
      for (let drawn = 0; ; drawn++) {
        const step = await answer.next();
        if (step.done) break;
        if (drawn === 0) firsts.push(performance.now() - askedMs);
        if (withFeatures) features.add(step.value);
        tokens++;
      }
      if (withFeatures) features.values("length");
    }
  };
  await Promise.all(Array.from({ length: Number(options.clients) }, client));
  firsts.sort((a, b) => a - b);
  return {
    tokensPerSecond: tokens / ((performance.now() - startedMs) / 1000),
    firstTokenP95Ms: firsts[Math.floor(0.95 * firsts.length)]!,
  };
}

await generator.load(model);
const ratios: number[] = [];
const rounds: Round[] = [];
for (let count = 0; count < Number(options.rounds); count++) {
  const plain = await round(false);
  rounds.push(plain);
  console.log(JSON.stringify(plain));
  if (!options.confidence) continue;
  // In turn who is first: the machine may grow slower or faster.
  const scored = await round(true);
  ratios.push(scored.tokensPerSecond / plain.tokensPerSecond);
  console.log(JSON.stringify({ confidence: true, ...scored }));
}
console.log(
  JSON.stringify({
    tokensPerSecond: median(rounds.map((each) => each.tokensPerSecond)),
    firstTokenP95Ms: median(rounds.map((each) => each.firstTokenP95Ms)),
    ...(options.confidence && { withConfidence: median(ratios) }),
  }),
);
await generator.dispose();
