// The rows of an uploaded benchmark: JSONL or CSV, by content. Every bad row is named, not only the first.
import { parse as parseCsv } from "csv-parse/sync";
import type { FromSchema } from "json-schema-to-ts";
import { Failure, type ValidationDetail } from "../../base/errors.ts";
import { benchmarkRow } from "../../contract/benchmarks.ts";
import { compile } from "../../contract/validate.ts";
import { assignSplits } from "./splits.ts";
import type { Split } from "./store.ts";

export interface Item {
  sample_num: number;
  instruction: string;
  response: string;
  aliases: string[];
  cluster: string;
  split: Split;
  tolerance: number | null;
}

export type Row = FromSchema<typeof benchmarkRow>;

const maxRows = 100_000;
/** More than these help nobody. */
const maxDetails = 50;
const columns = Object.keys(benchmarkRow.properties);
const checkRow = compile(benchmarkRow);

export function readBenchmark(text: string): Item[] {
  const details: ValidationDetail[] = [];
  const complain: Complain = (row, field, message) => {
    if (details.length < maxDetails)
      details.push({ loc: ["body", "file", row, ...field], msg: `row ${row}: ${message}`, type: "benchmark_invalid" });
  };
  const values = text.trimStart().startsWith("{") ? readLines(text, complain) : readTable(text, complain);
  if (values.length > maxRows) complain(maxRows + 1, [], `there are more than ${maxRows} rows`);
  const rows = values.slice(0, maxRows).map((value, index) => check(value, index + 1, complain));
  const whole = rows.filter((row) => row !== null);
  if (whole.length === rows.length) findDuplicates(whole, complain);
  const splits = details.length === 0 ? assignSplits(whole, complain) : [];
  if (details.length > 0)
    throw new Failure("benchmark_invalid", details.slice(0, 5).map(sentence).join("; "), { details });
  return whole.map((row, index) => ({
    sample_num: index + 1,
    instruction: row.instruction,
    response: row.response,
    aliases: row.aliases ?? [],
    tolerance: row.tolerance ?? null,
    ...splits[index]!,
  }));
}

/** Stands for a row that was complained about already. */
const unread = Symbol("unread");

export type Complain = (row: number, field: (string | number)[], message: string) => void;

const sentence = ({ loc, msg }: ValidationDetail): string => {
  const field = loc.slice(3).join(".");
  return field === "" ? msg : msg.replace(": ", `: ${field}: `);
};

function readLines(text: string, complain: Complain): unknown[] {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return lines.slice(0, maxRows + 1).map((line, index) => {
    try {
      return JSON.parse(line) as unknown;
    } catch {
      complain(index + 1, [], "is not JSON; write one object per line");
      return unread;
    }
  });
}

function readTable(text: string, complain: Complain): unknown[] {
  if (text.trimStart().startsWith("[")) {
    complain(0, [], "the file is a JSON array; write one object per line");
    return [];
  }
  let records: Record<string, string>[];
  try {
    records = parseCsv(text, { columns: headOf, skip_empty_lines: true, max_record_size: 1 << 20, to: maxRows + 1 });
  } catch (error) {
    if (error instanceof Failure) throw error;
    const { records: row = 0 } = error as { records?: number };
    complain(row + 1, [], `is not readable as CSV: ${(error as Error).message}`);
    return [unread];
  }
  if (records.length === 0) complain(1, [], "there is no row under the header");
  return records.map(fromCells);
}

/** The first line must name the columns; a benchmark without a header is refused before its first row is taken for one. */
function headOf(names: string[]): string[] {
  const head = names.map((name) => name.trim());
  const unknown = head.filter((name) => !columns.includes(name));
  const missing = ["instruction", "response"].filter((name) => !head.includes(name));
  const twice = head.find((name, index) => head.indexOf(name) !== index);
  const wrong =
    missing.length > 0
      ? `the column ${missing.join(" and ")} is missing`
      : unknown.length > 0
        ? `unknown column: ${unknown.join(", ").slice(0, 200)}`
        : twice && `the column ${twice} stands twice`;
  if (wrong) {
    const msg = `the header: ${wrong}; columns are ${columns.join(", ")}`;
    throw new Failure("benchmark_invalid", msg, {
      details: [{ loc: ["body", "file", 0], msg, type: "benchmark_invalid" }],
    });
  }
  return head;
}

/** An empty cell is an absent field; a number is written in digits. */
function fromCells(cells: Record<string, string>): Record<string, unknown> {
  const row: Record<string, unknown> = {};
  for (const [name, cell] of Object.entries(cells)) {
    if (cell === "") continue;
    if (name === "aliases") row[name] = cell.split("|").map((alias) => alias.trim());
    else if (name === "tolerance" && /^\d+(\.\d+)?([eE]-?\d+)?$/.test(cell)) row[name] = Number(cell);
    else row[name] = cell;
  }
  return row;
}

function check(value: unknown, row: number, complain: Complain): Row | null {
  if (value === unread) return null;
  const result = checkRow(value);
  if (!result.ok) {
    for (const { loc, msg } of result.details) complain(row, loc, msg);
    return null;
  }
  const { instruction, response, aliases = [], cluster = "" } = result.value;
  if ([instruction, response, ...aliases, cluster].some((part) => !part.isWellFormed() || part.includes("\0"))) {
    complain(row, [], "has a NUL character or half a surrogate pair");
    return null;
  }
  return result.value;
}

function findDuplicates(rows: Row[], complain: Complain): void {
  const seen = new Map<string, number>();
  rows.forEach(({ instruction }, index) => {
    const key = instruction.normalize("NFKC").toLowerCase().replace(/\s+/g, " ").trim();
    const first = seen.get(key);
    if (first === undefined) seen.set(key, index + 1);
    else complain(index + 1, ["instruction"], `stands in row ${first} already`);
  });
}
