// Two hundred damaged files of all formats, from a seed: each is refused with a sentence, none hangs, none is an error of ours.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { seeded } from "../../src/base/statistics/random.ts";
import { docx, epub, lines, pdf, pptx, xlsx, zip } from "../helpers/document-files.ts";
import { type DocumentReader, documentReader } from "../helpers/read-document.ts";

const random = seeded(20_260_504);
const below = (n: number): number => Math.floor(random() * n);

type Damage = (content: Buffer) => Buffer;
const cut: Damage = (content) => content.subarray(0, 5 + below(content.length - 30));
const zeros: Damage = (content) => {
  const broken = Buffer.from(content);
  const at = below(content.length >> 1);
  broken.fill(0, at, at + 1 + (content.length >> 2));
  return broken;
};
const noise: Damage = (content) => {
  const broken = Buffer.from(content);
  for (let i = content.length >> 3; i < content.length; i++) if (random() < 0.3) broken[i] = below(256);
  return broken;
};
/** Every tag is closed by another. */
const crossed = (markup: string): string => markup.replace(/<\/(w:|p:|a:)?(\w+)>/, "</$1$2x>");

const sheet = '<row r="1"><c r="A1"><v>1</v></c><c r="B1"><v>2</v></c></row>';
const words = Array.from({ length: 40 }, (_, i) => `word ${i} of a longer text`);
const paragraph = (text: string) => `<w:p><w:r><w:t>${text}</w:t></w:r></w:p>`;

/** An e-mail whose parts are nested in `levels` others. */
const nested = (levels: number): string => {
  const part = (level: number): string =>
    level === levels
      ? "Content-Type: text/plain\n\nx\n"
      : `Content-Type: multipart/mixed; boundary="b${level}"\n\n--b${level}\n${part(level + 1)}\n--b${level}--\n`;
  return `${head}${part(0)}`;
};
const head = "From: a@b.c\nTo: d@e.f\nSubject: x\nDate: x\n";
/** An e-mail whose parts have headers of 1.1 MiB in all. */
const headed = (): string => {
  const part = `--b\nContent-Type: text/plain\nX-Line: ${"x".repeat(1000)}\n\nx\n`;
  return `${head}Content-Type: multipart/mixed; boundary="b"\n\n${part.repeat(1127)}--b--\n`;
};

/** Sound files, and what turns them into unsound ones. */
const formats: { name: string; sound: () => Buffer; damages: Damage[]; count: number }[] = [
  {
    name: "a.docx",
    sound: () => docx(words.map(paragraph).join("")),
    damages: [
      cut,
      zeros,
      noise,
      () => docx(crossed(paragraph("x"))),
      () => docx(`${paragraph("x")}<w:p>&undefined;</w:p>`),
    ],
    count: 25,
  },
  {
    name: "a.pptx",
    sound: () =>
      pptx(words.map((text) => `<p:sp><p:txBody><a:p><a:r><a:t>${text}</a:t></a:r></a:p></p:txBody></p:sp>`)),
    damages: [cut, zeros, noise, () => pptx(["<p:sp>"])],
    count: 20,
  },
  {
    name: "a.xlsx",
    sound: () => xlsx([{ name: "x", rows: sheet }]),
    damages: [cut, zeros, noise, () => xlsx([{ name: "x", rows: `${crossed(sheet)}</v>` }])],
    count: 20,
  },
  {
    name: "a.epub",
    sound: () => epub(words.map((text) => `<p>${text}</p>`)),
    damages: [cut, zeros, noise, () => zip([{ name: "META-INF/container.xml", content: "<container/>" }])],
    count: 20,
  },
  {
    name: "a.pdf",
    sound: () => pdf([lines(words, 72, 740), lines(words, 72, 740)]),
    damages: [
      cut,
      (content) =>
        Buffer.from(content.toString("latin1").replace("/Pages", "/Pagos").replaceAll("/Page ", "/Leaf "), "latin1"),
      (content) => Buffer.concat([content.subarray(0, 9), Buffer.from("startxref 5 %%EOF")]),
      (content) => Buffer.from(content.toString("latin1").replaceAll(" obj", " abj"), "latin1"),
    ],
    count: 25,
  },
  {
    name: "a.json",
    sound: () => Buffer.from(JSON.stringify({ rows: words.map((text, i) => ({ text, i })) })),
    damages: [
      cut,
      zeros,
      (content) => Buffer.concat([content, Buffer.from("}")]),
      (content) => Buffer.from(content.toString().replace(":", ";")),
    ],
    count: 25,
  },
  {
    name: "a.jsonl",
    sound: () => Buffer.from(words.map((text) => `${JSON.stringify({ text })}\n`).join("")),
    damages: [
      zeros,
      (content) => Buffer.from(content.toString().replaceAll('"}', '"')),
      (content) => content.subarray(0, content.length - 3 - below(9)),
    ],
    count: 20,
  },
  {
    name: "a.csv",
    sound: () => Buffer.from(words.map((text) => `"${text}",1\n`).join("")),
    damages: [zeros, noise, (content) => Buffer.concat([content, Buffer.from('"never closed')])],
    count: 15,
  },
  {
    name: "a.html",
    sound: () => Buffer.from(`<!doctype html><body>${words.map((text) => `<p>${text}</p>`).join("")}`),
    damages: [
      zeros,
      () => Buffer.from("<!doctype html><body><script>1</script>"),
      () => Buffer.from(`<!doctype html><body>${"<i>".repeat(20_000 + below(9))}x`),
    ],
    count: 10,
  },
  {
    name: "a.eml",
    sound: () => Buffer.from(`${head}\n${words.join("\n")}`),
    damages: [zeros, () => Buffer.from(words.join("\n")), () => Buffer.from(nested(70)), () => Buffer.from(headed())],
    count: 10,
  },
  { name: "a.txt", sound: () => Buffer.from(words.join("\n")), damages: [zeros, noise], count: 5 },
  { name: "a.md", sound: () => Buffer.from(`# a\n\n${words.join("\n")}`), damages: [zeros, noise], count: 5 },
];

let it: DocumentReader;
before(() => {
  it = documentReader();
});
after(() => it.close());

test("there are two hundred", () =>
  assert.equal(
    formats.reduce((sum, { count }) => sum + count, 0),
    200,
  ));

for (const { name, sound, damages, count } of formats)
  describe(name, () => {
    test("is read when it is sound", async () => assert.ok((await it.read(name, sound())).characters > 0));

    test(`is refused in ${count} ways`, { timeout: 240_000 }, async () => {
      const files = Array.from({ length: count }, (_, i) => damages[i % damages.length]!(sound()));
      const outcomes = await Promise.all(
        files.map((content) =>
          it.read(name, content).then(
            (read) => `read: ${read.text.slice(0, 100)}`,
            (error) =>
              error instanceof Failure && [415, 422].includes(error.status) && error.message.includes(name)
                ? null
                : String(error.stack),
          ),
        ),
      );
      assert.deepEqual(
        outcomes.map((outcome, i) => outcome && `${i}: ${outcome}`).filter((outcome) => outcome !== null),
        [],
      );
    });
  });
