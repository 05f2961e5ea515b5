// What the appliance reads of a run's prepared/ folder: the rows as text, in which it looks for sealed questions, and what the gates
// let through and dropped. What the trainer takes of it is the run's own (run/rows.ts).
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isErrno } from "../../base/files.ts";
import type { StudyRow } from "../../study/row.ts";
import type { StudyReport } from "../../study/study.ts";

export type RowText = Pick<StudyRow, "kind" | "messages">;

/** Names in a run's folder. */
export const preparedFolder = "prepared";
export const rowTexts = "rows.jsonl";
export const rowsReport = "report.json";

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

/** Of a run whose rows are made; null before that. */
export async function readPrepareReport(runFolder: string): Promise<PrepareReport | null> {
  try {
    return JSON.parse(await readFile(join(runFolder, preparedFolder, rowsReport), "utf8")) as PrepareReport;
  } catch (error) {
    if (isErrno(error, "ENOENT")) return null;
    throw error;
  }
}

/** The texts of all rows of a run, for whoever wants to look for something in them. */
export async function readRowTexts(runFolder: string): Promise<RowText[]> {
  const lines = await readFile(join(runFolder, preparedFolder, rowTexts), "utf8");
  return lines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const { kind, messages } = JSON.parse(line) as RowText;
      return { kind, messages };
    });
}
