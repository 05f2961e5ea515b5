// The rows a run trains on, as token ids, and the prepared/ folder that keeps them, so that a resumed run trains on the very
// same ones and the appliance can look for sealed questions in them.
//
//   rows.bin       tokens i32 [T] of all rows one behind the other, then weights f32 [T]; little-endian
//   lessons.bin    of each row that has one, for its N trained tokens: tokens i32 [N · topK], then log-probs f32 [N · topK]
//   rows.jsonl     per row: kind, messages, rung, tokens (its length), trained (tokens with weight)
//   dev.json       the dev items with their prompts as token ids
//   report.json    what the gates let through and dropped
//   manifest.json  written last: sizes and hashes, and the request they belong to
import { readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import {
  isErrno,
  makeFolder,
  renameDurably,
  sha256,
  syncFolder,
  temporaryName,
  writeFileDurably,
  writeJsonDurably,
} from "../../base/files.ts";
import type { SnapshotItem } from "../../contract/run-folder.ts";
import type { TopTokens, WeightedRows } from "../../engine/trainer.ts";
import type { StudyRow } from "../../study/row.ts";
import type { StudyReport } from "../../study/study.ts";

export type RowText = Pick<StudyRow, "kind" | "messages">;

export interface TrainingRow extends RowText {
  /** The rung that trains it, from 0. */
  rung: number;
  tokens: Int32Array;
  /** 1 where the token is trained, else 0; as long as tokens. */
  weights: Float32Array;
  /** [trained tokens · topK] what the base says in their places, where it was asked beforehand. */
  lesson?: TopTokens;
}

export interface DevPrompt {
  item: SnapshotItem;
  tokens: number[];
}

export interface PrepareReport {
  /** Rows that are trained on. */
  rows: number;
  by_kind: Record<string, number>;
  study: StudyReport;
  /** Benchmark questions that rows met, and those of them whose facts have no row left. */
  overlap_questions: number;
  overlap_lost: number;
  /** Rows dropped because they give a benchmark question away. */
  overlap_dropped: number;
  /** Rows that still do: 0, counted again after dropping. */
  overlap: number;
  /** Rows dropped because they are longer than rendering.max_seq_len. */
  too_long: number;
  /** Spent on making the rows. */
  seconds: number;
}

export interface Prepared {
  /** Of the token ids, of rows and questions; another value is another run. */
  sha256: string;
  rows: TrainingRow[];
  dev: DevPrompt[];
  report: PrepareReport;
}

interface Manifest {
  /** 2: rows have rungs. 3: replayed rows have lessons. 4: of their trained tokens alone. */
  format: 4;
  request_sha256: string;
  files: { name: string; bytes: number; sha256: string }[];
}

const fileNames = ["rows.bin", "lessons.bin", "rows.jsonl", "dev.json", "report.json"] as const;

export async function writePrepared(
  folder: string,
  requestSha256: string,
  prepared: Omit<Prepared, "sha256">,
): Promise<Prepared> {
  const contents: Record<(typeof fileNames)[number], string | Uint8Array> = {
    "rows.bin": packRows(prepared.rows),
    "lessons.bin": packLessons(prepared.rows),
    "rows.jsonl": prepared.rows.map((row) => `${JSON.stringify(textOf(row))}\n`).join(""),
    "dev.json": JSON.stringify(prepared.dev),
    "report.json": JSON.stringify(prepared.report),
  };
  const temporary = temporaryName(folder);
  await makeFolder(temporary);
  const files: Manifest["files"] = [];
  for (const name of fileNames) {
    const content = contents[name];
    const bytes = typeof content === "string" ? Buffer.from(content) : content;
    await writeFileDurably(join(temporary, name), bytes);
    files.push({ name, bytes: bytes.length, sha256: sha256(bytes) });
  }
  const manifest: Manifest = { format: 4, request_sha256: requestSha256, files };
  await writeJsonDurably(join(temporary, "manifest.json"), manifest);
  await syncFolder(temporary);
  await rm(folder, { recursive: true, force: true });
  await renameDurably(temporary, folder);
  return { ...prepared, sha256: idsOf(manifest) };
}

/** null when there is none, it is damaged, or it belongs to another request. */
export async function readPrepared(folder: string, requestSha256: string): Promise<Prepared | null> {
  const contents = new Map<string, Buffer>();
  let manifest: Manifest;
  try {
    manifest = JSON.parse(await readFile(join(folder, "manifest.json"), "utf8")) as Manifest;
    if (manifest.format !== 4 || manifest.request_sha256 !== requestSha256) return null;
    for (const file of manifest.files) {
      if ((await stat(join(folder, file.name))).size !== file.bytes) return null;
      const bytes = await readFile(join(folder, file.name));
      if (sha256(bytes) !== file.sha256) return null;
      contents.set(file.name, bytes);
    }
  } catch (error) {
    if (error instanceof SyntaxError || isErrno(error, "ENOENT")) return null;
    throw error;
  }
  const json = (name: string): unknown => JSON.parse(contents.get(name)!.toString("utf8"));
  return {
    sha256: idsOf(manifest),
    rows: unpackRows(
      contents.get("rows.bin")!,
      contents.get("lessons.bin")!,
      contents.get("rows.jsonl")!.toString("utf8"),
    ),
    dev: json("dev.json") as DevPrompt[],
    report: json("report.json") as PrepareReport,
  };
}

/** Of a run whose rows are made; null before that. */
export async function readPrepareReport(runFolder: string): Promise<PrepareReport | null> {
  try {
    return JSON.parse(await readFile(join(runFolder, "prepared", "report.json"), "utf8")) as PrepareReport;
  } catch (error) {
    if (isErrno(error, "ENOENT")) return null;
    throw error;
  }
}

const idsOf = (manifest: Manifest): string =>
  sha256(
    manifest.files
      .filter((file) => file.name === "rows.bin" || file.name === "dev.json")
      .map((file) => file.sha256)
      .join(),
  );

/** The texts of all rows of a run, for whoever wants to look for something in them. */
export async function readRowTexts(runFolder: string): Promise<RowText[]> {
  const lines = await readFile(join(runFolder, "prepared", "rows.jsonl"), "utf8");
  return lines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const { kind, messages } = JSON.parse(line) as RowText;
      return { kind, messages };
    });
}

interface RowLine extends RowText {
  rung: number;
  tokens: number;
  trained: number;
  /** Places of its lesson; 0 without one. */
  lesson: number;
}

const textOf = (row: TrainingRow): RowLine => ({
  kind: row.kind,
  messages: row.messages,
  rung: row.rung,
  tokens: row.tokens.length,
  trained: trainedTokens(row),
  lesson: row.lesson?.tokens.length ?? 0,
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

function packLessons(rows: readonly TrainingRow[]): Uint8Array {
  const lessons = rows.flatMap((row) => row.lesson ?? []);
  const view = new DataView(new ArrayBuffer(lessons.reduce((sum, { tokens }) => sum + 8 * tokens.length, 0)));
  let at = 0;
  for (const { tokens, logprobs } of lessons) {
    for (const token of tokens) view.setInt32(4 * at++, token, true);
    for (const logprob of logprobs) view.setFloat32(4 * at++, logprob, true);
  }
  return new Uint8Array(view.buffer);
}

function unpackRows(bytes: Buffer, lessons: Buffer, lines: string): TrainingRow[] {
  const total = bytes.length / 8;
  let at = 0;
  let lessonAt = 0;
  return lines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const { kind, messages, rung, tokens: length, lesson: places } = JSON.parse(line) as RowLine;
      const tokens = Int32Array.from({ length }, (_, index) => bytes.readInt32LE(4 * (at + index)));
      const weights = Float32Array.from({ length }, (_, index) => bytes.readFloatLE(4 * (total + at + index)));
      at += length;
      if (places === 0) return { kind, messages, rung, tokens, weights };
      const lesson: TopTokens = {
        tokens: Int32Array.from({ length: places }, (_, index) => lessons.readInt32LE(4 * (lessonAt + index))),
        logprobs: Float32Array.from({ length: places }, (_, index) =>
          lessons.readFloatLE(4 * (lessonAt + places + index)),
        ),
      };
      lessonAt += 2 * places;
      return { kind, messages, rung, tokens, weights, lesson };
    });
}

/** Tokens of some rows. */
export const lengthOf = (rows: readonly TrainingRow[]): number => rows.reduce((sum, row) => sum + row.tokens.length, 0);

/** Rows as the trainer takes them; every weight is multiplied by `scale`. */
export function toTrainer(rows: readonly TrainingRow[], scale: number): WeightedRows {
  const total = lengthOf(rows);
  const packed = {
    tokens: new Int32Array(total),
    rowLengths: Int32Array.from(rows, (row) => row.tokens.length),
    weights: new Float32Array(total),
  };
  let at = 0;
  for (const row of rows) {
    packed.tokens.set(row.tokens, at);
    packed.weights.set(
      row.weights.map((weight) => weight * scale),
      at,
    );
    at += row.tokens.length;
  }
  return packed;
}
