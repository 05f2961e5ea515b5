// Documents of a few bytes that once took minutes: each is read at once, or refused by the name of the limit that it breaks.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Failure, type FailureCode } from "../../src/base/errors.ts";
import { forms, pdf, xlsx, zip } from "../helpers/document-files.ts";
import { type DocumentReader, documentReader } from "../helpers/read-document.ts";

let it: DocumentReader;
/** Two seconds of computing for whatever it is, so that a limit of time is soon reached. */
let hasty: DocumentReader;
before(() => {
  it = documentReader();
  hasty = documentReader(() => 2);
});
after(() => Promise.all([it.close(), hasty.close()]));

/** Twenty seconds of computing at most, whatever else the machine does. The processes that read archives and PDF have their own limit. */
async function soon<T>(work: () => Promise<T>): Promise<T> {
  const before = process.cpuUsage();
  const done = await work();
  const { user, system } = process.cpuUsage(before);
  assert.ok((user + system) / 1e6 < 20, `took ${(user + system) / 1e6} s of computing`);
  return done;
}

const columns = (count: number): string =>
  [`|${"a|".repeat(count)}`, `|${"-|".repeat(count)}`, `|${"b|".repeat(count)}`].join("\n");

/** A book whose spine names its one chapter so many times. */
const spine = (count: number): Buffer =>
  zip([
    { name: "META-INF/container.xml", content: '<container><rootfile full-path="book.opf"/></container>' },
    {
      name: "book.opf",
      content: `<package><manifest><item id="c" href="c.xhtml" media-type="text/html"/></manifest><spine>${'<itemref idref="c"/>'.repeat(count)}</spine></package>`,
    },
    { name: "c.xhtml", content: "<html><body><p>words</p></body></html>" },
  ]);

const slides = (count: number): Buffer =>
  zip([
    {
      name: "[Content_Types].xml",
      content:
        '<Types><Override PartName="/p.xml" ContentType="application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"/></Types>',
    },
    {
      name: "_rels/p.xml.rels",
      content: '<Relationships><Relationship Id="s" Type="x/slide" Target="s.xml"/></Relationships>',
    },
    {
      name: "p.xml",
      content: `<p:presentation xmlns:p="p" xmlns:r="r"><p:sldIdLst>${'<p:sldId r:id="s"/>'.repeat(count)}</p:sldIdLst></p:presentation>`,
    },
    { name: "s.xml", content: "<p:sld xmlns:p='p'><p:cSld><p:spTree/></p:cSld></p:sld>" },
  ]);

const refusals: [string, FailureCode, string, () => string | Uint8Array, RegExp][] = [
  ["200 KB of quotations", "document_limit", "a.md", () => ">".repeat(200_000), /nested too deeply; the limit is 100/],
  [
    "lists on one line",
    "document_limit",
    "a.md",
    () => `${"- ".repeat(100_000)}x`,
    /nested too deeply; the limit is 100/,
  ],
  ["counted lists", "document_limit", "a.md", () => `${"1. ".repeat(50_000)}x`, /nested too deeply; the limit is 100/],
  [
    "lists in quotations",
    "document_limit",
    "a.md",
    () => `${"> - ".repeat(51)}x`,
    /nested too deeply; the limit is 100/,
  ],
  [
    "a list that goes in line by line",
    "document_limit",
    "a.md",
    () => Array.from({ length: 1000 }, (_, i) => `${"  ".repeat(i)}- item`).join("\n"),
    /nested too deeply; the limit is 100/,
  ],
  [
    "a table of 50,000 columns",
    "document_limit",
    "a.md",
    () => columns(50_000),
    /too many columns; the limit is 16384/,
  ],
  [
    "CSV of 50,000 columns",
    "document_limit",
    "a.csv",
    () => `${"a,".repeat(50_000)}\n`.repeat(3),
    /too many columns; the limit is 16384/,
  ],
  [
    "HTML of 50,000 columns",
    "document_limit",
    "a.html",
    () => `<!doctype html><table>${`<tr>${"<td>a".repeat(50_000)}`.repeat(2)}</table>`,
    /too many columns; the limit is 16384/,
  ],
  [
    "a sheet with a cell in each of 3,000 columns",
    "document_limit",
    "a.xlsx",
    () => {
      const row = (n: number): string =>
        `<row r="${n}"><c r="${columnName(n)}${n}"><v>1</v></c><c r="${columnName(n + 1)}${n}"><v>2</v></c></row>`;
      return xlsx([{ name: "x", rows: Array.from({ length: 3000 }, (_, i) => row(i + 1)).join("") }]);
    },
    /limit is 5000000/,
  ],
  ["a book of 100,000 chapters", "too_many_pages", "a.epub", () => spine(100_000), /100000 chapters/],
  ["a presentation of 100,000 slides", "too_many_pages", "a.pptx", () => slides(100_000), /100000 slides/],
];

/** From 1. */
function columnName(number: number): string {
  const letter = String.fromCharCode(65 + ((number - 1) % 26));
  return number > 26 ? columnName(Math.floor((number - 1) / 26)) + letter : letter;
}

async function refused(reader: DocumentReader, name: string, content: string | Uint8Array): Promise<Failure> {
  const error = await reader.read(name, content).then(
    (read) => assert.fail(`read: ${read.text.slice(0, 200)}`),
    (cause) => cause,
  );
  assert.ok(error instanceof Failure, String((error as Error).stack));
  assert.equal(error.status, 422);
  return error;
}

describe("refused by the limit's name", () => {
  for (const [what, code, name, make, message] of refusals)
    test(what, async () => {
      const failure = await soon(() => refused(it, name, make()));
      assert.equal(failure.code, code, failure.message);
      assert.match(failure.message, message);
    });
});

const readable: [string, string, () => string][] = [
  ["300,000 brackets", "a.md", () => `${"[".repeat(300_000)}x`],
  ["brackets that close", "a.md", () => `${"[".repeat(20_000)}x${"]".repeat(20_000)}`],
  ["a table of 5,000 rows", "a.md", () => `| a | b |\n|---|---|\n${"| 1 | 2 |\n".repeat(5000)}`],
  ["a rule of 1,000 stars", "a.md", () => `words\n\n${"* ".repeat(1000)}\n\nwords`],
  ["a list of 10,000 items", "a.md", () => "- item\n".repeat(10_000)],
  ["lines of names and values, as Windows ends them", "a.txt", () => `${"Name: value\r\n".repeat(60)}words`],
  ["comments before no page", "a.txt", () => `${"<!---->".repeat(60)} words`],
  ["tags without an end", "a.html", () => `<p>words ${"<p ".repeat(60_000)}`],
  ["signs of emphasis that open and never close", "a.html", () => `<!doctype html><p>${" _a".repeat(100_000)}`],
  ["a line of 500,000 spaces", "a.txt", () => `words\n${" ".repeat(500_000)}\nwords`],
];

describe("read", () => {
  for (const [what, name, make] of readable)
    test(what, async () => assert.ok((await soon(() => it.read(name, make()))).characters > 0));
});

describe("what no limit knows ends by time", () => {
  const words = "Words of a *text* that goes [on](x) and `on`.\n\n".repeat(200_000);
  const cases: [string, string, () => string | Uint8Array][] = [
    ["text", "a.md", () => words],
    ["6 KB of PDF whose forms paint forms", "a.pdf", () => forms(30, "BT /F0 9 Tf (words) Tj ET")],
  ];
  for (const [what, name, make] of cases)
    test(what, async () => {
      const { code, message } = await refused(hasty, name, make());
      assert.equal(code, "document_limit", message);
      assert.match(message, /takes too long to read; the limit is 2 s of CPU time/);
    });

  test("and the next document is read", async () =>
    assert.ok((await hasty.read("a.pdf", pdf([[{ text: "words", x: 72, y: 700 }]]))).characters > 0));
});
