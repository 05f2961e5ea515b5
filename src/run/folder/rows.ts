// Reads what the appliance needs from a run's prepared/ folder: the text of the rows, in which it looks for sealed questions, and the
// report of what the gates kept and dropped. run/rows.ts reads what the trainer needs.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isErrno } from "../../base/files.ts";
import type { StudyRow } from "../../study/row.ts";
import type { StudyReport } from "../../study/study.ts";
import type { TeacherReport } from "./teacher.ts";

export type RowText = Pick<StudyRow, "kind" | "messages">;

/** Names within a run's folder. */
export const preparedFolder = "prepared";
export const rowTexts = "rows.jsonl";
export const rowsReport = "report.json";

export interface PrepareReport {
  /** Rows that are trained on. */
  rows: number;
  by_kind: Record<string, number>;
  study: StudyReport;
  /** Null without a teacher. */
  teacher: TeacherReport | null;
  /** Benchmark questions that rows gave away. `overlap_lost` is the number of these questions for whose facts no row is left. */
  overlap_questions: number;
  overlap_lost: number;
  /** Rows dropped because they gave a benchmark question away. */
  overlap_dropped: number;
  /** Rows that still give a benchmark question away, counted again after dropping. Should be 0. */
  overlap: number;
  /** Rows dropped because they are longer than rendering.max_seq_len. */
  too_long: number;
  /** Time taken to make the rows, in seconds. */
  seconds: number;
}

/** Reads the report of a run's rows; null until the rows are made. */
export async function readPrepareReport(runFolder: string): Promise<PrepareReport | null> {
  try {
    return JSON.parse(await readFile(join(runFolder, preparedFolder, rowsReport), "utf8")) as PrepareReport;
  } catch (error) {
    if (isErrno(error, "ENOENT")) return null;
    throw error;
  }
}

/** Reads the texts of all rows of a run. */
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
