// Reads the rows of an uploaded benchmark. Whether it is JSONL or CSV is decided by its content. Errors name all bad rows, not only
// the first.
import { parse as parseCsv } from "csv-parse/sync";
import { Failure, type ValidationDetail } from "../../base/errors.ts";
import type { Item } from "../../catalog/benchmarks.ts";
import type { ItemType } from "../../catalog/store.ts";
import { benchmarkRow } from "../../contract/benchmarks.ts";
import { compile } from "../../contract/validate.ts";
import type { Complain, Row } from "./row.ts";
import { assignSplits } from "./splits.ts";

const maxRows = 100_000;
/** Maximum number of errors in the reply; more would not help. */
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
  if (values.length > maxRows) complain(maxRows + 1, [], `there are too many rows; the limit is ${maxRows}`);
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
    type: typeOf(row),
    choices: row.choices ?? [],
    rubric: (row.rubric ?? []).map(({ id, text, weight, level }, at) => ({
      id: id ?? `r${at + 1}`,
      text,
      weight,
      level,
    })),
    citations: (row.citations ?? []).map(({ document, page = null, start = null, end = null, quote }) => ({
      document,
      page,
      start,
      end,
      quote,
    })),
    tolerance: row.tolerance ?? null,
    ...splits[index]!,
  }));
}

const hasNumber = (text: string): boolean => /\p{N}/u.test(text);

/** Returns the type that the row states, or else the type that its fields imply. */
function typeOf({ type, choices, rubric, tolerance, response }: Row): ItemType {
  if (type !== undefined) return type;
  if (choices !== undefined) return "choice";
  if (rubric !== undefined && rubric.length > 0) return "long";
  return tolerance !== undefined && hasNumber(response) ? "numeric" : "short";
}

/** Checks that a row has the fields its type needs for grading, and none that would be silently ignored. */
function checkType(row: Row, complain: (field: (string | number)[], message: string) => void): void {
  const type = typeOf(row);
  const { response, choices, rubric = [], tolerance, citations = [] } = row;
  if (type === "choice" && choices === undefined) complain(["choices"], "field required for the type choice");
  if (type !== "choice" && choices !== undefined)
    complain(["choices"], `is only allowed for the type choice, not ${type}`);
  if (choices !== undefined && !choices.includes(response)) complain(["response"], "is not one of the choices");
  if (type === "long" && rubric.length === 0) complain(["rubric"], "field required for the type long");
  if (type !== "long" && rubric.length > 0) complain(["rubric"], `is only allowed for the type long, not ${type}`);
  if (type === "numeric" && !hasNumber(response)) complain(["response"], "contains no number, but the type is numeric");
  if (row.type !== undefined && type !== "numeric" && tolerance !== undefined)
    complain(["tolerance"], `is only allowed for the type numeric, not ${type}`);
  const ids = rubric.flatMap(({ id }) => (id === undefined ? [] : [id]));
  if (new Set(ids).size < ids.length) complain(["rubric"], "two points have the same id");
  citations.forEach(({ start = null, end = null }, at) => {
    if ((start === null) !== (end === null) || (start !== null && end !== null && end <= start))
      complain(["citations", at], "needs either both start and end, with start before end, or neither");
  });
}

/** Stands for a row that could not be read and has already been reported. */
const unread = Symbol("unread");

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
      complain(index + 1, [], "is not valid JSON; write one object per line");
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
    complain(row + 1, [], `cannot be read as CSV: ${(error as Error).message}`);
    return [unread];
  }
  if (records.length === 0) complain(1, [], "there is no row below the header");
  return records.map(fromCells);
}

/**
 * Checks that the first line names the columns, and returns their names. A file without a header is therefore refused
 * and does not lose its first row. Throws benchmark_invalid.
 */
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
        : twice && `the column ${twice} occurs twice`;
  if (wrong) {
    const msg = `the header: ${wrong}; columns are ${columns.join(", ")}`;
    throw new Failure("benchmark_invalid", msg, {
      details: [{ loc: ["body", "file", 0], msg, type: "benchmark_invalid" }],
    });
  }
  return head;
}

/** Turns the cells of a CSV row into fields. Leaves out empty cells, and parses aliases, choices, JSON and the tolerance. */
function fromCells(cells: Record<string, string>): Record<string, unknown> {
  const row: Record<string, unknown> = {};
  for (const [name, cell] of Object.entries(cells)) {
    if (cell === "") continue;
    if (name === "aliases" || name === "choices") row[name] = cell.split("|").map((part) => part.trim());
    else if (name === "rubric" || name === "citations") row[name] = jsonOf(cell);
    else if (name === "tolerance" && /^\d+(\.\d+)?([eE]-?\d+)?$/.test(cell)) row[name] = Number(cell);
    else row[name] = cell;
  }
  return row;
}

/** Parses a cell as JSON. A cell that is not JSON stays text, so that the schema refuses it and names the field. */
function jsonOf(cell: string): unknown {
  try {
    return JSON.parse(cell);
  } catch {
    return cell;
  }
}

function check(value: unknown, row: number, complain: Complain): Row | null {
  if (value === unread) return null;
  const result = checkRow(value);
  if (!result.ok) {
    for (const { loc, msg } of result.details) complain(row, loc, msg);
    return null;
  }
  if (textsOf(result.value).some((part) => !part.isWellFormed() || part.includes("\0"))) {
    complain(row, [], "contains a NUL character or half a surrogate pair");
    return null;
  }
  checkType(result.value, (field, message) => complain(row, field, message));
  return result.value;
}

const textsOf = (value: unknown): string[] =>
  typeof value === "string"
    ? [value]
    : typeof value === "object" && value !== null
      ? Object.values(value).flatMap(textsOf)
      : [];

function findDuplicates(rows: Row[], complain: Complain): void {
  const seen = new Map<string, number>();
  rows.forEach(({ instruction }, index) => {
    const key = instruction.normalize("NFKC").toLowerCase().replace(/\s+/g, " ").trim();
    const first = seen.get(key);
    if (first === undefined) seen.set(key, index + 1);
    else complain(index + 1, ["instruction"], `already occurs in row ${first}`);
  });
}
