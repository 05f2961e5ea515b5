// Documents as passages and as statements: what stands under which heading, where it stands in the document, and that nothing is lost.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { wordsOf } from "../../src/base/text.ts";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import { headingOf } from "../../src/study/heading.ts";
import { type Passage, passagesOf, statementsOf } from "../../src/study/passages.ts";
import { documentOf } from "../helpers/study.ts";

type MediaType = SnapshotDocument["media_type"];
const passages = (text: string, type?: MediaType, name?: string): Passage[] =>
  passagesOf([documentOf(text, type, name)]);
const statements = (text: string, type?: MediaType): string[] => statementsOf([documentOf(text, type)]);
const unitsIn = (made: readonly Passage[]) => made.flatMap(({ units }) => units);

const lamps = [
  "# Lamps",
  "",
  "Lamps are made",
  "in Umbport.",
  "",
  "## Lumo",
  "",
  "- Weight: 7 kg",
  "- Price: 40 euros",
  "",
  "| Part | Code |",
  "| --- | --- |",
  "| Bulb | B-7 |",
  "| Foot | |",
  "",
  "```sh",
  "lumo --on",
  "```",
  "",
  "## Empty",
  "",
  "# Contact",
].join("\n");

test("statements: paragraphs, lines, rows and code, each under its headings", () => {
  assert.deepEqual(statements(lamps), [
    "Lamps\nLamps are made in Umbport.",
    "Lamps\nLumo\nWeight: 7 kg",
    "Lamps\nLumo\nPrice: 40 euros",
    "Lamps\nLumo\nPart: Bulb; Code: B-7",
    "Lamps\nLumo\nPart: Foot",
    "Lamps\nLumo\nlumo --on",
  ]);
});

test("before a passage: the prose above it with its headings, without tables, code, the title or what is too far above", () => {
  const filling = (word: string, n: number): string => `${Array.from({ length: n }, () => word).join(" ")}.`;
  const made = passages(
    [
      "# Lamps",
      filling("far", 80),
      `Ada came in May. ${filling("near", 40)}`,
      "## Work",
      `She mends lamps, ${filling("daily", 30)}`,
      "| Part | Code |\n| --- | --- |\n| Bulb | B-7 |\n| Foot | F-1 |",
      "## Room",
      "```sh\nlumo --on\n```",
      "Hers is 164.",
    ].join("\n\n"),
  );
  const told = made.map(({ text, before }) => [text.split(" ")[0], before]);
  assert.deepEqual(told.slice(0, 3), [
    ["far", ""],
    ["Ada", filling("far", 80)],
    ["She", `Ada came in May. ${filling("near", 40)}`],
  ]);
  const last = made.at(-1)!;
  assert.ok(last.text.includes("Hers is 164."));
  assert.equal(last.before, `Ada came in May. ${filling("near", 40)}\nWork\nShe mends lamps, ${filling("daily", 30)}`);
});

test("before a passage: a heading whose first passage is a table still stands above the prose after the table", () => {
  const row = (n: number): string => `| part number ${n} of the catalogue | ${n} |`;
  const rows = Array.from({ length: 12 }, (_, at) => row(at)).join("\n");
  const table = `| Part | Code |\n| --- | --- |\n${rows}`;
  const made = passages(`# Lamps\n\nOf lamps.\n\n## Lumo\n\n${table}\n\nIt weighs 7 kg.\n\n## Vela\n\nSo does this.\n`);
  assert.ok(made.at(-1)!.text.startsWith("So does this."));
  assert.equal(made.at(-1)!.before, "Of lamps.\nLumo\nIt weighs 7 kg.");
});

test("statements: a row of CSV with what its columns are called", () => {
  assert.deepEqual(statements("Product,Price (EUR),Weight (kg)\nLumo,331,7.2\nVela,367,\n", "text/csv"), [
    "Product: Lumo; Price (EUR): 331; Weight (kg): 7.2",
    "Product: Vela; Price (EUR): 367",
  ]);
});

test("statements: a table of nothing but its first row is not lost", () => {
  assert.deepEqual(statements("| Open | from nine |\n| --- | --- |\n"), ["Open; from nine"]);
});

test("statements: a title of plain text is a heading; alone it is what the text says", () => {
  assert.deepEqual(statements("Opening hours\n\nFrom nine to five.\n", "text/plain"), [
    "Opening hours\nFrom nine to five.",
  ]);
  assert.deepEqual(statements("The office closes at five", "text/plain"), ["The office closes at five"]);
  assert.deepEqual(statements(" \n\n \n", "text/plain"), []);
});

test("statements: long paragraphs are cut between words, and nothing is lost", () => {
  const words = Array.from({ length: 400 }, (_, at) => `word${at}`).join(" ");
  const made = statements(`# Head\n\n${words}\n`);
  assert.ok(made.length > 3 && made.every((one) => /^Head\n.{1,600}$/.test(one)));
  assert.equal(made.map((one) => one.slice("Head\n".length)).join(" "), words);
  assert.equal(statements(`${"x".repeat(1500)}.`, "text/plain").join(""), `${"x".repeat(1500)}.`);
});

test("a passage is one section's: its title, its headings, and its units with their kinds", () => {
  const [first, second, ...rest] = passages(lamps);
  assert.deepEqual(rest, []);
  assert.deepEqual([first!.title, first!.path, first!.text], ["Lamps", [], "Lamps are made in Umbport."]);
  assert.equal(headingOf(second!), "Lamps > Lumo");
  assert.deepEqual(
    second!.units.map(({ type, text }) => [type, text]),
    [
      ["pair", "Weight: 7 kg"],
      ["pair", "Price: 40 euros"],
      ["row", "Bulb | B-7"],
      ["row", "Foot | "],
      ["code", "lumo --on"],
    ],
  );
  const [weight, , bulb] = second!.units;
  assert.ok(weight?.type === "pair" && weight.key === "Weight" && weight.value === "7 kg");
  assert.ok(bulb?.type === "row");
  assert.deepEqual(
    [bulb.header, bulb.cells],
    [
      ["Part", "Code"],
      ["Bulb", "B-7"],
    ],
  );
});

test("headings above, from the outermost in; one of the same level ends the one before", () => {
  const text =
    "# Zoo\n\n## Birds\n\n### Owls\n\nThey hunt at night.\n\n### Gulls\n\nThey steal chips.\n\n## Fish\n\nThey swim.\n";
  assert.deepEqual(passages(text).map(headingOf), ["Zoo > Birds > Owls", "Zoo > Birds > Gulls", "Zoo > Fish"]);
});

test("a document without a heading at its head goes by its file's name", () => {
  assert.equal(passages("They swim.\n", "text/markdown", "fish_and_chips.md")[0]!.title, "Fish and chips");
  const late = passages("They swim.\n\n## Birds\n\nThey fly.\n", "text/markdown", "zoo.md");
  assert.deepEqual(late.map(headingOf), ["Zoo", "Zoo > Birds"]);
});

test("a short line above the first marked heading is not the title of what stands below", () => {
  const made = passages("Download the book\n\n## Lamps\n\nLamps are made in Umbport.\n", undefined, "sect.lamps.html");
  assert.deepEqual(
    made.map(({ title, path }) => [title, path]),
    [
      ["Sect.lamps", []],
      ["Sect.lamps", ["Lamps"]],
    ],
  );
});

test("plain text: a short line without an end sign is a heading, a pair and a sentence are none", () => {
  const text = "Rules of the house\n\nKitchen\n\nWash up at once.\n\nQuiet from: 22:00\n\nShoes stay outside.\n";
  const made = passages(text, "text/plain");
  assert.deepEqual(made.map(headingOf), ["Rules of the house > Kitchen"]);
  assert.deepEqual(
    made[0]!.units.map(({ type, text }) => [type, text]),
    [
      ["sentence", "Wash up at once."],
      ["pair", "Quiet from: 22:00"],
      ["sentence", "Shoes stay outside."],
    ],
  );
});

test("of short lines in a row without an end sign, those that head nothing are what the text says", () => {
  const text =
    "Depot\n\nDrivers report to gate 4\n\nLate parcels go to the Harbour office\n\nRefunds take 12 days\n\nThe rest is sent by post.\n";
  assert.deepEqual(pathsOf(text, "text/plain"), [
    ["", "Drivers report to gate 4\nLate parcels go to the Harbour office"],
    ["Refunds take 12 days", "The rest is sent by post."],
  ]);
  assert.deepEqual(pathsOf(`# Rules\n\n${text}`), [
    ["", "Depot\nDrivers report to gate 4\nLate parcels go to the Harbour office"],
    ["Refunds take 12 days", "The rest is sent by post."],
  ]);
  assert.deepEqual(pathsOf("# Rules\n\n**Pay at once**\n\n**Quay**\n\nOpen all day.\n"), [
    ["", "Pay at once"],
    ["Quay", "Open all day."],
  ]);
  // Thai has neither full stops nor spaces between words.
  const thai = ["พนักงานมีสิทธิลาพักร้อนปีละสิบสองวันโดยได้รับค่าจ้างเต็ม", "การขอลาต้องแจ้งหัวหน้าล่วงหน้าห้าวันทำการ"];
  assert.deepEqual(pathsOf(thai.join("\n\n"), "text/plain"), [["", thai.join("\n")]]);
});

test("a quotation that goes on over lines is read without its marks", () => {
  const text = "> The lamp is\n> *red* and\n> burns > 5\n> hours. Oil it.\n\n1. > Weight: 7 kg\n   > Price: 40 euros\n";
  const units = unitsIn(passages(text));
  assert.deepEqual(
    units.map(({ type, text: said, start, end }) => [type, said, text.slice(start, end).trim()]),
    [
      ["sentence", "The lamp is red and burns > 5 hours.", "The lamp is\n> *red* and\n> burns > 5\n> hours."],
      ["sentence", "Oil it.", "Oil it."],
      ["pair", "Weight: 7 kg", "Weight: 7 kg"],
      ["pair", "Price: 40 euros", "> Price: 40 euros"],
    ],
  );
  assert.equal(unitsIn(passages("```\n> 1\n> 2\n```\n"))[0]!.text, "> 1\n> 2");
});

test("the columns of a table are named once in a passage, and again in the next", () => {
  // Seven words a row: six rows are 42 words, more than which a passage does not take on.
  const rows = Array.from({ length: 12 }, (_, at) => `| Boat ${at} | ${at} metres | red and white |`);
  const made = passages(["# Boats", "", "| Boat | Length | Paint |", "|---|---|---|", ...rows, ""].join("\n"));
  assert.ok(made.length >= 2);
  for (const { text } of made) assert.equal(text.split("Boat | Length | Paint").length, 2, text);
  const cells = unitsIn(made).flatMap((unit) => (unit.type === "row" ? [unit.cells[0]] : []));
  assert.deepEqual(
    cells,
    Array.from({ length: 12 }, (_, at) => `Boat ${at}`),
  );
});

test("statements: a first row that is like the rows below is a row, and years or rising steps name columns", () => {
  const first = (rows: string) => statements(rows, "text/csv")[0];
  assert.equal(first("Meter test,45\nReading,12.50\nTurning on,70\n"), "Meter test; 45");
  assert.equal(first("Camera survey,£85,20 %\nSeptic tank,£140,30 %\n"), "Camera survey; £85; 20 %");
  assert.equal(first("Region,2024,2025\nNorth,12,14\nSouth,9,7\n"), "Region: North; 2024: 12; 2025: 14");
  assert.equal(
    first("Size,10,50,100\nA5,4.00,3.50,3.00\nA4,6.00,5.10,4.40\n"),
    "Size: A5; 10: 4.00; 50: 3.50; 100: 3.00",
  );
  assert.equal(first("Item,5 kg\nFlour,4.20\nOats,3.10\n"), "Item: Flour; 5 kg: 4.20");
});

test("tables that follow each other keep their own columns", () => {
  const text = "# T\n\n| Cat | Age |\n|---|---|\n| Mia | 4 |\n\n| Dog | Weight |\n|---|---|\n| Rex | 30 kg |\n";
  const rows = unitsIn(passages(text)).flatMap((unit) => (unit.type === "row" ? [[unit.header, unit.cells]] : []));
  assert.deepEqual(rows, [
    [
      ["Cat", "Age"],
      ["Mia", "4"],
    ],
    [
      ["Dog", "Weight"],
      ["Rex", "30 kg"],
    ],
  ]);
});

test("a passage has a language of its own; what is too short to tell has the document's usual one", () => {
  const english = "The boats are painted every spring by volunteers who bring their own brushes and ladders.";
  const german = "Die Boote werden in jedem Frühjahr von Freiwilligen gestrichen, die ihre eigenen Pinsel mitbringen.";
  const spanish = "Los barcos se pintan cada primavera con la ayuda de voluntarios que traen sus propias brochas.";
  const text = `# Boats\n\n${english}\n\n## Deutsch\n\n${german}\n\n## Español\n\n${spanish}\n\n## More\n\n${english}\n\n## Key\n\nOle: 12\n`;
  assert.deepEqual(
    passages(text).map(({ language }) => language),
    ["en", "de", "es", "en", "en"],
  );
  assert.equal(passages("Ole: 12\n")[0]!.language, null);
});

test("a place in the document holds the words of its unit, marks and all", () => {
  const text =
    "# Shop\n\nThe shop was **founded** in 1931. A \\*rye\\* [loaf](https://x.example/p) costs ![price](p.png) [4.20 euros](https://x.example/q). Ask *Ada*! She is in.\n\n- First, knock.\n- Then wait: **two** minutes\n\n| Loaf | Price |\n|---|---|\n| Rye | 4.20 |\n";
  const made = passages(text);
  const places = unitsIn(made).map(({ start, end, text: said }) => [said, text.slice(start, end).trim()]);
  assert.deepEqual(places, [
    ["The shop was founded in 1931.", "The shop was **founded** in 1931."],
    [
      "A *rye* loaf costs 4.20 euros.",
      "A \\*rye\\* [loaf](https://x.example/p) costs ![price](p.png) [4.20 euros](https://x.example/q).",
    ],
    ["Ask Ada!", "Ask *Ada*!"],
    ["She is in.", "She is in."],
    ["First, knock.", "First, knock."],
    ["Then wait: two minutes", "Then wait: **two** minutes"],
    ["Rye | 4.20", "| Rye | 4.20 |"],
  ]);
});

test("a paragraph that is too long is parted between sentences; a sentence never is", () => {
  const sentence = (at: number): string => `Sentence ${at} tells of ${Array(16).fill("things").join(" ")}.`;
  const long = Array.from({ length: 10 }, (_, at) => sentence(at));
  const endless = `All ${Array(120).fill("words").join(" ")}.`;
  const made = passages(`# Head\n\n${long.join(" ")}\n\n${endless}\n`);
  assert.deepEqual(
    unitsIn(made).map(({ text }) => text),
    [...long, endless],
  );
  // Twenty words a sentence: three fit into the seventy of a passage.
  assert.deepEqual(
    made.map(({ units }) => units.length),
    [3, 3, 3, 1, 1],
  );
});

test("paragraphs in a script without spaces are joined by their words, up to the size of a passage", () => {
  // Nine words a paragraph.
  const paragraph = "公司的员工每年有十五天的年假。";
  const made = passages(Array(12).fill(paragraph).join("\n\n"), "text/plain");
  assert.deepEqual(
    made.map(({ units }) => units.length),
    [4, 4, 4],
  );
});

test("a snapshot of an older version, without blocks, is read by its blank lines", () => {
  const { blocks: _, ...document } = documentOf("They swim.\nAll day.\n\nThey eat chips.\n", "text/plain");
  assert.deepEqual(
    unitsIn(passagesOf([document])).map(({ text }) => text),
    ["They swim.", "All day.", "They eat chips."],
  );
});

test("every passage has a name of its own, and says of which document it is", () => {
  const documents = ["a", "b"].map((name) => documentOf("# H\n\nOne.\n\n## I\n\nTwo.\n", "text/markdown", name));
  const made = passagesOf(documents);
  assert.equal(new Set(made.map(({ id }) => id)).size, 4);
  assert.deepEqual(
    made.map(({ document }) => document),
    [documents[0]!.id, documents[0]!.id, documents[1]!.id, documents[1]!.id],
  );
});

const piece = fc.constantFrom(
  "The mill opened in 1911.",
  "# Heading\n\n",
  "## Dr. No\n\n",
  "| a | b |\n|---|---|\n| x | 1 |\n",
  "Key: value\n",
  "- item\n",
  "\n\n",
  "It costs 5 euros, and it was built by",
  "**bold",
  "\u0000",
  "ünï",
  "a,b\n1,2\n",
  '"quoted',
  "1.",
  ";;",
  "😀",
);
const types = fc.constantFrom<MediaType>("text/plain", "text/markdown", "text/csv");

test("no document breaks the reading: places lie in it, units in their passage, and again it is read the same", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(piece, fc.string()), { maxLength: 12 }), types, (parts, type) => {
      let document: SnapshotDocument;
      try {
        document = documentOf(parts.join(" "), type);
      } catch {
        return; // Not CSV: it never becomes a snapshot.
      }
      const made = passagesOf([document]);
      assert.deepEqual(passagesOf([document]), made);
      for (const { units, text, start, end } of made) {
        assert.ok(units.length > 0);
        for (const unit of units) {
          assert.equal(text.slice(unit.at, unit.at + unit.text.length), unit.text);
          assert.ok(unit.start >= start && unit.start <= unit.end && unit.end <= end && end <= document.text.length);
        }
      }
    }),
    { numRuns: 200 },
  );
});

const word = fc.constantFrom("mill", "river", "gate", "Ada", "Tarnby", "rope", "1911", "42", "boot");
const sentence = fc.array(word, { minLength: 2, maxLength: 12 }).map((words) => `The ${words.join(" ")} rests.`);
const paragraph = fc.array(sentence, { minLength: 1, maxLength: 9 }).map((sentences) => sentences.join(" "));

test("nothing of a text is lost, and nothing said twice", () => {
  fc.assert(
    fc.property(fc.array(paragraph, { minLength: 1, maxLength: 6 }), types, (paragraphs, type) => {
      if (type === "text/csv") return;
      const made = passages(paragraphs.join("\n\n"), type);
      assert.deepEqual(
        made.flatMap(({ text }) => wordsOf(text)),
        wordsOf(paragraphs.join(" ")),
      );
    }),
    { numRuns: 100 },
  );
});

const rowsIn = (text: string): { header: string[]; cells: string[] }[] =>
  unitsIn(passages(text, "text/plain")).flatMap((unit) =>
    unit.type === "row" ? [{ header: unit.header, cells: unit.cells }] : [],
  );

test("plain text: tables of bars, tabs, leader dots and aligned spaces have rows, and column names where something tells them", () => {
  const header = ["Boat", "Per night", "Per week"];
  const cells = [
    ["Skiff", "£9", "£50"],
    ["Lugger", "£14", "£80"],
  ];
  const aligned = [header, ...cells].map(([a, b, c]) => `${a!.padEnd(10)}${b!.padEnd(12)}${c}`).join("\n");
  for (const text of [
    [header, ...cells].map((row) => row.join(" | ")).join("\n"),
    [header, ...cells].map((row) => row.join("\t")).join("\n"),
    aligned,
    `+---+---+\n${[header, ...cells].map((row) => `| ${row.join(" | ")} |`).join("\n+---+---+\n")}\n+---+---+`,
  ])
    assert.deepEqual(
      rowsIn(`The berths are let.\n\n${text}\n\nPay at once.\n`),
      cells.map((row) => ({ header, cells: row })),
      text,
    );
  assert.deepEqual(rowsIn("Harbour master ....... 771\nTow boat .......... 772\n"), [
    { header: [], cells: ["Harbour master", "771"] },
    { header: [], cells: ["Tow boat", "772"] },
  ]);
  assert.deepEqual(rowsIn("Monday    8 to 5\nTuesday   8 to 6\nSunday    closed\n")[0], {
    header: [],
    cells: ["Monday", "8 to 5"],
  });
});

test("plain text: a cell that goes on below is one cell, and a row may lack its last cells", () => {
  const text = "WATCH   Something may go\n        wrong at sea.\nALERT   A boat is lost.\nALL OUT Everybody sails.\n";
  assert.deepEqual(rowsIn(text.replace("ALL OUT", "CRISIS ")), [
    { header: [], cells: ["WATCH", "Something may go wrong at sea."] },
    { header: [], cells: ["ALERT", "A boat is lost."] },
    { header: [], cells: ["CRISIS", "Everybody sails."] },
  ]);
  const short = "Quay     3 May   by day\nMole     5 May   by night\nSlipway  none this year\n";
  assert.deepEqual(rowsIn(short)[2]!.cells, ["Slipway", "none this year"]);
});

test("plain text: prose with wide spaces, numbered lists, keys and a line of links are no tables", () => {
  for (const text of [
    "The gate is  shut on Sunday.\nThe key is with  the warden.  Ask\nhim  before five.\n",
    "1.  Bring boots\n2.  Bring a torch\n3.  Bring water\n",
    "Open:      all day\nCall:      771\nPay:       at once\n",
    "Home | Boats | Berths\n",
  ])
    assert.deepEqual(rowsIn(text), [], text);
});

const pathsOf = (text: string, type?: MediaType): [string, string][] =>
  passages(text, type).map(({ path, text: said }) => [path.join(" > "), said]);

test("a bold line of Markdown is the title of the lines below it, and of all up to the next title before a blank line", () => {
  const text =
    "# Shops\n\n**Quay**\n- Manager: Ann Bell\n\n**Mole:**\nOpen all day.\n\nAll shops close at Easter.\n\n**How do I pay?**\n\nIn cash.\n\nCards are not taken.\n";
  assert.deepEqual(pathsOf(text), [
    ["Quay", "Manager: Ann Bell"],
    ["Mole", "Open all day."],
    ["", "All shops close at Easter."],
    ["How do I pay?", "In cash.\nCards are not taken."],
  ]);
});

test("bold words that begin a paragraph are its title; of three and more each reaches to the next", () => {
  assert.deepEqual(pathsOf("# Rules\n\n**Pets.** No dogs.\n\nPay at once.\n"), [
    ["Pets", "No dogs."],
    ["", "Pay at once."],
  ]);
  assert.deepEqual(pathsOf("# Rules\n\n**Pets.** No dogs.\n\nNo cats.\n\n**Cars.** None.\n\n**Boats.** Two.\n"), [
    ["Pets", "No dogs.\nNo cats."],
    ["Cars", "None."],
    ["Boats", "Two."],
  ]);
  assert.deepEqual(pathsOf("# Rules\n\n**Never** swim here.\n\n**Note**: it is cold.\n"), [
    ["", "Never swim here.\nNote: it is cold."],
  ]);
});

test("plain text: a numbered title on its own line heads its section, and lines that end early are kept apart", () => {
  const text =
    "1. Kitchens\nWhoever cooks more than forty meals a day needs a\ngrease trap, which is emptied every eight weeks.\n\n2. Pools\nLet the water stand for ten days and then empty it\nslowly.\n\nAnn Bell\nHarbour Office\n";
  assert.deepEqual(pathsOf(text, "text/plain"), [
    ["Kitchens", "Whoever cooks more than forty meals a day needs a grease trap, which is emptied every eight weeks."],
    ["Pools", "Let the water stand for ten days and then empty it slowly.\nAnn Bell\nHarbour Office"],
  ]);
});

test("plain text: a line between signs is a heading, and one heading of several is not the title of all", () => {
  const text = "=== 1. Ann Bell ===\n\nThe bread was hard.\n\n=== 2. Bo Carr ===\n\nThe milk was sour.\n";
  assert.deepEqual(passages(text, "text/plain", "letters_may.txt").map(headingOf), [
    "Letters may > 1. Ann Bell",
    "Letters may > 2. Bo Carr",
  ]);
});

test("a sum of money in the first row names no column", () => {
  const first = unitsIn(
    passages("| Smallest bill | £250 |\n|---|---|\n| Deposit | a third |\n| Collected on | the 3rd |\n"),
  )[0]!;
  assert.deepEqual(first.type === "row" && [first.header, first.cells], [[], ["Smallest bill", "£250"]]);
});
