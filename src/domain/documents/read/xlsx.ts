// Reads an XLSX file into elements. Each visible sheet is a page with its name as heading, and consecutive rows are a table. Values
// are those last computed. Dates are written as ISO dates, percentages with a percent sign, and other numbers in full with the currency
// or the words of their format. A library that formats as spreadsheet programs do would round, and group digits by its own language.
import { Failure } from "../../../base/errors.ts";
import { type Element, type Page, PageText, type Reading, type Warning } from "../elements.ts";
import { mostColumns, mostPages } from "../limits.ts";
import type { Archive } from "./archive.ts";
import { neededPart, relationsOf } from "./office.ts";
import { at, nodes, parseXml, textOf, type XmlNode } from "./xml.ts";

const mostCells = 2_000_000;
/** Maximum number of places in all tables, empty ones included, because n cells in different rows and columns span n² places. */
const mostPlaces = 5_000_000;

type Show = (value: number) => string;

export async function readXlsx(archive: Archive, main: string, name: string): Promise<Reading> {
  const workbook = await neededPart(archive, main, name);
  const relations = await relationsOf(archive, main, name);
  const byType = async (type: string): Promise<XmlNode | null> => {
    const part = relations.find((relation) => relation.type === type)?.target;
    const bytes = part === undefined ? null : await archive.read(part);
    return bytes && parseXml(bytes, `${name}: ${part}`);
  };
  const strings = nodes((await byType("sharedStrings")) ?? undefined).map(sharedText);
  const from1904 = /^(1|true)$/.test(at(workbook, "workbookPr")?.attributes.date1904 ?? "");
  const shows = formatsOf(await byType("styles"), from1904);
  const elements: Element[] = [];
  const pages: Page[] = [];
  const hidden: string[] = [];
  let left = mostCells;
  const sheets = nodes(at(workbook, "sheets"));
  if (sheets.length > mostPages)
    throw new Failure("too_many_pages", `${name} has ${sheets.length} sheets; the limit is ${mostPages}`);
  let unfilled = mostPlaces;
  const fill = (places: number): void => {
    unfilled -= places;
    if (unfilled < 0)
      throw new Failure(
        "document_limit",
        `${name} has tables with too many cells, empty cells included; the limit is ${mostPlaces}`,
      );
  };
  for (const { attributes } of sheets) {
    const label = attributes.name ?? `Sheet ${pages.length + 1}`;
    const part = relations.find(({ id, type }) => id === attributes["r:id"] && type === "worksheet")?.target;
    const bytes = part === undefined ? null : await archive.read(part);
    if (bytes === null) continue;
    if (attributes.state === "hidden" || attributes.state === "veryHidden") {
      hidden.push(label);
      continue;
    }
    const text = new PageText(pages.length);
    elements.push({ type: "heading", level: 2, pieces: [text.take(label)] });
    const sheet = new Sheet(text, strings, shows, fill);
    parseXml(bytes, `${name}: ${label}`, "row", (row) => {
      left -= row.children.length;
      if (left < 0) throw new Failure("document_limit", `${name} has too many cells; the limit is ${mostCells}`);
      sheet.row(row);
    });
    sheet.end();
    // A call can have only about a hundred thousand arguments, and a sheet has more rows.
    for (const element of sheet.elements) elements.push(element);
    pages.push({ label, characters: text.characters });
  }
  const warnings: Warning[] =
    hidden.length > 0
      ? [
          {
            code: "sheets_hidden",
            message: `Hidden sheets were not read: ${hidden.join(", ")}`,
            parameters: { names: hidden.join(", ") },
          },
        ]
      : [];
  return { pages, elements, warnings };
}

/** Text of a shared string, without the phonetic readings of Japanese words. */
const sharedText = (item: XmlNode): string =>
  nodes(item)
    .map((node) => (node.tag === "t" ? textOf(node) : node.tag === "r" ? textOf(at(node, "t")) : ""))
    .join("");

/** Returns how numbers are shown, indexed by the style of a cell. */
function formatsOf(styles: XmlNode | null, from1904: boolean): Show[] {
  const own = new Map(
    nodes(at(styles ?? undefined, "numFmts")).map(({ attributes }) => [
      Number(attributes.numFmtId),
      attributes.formatCode ?? "",
    ]),
  );
  return nodes(at(styles ?? undefined, "cellXfs")).map(({ attributes }) => {
    const id = Number(attributes.numFmtId ?? 0);
    return showOf(own.get(id) ?? builtIn[id] ?? "General", from1904);
  });
}

/** What in a format does not tell the kind of number: quoted words, escaped signs, gaps, colours and conditions. */
const aside = /"[^"]*"|[\\_*].|\[(?!(?:h+|m+|s+)\])[^\]]*\]/gi;

/** Maximum characters of a format that is followed. Spreadsheet programs write at most 255. */
const longestFormat = 1000;

function showOf(code: string, from1904: boolean): Show {
  if (code.length > longestFormat) return plain;
  const kind = code.replace(aside, "").split(";")[0]!;
  if (/%/.test(kind)) return (value) => `${plain(value * 100)} %`;
  const elapsed = /\[([hms])/i.exec(kind)?.[1];
  if (elapsed !== undefined) return (value) => elapsedText(value, elapsed.toLowerCase());
  if (/[dmyhs]/i.test(kind) && !/general/i.test(kind)) return (value) => dateText(value, kind, from1904);
  const sections = sectionsOf(code);
  return (value) => amountText(value, sections);
}

/** A section of a format, which shows numbers of one sign, or those that meet its condition. */
interface Section {
  condition: ((value: number) => boolean) | null;
  /** What is written before and after the digits; together where there are no digits. */
  before: string;
  after: string;
  /** Whether the number is written at all. */
  hasDigits: boolean;
  /** Whether its digits are all "?", which leave a gap for a zero. */
  isGap: boolean;
  /** Minimum number of digits before the decimal point, and behind it. */
  whole: number;
  decimals: number;
  /** What the number is divided by before it is written. */
  unit: number;
}

const comparisons: Record<string, (value: number, limit: number) => boolean> = {
  "<": (value, limit) => value < limit,
  "<=": (value, limit) => value <= limit,
  "=": (value, limit) => value === limit,
  "<>": (value, limit) => value !== limit,
  ">": (value, limit) => value > limit,
  ">=": (value, limit) => value >= limit,
};

/** The pieces of a section. Colours, languages and gaps show nothing; of signs that are not quoted, only a currency is kept. */
const piece =
  /"(?<quoted>[^"]*)"|\\(?<escaped>.)|\[\$(?<currency>[^\]-]*)[^\]]*\]|\[(?<operator>[<>=]+)(?<limit>-?[\d.]+)\]|\[[^\]]*\]|[_*].|(?<digits>[0#?][0#?.,/ ]*(?:E[+-]0+)?|general)|(?<sign>[\p{Sc} ])|(?<end>;)|./giu;

function sectionsOf(code: string): Section[] {
  const sections: Section[] = [emptySection()];
  for (const { groups } of code.matchAll(piece)) {
    const { operator, limit, digits, quoted, escaped, currency, sign, end } = groups!;
    const section = sections.at(-1)!;
    const words = quoted ?? escaped ?? currency ?? sign ?? "";
    if (end !== undefined) sections.push(emptySection());
    else if (operator !== undefined && Object.hasOwn(comparisons, operator))
      section.condition = (value) => comparisons[operator]!(value, Number(limit));
    else if (digits === undefined) section[section.hasDigits ? "after" : "before"] += words;
    else {
      section.isGap = (!section.hasDigits || section.isGap) && !/[^?., ]/.test(digits);
      section.hasDigits = true;
      section.after = digits.endsWith(" ") ? " " : "";
      section.unit = 1000 ** (/,*$/.exec(digits.trimEnd())?.[0].length ?? 0);
      section.whole = /^00+(?![#?,/])/.exec(digits)?.[0].length ?? 1;
      section.decimals = /E/i.test(digits) ? 0 : (/\.(0+)/.exec(digits)?.[1]?.length ?? 0);
    }
  }
  return sections;
}

const emptySection = (): Section => ({
  condition: null,
  before: "",
  after: "",
  hasDigits: false,
  isGap: false,
  whole: 1,
  decimals: 0,
  unit: 1,
});

/** Sections without conditions show numbers above 0, below 0 and 0, in this order. A first section alone shows all. */
function sectionFor(value: number, sections: readonly Section[]): Section {
  const [first, second, third] = sections;
  if (sections.some(({ condition }) => condition !== null))
    return sections.find(({ condition }) => condition === null || condition(value)) ?? first!;
  if (value < 0) return second ?? first!;
  return value === 0 ? (third ?? first!) : first!;
}

function amountText(value: number, sections: readonly Section[]): string {
  const { before, after, hasDigits, isGap, whole, decimals, unit } = sectionFor(value, sections);
  // A zero is shown by a word, such as "none", or by a dash, which says less than the number.
  if (!hasDigits || (value === 0 && isGap)) return /\p{L}/u.test(before) ? before.trim() : plain(value);
  const digits = withZeros(plain(Math.abs(value) / unit), whole, decimals);
  // A section for numbers below 0 writes their sign or their brackets itself.
  const beside = (words: string): string => (value < 0 ? words.replaceAll(/[-−–+()]/g, "") : words);
  return `${value < 0 ? "-" : ""}${beside(before).trimStart()}${digits}${beside(after).trimEnd()}`;
}

/** The built-in formats of ECMA-376 part 1, 18.8.30, that are not plain numbers. */
const builtIn: Record<number, string> = {
  9: "0%",
  10: "0.00%",
  14: "m/d/yyyy",
  15: "d-mmm-yy",
  16: "d-mmm",
  17: "mmm-yy",
  18: "h:mm",
  19: "h:mm:ss",
  20: "h:mm",
  21: "h:mm:ss",
  22: "m/d/yyyy h:mm",
  45: "mm:ss",
  46: "[h]:mm:ss",
  47: "mm:ss",
};

/** Writes a number with fifteen significant digits, as spreadsheet programs do, so that 0.1 + 0.2 is 0.3. */
const plain = (value: number): string => String(Number(value.toPrecision(15)));

/** Writes zeros before and behind a number, as in a postcode and in a price. Nothing is rounded away. */
function withZeros(number: string, whole: number, decimals: number): string {
  const [, digits, fraction = ""] = /^(\d+)(?:\.(\d+))?$/.exec(number) ?? [];
  if (digits === undefined) return number;
  const behind = fraction.padEnd(decimals, "0");
  return digits.padStart(whole, "0") + (behind === "" ? "" : `.${behind}`);
}

/** The file does not tell the language in which its program writes the names. */
const monthName = new Intl.DateTimeFormat("en", { month: "long", timeZone: "UTC" });

/** Writes a number of days as a duration whose first `unit` ("h", "m" or "s") goes beyond a day: 1.5 is 36:00 in hours. */
function elapsedText(value: number, unit: string): string {
  const seconds = Math.round(value * 86_400);
  if (seconds < 0 || !Number.isSafeInteger(seconds)) return plain(value);
  const two = (part: number): string => String(part % 60).padStart(2, "0");
  const rest = `:${two(seconds)}`;
  if (unit === "s") return String(seconds);
  const minutes = Math.floor(seconds / 60);
  if (unit === "m") return minutes + rest;
  return `${Math.floor(minutes / 60)}:${two(minutes)}${rest === ":00" ? "" : rest}`;
}

/**
 * Writes a date, a time or both, depending on the format `kind`. `value` is the number of days since the end of 1899, with the time
 * of day as fraction. With `from1904`, as in files of old Macintosh programs, the days count from the start of 1904.
 */
function dateText(value: number, kind: string, from1904: boolean): string {
  if (value < 0 || value > 2_958_466) return plain(value);
  // Spreadsheets count 1900 as a leap year, so before March 1900 their day numbers are one too low for this calculation.
  const days = from1904 ? value + 1462 : value < 60 ? value + 1 : value;
  const date = new Date(Math.round((days - 25_569) * 86_400) * 1000);
  if (/^\s*m{3,}\s*$/i.test(kind)) return monthName.format(date);
  const iso = date.toISOString();
  const hasDay = /[dy]/i.test(kind);
  const time = iso.slice(11, 19).replace(/:00$/, "");
  if (!hasDay) return time;
  return /h/i.test(kind) ? `${iso.slice(0, 10)} ${time}` : iso.slice(0, 10);
}

class Sheet {
  readonly elements: Element[] = [];
  #text: PageText;
  #strings: readonly string[];
  #shows: readonly Show[];
  /** Adds the places of a table to the file's count. Throws document_limit. */
  #fill: (places: number) => void;
  /** The consecutive rows of the open table, each with its values by column. */
  #open: Map<number, string>[] = [];
  #last = 0;

  constructor(text: PageText, strings: readonly string[], shows: readonly Show[], fill: (places: number) => void) {
    this.#text = text;
    this.#strings = strings;
    this.#shows = shows;
    this.#fill = fill;
  }

  row(row: XmlNode): void {
    const number = Number(row.attributes.r ?? this.#last + 1);
    const cells = new Map<number, string>();
    let column = -1;
    for (const cell of nodes(row)) {
      column = cell.attributes.r === undefined ? column + 1 : columnOf(cell.attributes.r);
      const value = this.#valueOf(cell).trim();
      if (value !== "" && column < mostColumns) cells.set(column, value);
    }
    if (cells.size === 0 || number > this.#last + 1) this.end();
    if (cells.size > 0) this.#open.push(cells);
    this.#last = number;
  }

  /** Closes the table. Leading rows with a single cell become lines of text. */
  end(): void {
    const rows = this.#open;
    this.#open = [];
    const text = this.#text;
    while (rows[0]?.size === 1) {
      const [value] = rows.shift()!.values();
      text.part();
      this.elements.push({ type: "paragraph", pieces: [text.take(value!)] });
    }
    const columns = [...new Set(rows.flatMap((row) => [...row.keys()]))].sort((a, b) => a - b);
    this.#fill(rows.length * columns.length);
    for (const [index, row] of rows.entries()) {
      text.part();
      const cells = columns.map((column, at) => {
        if (at > 0) text.take("\t");
        const value = row.get(column);
        return value === undefined ? [] : [text.take(value)];
      });
      this.elements.push({ type: "row", first: index === 0, cells });
    }
  }

  #valueOf(cell: XmlNode): string {
    const { t, s } = cell.attributes;
    const value = textOf(at(cell, "v"));
    if (t === "s") return this.#strings[Number(value)] ?? "";
    if (t === "inlineStr") return sharedText(at(cell, "is") ?? cell);
    if (t === "b") return value === "1" ? "TRUE" : "FALSE";
    if (t === "str" || t === "d") return value;
    const number = Number(value);
    if (t === "e" || value === "" || !Number.isFinite(number)) return value;
    return (this.#shows[Number(s ?? 0)] ?? plain)(number);
  }
}

/** The column of a cell reference, from 0: "AB12" is in column 27. */
function columnOf(reference: string): number {
  let column = 0;
  for (const letter of /^[A-Z]{1,3}/.exec(reference)?.[0] ?? "A") column = column * 26 + letter.charCodeAt(0) - 64;
  return column - 1;
}
