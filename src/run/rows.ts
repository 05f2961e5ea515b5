// The rows that a run trains on, as token ids, and the stage that keeps them, so that a resumed run trains on exactly the same rows.
//
//   rows.bin       tokens i32 [T] of all rows in sequence, then weights f32 [T]; little-endian
//   lessons.bin    for each row with soft targets and N trained tokens: tokens i32 [N · topK], then log-probs f32 [N · topK]
//   rows.jsonl     for each row: kind, messages, target, rung, tokens (its length), trained (tokens with weight), lesson (entries of its soft
//                  targets)
//   dev.json       the dev items with their prompts as token ids
//   report.json    what the gates let through and dropped
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { sha256, writeFileDurably } from "../base/files.ts";
import type { SnapshotItem } from "../contract/run-folder.ts";
import type { Rows, TopTokens, WeightedRows } from "../engine/train/trainer.ts";
import { type PrepareReport, type RowText, rowsReport, rowTexts } from "./folder/rows.ts";
import type { Form } from "./stage.ts";

export interface TrainingRow extends RowText {
  /** The study's target that the row asks for; absent for rows that no study made, and in folders made before targets were kept. */
  target?: string;
  /** The rung in which the row is trained, from 0. */
  rung: number;
  tokens: Int32Array;
  /** 1 if the token is trained, else 0; as long as `tokens`. */
  weights: Float32Array;
  /** [trained tokens · topK] The base's likeliest tokens at these positions; absent if the base was not asked beforehand. */
  softTargets?: TopTokens;
}

export interface DevPrompt {
  item: SnapshotItem;
  tokens: number[];
}

export interface Prepared {
  /** Hash of the token ids of rows and questions. Checkpoints under a different hash cannot be used. */
  sha256: string;
  rows: TrainingRow[];
  dev: DevPrompt[];
  report: PrepareReport;
}

/**
 * Part of the stage's identity. Format 2 added rungs. Format 3 added soft targets to replayed rows. Since format 4, soft targets cover only
 * trained tokens.
 */
export const rowsFormat = 4;

export const preparedForm: Form<Omit<Prepared, "sha256">, Prepared> = {
  async write(folder, { rows, dev, report }) {
    const contents: Record<string, string | Uint8Array> = {
      "rows.bin": packRows(rows),
      "lessons.bin": packSoftTargets(rows),
      [rowTexts]: rows.map((row) => `${JSON.stringify(textOf(row))}\n`).join(""),
      "dev.json": JSON.stringify(dev),
      [rowsReport]: JSON.stringify(report),
    };
    for (const [name, content] of Object.entries(contents)) await writeFileDurably(join(folder, name), content);
  },
  async read({ folder, files }) {
    const bytes = (name: string): Promise<Buffer> => readFile(join(folder, name));
    const text = async (name: string): Promise<string> => (await bytes(name)).toString("utf8");
    const ids = ["rows.bin", "dev.json"].map((name) => files.find((file) => file.name === name)!.sha256);
    return {
      sha256: sha256(ids.join()),
      rows: unpackRows(await bytes("rows.bin"), await bytes("lessons.bin"), await text(rowTexts)),
      dev: JSON.parse(await text("dev.json")) as DevPrompt[],
      report: JSON.parse(await text(rowsReport)) as PrepareReport,
    };
  },
};

interface RowLine extends Pick<TrainingRow, "kind" | "messages" | "target"> {
  rung: number;
  tokens: number;
  trained: number;
  /** Number of entries of the row's soft targets; 0 without any. Run folders use this field name. */
  lesson: number;
}

const textOf = (row: TrainingRow): RowLine => ({
  kind: row.kind,
  messages: row.messages,
  ...(row.target !== undefined && { target: row.target }),
  rung: row.rung,
  tokens: row.tokens.length,
  trained: trainedTokens(row),
  lesson: row.softTargets?.tokens.length ?? 0,
});

export const trainedTokens = (row: TrainingRow): number => row.weights.reduce((sum, weight) => sum + weight, 0);

function packRows(rows: readonly TrainingRow[]): Uint8Array {
  const total = lengthOf(rows);
  const view = new DataView(new ArrayBuffer(total * 8));
  let at = 0;
  for (const row of rows) for (const token of row.tokens) view.setInt32(4 * at++, token, true);
  for (const row of rows) for (const weight of row.weights) view.setFloat32(4 * at++, weight, true);
  return new Uint8Array(view.buffer);
}

function packSoftTargets(rows: readonly TrainingRow[]): Uint8Array {
  const softTargets = rows.flatMap((row) => row.softTargets ?? []);
  const view = new DataView(new ArrayBuffer(softTargets.reduce((sum, { tokens }) => sum + 8 * tokens.length, 0)));
  let at = 0;
  for (const { tokens, logprobs } of softTargets) {
    for (const token of tokens) view.setInt32(4 * at++, token, true);
    for (const logprob of logprobs) view.setFloat32(4 * at++, logprob, true);
  }
  return new Uint8Array(view.buffer);
}

function unpackRows(bytes: Buffer, targetBytes: Buffer, lines: string): TrainingRow[] {
  const total = bytes.length / 8;
  let at = 0;
  let targetAt = 0;
  return lines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const { kind, messages, target, rung, tokens: length, lesson: places } = JSON.parse(line) as RowLine;
      const tokens = Int32Array.from({ length }, (_, index) => bytes.readInt32LE(4 * (at + index)));
      const weights = Float32Array.from({ length }, (_, index) => bytes.readFloatLE(4 * (total + at + index)));
      at += length;
      const row = { kind, messages, ...(target !== undefined && { target }), rung, tokens, weights };
      if (places === 0) return row;
      const softTargets: TopTokens = {
        tokens: Int32Array.from({ length: places }, (_, index) => targetBytes.readInt32LE(4 * (targetAt + index))),
        logprobs: Float32Array.from({ length: places }, (_, index) =>
          targetBytes.readFloatLE(4 * (targetAt + places + index)),
        ),
      };
      targetAt += 2 * places;
      return { ...row, softTargets };
    });
}

/** Returns the total number of tokens of the rows. */
export const lengthOf = (rows: readonly Pick<TrainingRow, "tokens">[]): number =>
  rows.reduce((sum, row) => sum + row.tokens.length, 0);

/** Returns the row with its weights scaled so that the whole row counts as much as a row of `tokens` trained tokens. */
export function countedAs(row: TrainingRow, tokens: number): TrainingRow {
  const factor = tokens / trainedTokens(row);
  return { ...row, weights: row.weights.map((weight) => weight * factor) };
}

/** Converts rows of token ids to the form that the trainer takes. */
export const packed = (rows: readonly (readonly number[])[]): Rows => ({
  tokens: Int32Array.from(rows.flat()),
  rowLengths: Int32Array.from(rows, (row) => row.length),
});

/** Converts rows to the form that the trainer takes, and multiplies every weight by `scale`. */
export function toTrainer(rows: readonly Pick<TrainingRow, "tokens" | "weights">[], scale: number): WeightedRows {
  const total = lengthOf(rows);
  const joined = {
    tokens: new Int32Array(total),
    rowLengths: Int32Array.from(rows, (row) => row.tokens.length),
    weights: new Float32Array(total),
  };
  let at = 0;
  for (const row of rows) {
    joined.tokens.set(row.tokens, at);
    joined.weights.set(
      row.weights.map((weight) => weight * scale),
      at,
    );
    at += row.tokens.length;
  }
  return joined;
}
