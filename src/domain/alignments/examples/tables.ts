// Tables → facts: one per cell, about the row's key; and one passage per row.

import { normalised } from "../../../base/text.ts";
import type { SnapshotDocument } from "../../../contract/run-folder.ts";
import { type Block, type Piece, spanOf } from "./blocks.ts";
import { conceptOf } from "./concepts.ts";
import { type Corpus, lowered, subjectOf } from "./corpus.ts";
import { attributeFact, type DocumentFacts, type Source } from "./fact.ts";
import { kindOf } from "./values.ts";

type Table = Extract<Block, { type: "table" }>;

const emptyCell = /^(?:|-+|–|—|n\/?a|none|null|\?)$/i;
const nameHeader =
  /\b(name|product|item|title|model|service|project|person|employee|term|topic|machine|device|room)\b/i;
const valueHeader = /^(value|values|details?|figure|data|specification|description|answer|)$/i;
const unitInHeader =
  /^(.*?)\s*(?:[([]\s*([^)\]]+?)\s*[)\]]|,?\s(?:in\s)?(EUR|USD|GBP|CHF|kg|g|mm|cm|m|km|W|kW|V|GB|MB|bar|%|days|weeks|months|years|hours|minutes))$/u;
const looksLikeUnit =
  /^(?:[\p{L}°µ%€$£²³/·]{1,8}|(?:working |business )?days|minutes|seconds|hours|weeks|months|years|euros?|dollars?|litres?|metres?)$/u;

/** «Weight (kg)» is the attribute weight, whose bare numbers are kilograms. */
export function columnOf(header: string, english: boolean): { attribute: string; unit: string } {
  const match = unitInHeader.exec(header.replaceAll("_", " ").trim());
  const unit = match?.[2] ?? match?.[3] ?? "";
  const plain = header.replaceAll("_", " ").trim();
  const attribute = match && looksLikeUnit.test(unit) ? match[1]!.replaceAll("_", " ").trim() : plain;
  const plainWord = /^\p{Lu}\p{Ll}+(?=$|\s)/u.test(attribute);
  return {
    attribute: english && plainWord ? attribute.charAt(0).toLowerCase() + attribute.slice(1) : attribute,
    unit: match && looksLikeUnit.test(unit) ? unit : "",
  };
}

export function withUnit(cell: string, unit: string): string {
  if (unit === "" || !/^[−-]?[\d.,\s–-]*\d$/.test(cell)) return cell;
  if (/^[€$£]$/.test(unit)) return `${unit}${cell}`;
  return unit === "%" ? `${cell}%` : `${cell} ${unit}`;
}

/** The columns that name a row: a unique one with a telling header, else the first unique one, else the first two. */
function keyColumns(table: Table): number[] {
  const columns = table.header.map((_, index) => index);
  const unique = columns.filter((column) => {
    const cells = table.rows.map((row) => normalised(row[column]?.text ?? ""));
    return cells.every((cell) => cell !== "" && /\p{L}/u.test(cell)) && new Set(cells).size === cells.length;
  });
  if (unique.includes(0) && !/\b(id|no|number|code|sku)\b\.?$/i.test(table.header[0]!.text)) return [0];
  const named = unique.find((column) => nameHeader.test(table.header[column]!.text));
  const key = named ?? unique[0];
  return key !== undefined ? [key] : columns.slice(0, 2);
}

export function tableFacts(
  document: SnapshotDocument,
  table: Table,
  corpus: Corpus,
  english: boolean,
): Pick<DocumentFacts, "facts" | "passages"> {
  const out: Pick<DocumentFacts, "facts" | "passages"> = { facts: [], passages: [] };
  if (table.header.length < 2) return out;
  const subject = subjectOf(table.path, corpus);
  const headless = subject !== null && isHeadless(table, subject);
  const pairs = headless || (table.header.length === 2 && valueHeader.test(table.header[1]!.text) && subject !== null);
  const keys = pairs ? [0] : keyColumns(table);
  const titles = !pairs && keys.length === 1 && areNames(table, keys[0]!, corpus);
  const title = table.path.join(" › ");
  for (const row of headless ? [table.header, ...table.rows] : table.rows) {
    const written = keys
      .map((column) => row[column]?.text ?? "")
      .join(" ")
      .trim();
    const key = english && !titles ? lowered(written, corpus) : written;
    if (key === "") continue;
    const source = rowSource(document, row);
    const said: string[] = [];
    row.forEach((cell, column) => {
      const header = table.header[column]?.text ?? "";
      if (keys.includes(column) || emptyCell.test(cell.text) || cell.text.split(/\s+/).length > 30) return;
      const { attribute, unit } = pairs
        ? { attribute: columnOf(key, english).attribute, unit: "" }
        : columnOf(header, english);
      if (attribute === "" || (running.test(attribute) && /^\d{1,4}$/.test(cell.text))) return;
      const value = withUnit(cell.text.replace(/\.$/, ""), unit);
      const entity = pairs ? subject : key;
      const other = pairs ? null : typedName(key, table.header[keys[0]!]!.text, keys.length);
      const group = pairs ? "" : `${document.id}:${title}:${attribute}`;
      out.facts.push(
        attributeFact({ document, entity, attribute, value, source, english, group, ...(other && { other }) }),
      );
      said.push(`${attribute} ${value}`);
    });
    if (said.length > 1 && !pairs)
      out.passages.push({ title: key, text: `${key}: ${said.join(", ")}.`, source, english });
  }
  return out;
}

/** Two columns of attribute and value whose first row is one of them, and no header: «Lead | Ada Lund». */
function isHeadless({ header, rows }: Table, subject: string): boolean {
  if (header.length !== 2) return false;
  const known = ([key, value]: readonly Piece[]): boolean =>
    value !== undefined && conceptOf(key!.text, kindOf(value.text), subject).exact;
  const all = [header, ...rows];
  return known(header) && kindOf(header[1]!.text) !== "text"
    ? all.filter(known).length * 2 >= all.length
    : known(header) && all.every(known);
}

/** Columns that number the rows say nothing. */
const running = /^(?:id|no\.?|nr\.?|#|row|index|pos\.?)$/i;
const noType = /^(?:name|item|term|title|key|figure|id|no|number|code|subject|topic|what|description|entry|type|kind)$/;

const isTyped = (header: string): boolean =>
  /^[a-z]{3,14}$/i.test(header.trim()) && !noType.test(header.toLowerCase().trim());
const titled = /^\p{Lu}[\p{L}&-]*(?:\s(?:\p{Lu}[\p{L}&-]*|and|&))*$/u;

/** A common noun in capitals is a name where all of its column are, or some are known as such: «Purchasing», «Accounts». */
function areNames({ header, rows }: Table, column: number, corpus: Corpus): boolean {
  const cells = rows.map((row) => row[column]?.text ?? "");
  const known = cells.filter((cell) => /^\p{Lu}/u.test(lowered(cell, corpus)));
  return (
    (isTyped(header[column]!.text) && cells.every((cell) => titled.test(cell))) || known.length * 4 >= cells.length
  );
}

/** «Sales» under «Department» is also «the Sales department». */
function typedName(key: string, header: string, columns: number): string | null {
  const type = header.toLowerCase().trim();
  const fits = columns === 1 && isTyped(header) && !key.toLowerCase().includes(type);
  return fits && titled.test(key) ? `the ${key} ${type}` : null;
}

function rowSource(document: SnapshotDocument, row: readonly Piece[]): Source {
  const spans = row.filter((cell) => cell.text !== "").map((cell) => spanOf(cell));
  return {
    document_id: document.id,
    start: Math.min(...spans.map((span) => span.start)),
    end: Math.max(...spans.map((span) => span.end)),
  };
}
