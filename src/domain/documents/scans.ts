// Reads scanned pages with tesseract, if it is installed. A separate process takes the picture out of the PDF.
import { Failure } from "../../base/errors.ts";
import { finish, startProcess } from "../../base/processes.ts";
import type { Element, Reading } from "./elements.ts";
import { PageText } from "./elements.ts";
import { hyphenBetween, wordsWithin } from "./hyphens.ts";
import { probeScan } from "./probe.ts";

export interface Recognised {
  /** Page number, from 1. */
  page: number;
  text: string;
}

const timeoutMs = 120_000;
/** Maximum number of scanned pages. Each takes seconds, so a whole scanned book is read only if its PDF already has the text. */
const mostPages = 200;
/** One thread per process, because pages of several documents are read at once. */
const env = { OMP_THREAD_LIMIT: "1" };

/** All installed languages in tesseract's notation; null if tesseract is not installed. */
async function languages(): Promise<string | null> {
  const limits = { timeoutMs: 10_000, maxBytes: 1 << 20 };
  const listed = await finish(startProcess("tesseract", ["--list-langs"], { env }), limits).catch(() => null);
  if (listed?.code !== 0) return null;
  const names = listed.stdout.split("\n").filter((line) => /^[a-z]{3}(_\w+)?$/.test(line) && line !== "osd");
  return names.length > 0 ? names.join("+") : null;
}

/**
 * Recognises the text of these pages (from 1) of a PDF. Empty if tesseract is not installed. Pages without a picture or without text
 * are left out. Throws document_limit, document_invalid, or bad_request if `signal` aborts.
 */
export async function recognise(
  path: string,
  pages: readonly number[],
  name: string,
  /** CPU seconds that taking a page's picture out of the file may take. */
  seconds: number,
  signal: AbortSignal,
): Promise<Recognised[]> {
  const known = pages.length === 0 ? null : await languages();
  if (known === null) return [];
  if (pages.length > mostPages)
    throw new Failure("document_limit", `${name} has ${pages.length} scanned pages; the limit is ${mostPages}`);
  const read: Recognised[] = [];
  for (const page of pages) {
    const picture = await probeScan(path, page, name, seconds, signal);
    if (picture === null) continue;
    const child = startProcess("tesseract", ["stdin", "stdout", "-l", known], { env });
    const stop = (): void => child.kill("SIGKILL");
    signal.addEventListener("abort", stop, { once: true });
    const finished = await finish(child, {
      timeoutMs,
      maxBytes: 1 << 24,
      memoryBytes: 2 ** 31,
      input: picture,
    }).finally(() => signal.removeEventListener("abort", stop));
    if (signal.aborted) throw new Failure("bad_request", "The upload was cut off");
    if (finished.code !== 0)
      throw new Failure("document_invalid", `${name}: page ${page} is a picture that tesseract cannot read`, {
        context: { stderr: finished.stderr.slice(-4000) },
      });
    if (finished.stdout.trim() !== "") read.push({ page, text: finished.stdout });
  }
  return read;
}

/** Adds the recognised pages to a reading, in page order, and a warning that lists them. */
export function withScans(reading: Reading, recognised: readonly Recognised[]): Reading {
  if (recognised.length === 0) return reading;
  const pages = reading.pages?.slice() ?? [];
  const elements = reading.elements.slice();
  for (const { page, text } of recognised) {
    const words = new PageText(page - 1);
    const within = wordsWithin(text.split("\n"));
    const found = text.split(/\n\s*\n/).flatMap((paragraph): Element[] => {
      words.part();
      const joined = paragraph
        .trim()
        .split("\n")
        .reduce((above, line) => {
          const hyphen = hyphenBetween(above, line, within);
          if (hyphen === "breaks") return above.slice(0, -1) + line;
          return hyphen === "belongs" ? above + line : `${above}\n${line}`;
        });
      return joined === "" ? [] : [{ type: "paragraph", pieces: [words.take(joined)] }];
    });
    const next = elements.findIndex((element) => firstPage(element) > page - 1);
    elements.splice(next < 0 ? elements.length : next, 0, ...found);
    pages[page - 1] = { label: null, characters: words.characters };
  }
  const numbers = recognised.map(({ page }) => page).join(", ");
  const message = `Pages read by tesseract, which makes mistakes: ${numbers}`;
  const warning = { code: "pages_recognised", message, parameters: { pages: numbers } };
  return { pages, elements, warnings: [...reading.warnings, warning] };
}

const firstPage = (element: Element): number =>
  (element.type === "row" ? element.cells.flat() : element.pieces)[0]?.page ?? -1;
