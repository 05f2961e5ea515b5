// Reads a PDF into elements. pdfjs finds the text and its positions, and pdf-layout.ts turns them into lines and tables. Runs only
// in the probe's child process.
import { getDocument, type PDFDocumentProxy, Util } from "pdfjs-dist/legacy/build/pdf.mjs";
import { Failure } from "../../../base/errors.ts";
import type { Reading, Warning } from "../elements.ts";
import { mostPages } from "../limits.ts";
import { layOut, type TextItem, type TextPage } from "./pdf-layout.ts";

/** Maximum number of text items in one document, which is several hundred books. */
const mostItems = 20_000_000;

export async function readPdf(bytes: Buffer, name: string): Promise<Reading> {
  // A truncated file is refused, because pdfjs rebuilds what it can of such a file and does not report what is missing.
  if (!/startxref|%%EOF/.test(bytes.subarray(-4096).toString("latin1")))
    throw new Failure("document_invalid", `${name} is an incomplete PDF: its end was cut off`);
  const strict = await opened(bytes, name, true);
  const { numPages } = strict;
  if (numPages > mostPages)
    throw new Failure("too_many_pages", `${name} has ${numPages} pages; the limit is ${mostPages}`);
  let lenient: PDFDocumentProxy | null = null;
  const pages: TextPage[] = [];
  const [damagedPages, turned] = [[] as number[], [] as number[]];
  let items = 0;
  for (let number = 1; number <= numPages; number++) {
    const read = await pageOf(strict, number).catch(async () => {
      damagedPages.push(number);
      lenient ??= await opened(bytes, name, false);
      return pageOf(lenient, number).catch(() => ({ page: { width: 0, height: 0, items: [] }, isTurned: false }));
    });
    items += read.page.items.length;
    if (items > mostItems) throw new Failure("document_limit", `${name} has more text than the limit`);
    pages.push(read.page);
    if (read.isTurned) turned.push(number);
  }
  if (damagedPages.length === numPages)
    throw new Failure("document_invalid", `${name} is a damaged PDF: no page can be read`);
  const { elements, characters } = layOut(pages, await chaptersOf(strict));
  const warnings: Warning[] = [
    ...warning("pages_damaged", "Damaged; read as far as possible", damagedPages),
    ...warning("pages_turned", "Read as landscape, along the long side", turned),
  ];
  return { pages: characters.map((count) => ({ label: null, characters: count })), elements, warnings };
}

/** Indexes of the pages to which the top-level outline entries lead. Null if there is no outline, or if it is broken. */
async function chaptersOf(document: PDFDocumentProxy): Promise<Set<number> | null> {
  try {
    const outline = await document.getOutline();
    if (!outline?.length) return null;
    const found = new Set<number>();
    for (const { dest } of outline) {
      const place = typeof dest === "string" ? await document.getDestination(dest) : dest;
      if (place?.[0]) found.add(typeof place[0] === "number" ? place[0] : await document.getPageIndex(place[0]));
    }
    return found;
  } catch {
    // A broken outline does not mean that the text is broken.
    return null;
  }
}

const warning = (code: string, message: string, numbers: readonly number[]): Warning[] =>
  numbers.length === 0
    ? []
    : [{ code, message: `${message}: pages ${numbers.join(", ")}`, parameters: { pages: numbers.join(", ") } }];

async function pageOf(document: PDFDocumentProxy, number: number): Promise<{ page: TextPage; isTurned: boolean }> {
  const page = await document.getPage(number);
  const content = await page.getTextContent();
  const { width, height, transform } = page.getViewport({ scale: 1 });
  const found = content.items.flatMap((item) => {
    if (!("str" in item) || item.str === "") return [];
    const { fontFamily = "" } = content.styles[item.fontName] ?? {};
    return [placed(item, transform, fontFamily === "monospace")];
  });
  page.cleanup();
  const upright = found.filter((item) => item.upright);
  // A page that is set sideways is read along its own lines.
  const isTurned = upright.length * 2 < found.length;
  return isTurned
    ? {
        page: { width: height, height: width, items: found.filter((item) => !item.upright).map(({ side }) => side) },
        isTurned,
      }
    : { page: { width, height, items: upright.map(({ straight }) => straight) }, isTurned };
}

async function opened(bytes: Buffer, name: string, stopAtErrors: boolean): Promise<PDFDocumentProxy> {
  try {
    return await getDocument({
      data: new Uint8Array(bytes),
      verbosity: 0,
      // Use nothing from the system and nothing that needs a network.
      useSystemFonts: false,
      disableFontFace: true,
      enableXfa: false,
      stopAtErrors,
    }).promise;
  } catch (error) {
    const { name: kind, message } = error as Error;
    if (kind === "PasswordException")
      throw new Failure("document_encrypted", `${name} needs a password`, { cause: error });
    throw new Failure("document_invalid", `${name} is a damaged PDF: ${message}`, { cause: error });
  }
}

interface Placed {
  upright: boolean;
  straight: TextItem;
  /** The item as it is read with the page turned. */
  side: TextItem;
}

type Item = { str: string; dir: string; transform: number[]; width: number; fontName: string };

function placed(item: Item, view: number[], fixedWidth: boolean): Placed {
  const [a, b, c, d, e, f] = Util.transform(view, item.transform) as [number, number, number, number, number, number];
  const size = Math.hypot(c, d);
  const common = {
    text: item.str,
    width: item.width,
    size,
    font: item.fontName,
    fixedWidth,
    rightToLeft: item.dir === "rtl",
  };
  return {
    upright: Math.abs(a) >= Math.abs(b) && a >= 0,
    straight: { ...common, x: e, y: f },
    side: b < 0 ? { ...common, x: -f, y: e } : b > 0 ? { ...common, x: f, y: -e } : { ...common, x: -e, y: -f },
  };
}
