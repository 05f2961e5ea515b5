// Small documents of every format, made byte by byte: ZIP archives, Office files, EPUB, PDF.
import { crc32, deflateRawSync } from "node:zlib";

export interface ZipPart {
  name: string;
  content: string | Uint8Array;
  /** What the archive says, where that is a lie. */
  claims?: { size?: number; crc?: number; flags?: number; offset?: number };
}

/** APPNOTE.TXT 4.3: local headers with their data, the central directory, its end. */
export function zip(parts: readonly ZipPart[]): Buffer {
  const files: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { name, content, claims = {} } of parts) {
    const raw = Buffer.from(content as string);
    const data = deflateRawSync(raw);
    const head = Buffer.alloc(26);
    head.writeUInt16LE(20, 0);
    head.writeUInt16LE(claims.flags ?? 0x800, 2);
    head.writeUInt16LE(8, 4);
    head.writeUInt32LE(claims.crc ?? crc32(raw), 10);
    head.writeUInt32LE(data.length, 14);
    head.writeUInt32LE(claims.size ?? raw.length, 18);
    head.writeUInt16LE(Buffer.byteLength(name), 22);
    const local = Buffer.concat([Buffer.from("PK\x03\x04"), head, Buffer.from(name), data]);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(claims.offset ?? offset, 10);
    directory.push(Buffer.concat([Buffer.from("PK\x01\x02\x14\0"), head, tail, Buffer.from(name)]));
    files.push(local);
    offset += local.length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(parts.length, 4);
  end.writeUInt16LE(parts.length, 6);
  end.writeUInt32LE(central.length, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...files, central, Buffer.from("PK\x05\x06"), end]);
}

const xml = (body: string): string => `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n${body}`;
const types = (main: string, type: string): ZipPart => ({
  name: "[Content_Types].xml",
  content: xml(
    `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/><Override PartName="/${main}" ContentType="application/vnd.openxmlformats-officedocument.${type}.main+xml"/></Types>`,
  ),
});
const relations = (part: string, list: [string, string, string][]): ZipPart => ({
  name: part.replace(/([^/]+)$/, "_rels/$1.rels"),
  content: xml(
    `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">${list
      .map(
        ([id, type, target]) =>
          `<Relationship Id="${id}" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/${type}" Target="${target}"/>`,
      )
      .join("")}</Relationships>`,
  ),
});

const word =
  'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"';

/** `body`: the content of w:body. */
export function docx(body: string, more: ZipPart[] = []): Buffer {
  return zip([
    types("word/document.xml", "wordprocessingml.document"),
    relations("word/document.xml", [
      ["rId1", "styles", "styles.xml"],
      ["rId2", "numbering", "numbering.xml"],
      ["rId3", "footnotes", "footnotes.xml"],
    ]),
    {
      name: "word/styles.xml",
      content: xml(
        `<w:styles ${word}><w:style w:styleId="Heading1"><w:name w:val="heading 1"/></w:style><w:style w:styleId="Own"><w:name w:val="Chapter"/><w:basedOn w:val="Heading1"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style></w:styles>`,
      ),
    },
    {
      name: "word/numbering.xml",
      content: xml(
        `<w:numbering ${word}><w:abstractNum w:abstractNumId="7"><w:lvl w:ilvl="0"><w:numFmt w:val="decimal"/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum><w:num w:numId="3"><w:abstractNumId w:val="7"/></w:num></w:numbering>`,
      ),
    },
    {
      name: "word/footnotes.xml",
      content: xml(
        `<w:footnotes ${word}><w:footnote w:type="separator" w:id="-1"><w:p><w:r><w:t>line</w:t></w:r></w:p></w:footnote><w:footnote w:id="1"><w:p><w:r><w:t>Since May.</w:t></w:r></w:p></w:footnote></w:footnotes>`,
      ),
    },
    { name: "word/document.xml", content: xml(`<w:document ${word}><w:body>${body}</w:body></w:document>`) },
    ...more,
  ]);
}

const office =
  'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"';

/** `slides`: the content of each p:spTree. */
export function pptx(slides: readonly string[]): Buffer {
  return zip([
    types("ppt/presentation.xml", "presentationml.presentation"),
    relations(
      "ppt/presentation.xml",
      slides.map((_, i) => [`rId${i}`, "slide", `slides/slide${i}.xml`]),
    ),
    {
      name: "ppt/presentation.xml",
      content: xml(
        `<p:presentation ${office}><p:sldIdLst>${slides.map((_, i) => `<p:sldId id="${256 + i}" r:id="rId${i}"/>`).join("")}</p:sldIdLst></p:presentation>`,
      ),
    },
    ...slides.map((tree, i) => ({
      name: `ppt/slides/slide${i}.xml`,
      content: xml(`<p:sld ${office}><p:cSld><p:spTree>${tree}</p:spTree></p:cSld></p:sld>`),
    })),
  ]);
}

export interface SheetFile {
  name: string;
  /** The content of sheetData. */
  rows: string;
  state?: string;
}

/** `formats`: format codes; the cells of style 4 have the first. */
export function xlsx(
  sheets: readonly SheetFile[],
  strings: readonly string[] = [],
  formats: readonly string[] = [],
): Buffer {
  const sheet =
    'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"';
  return zip([
    types("xl/workbook.xml", "spreadsheetml.sheet"),
    relations("xl/workbook.xml", [
      ...sheets.map((_, i): [string, string, string] => [`rId${i}`, "worksheet", `worksheets/sheet${i}.xml`]),
      ["rIdS", "styles", "styles.xml"],
      ["rIdT", "sharedStrings", "sharedStrings.xml"],
    ]),
    {
      name: "xl/workbook.xml",
      content: xml(
        `<workbook ${sheet}><sheets>${sheets.map(({ name, state }, i) => `<sheet name="${name}" sheetId="${i + 1}" r:id="rId${i}"${state ? ` state="${state}"` : ""}/>`).join("")}</sheets></workbook>`,
      ),
    },
    {
      name: "xl/styles.xml",
      content: xml(
        `<styleSheet ${sheet}><numFmts count="1"><numFmt numFmtId="164" formatCode="&quot;from&quot; yyyy\\-mm\\-dd hh:mm"/>${formats.map((code, i) => `<numFmt numFmtId="${165 + i}" formatCode="${code.replaceAll('"', "&quot;").replaceAll(">", "&gt;")}"/>`).join("")}</numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="10"/><xf numFmtId="164"/>${formats.map((_, i) => `<xf numFmtId="${165 + i}"/>`).join("")}</cellXfs></styleSheet>`,
      ),
    },
    {
      name: "xl/sharedStrings.xml",
      content: xml(`<sst ${sheet}>${strings.map((text) => `<si><t>${text}</t></si>`).join("")}</sst>`),
    },
    ...sheets.map(({ rows }, i) => ({
      name: `xl/worksheets/sheet${i}.xml`,
      content: xml(`<worksheet ${sheet}><sheetData>${rows}</sheetData></worksheet>`),
    })),
  ]);
}

/** `chapters`: the content of each body. */
export function epub(chapters: readonly string[], more: ZipPart[] = []): Buffer {
  return zip([
    { name: "mimetype", content: "application/epub+zip" },
    {
      name: "META-INF/container.xml",
      content: xml(
        '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
      ),
    },
    {
      name: "OEBPS/book.opf",
      content: xml(
        `<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>${chapters.map((_, i) => `<item id="c${i}" href="text/c%20${i}.xhtml" media-type="application/xhtml+xml"/>`).join("")}</manifest><spine><itemref idref="nav"/>${chapters.map((_, i) => `<itemref idref="c${i}"/>`).join("")}</spine></package>`,
      ),
    },
    { name: "OEBPS/nav.xhtml", content: "<html><body><nav><a>Contents</a></nav></body></html>" },
    ...chapters.map((body, i) => ({
      name: `OEBPS/text/c ${i}.xhtml`,
      content: xml(
        `<!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head><title>Chapter ${i}</title></head><body>${body}</body></html>`,
      ),
    })),
    ...more,
  ]);
}

export interface PdfText {
  text: string;
  /** From the left and the bottom of a page of 612 × 792 points. */
  x: number;
  y: number;
  size?: number;
  font?: "Helvetica" | "Helvetica-Bold" | "Courier";
}

const fonts = ["Helvetica", "Helvetica-Bold", "Courier"] as const;

/** ISO 32000-1, 7.5: objects, the table of where they are, the trailer. */
export function pdf(pages: readonly (readonly PdfText[])[], trailer = ""): Buffer {
  const objects: string[] = [];
  const add = (body: string): number => objects.push(body);
  add("<< /Type /Catalog /Pages 2 0 R >>");
  add("");
  for (const font of fonts) add(`<< /Type /Font /Subtype /Type1 /BaseFont /${font} /Encoding /WinAnsiEncoding >>`);
  const kids = pages.map((texts) => {
    const stream = texts
      .map(({ text, x, y, size = 10, font = "Helvetica" }) => {
        const shown = Buffer.from(text, "latin1")
          .toString("latin1")
          .replace(/[\\()]/g, "\\$&");
        return `BT /F${fonts.indexOf(font)} ${size} Tf ${x} ${y} Td (${shown}) Tj ET`;
      })
      .join("\n");
    const content = add(`<< /Length ${stream.length} >>\nstream\n${stream}\nendstream`);
    const resources = fonts.map((_, i) => `/F${i} ${3 + i} 0 R`).join(" ");
    return add(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents ${content} 0 R /Resources << /Font << ${resources} >> >> >>`,
    );
  });
  objects[1] = `<< /Type /Pages /Kids [${kids.map((kid) => `${kid} 0 R`).join(" ")}] /Count ${pages.length} >>`;
  return pdfOf(objects, trailer);
}

/** One page that is a picture: eight bits of grey for each pixel. */
export function scan(width: number, height: number, grey: Uint8Array): Buffer {
  const picture = Buffer.from(grey).toString("latin1");
  const content = `${width} 0 0 ${height} 0 0 cm /I Do`;
  return pdfOf([
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${width} ${height}] /Contents 4 0 R /Resources << /XObject << /I 5 0 R >> >> >>`,
    `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    `<< /Type /XObject /Subtype /Image /Width ${width} /Height ${height} /ColorSpace /DeviceGray /BitsPerComponent 8 /Length ${picture.length} >>\nstream\n${picture}\nendstream`,
  ]);
}

/** One page that paints a form, which paints the next one twice, and so on; the last has `content`. */
export function forms(depth: number, content: string): Buffer {
  const first = 5;
  const form = (number: number): string => {
    const isLast = number === depth - 1;
    const stream = isLast ? content : "/X Do /X Do";
    const inner = isLast ? "/Font << /F0 3 0 R >>" : `/XObject << /X ${first + number + 1} 0 R >>`;
    return `<< /Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << ${inner} >> /Length ${stream.length} >>\nstream\n${stream}\nendstream`;
  };
  return pdfOf([
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents ${first + depth} 0 R /Resources << /XObject << /X ${first} 0 R >> >> >>`,
    ...Array.from({ length: depth }, (_, number) => form(number)),
    "<< /Length 5 >>\nstream\n/X Do\nendstream",
  ]);
}

function pdfOf(objects: readonly string[], trailer = ""): Buffer {
  let file = "%PDF-1.4\n";
  const places = objects.map((body, i) => {
    const place = file.length;
    file += `${i + 1} 0 obj\n${body}\nendobj\n`;
    return place;
  });
  const start = file.length;
  file += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n`;
  for (const place of places) file += `${String(place).padStart(10, "0")} 00000 n \n`;
  file += `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R ${trailer}>>\nstartxref\n${start}\n%%EOF\n`;
  return Buffer.from(file, "latin1");
}

/** Lines of prose, from the top of a column down. */
export const lines = (texts: readonly string[], x: number, top: number, more: Partial<PdfText> = {}): PdfText[] =>
  texts.map((text, i) => ({ text, x, y: top - i * 12, ...more }));
