// A generator over the starter model, and requests to it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import type {
  GeneratedToken,
  GenerateEnd,
  GenerateRequest,
  Generator,
  ModelRef,
  Sampling,
} from "../../src/engine/generator.ts";
import { createGpu, type Gpu } from "../../src/engine/gguf/gpu.ts";
import { createGenerator } from "../../src/engine/serve/generator.ts";
import { writeAdapter } from "../helpers/adapter.ts";

export const starterModel = readConfig({}).starterModel;
export const base: ModelRef = { baseId: "base", basePath: starterModel };

export interface Engine {
  generator: Generator;
  gpu: Gpu;
  /** Names of the events logged so far. */
  events: string[];
}

export function createEngine(
  settings: Partial<{ slots: number; slotContext: number; queueLimit: number; memoryBytes: number }> = {},
): Engine {
  const { slots = 8, slotContext = 512, queueLimit = 16, memoryBytes = 4e9 } = settings;
  const events: string[] = [];
  const log = createLog("info", (line) => events.push(JSON.parse(line).event));
  const gpu = createGpu({ memoryBytes, gpuBytes: 0, threads: 2 });
  const generator = createGenerator({
    config: { threads: 1, slots, slotContext, queueLimit },
    log,
    gpu,
    keepIdleMs: 0,
  });
  return { generator, gpu, events };
}

export const greedy: Sampling = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  seed: 1,
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: new Map(),
};

export const requestOf = (prompt: readonly number[], more: Partial<GenerateRequest> = {}): GenerateRequest => ({
  model: base,
  prompt,
  maxTokens: 24,
  sampling: greedy,
  stopStrings: [],
  ignoreEos: false,
  priority: "interactive",
  owner: "someone",
  signal: new AbortController().signal,
  ...more,
});

export interface Answer extends GenerateEnd {
  text: string;
  tokens: GeneratedToken[];
}

export async function collect(
  generator: Generator,
  request: GenerateRequest,
  onToken: (token: GeneratedToken) => void = () => {},
): Promise<Answer> {
  const tokens: GeneratedToken[] = [];
  const stream = generator.generate(request);
  for (;;) {
    const next = await stream.next();
    if (next.done) return { ...next.value, tokens, text: tokens.map((token) => token.text).join("") };
    tokens.push(next.value);
    onToken(next.value);
  }
}

/** Adapters in a folder of their own; `remove` takes it away. */
export function adapterFolder(): { adapter(id: string, strength: number): ModelRef; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), "adapters-"));
  return {
    adapter: (id, strength) => {
      const path = join(folder, `${id}.gguf`);
      writeAdapter(path, strength);
      return { ...base, adapter: { id, path } };
    },
    remove: () => rmSync(folder, { recursive: true }),
  };
}

export const codeOf = async (work: () => Promise<unknown>): Promise<string> => {
  try {
    await work();
    return "none";
  } catch (error) {
    return String((error as { code?: string }).code);
  }
};
