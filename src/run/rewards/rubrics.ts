// Reads rubrics from documents and data sets. A document of the project is a rubric if `reward.rubric_ref` names it:
//
//   CSV        has the columns criterion and level
//   otherwise  has lists; an item is a criterion, and the heading above it begins with its level
//
// A data set may have a rubric for each prompt, in the column rubric: a JSON list of {"text", "level"}. A criterion
// without a level is important.
import { CsvError, parse as parseCsv } from "csv-parse/sync";
import { invalid } from "../../base/errors.ts";
import type { SnapshotDocument } from "../../contract/run-folder.ts";
import { delimiterOf } from "../../study/inline.ts";
import { isNamed } from "../data-set.ts";
import type { Criterion, Importance } from "./item.ts";

const levels: readonly Importance[] = ["essential", "important", "optional"];
const usualLevel: Importance = "important";
/** The same limit as for a judge's criteria in the configuration. */
const mostCriteria = 50;

const refused = (message: string) => invalid(["config", "reward", "rubric_ref"], message);

/** Finds the document that `ref` names, with or without its extension, and reads its criteria. Throws a validation failure. */
export function rubricOf(
  documents: readonly SnapshotDocument[],
  ref: string,
): { document: SnapshotDocument; criteria: Criterion[] } {
  const [document, ...others] = documents.filter((one) => isNamed(one, ref));
  if (document === undefined)
    throw refused(`must name a document of the project: ${documents.map(({ name }) => name).join(", ")}`);
  if (others.length > 0)
    throw refused(`matches several documents: ${[document, ...others].map(({ name }) => name).join(", ")}`);
  const criteria = document.media_type === "text/csv" ? inTable(document) : inLists(document);
  if (criteria.length === 0 || criteria.length > mostCriteria)
    throw refused(`${document.name} has ${criteria.length} criteria; a rubric needs 1 to ${mostCriteria}`);
  return { document, criteria };
}

function inTable({ name, text }: SnapshotDocument): Criterion[] {
  let records: Record<string, string>[];
  try {
    records = parseCsv(text, {
      delimiter: delimiterOf(text),
      bom: true,
      skip_empty_lines: true,
      columns: true,
      trim: true,
    });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw refused(`${name} cannot be read as CSV: ${error.message}`);
  }
  return records.map(({ criterion = "", level = "" }, at) => {
    if (criterion === "")
      throw refused(`row ${at + 1} of ${name} has no criterion: a rubric needs the columns criterion and level`);
    return { text: criterion, level: levelOf(level, `row ${at + 1} of ${name}`) };
  });
}

function inLists({ text }: SnapshotDocument): Criterion[] {
  let level = usualLevel;
  return text.split("\n").flatMap((line) => {
    const heading = /^#+\s+(.+?)\s*$/.exec(line)?.[1]?.toLowerCase();
    if (heading !== undefined) level = levels.find((one) => heading.startsWith(one)) ?? usualLevel;
    const item = /^\s*(?:[-*+]|\d+[.)])\s+(.+?)\s*$/.exec(line)?.[1];
    return item === undefined ? [] : [{ text: item, level }];
  });
}

/** Reads the criteria in the rubric cell of a data set's row. `where` names the row in messages. Throws a validation failure. */
export function rubricInCell(cell: string, where: string): Criterion[] {
  let list: unknown;
  try {
    list = JSON.parse(cell);
  } catch {
    list = null;
  }
  if (!Array.isArray(list) || list.length === 0 || list.length > mostCriteria)
    throw refused(`${where}: its rubric must be a JSON list of 1 to ${mostCriteria} objects {"text", "level"}`);
  return list.map((one) => {
    const { text, level = "" } = (one ?? {}) as { text?: unknown; level?: unknown };
    if (typeof text !== "string" || text.trim() === "")
      throw refused(`${where}: a criterion of its rubric has no text`);
    return { text, level: levelOf(level, where) };
  });
}

function levelOf(level: unknown, where: string): Importance {
  if (level === "") return usualLevel;
  const found = levels.find((one) => one === level);
  if (found === undefined) throw refused(`${where}: the level must be one of ${levels.join(", ")}`);
  return found;
}
