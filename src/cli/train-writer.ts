// `plumbline train-writer`: trains config/writer/adapter.gguf, with which the starter model phrases questions, on the
// passages, answers and questions in config/writer/material. For developers of plumbline; takes half an hour on two
// cores.
import { readdir, readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Command } from "commander";
import { installation, readConfig } from "../base/config.ts";
import { makeFolder, sha256, sha256OfFile, writeJsonDurably } from "../base/files.ts";
import { createLog, type Level } from "../base/log.ts";
import { seeded } from "../base/statistics/random.ts";
import { shuffled } from "../base/text.ts";
import type { SnapshotDocument } from "../contract/run-folder.ts";
import type { Tokenizer } from "../engine/generator.ts";
import { shrinkAdapter } from "../engine/gguf/adapter-file.ts";
import { openTokenizer } from "../engine/serve/generator.ts";
import type { AdapterShape, Rows, Trainer } from "../engine/train/trainer.ts";
import { startTrainer } from "../engine/train/trainer-process.ts";
import { headingOf } from "../study/heading.ts";
import { passagesOf } from "../study/passages.ts";
import { clauseTextsOf } from "../study/spans.ts";
import type { WriterCard } from "../study/writers/card.ts";
import { askingPrompt, continuation, manners, oneLine } from "../study/writers/format.ts";
import { type Answer, answers, note } from "./output.ts";

export interface MaterialPassage {
  title: string;
  passage: string;
  /** `further`: more wordings, from which the warm start is trained as well. */
  asks: { answer: string; questions: [string, string, string]; further?: string[] }[];
  genre: string;
  language: string;
}

const folder = join(installation, "config/writer");
const adapter = "writer";

export function register(program: Command): void {
  answers<Options>(
    program
      .command("train-writer", { hidden: true })
      .description("train the writer of questions for the starter model")
      .option("--languages <list>", "language of the material (ISO 639-1)", "en")
      .option("--epochs <number>", "passes over all passages", "2")
      .option("--rank <number>", "rank of the adapter", "12")
      .option("--rate <number>", "peak learning rate", "0.0015")
      .option("--passages <number>", "passages per step", "1")
      .option("--seed <number>", "seed of the order", "1")
      .option("--out <folder>", "folder for the result", folder),
    trainWriter,
  );
}

interface Options {
  languages: string;
  epochs: string;
  rank: string;
  rate: string;
  passages: string;
  seed: string;
  out: string;
}

/**
 * Whether a passage is kept out of training. A hash of its title and text selects about one in ten, so the choice does not
 * depend on what else the material contains.
 */
export const isHeldOut = ({ title, passage }: MaterialPassage): boolean =>
  Number.parseInt(sha256(`${title}\n${passage}`).slice(0, 8), 16) % 10 === 0;

export async function readMaterial(): Promise<MaterialPassage[]> {
  const names = (await readdir(join(folder, "material"))).filter((name) => name.endsWith(".jsonl")).sort();
  const texts = await Promise.all(names.map((name) => readFile(join(folder, "material", name), "utf8")));
  return texts.flatMap((text) =>
    text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as MaterialPassage),
  );
}

interface Row {
  prompt: string;
  target: string;
}

/** Training data from one passage: every question with the clause that answers it. */
interface AskedPassage {
  /** Title and headings. */
  title: string;
  /** Clauses with the questions that they answer. */
  asks: { clause: string; questions: readonly string[] }[];
}

/**
 * Splits the material into passages as a study does, so a long passage may become several. Questions whose answer is not
 * within one clause are left out, and so are passages without questions.
 */
function askedPassagesOf(material: readonly MaterialPassage[]): AskedPassage[] {
  const passages = passagesOf(material.map(documentOf)).map((passage): AskedPassage => {
    const { asks } = material[Number(passage.document)]!;
    const clauses = clauseTextsOf(passage);
    return {
      title: headingOf(passage),
      asks: asks.flatMap(({ answer, questions }) => {
        const clause = clauses.find((text) => text.includes(answer));
        return clause === undefined ? [] : [{ clause: oneLine(clause), questions }];
      }),
    };
  });
  return passages.filter(({ asks }) => asks.length > 0);
}

/** Makes a passage of the material into a document of its own. */
export function documentOf({ title, passage }: MaterialPassage, index: number): SnapshotDocument {
  const text = `${title}\n\n${passage}`;
  const blocks: NonNullable<SnapshotDocument["blocks"]> = [{ type: "heading", level: 1, start: 0, end: title.length }];
  let start = title.length + 2;
  for (const line of passage.split("\n")) {
    blocks.push({ type: "paragraph", level: 0, start, end: start + line.length });
    start += line.length + 1;
  }
  return { id: String(index), name: `${index}.txt`, media_type: "text/plain", text, blocks };
}

const rowsOf = ({ title, asks }: AskedPassage): Row[] =>
  asks.flatMap(({ clause, questions }) =>
    questions.map((question, at) => ({ prompt: askingPrompt(title, clause, manners[at]!), target: question })),
  );

async function trainWriter(options: Options): Promise<Answer> {
  const config = readConfig();
  const log = createLog(config.logLevel as Level);
  const path = config.starterModel;
  const languages = options.languages.split(",");
  const all = (await readMaterial()).filter(({ language }) => languages.includes(language));
  const kept = all.filter((one) => !isHeldOut(one));
  const { tokenizer, dispose } = await openTokenizer(path, log);
  const trainer = startTrainer({ executable: config.trainer, log });
  const numbers = {
    epochs: Number(options.epochs),
    passages: Number(options.passages),
    rate: Number(options.rate),
    seed: Number(options.seed),
  };
  const shape: AdapterShape = {
    rank: Number(options.rank),
    alpha: Number(options.rank),
    seed: numbers.seed,
    targets: ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"],
  };
  try {
    await trainer.open({ path, threads: config.threads, memoryBytes: config.memory, gpuMemoryBytes: config.gpuMemory });
    await trainer.createAdapter(adapter, shape);
    const held = askedPassagesOf(all.filter(isHeldOut));
    const training = await train(trainer, tokenizer, { kept: askedPassagesOf(kept), held }, numbers);
    await makeFolder(options.out);
    const file = join(options.out, "adapter.gguf");
    await rm(`${file}.f32`, { force: true });
    await trainer.exportGguf(adapter, `${file}.f32`, {});
    await shrinkAdapter(`${file}.f32`, file, "F16");
    await rm(`${file}.f32`);
    const card: WriterCard = {
      format: 1,
      base: { name: basename(path), sha256: await sha256OfFile(path) },
      adapter: { ...shape, sha256: await sha256OfFile(file) },
      languages: [...new Set(all.map(({ language }) => language))].sort(),
      material: { trained: kept.length, held_out: all.length - kept.length },
      training: { ...numbers, ...training },
    };
    await writeJsonDurably(join(options.out, "card.json"), card);
    return { json: card, text: `${file}: ${JSON.stringify(card.training)}` };
  } finally {
    await trainer.close();
    await dispose();
  }
}

async function train(
  trainer: Trainer,
  tokenizer: Tokenizer,
  { kept: material, held }: { kept: readonly AskedPassage[]; held: readonly AskedPassage[] },
  { epochs, passages, rate, seed }: { epochs: number; passages: number; rate: number; seed: number },
): Promise<Pick<WriterCard["training"], "steps" | "loss" | "held_out_loss">> {
  const perEpoch = Math.ceil(material.length / passages);
  const steps = Math.ceil(perEpoch * epochs);
  const warmUp = Math.ceil(steps / 20);
  const end = [...tokenizer.eog][0]!;
  const encoded = new Map<string, number[]>();
  const encode = (text: string): number[] => {
    const known = encoded.get(text) ?? tokenizer.encode(text, false);
    encoded.set(text, known);
    return known;
  };
  const piecesOf = (rows: readonly Row[]): Piece[] =>
    rows.map(({ prompt, target }) => ({
      prompt: encode(prompt),
      target: [...tokenizer.encode(continuation(target), false), end],
    }));
  let loss = 0;
  let heldLoss = 0;
  let computed = 0;
  const began = Date.now();
  for (let step = 0; step < steps; step++) {
    const epoch = Math.floor(step / perEpoch);
    const order = shuffled(material, seeded(seed + epoch));
    const from = (step % perEpoch) * passages;
    const rows = order.slice(from, from + passages).flatMap(rowsOf);
    const pieces = piecesOf(rows);
    const trained = pieces.reduce((sum, { target }) => sum + target.length, 0);
    const passed = trainer.forwardBackward(adapter, {
      ...together(pieces),
      weights: Float32Array.from(
        pieces.flatMap(({ prompt, target }) => [...prompt.map(() => 0), ...target.map(() => 1 / trained)]),
      ),
    });
    // It is awaited below. Until then, its failure must not end the process as an unhandled rejection.
    passed.catch(() => {});
    const left = step < warmUp ? (step + 1) / warmUp : (steps - step) / (steps - warmUp);
    await trainer.optimStep(adapter, {
      learningRate: rate * left,
      beta1: 0.9,
      beta2: 0.95,
      eps: 1e-8,
      weightDecay: 0,
      gradClipNorm: 1,
    });
    const { loss: here, computedTokens } = await passed;
    loss = step === 0 ? here : 0.98 * loss + 0.02 * here;
    computed += computedTokens;
    if (step % 20 === 19 || step === 2) {
      const seconds = (Date.now() - began) / 1000;
      note(
        `step ${step + 1} of ${steps}, loss ${loss.toFixed(3)}, ${Math.round(computed / seconds)} tokens a second, ${Math.round(((steps - step - 1) * seconds) / (step + 1))} s left`,
      );
    }
    if (step + 1 === steps || (step + 1) % perEpoch === 0) {
      heldLoss = await lossOf(trainer, held, (passage) => piecesOf(rowsOf(passage)));
      note(`step ${step + 1}: ${heldLoss.toFixed(3)} nats a token on passages that are never trained on`);
    }
  }
  return { steps, loss, held_out_loss: heldLoss };
}

interface Piece {
  prompt: number[];
  target: number[];
}

const together = (pieces: readonly Piece[]): Rows => ({
  tokens: Int32Array.from(pieces.flatMap(({ prompt, target }) => [...prompt, ...target])),
  rowLengths: Int32Array.from(pieces, ({ prompt, target }) => prompt.length + target.length),
});

/** Mean loss of the questions' tokens, in nats per token. */
async function lossOf(
  trainer: Trainer,
  passages: readonly AskedPassage[],
  piecesOf: (passage: AskedPassage) => Piece[],
): Promise<number> {
  let [nats, tokens] = [0, 0];
  for (const passage of passages) {
    const pieces = piecesOf(passage);
    const logprobs = await trainer.score(
      adapter,
      together(pieces),
      Int32Array.from(pieces, ({ prompt }) => prompt.length),
    );
    let from = 0;
    for (const { prompt, target } of pieces) {
      from += prompt.length;
      for (const logprob of logprobs.subarray(from, from + target.length)) nats -= logprob;
      from += target.length;
      tokens += target.length;
    }
  }
  return nats / tokens;
}
