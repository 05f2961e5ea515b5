// What the step loop alone does, without HTTP: tokens a second for some clients at once, and what confidence takes of it. Not part
// of `npm test`: its figures are of the machine.
//
//   node test/bench/batcher.ts [--clients 8] [--requests 32] [--prompt-tokens 256] [--max-tokens 128]
//     [--threads 2] [--adapter <adapter.gguf>] [--rounds 5] [--confidence]
//
// Prompts and answers are half to one and a half times as long as given, each its own. --confidence makes pairs of rounds, in turn
// which is first: one scores every answer as serving does, with the encoder of drift, and with grounding and sources of the
// fictional company's documents, but ten times, each for another question; the other does not. The cost is a tenth of what that
// takes: rounds differ by more among themselves than one scoring takes.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { readConfig } from "../../src/base/config.ts";
import { sha256 } from "../../src/base/files.ts";
import { createLog } from "../../src/base/log.ts";
import { spread } from "../../src/base/spread.ts";
import { fitDrift, mostExemplars } from "../../src/confidence/drift.ts";
import { groundingReference } from "../../src/confidence/grounding.ts";
import { sourceSpace } from "../../src/confidence/sources.ts";
import type { Listener } from "../../src/domain/inference/answers.ts";
import { listenerOf } from "../../src/domain/inference/confidence.ts";
import { createDriftMeter } from "../../src/domain/inference/drift.ts";
import type { ModelRef } from "../../src/engine/generator.ts";
import { createGpu } from "../../src/engine/gguf/gpu.ts";
import { createGenerator } from "../../src/engine/serve/generator.ts";
import { statementsOf } from "../../src/study/passages.ts";
import { references } from "../../src/study/study.worker.ts";
import { companyMaterial } from "../e2e/prove/material.ts";
import { requestOf } from "../engine/engine-fixture.ts";
import { calibrationWith, modelOf } from "../helpers/calibration.ts";
import { writeEncoder } from "../helpers/encoder.ts";

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
const config = { threads, slots: 8, slotContext: 2048, queueLimit: 256 };
const log = createLog("error");
const generator = createGenerator({ config, log, gpu: createGpu({ memoryBytes: 8e9, gpuBytes: 0, threads }) });
const model: ModelRef = {
  baseId: "base",
  basePath: starterModel,
  ...(options.adapter && { adapter: { id: "adapter", path: options.adapter } }),
};

/** How often an answer is scored, so that it shows. */
const scorings = 10;

const stretch = (index: number): number => 0.5 + ((index * 7919) % 101) / 100;
const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

interface Scoring {
  questions: string[];
  listen: (question: string) => Listener;
}

/** What an aligned model is served with, measured anew: only the weights of its score are made up. */
async function scoring(): Promise<Scoring> {
  const folder = mkdtempSync(join(tmpdir(), "plumbline-bench-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const encoder: ModelRef = { baseId: "encoder", basePath: join(folder, "encoder.gguf") };
  await writeEncoder(encoder.basePath);
  await generator.pool.lease(encoder, "work");
  const { documents, items } = await companyMaterial(300, 7);
  const statements = statementsOf(documents);
  const vectorsOf = async (texts: readonly string[]): Promise<Float32Array[]> => {
    const read = { truncate: true, signal: new AbortController().signal };
    return (await generator.embed(encoder, texts, read)).map(({ vector }) => vector);
  };
  const dev = items.filter(({ split }) => split === "dev");
  const vectors = await vectorsOf(dev.map(({ instruction }) => instruction));
  const { reference } = fitDrift({
    encoderSha256: "encoder",
    passages: await vectorsOf(spread(statements, mostExemplars)),
    questions: vectors.map((vector, at) => ({ vector, cluster: dev[at]!.cluster })),
    background: [],
  });
  const tokenizer = generator.tokenizer(model.baseId);
  const calibration = calibrationWith({
    identity: {
      base_sha256: "base",
      adapter_sha256: "adapter",
      template_sha256: sha256(tokenizer.chatTemplate ?? ""),
      feature_source: "A",
      engine: "bench",
    },
    model: modelOf("grounding_share", 1),
    drift: reference,
    drift_reason: null,
    grounding: groundingReference(statements),
  });
  const { sources } = references({ documents, organisation: null });
  const space = sourceSpace(sources);
  const drift = createDriftMeter({
    generator,
    encoderOf: () => encoder,
    lease: async () => ({ release: async () => {} }),
    log,
  });
  const served = { calibration, baseSha256: "base", adapterSha256: "adapter", sources: async () => space };
  const parts = { engine: "bench", drift, hasDocument: () => true };
  return {
    questions: items.filter(({ split }) => split === "sealed").map(({ instruction }) => instruction),
    // One a request, as a session makes it.
    listen: (question) => listenerOf(served, tokenizer, "user", parts)(question),
  };
}

interface Round {
  tokensPerSecond: number;
  firstTokenP95Ms: number;
  /** Processor time of the whole process. */
  cpuMsPerAnswer: number;
}

let prompts = 0;

/** Every prompt is a new one: none is remembered from the last round. */
function promptOf(index: number): number[] {
  const { vocabulary } = generator.tokenizer("base");
  const length = Math.round(Number(options["prompt-tokens"]) * stretch(index));
  const seed = ++prompts;
  return Array.from({ length }, (_, at) => 1000 + ((at * 7919 + seed * 104_729) % (vocabulary - 2000)));
}

let asked = 0;

const listenersOf = ({ questions, listen }: Scoring): Listener[] =>
  Array.from({ length: scorings }, () => listen(questions[asked++ % questions.length]!));

async function round(scored: Scoring | null): Promise<Round> {
  const firsts: number[] = [];
  const requests = Number(options.requests);
  let next = 0;
  let tokens = 0;
  const startedMs = performance.now();
  const startedCpu = process.cpuUsage();
  const client = async (): Promise<void> => {
    while (next < requests) {
      const index = next++;
      const maxTokens = Math.round(Number(options["max-tokens"]) * stretch(index + 53));
      const listeners = scored === null ? [] : listenersOf(scored);
      const askedMs = performance.now();
      const answer = generator.generate(requestOf(promptOf(index), { model, maxTokens, ignoreEos: true }));
      for (let drawn = 0; ; drawn++) {
        const step = await answer.next();
        if (step.done) break;
        if (drawn === 0) firsts.push(performance.now() - askedMs);
        for (const listener of listeners) listener.add(step.value);
        tokens++;
      }
      for (const said of await Promise.all(listeners.map((listener) => listener.score("length"))))
        if (!said?.calibrated || said.drift.p_value === null)
          throw new Error(`Not what serving does: ${said?.reason ?? said?.drift.reason}`);
    }
  };
  await Promise.all(Array.from({ length: Number(options.clients) }, client));
  const { user, system } = process.cpuUsage(startedCpu);
  firsts.sort((a, b) => a - b);
  return {
    tokensPerSecond: tokens / ((performance.now() - startedMs) / 1000),
    firstTokenP95Ms: firsts[Math.floor(0.95 * firsts.length)]!,
    cpuMsPerAnswer: (user + system) / 1000 / requests,
  };
}

await generator.pool.lease(model, "work");
const scored = options.confidence ? await scoring() : null;
// The first answers choose numbers of threads and fill caches.
if (scored) await round(scored);
const pairs: { without: Round; with?: Round }[] = [];
for (let count = 0; count < Number(options.rounds); count++) {
  const pair: { with?: Round; without?: Round } = {};
  const order = scored === null ? (["without"] as const) : (["without", "with"] as const);
  for (const which of count % 2 === 0 ? order : order.toReversed()) {
    pair[which] = await round(which === "with" ? scored : null);
    console.log(JSON.stringify({ ...(scored && { confidence: which === "with" }), ...pair[which] }));
  }
  pairs.push({ ...pair, without: pair.without! });
}

/** Of one scoring, as a share of what an answer takes: the mean over the pairs, and its standard error. */
function costOf(takes: (round: Round) => number): { mean: number; standardError: number } {
  const costs = pairs.map((pair) => (takes(pair.with!) / takes(pair.without) - 1) / scorings);
  const squares = costs.map((cost) => (cost - mean(costs)) ** 2);
  return { mean: mean(costs), standardError: Math.sqrt(mean(squares) / (costs.length - 1)) };
}

const ofPlain = (figure: (round: Round) => number): number => median(pairs.map(({ without }) => figure(without)));
console.log(
  JSON.stringify({
    tokensPerSecond: ofPlain((round) => round.tokensPerSecond),
    firstTokenP95Ms: ofPlain((round) => round.firstTokenP95Ms),
    cpuMsPerAnswer: ofPlain((round) => round.cpuMsPerAnswer),
    ...(scored && {
      costInTime: costOf((round) => 1 / round.tokensPerSecond),
      costInProcessorTime: costOf((round) => round.cpuMsPerAnswer),
    }),
  }),
);
await generator.dispose();
