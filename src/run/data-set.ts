// A data set consists of CSV documents of the project whose rows are prompts with their answers. The `dataset` block of an auto-align's
// configuration names the document or its columns. The rows are trained on as they are, and reinforce phases take their prompts from them.
// The study does not read these documents.
import { basename, extname } from "node:path";
import { CsvError, parse as parseCsv } from "csv-parse/sync";
import { invalid } from "../base/errors.ts";
import type { Recipe } from "../contract/recipe.ts";
import type { SnapshotDocument } from "../contract/run-folder.ts";
import { delimiterOf } from "../study/inline.ts";
import { type Run, withField } from "./context.ts";
import type { DataSetRow } from "./folder/request.ts";

type Source = NonNullable<Recipe["dataset"]["source"]>;

/** Name of the optional column that holds a prompt's own rubric, which a reward may use. */
const rubricColumn = "rubric";

/** Kind of the rows that come from a data set. */
export const dataSetKind = "data_set";

/**
 * Returns the run with its data set separated from the documents that are studied. Throws a validation failure that names the
 * field.
 */
export function withDataSet(run: Run): Run {
  const { source } = run.request.recipe.dataset;
  if (source === undefined) return run;
  const { documents } = run.snapshot;
  const named = documents.filter((document) => isMeant(document, source));
  if (named.length === 0)
    throw invalid(
      ["config", "dataset", source.document === null ? "prompt_field" : "split"],
      missing(documents, source),
    );
  const dataSet = named.flatMap((document) => rowsOf(document, source));
  const studied = documents.filter((document) => !named.includes(document));
  return withField(run, "snapshot", { ...run.snapshot, documents: studied, dataSet });
}

/** Whether `name` is the document's, with or without its extension. */
export const isNamed = (document: SnapshotDocument, name: string): boolean =>
  document.name === name || basename(document.name, extname(document.name)) === name;

/**
 * Whether a document belongs to the data set. If the configuration names a document, only that one does, whatever its columns are.
 * Otherwise every CSV document that has both columns does.
 */
function isMeant(document: SnapshotDocument, source: Source): boolean {
  if (source.document !== null) return isNamed(document, source.document);
  const columns = document.media_type === "text/csv" ? columnsOf(document) : [];
  return columns.includes(source.prompt_field) && columns.includes(source.answer_field);
}

function missing(documents: readonly SnapshotDocument[], { document, prompt_field, answer_field }: Source): string {
  if (document !== null) return `must name a document of the project: ${documents.map(({ name }) => name).join(", ")}`;
  return `no CSV document of the project has the columns ${prompt_field} and ${answer_field}; name the data set's own columns in prompt_field and answer_field`;
}

function rowsOf(document: SnapshotDocument, { prompt_field, answer_field }: Source): DataSetRow[] {
  const { id, name, text } = document;
  if (document.media_type !== "text/csv")
    throw invalid(["config", "dataset", "split"], `${name} is not a CSV document; a data set must be one`);
  const columns = columnsOf(document);
  for (const [field, column] of Object.entries({ prompt_field, answer_field }))
    if (!columns.includes(column))
      throw invalid(["config", "dataset", field], `${name} has no column ${column}; it has ${columns.join(", ")}`);
  const [, ...records] = recordsOf(document);
  const rubricAt = columns.indexOf(rubricColumn);
  return records.map((record, at): DataSetRow => {
    const cell = (column: string): string => {
      const value = record[columns.indexOf(column)]!.trim();
      if (value === "") throw invalid(["config", "dataset"], `row ${at + 1} of ${name} has no ${column}`);
      return value;
    };
    return {
      kind: dataSetKind,
      messages: [
        { role: "user", content: cell(prompt_field) },
        { role: "assistant", content: cell(answer_field) },
      ],
      source: { document_id: id, start: 0, end: text.length },
      target: `${id} ${at}`,
      stage: 0,
      ...(rubricAt >= 0 && { rubric: record[rubricAt]!.trim() }),
    };
  });
}

const columnsOf = (document: SnapshotDocument): string[] =>
  (recordsOf(document, 1)[0] ?? []).map((column) => column.trim());

/** Reads the records of a CSV document, at most `most` if given. The first record has the column names. */
function recordsOf({ name, text }: SnapshotDocument, most = -1): string[][] {
  try {
    return parseCsv(text, { delimiter: delimiterOf(text), bom: true, skip_empty_lines: true, to: most });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw invalid(["config", "dataset"], `${name} cannot be read as CSV: ${error.message}`);
  }
}
