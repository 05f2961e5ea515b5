// Clean text, its blocks and chunks, and the way back to the original.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import fc from "fast-check";
import { decode } from "../../src/domain/documents/charset.ts";
import { cleanOriginal, normalise } from "../../src/domain/documents/normalise.ts";
import { placeOf } from "../../src/domain/documents/source-map.ts";
import { readStructure, structureOf } from "../../src/domain/documents/structure.ts";
import { blocksOfText } from "../../src/domain/documents/text-blocks.ts";
import { cellsOf } from "../../src/study/inline.ts";

const partsOf = (original: string, mediaType: Parameters<typeof blocksOfText>[1]) => {
  const { text, map } = cleanOriginal(original);
  return { text, ...readStructure(text, structureOf(blocksOfText(text, mediaType, "a"), map, false)) };
};

/** Texts rich in what cleaning changes: line ends, marks, controls, letters in parts. */
const messy = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "\r\n",
        "\r",
        "\n",
        "\u0301",
        "\u0007",
        "\ufeff",
        "e\u0301",
        "\u1100\u1161\u11a8",
        "\u212b",
        "𝒳",
        " ",
      ),
      fc.string({ unit: "binary", maxLength: 8 }),
    ),
    { maxLength: 40 },
  )
  .map((parts) => parts.join(""));

test("cleaning in stretches is cleaning as a whole", () => {
  fc.assert(
    fc.property(messy, (original) => {
      assert.equal(cleanOriginal(original).text, normalise(original));
    }),
    { numRuns: 2000 },
  );
});

test("a place in the original holds the characters that its clean text has", () => {
  fc.assert(
    fc.property(messy, fc.nat(), fc.nat(), (original, a, b) => {
      const { text, map } = cleanOriginal(original);
      fc.pre(text.length > 0);
      const start = a % text.length;
      const end = start + 1 + (b % (text.length - start));
      const place = placeOf(map, start, end, false);
      assert.ok(normalise(original.slice(place.start, place.end)).includes(text.slice(start, end).trim()));
    }),
    { numRuns: 2000 },
  );
});

describe("blocks and chunks", () => {
  const manual = Array.from(
    { length: 30 },
    (_, i) =>
      `## Part ${i}\n\nPart ${i} opens at ${i} o'clock. ${"It has a door. ".repeat(i * 12)}\n\n- one ${i}\n- two\n`,
  ).join("\n");
  const table = `| id | colour |\n| --- | --- |\n${Array.from({ length: 200 }, (_, i) => `| ${i} | colour number ${i} |`).join("\n")}\n`;
  const markdown = `# Manual\r\n\r\n${manual.replaceAll("\n", "\r\n")}\n${table}\n\`\`\`\ncode\n\`\`\`\n`;
  const { text, blocks, chunks } = partsOf(markdown, "text/markdown");

  test("blocks are what Markdown says", () => {
    assert.deepEqual(
      [...new Set(blocks.map((block) => `${block.type} ${block.level}`))],
      ["heading 1", "heading 2", "paragraph 0", "item 0", "row 1", "row 2", "code 0"],
    );
    assert.equal(blocks.filter((block) => block.type === "row").length, 201);
    assert.equal(text.slice(blocks[1]!.start, blocks[1]!.end), "Part 0");
  });

  test("every place is where the same words stand in the original", () => {
    for (const { start, end, place } of [...blocks, ...chunks])
      assert.equal(markdown.slice(place.start, place.end).replaceAll("\r\n", "\n"), text.slice(start, end));
  });

  test("chunks hold every block, in order, without overlap, and none is too long", () => {
    let at = 0;
    for (const chunk of chunks) {
      assert.ok(chunk.start >= at && chunk.end > chunk.start);
      assert.equal(chunk.text, text.slice(chunk.start, chunk.end));
      assert.ok(chunk.text.length <= 2400);
      at = chunk.end;
    }
    const held = (at: number) => chunks.some((chunk) => chunk.start <= at && at < chunk.end);
    for (const block of blocks)
      for (let i = block.start; i < block.end; i++) assert.ok(/\s/.test(text[i]!) || held(i), `${i} is in no chunk`);
  });

  test("chunks know the headings above them and the header of the table that they go on from", () => {
    const door = chunks.find((chunk) => chunk.text.startsWith("It has a door"))!;
    assert.deepEqual([door.path[0], door.path.length], ["Manual", 2]);
    const rows = chunks.filter((chunk) => chunk.text.startsWith("| ") && !chunk.text.startsWith("| id"));
    assert.ok(rows.length >= 2 && rows.every((chunk) => chunk.header === "| id | colour |"));
    assert.ok(chunks.every((chunk) => chunk.header === null || rows.includes(chunk)));
  });

  test("ids are of the words and the headings: what another part changes leaves them", () => {
    const other = partsOf(markdown.replace("Part 3 opens at 3", "Part 3 never opens"), "text/markdown").chunks;
    const ids = new Set(other.map((chunk) => chunk.id));
    const lost = chunks.filter((chunk) => !ids.has(chunk.id));
    assert.equal(lost.length, 1);
    assert.match(lost[0]!.text, /Part 3 opens/);
  });

  test("plain text has headings that are underlined, items, paragraphs; CSV has rows", () => {
    const plain = partsOf("Title\n*****\n\nOne line\nand another.\n\n1. first\n   goes on\n2. second\n", "text/plain");
    assert.deepEqual(
      plain.blocks.map(({ type, start, end }) => [type, plain.text.slice(start, end)]),
      [
        ["heading", "Title"],
        ["paragraph", "One line\nand another."],
        ["item", "first\n   goes on"],
        ["item", "second"],
      ],
    );
    const csv = partsOf('a;b\r\n"x\r\ny";2\r\n\r\n3;4', "text/csv");
    assert.deepEqual(
      csv.blocks.map(({ level, start, end }) => [level, csv.text.slice(start, end)]),
      [
        [1, "a;b"],
        [2, '"x\ny";2'],
        [2, "3;4"],
      ],
    );
  });

  test("an empty first or last cell of a row stays, so that the others keep their columns", () => {
    const { text, blocks } = partsOf(
      "Region\tCity\tSales\nNorth\tKiel\tfive\r\n\n\tBremen\tseven\nSouth\tUlm\t\n",
      "text/csv",
    );
    const cells = blocks.map(({ start, end }) => cellsOf(text.slice(start, end), true, "\t"));
    assert.deepEqual(cells, [
      ["Region", "City", "Sales"],
      ["North", "Kiel", "five"],
      ["", "Bremen", "seven"],
      ["South", "Ulm", ""],
    ]);
  });

  test("a number that was wrapped to the start of a line begins no item", () => {
    const said =
      "b) The work is under any conditions\nadded under section\n7. This changes section 4.\n\nBefore it opens:\n1. look\n2. knock\n\n9. wait\n10. go in\n2 at a time\n3. by the left door\n";
    const { text, blocks } = partsOf(said, "text/plain");
    assert.deepEqual(
      blocks.map(({ type, start, end }) => [type, text.slice(start, end)]),
      [
        ["paragraph", "b) The work is under any conditions\nadded under section\n7. This changes section 4."],
        ["paragraph", "Before it opens:"],
        ["item", "look"],
        ["item", "knock"],
        ["item", "wait"],
        ["item", "go in\n2 at a time\n3. by the left door"],
      ],
    );
  });

  test("the front matter of Markdown is no text, but its title is one", () => {
    const matter = '---\ntitle: "The Lamp: a Book"\n# for the site\ntags:\n  - lamps\n\ndate: 2024-05-03\n---\n';
    const read = (original: string) => {
      const { text, blocks } = partsOf(original, "text/markdown");
      return blocks.map(({ type, level, start, end }) => [type, level, text.slice(start, end)]);
    };
    assert.deepEqual(read(`${matter}It is red.\n\n## Oil\n`), [
      ["heading", 1, "The Lamp: a Book"],
      ["paragraph", 0, "It is red."],
      ["heading", 2, "Oil"],
    ]);
    assert.deepEqual(read(`${matter}\n# Lamps\n\nIt is red.\n`), [
      ["heading", 1, "Lamps"],
      ["paragraph", 0, "It is red."],
    ]);
    const titles: [string, string | null][] = [
      ["'The Lamp'", "The Lamp"],
      ["The Lamp # of oil", "The Lamp"],
      ['"a" # c', "a"],
      ["It's red  ", "It's red"],
      [">-\n  The\n  Lamp", null],
      ["|", null],
      ['""', null],
      ["", null],
    ];
    for (const [value, title] of titles)
      assert.equal(
        read(`---\ntitle: ${value}\n---\nRed.\n`).find(([type]) => type === "heading")?.[2] ?? null,
        title,
        value,
      );
    assert.deepEqual(read("---\nNote: it is red.\n\nAll are.\n\n---\n"), [
      ["paragraph", 0, "Note: it is red."],
      ["paragraph", 0, "All are."],
    ]);
  });

  test("plain text has headings in capitals, before their paragraph or alone", () => {
    const said =
      "HOUSE RULES\n\n2. OPENING HOURS\nWe open at nine.\n\nÖFFNUNG\n- um neun\n\nGB 12\n\nCALL 999!\n\n営業時間\n九時から\n";
    const { text, blocks } = partsOf(said, "text/plain");
    assert.deepEqual(
      blocks.map(({ type, level, start, end }) => [type, level, text.slice(start, end)]),
      [
        ["heading", 1, "HOUSE RULES"],
        ["heading", 2, "OPENING HOURS"],
        ["paragraph", 0, "We open at nine."],
        ["heading", 2, "ÖFFNUNG"],
        ["item", 0, "um neun"],
        ["paragraph", 0, "GB 12"],
        ["paragraph", 0, "CALL 999!"],
        ["paragraph", 0, "営業時間\n九時から"],
      ],
    );
  });

  test("a table of plain text may have more rows than a call has arguments", () => {
    const { blocks } = partsOf("Quay | 3 May\n".repeat(200_000), "text/plain");
    assert.equal(blocks.filter(({ type }) => type === "row").length, 200_000);
  });

  test("a word of a million letters is parted, not lost", () => {
    const long = partsOf("😀".repeat(50_000), "text/plain");
    assert.equal(long.chunks.map((chunk) => chunk.text).join(""), long.text);
    assert.ok(long.chunks.every((chunk) => chunk.text.isWellFormed()));
  });
});

describe("charsets", () => {
  // What iconv makes of the same sentences.
  const sentences: [string, string][] = JSON.parse(
    readFileSync(new URL("../fixtures/charsets.json", import.meta.url), "utf8"),
  ).map(({ text, base64 }: { text: string; base64: string }) => [text, base64]);
  for (const [text, base64] of sentences)
    test(text.slice(0, 20), () => assert.equal(decode(Buffer.from(base64, "base64"), "a"), text));

  test("UTF-8 with a damaged byte is no old charset", () => {
    const bytes = Buffer.concat([Buffer.from("öäü".repeat(10)), Buffer.of(0xff), Buffer.from("öäü")]);
    assert.throws(() => decode(bytes, "a"), /UTF-8 except for 1 character/);
  });
});
