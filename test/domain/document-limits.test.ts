// Documents made to hurt: each is refused with its own code, in time.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { installation } from "../../src/base/config.ts";
import { Failure, type FailureCode } from "../../src/base/errors.ts";
import { finish, startProcess } from "../../src/base/processes.ts";
import { confinement } from "../../src/domain/documents/probe.ts";
import { openArchive } from "../../src/domain/documents/read/archive.ts";
import { readHtml } from "../../src/domain/documents/read/html.ts";
import { readXlsx } from "../../src/domain/documents/read/xlsx.ts";
import { blocksOfText } from "../../src/domain/documents/text-blocks.ts";
import { docx, epub, lines, pdf, pptx, xlsx, zip } from "../helpers/document-files.ts";
import { type DocumentReader, documentReader } from "../helpers/read-document.ts";

let it: DocumentReader;
before(() => {
  it = documentReader();
});
after(() => it.close());

async function refused(name: string, content: string | Uint8Array): Promise<Failure> {
  const error = await it.read(name, content).then(
    (read) => assert.fail(`read: ${read.text.slice(0, 200)}`),
    (cause) => cause,
  );
  assert.ok(error instanceof Failure, String((error as Error).stack));
  assert.ok(error.message.includes(name), error.message);
  assert.ok(error.status === 415 || error.status === 422);
  return error;
}

const paragraph = "<w:p><w:r><w:t>words</w:t></w:r></w:p>";
const laughs = `<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha">${Array.from({ length: 20 }, (_, i) => `<!ENTITY ${"a".repeat(i + 2)} "${`&${"a".repeat(i + 1)};`.repeat(10)}">`).join("")}]><l>&${"a".repeat(21)};</l>`;
const outside = '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]><l>&x;</l>';
const nested = (open: string, inner: string, close: string, times: number) =>
  open.repeat(times) + inner + close.repeat(times);
const page = lines(["words on a page"], 72, 700);

const cases: [string, FailureCode, string, () => string | Uint8Array, RegExp][] = [
  [
    "a ZIP bomb",
    "archive_limit",
    "a.docx",
    () => docx(paragraph, [{ name: "word/media/x", content: new Uint8Array(64 << 20) }]),
    /200 times/,
  ],
  [
    "parts that overlap",
    "archive_limit",
    "a.xlsx",
    () =>
      zip([
        { name: "[Content_Types].xml", content: "x".repeat(100) },
        { name: "b", content: "y", claims: { offset: 0 } },
      ]),
    /overlap/,
  ],
  [
    "ten thousand and one parts",
    "archive_limit",
    "a.epub",
    () => zip(Array.from({ length: 10_001 }, (_, i) => ({ name: `${i}`, content: "" }))),
    /10001 parts/,
  ],
  [
    "a part that is longer than it says",
    "document_invalid",
    "a.docx",
    () => zip([{ name: "[Content_Types].xml", content: "x".repeat(1 << 20), claims: { size: 10 } }]),
    /damaged archive/,
  ],
  [
    "a part with another check sum",
    "document_invalid",
    "a.docx",
    () => zip([{ name: "[Content_Types].xml", content: "<a/>", claims: { crc: 1 } }]),
    /checksum/,
  ],
  [
    "a part that leaves the archive",
    "document_invalid",
    "a.docx",
    () => zip([{ name: "../../x", content: "x" }]),
    /damaged archive/,
  ],
  [
    "an archive with a password",
    "document_encrypted",
    "a.pptx",
    () => zip([{ name: "[Content_Types].xml", content: "x", claims: { flags: 0x801 } }]),
    /encrypted/,
  ],
  [
    "an EPUB with a key",
    "document_encrypted",
    "a.epub",
    () =>
      epub(
        ["<p>x</p>"],
        [
          {
            name: "META-INF/encryption.xml",
            content:
              '<encryption><EncryptedData><EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/></EncryptedData></encryption>',
          },
        ],
      ),
    /encrypted/,
  ],
  [
    "an archive that is no document",
    "document_type",
    "a.zip",
    () => zip([{ name: "a.txt", content: "words" }]),
    /not a document/,
  ],
  [
    "entities in Office",
    "entities_refused",
    "a.docx",
    () => zip([{ name: "[Content_Types].xml", content: laughs }]),
    /entities/,
  ],
  [
    "entities from outside",
    "entities_refused",
    "a.pptx",
    () => zip([{ name: "[Content_Types].xml", content: outside }]),
    /entities/,
  ],
  ["entities in XML", "entities_refused", "a.xml", () => laughs, /entities/],
  ["XML nested without end", "document_limit", "a.docx", () => docx(nested("<w:sdt>", "", "</w:sdt>", 5000)), /deep/],
  [
    "HTML nested without end",
    "document_limit",
    "a.html",
    () => `<!doctype html><body>${nested("<div>", "words", "</div>", 50_000)}`,
    /deep/,
  ],
  ["JSON nested without end", "document_limit", "a.json", () => nested("[", "1", "]", 100_000), /deep/],
  [
    "a sheet of too many cells",
    "document_limit",
    "a.xlsx",
    () => xlsx([{ name: "x", rows: `<row>${"<c/>".repeat(2000)}</row>`.repeat(1001) }]),
    /cells/,
  ],
  [
    "a PDF of ten thousand pages",
    "too_many_pages",
    "a.pdf",
    () => pdf(Array.from({ length: 10_000 }, () => [])),
    /10000 pages/,
  ],
  [
    "a PDF with a password",
    "document_encrypted",
    "a.pdf",
    () =>
      pdf(
        [page],
        `/ID [<00><00>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <${"41".repeat(32)}> /U <${"42".repeat(32)}> >> `,
      ),
    /password/,
  ],
  ["a PDF without text", "document_no_text", "a.pdf", () => pdf([[], []]), /None of the 2 pages/],
  [
    "a PDF that was cut off",
    "document_invalid",
    "a.pdf",
    () => pdf(Array.from({ length: 200 }, () => page)).subarray(0, 40_000),
    /cut off/,
  ],
  ["slides without text", "document_invalid", "a.pptx", () => pptx(["", ""]), /no text/],
];

describe("refused", () => {
  for (const [what, code, name, make, message] of cases)
    test(what, { timeout: 60_000 }, async () => {
      const failure = await refused(name, make());
      assert.equal(failure.code, code, failure.message);
      assert.match(failure.message, message);
    });
});

describe("a name that says something else", () => {
  const contents: Record<string, () => string | Uint8Array> = {
    pdf: () => pdf([page]),
    docx: () => docx(paragraph),
    xlsx: () => xlsx([{ name: "x", rows: "<row><c><v>1</v></c></row>" }]),
    epub: () => epub(["<p>words</p>"]),
    html: () => "<!doctype html><p>words</p>",
    txt: () => "words",
  };
  const endings = [...Object.keys(contents), "json", "eml", "pptx"];
  for (const [is, make] of Object.entries(contents))
    test(`${is} under every other ending`, { timeout: 60_000 }, async () => {
      // Where the content has to be opened to be known, one ending of each kind will do.
      const wrong = endings.filter((ending) => ending !== is && (is !== "epub" || !["xlsx", "pptx"].includes(ending)));
      for (const ending of wrong)
        assert.equal((await refused(`a.${ending}`, make())).code, "extension_mismatch", ending);
    });

  test("but one that says nothing is no hindrance", async () => {
    const names = ["a", "b.x1", "report"];
    for (const [is, make] of Object.entries(contents)) {
      const { format } = await it.read(names.pop() ?? "a", make());
      assert.equal(format, is === "txt" ? "text" : is);
    }
  });
});

test("a document of more parts than a call takes arguments is read", async () => {
  const many = 126_000;
  const sheet = xlsx([{ name: "x", rows: "<row><c><v>1</v></c></row>".repeat(many) }]);
  const read = await readXlsx(await openArchive(sheet, "a.xlsx"), "xl/workbook.xml", "a.xlsx");
  assert.equal(read.elements.length, many + 1);
  const page = `<pre>${"a &lt; b\n".repeat(many)}</pre>${"<hr>".repeat(many)}`;
  assert.equal(readHtml(page, 0, "a.html", false).elements.length, 1);
  assert.equal(blocksOfText("- words\n".repeat(many), "text/plain", "a.txt").length, many);
});

test("a PDF whose table of objects leads back to itself is read, not for ever", { timeout: 60_000 }, async () => {
  const file = pdf([page], "/Prev 0000000000 ").toString("latin1");
  const start = /startxref\n(\d+)/.exec(file)![1]!;
  const looped = Buffer.from(file.replace("/Prev 0000000000", `/Prev ${start.padStart(10, "0")}`), "latin1");
  assert.equal((await it.read("a.pdf", looped)).text, "words on a page\n");
});

test("the process that reads a PDF may open that file, and nothing else", async () => {
  const folder = mkdtempSync(join(tmpdir(), "plumbline-confined-"));
  const [given, other] = [join(folder, "given"), join(folder, "other")];
  for (const path of [given, other]) writeFileSync(path, "words");
  const tries = [
    `fs.readFileSync("${given}")`,
    `fs.readFileSync("${other}")`,
    `fs.readFileSync("${join(installation, "README.md")}")`,
    `fs.writeFileSync("${given}", "")`,
    'child.execSync("true")',
  ];
  const script = `const fs = require("node:fs"); const child = require("node:child_process"); ${tries
    .map((attempt) => `try { ${attempt}; console.log("done"); } catch (error) { console.log(error.code); }`)
    .join(" ")}`;
  const confined = startProcess(process.execPath, [...confinement(given), "-e", script]);
  const { stdout } = await finish(confined, { timeoutMs: 20_000, maxBytes: 1 << 20 });
  rmSync(folder, { recursive: true });
  const denied = "ERR_ACCESS_DENIED";
  assert.deepEqual(stdout.trim().split("\n"), ["done", denied, denied, denied, denied]);
});
