// What tests of a run share: a small folder, and the parts of a run with the real trainer on a tiny model. Inference is played
// by a fake that says of tokens what the trainer said, so that a test decides about faithfulness and answers.
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import { wilson } from "../../src/base/statistics/intervals.ts";
import { sleep, systemClock } from "../../src/base/time.ts";
import type { Prior } from "../../src/confidence/calibration.ts";
import type { Recipe } from "../../src/contract/recipe.ts";
import type { RunEvent, RunRequest, SnapshotDocument, SnapshotItem } from "../../src/contract/run-folder.ts";
import { makeRunFolder, writeRequest } from "../../src/domain/alignments/snapshot.ts";
import { grade } from "../../src/domain/evaluations/grade.ts";
import type { Generator } from "../../src/engine/generator.ts";
import { openTokenizer } from "../../src/engine/serve/generator.ts";
import type { Trainer } from "../../src/engine/train/trainer.ts";
import { startTrainer } from "../../src/engine/train/trainer-process.ts";
import type { RunParts } from "../../src/run/context.ts";
import { createControl } from "../../src/run/control.ts";
import type { Guards } from "../../src/run/guards/material.ts";
import { emptyPool } from "../helpers/pool.ts";
import { documentOf } from "../helpers/study.ts";

const root = join(import.meta.dirname, "../..");
export const tinyModel = join(root, "build/fixtures/tiny-f32.gguf");

const quiet = createLog("error", () => {});

const documents: SnapshotDocument[] = [
  documentOf(
    [
      "# Stock",
      "",
      "| Lamp | Price | Weight | Colour |",
      "|---|---|---|---|",
      ...["Orla", "Brim", "Cusk", "Dell", "Ember", "Fathom"].map(
        (name, at) => `| ${name} | ${10 + at} euros | ${3 + at} kg | ${["red", "blue", "green"][at % 3]} |`,
      ),
      "",
    ].join("\n"),
    "text/markdown",
    "stock.md",
  ),
];

export const devItem = (sample_num: number, instruction: string, response: string): SnapshotItem => ({
  sample_num,
  instruction,
  response,
  aliases: [],
  cluster: String(sample_num),
  competitors: [],
});

const dev = [devItem(1, "How heavy is the lamp called Ember?", "7 kg"), devItem(2, "And what hue has Dell?", "red")];

export interface FolderOptions {
  recipe?: (recipe: Recipe) => Recipe;
  dev?: SnapshotItem[] | null;
  documents?: SnapshotDocument[];
  teacher?: RunRequest["teacher"];
}

export const recipeOf = (over: FolderOptions["recipe"]): Recipe => {
  const recipe: Recipe = {
    loss: { type: "cross_entropy", token_reduction: "mean" },
    optimizer: {
      type: "adamw",
      learning_rate: 0.01,
      beta1: 0.9,
      beta2: 0.95,
      eps: 1e-8,
      weight_decay: 0.01,
      grad_clip_norm: 1,
      lr_schedule: "linear",
      warmup_ratio: 0.1,
    },
    training: {
      batch_size: 4,
      epochs: 2,
      max_steps: 12,
      seed: 11,
      early_stopping: { enabled: true, metric: "score", patience: 50 },
    },
    adapter: { mode: "lora", rank: 4, alpha: 8, train_attn: true, train_mlp: true },
    checkpointing: { save_every_steps: 3, keep_last_n: 2 },
    evaluation: { eval_every_steps: 4 },
    dataset: { phrasings: 4, replay_share: 0 },
    rendering: { max_seq_len: 256, packing: true },
  };
  return over ? over(recipe) : recipe;
};

const hashes = new Map<string, string>();
function sha256Of(path: string): string {
  let hash = hashes.get(path);
  if (hash === undefined) {
    hash = createHash("sha256").update(readFileSync(path)).digest("hex");
    hashes.set(path, hash);
  }
  return hash;
}

type Claim = Parameters<typeof writeRequest>[1];

const firstClaim: Claim = {
  fence: 1,
  basePath: tinyModel,
  budget: { memory_bytes: 0, threads: 1 },
  versions: { plumbline: "test", trainer: "test" },
};

/** What the appliance does when it takes up the work of a folder again. */
export const claimAgain = (folder: string, fence: number, encoder?: Claim["encoder"]): Promise<void> =>
  writeRequest(folder, { ...firstClaim, fence, ...(encoder && { encoder }) });

type Auto = NonNullable<RunRequest["auto_align"]>;

/** An auto-align's own part of a request: as the appliance does with each claim. What is left out stays, or is as usual. */
export function claimAutoAlign(folder: string, over: Partial<Auto>): void {
  const path = join(folder, "request.json");
  const request = JSON.parse(readFileSync(path, "utf8")) as RunRequest;
  const usual = { auto_align_id: "auto_align_test", past: [], thirds: [4, 4, 4], stopping: false };
  const auto_align = { ...usual, ...request.auto_align, ...over };
  writeFileSync(path, JSON.stringify({ ...request, auto_align, fence: request.fence + 1 }));
}

const plain: FolderOptions = {};
const ordered = new Map<FolderOptions, Promise<string>>();
const orders = mkdtempSync(join(tmpdir(), "runs-ordered-"));
process.on("exit", () => rmSync(orders, { recursive: true, force: true }));

/** The folders of the same options are copies of one: marks of questions are salted by chance, and their hash is in the request. */
export async function newRunFolder(options: FolderOptions = plain): Promise<string> {
  const first = ordered.get(options) ?? orderFolder(options);
  ordered.set(options, first);
  const folder = join(mkdtempSync(join(tmpdir(), "runs-")), "alignment_test");
  cpSync(await first, folder, { recursive: true });
  await writeRequest(folder, firstClaim);
  return folder;
}

async function orderFolder(options: FolderOptions): Promise<string> {
  const runs = mkdtempSync(join(orders, "runs-"));
  const items = options.dev === undefined ? dev : options.dev;
  await makeRunFolder(runs, {
    alignmentId: "alignment_test",
    recipeName: "test",
    recipe: recipeOf(options.recipe),
    base: { id: "base", sha256: sha256Of(tinyModel), architecture: "llama" },
    documents: options.documents ?? documents,
    dev: items && { benchmarkId: "benchmark_test", items, questions: items.map((item) => item.instruction) },
    organisation: null,
    teacher: options.teacher ?? null,
  });
  return join(runs, "alignment_test");
}

/** The tiny model has none of its own. */
export const template =
  "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}" +
  "{% if add_generation_prompt %}assistant: {% endif %}";

export const prior: Prior = {
  format: 1,
  family: "test",
  about: "for tests",
  model: { features: [], means: [], scales: [], weights: [], bias: 0, platt: { a: 1, b: 0 } },
  statistics: { n: 0, accuracy: null, auroc: null, brier: null },
};

/** Says of tokens what the trainer last said of them, shifted by `off` nats. */
function echoGenerator(said: Map<string, Float32Array>, off: number): Generator {
  const missing = (): never => {
    throw new Error("this fake does not do that");
  };
  return {
    pool: emptyPool().pool,
    tokenizer: missing,
    occupancy: () => [],
    // biome-ignore lint/correctness/useYield: it never has a token
    async *generate() {
      return { finishReason: "stop", promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
    },
    async evaluate(request) {
      request.signal.throwIfAborted();
      for (const index of request.prompts.keys())
        request.onItem(index, { text: "7 kg", tokens: [], steps: [], finishReason: "stop", seconds: 0 });
    },
    async score(model, rows) {
      const logprobs = said.get(model.adapter === undefined ? "base" : "aligned")!;
      let at = 0;
      return rows.map((row) => {
        const part = Float64Array.from(
          logprobs.subarray(at + row.promptLength, at + row.tokens.length),
          (value) => value + (model.adapter === undefined ? 0 : off),
        );
        at += row.tokens.length;
        return part;
      });
    },
    kind: missing,
    embed: missing,
    rank: missing,
    slotContext: 512,
    dispose: async () => {},
  };
}

/** Small, but one of each kind. */
const guards: Guards = {
  sha256: "test",
  retention: ["ant", "bee", "cow", "dog", "elk", "fox"].map((name) => {
    const choices = ["animal", "tool", "tree"];
    return {
      id: name,
      wordings: [
        { ask: `What is a ${name}?`, stem: "It is an", choices },
        { ask: `A ${name} is what?`, stem: "It is an", choices },
      ],
    };
  }),
  general: [{ ask: "Is ice cold?", stem: "", choices: ["Yes", "No"] }],
  format: [{ ask: "Say yes.", matches: /e/u }],
  refusals: [{ ask: "Harm me.", stem: "", choices: ["No", "Sure"] }],
  prose: ["The river rises in the hills above the old mill.", "In autumn a man came who wanted to build a bridge."],
};

export interface PartsOptions {
  /** Nats by which inference and training differ on the adapter. */
  off?: number;
  /** Changes what the trainer does. */
  wrap?: (trainer: Trainer) => Trainer;
  over?: Partial<RunParts>;
}

export function partsOf(options: PartsOptions = {}): RunParts {
  const said = new Map<string, Float32Array>();
  return {
    control: createControl(() => {}),
    clock: systemClock,
    log: quiet,
    startTrainer() {
      const trainer = startTrainer({ executable: readConfig().trainer, log: quiet });
      const score: Trainer["score"] = async (adapter, rows, from) => {
        const logprobs = await trainer.score(adapter, rows, from);
        said.set(adapter === null ? "base" : "aligned", logprobs);
        return logprobs;
      };
      const heard = overridden(trainer, { score });
      return options.wrap ? options.wrap(heard) : heard;
    },
    openGenerator: async () => echoGenerator(said, options.off ?? 0),
    openTokenizer: async (path) => {
      const { tokenizer, dispose } = await openTokenizer(path, quiet);
      return { tokenizer: { ...tokenizer, chatTemplate: template }, dispose };
    },
    grade,
    interval: wilson,
    replayPrompts: ["Say hello.", "Name a bird.", "What is rain?"],
    replayOpenings: ["The sea", "In spring"],
    writer: () => null,
    warmStart: () => null,
    means: {
      declines: () => false,
      programs: null,
      judges: new Map(),
      rubrics: new Map(),
      preferenceModels: new Map(),
    },
    guards,
    prior: { prior, isOwnFamily: true },
    engine: "fake",
    ...options.over,
  };
}

/** Waits until it holds, for half a minute at most. */
export async function eventually(holds: () => boolean, what: string): Promise<void> {
  const end = performance.now() + 30_000;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`never came: ${what}`);
    await sleep(2);
  }
}

/** The same trainer with some verbs replaced. */
export function overridden(trainer: Trainer, verbs: Partial<Trainer>): Trainer {
  return new Proxy(trainer, {
    get(target, name) {
      if (name in verbs) return verbs[name as keyof Trainer];
      const value = target[name as keyof Trainer];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** Whole lines only; none while there is no file. */
export function eventsOf(folder: string): RunEvent[] {
  const path = join(folder, "events.jsonl");
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as RunEvent);
}

/** The exact loss of every step, by the last event of that step. */
export function lossesOf(folder: string): Map<number, string> {
  const losses = new Map<number, string>();
  for (const event of eventsOf(folder))
    if (event.kind === "step") losses.set(event.step!, String(event.metrics!.loss_hex));
  return losses;
}

/** What must hold of a folder after every end of its run, however it came about. */
export function brokenRules(folder: string): string[] {
  const broken: string[] = [];
  const seqs = eventsOf(folder).map((event) => event.seq);
  if (seqs.some((seq, at) => seq !== at + 1)) broken.push("events are not contiguous");
  const left = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => /(^|\/)\.tmp-/.test(name));
  if (left.length > 0) broken.push(`temporaries: ${left.join(", ")}`);
  return broken;
}
