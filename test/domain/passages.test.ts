// Documents as passages: what each says by itself, in the formats that a snapshot holds.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import { passagesOf } from "../../src/domain/alignments/passages.ts";

const of = (media_type: SnapshotDocument["media_type"], text: string): string[] =>
  passagesOf({ id: "d", name: "d", media_type, text });

test("paragraphs, lines, rows and code, each under its headings", () => {
  const text = [
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
  ];
  assert.deepEqual(of("text/markdown", text.join("\n")), [
    "Lamps\nLamps are made in Umbport.",
    "Lamps\nLumo\nWeight: 7 kg",
    "Lamps\nLumo\nPrice: 40 euros",
    "Lamps\nLumo\nPart: Bulb; Code: B-7",
    "Lamps\nLumo\nPart: Foot",
    "Lamps\nLumo\nlumo --on",
    "Lamps\nEmpty",
    "Contact",
  ]);
});

test("a row of CSV with what its columns are called", () => {
  assert.deepEqual(of("text/csv", "Product,Price (EUR),Weight (kg)\nLumo,331,7.2\nVela,367,\n"), [
    "Product: Lumo; Price (EUR): 331; Weight (kg): 7.2",
    "Product: Vela; Price (EUR): 367",
  ]);
});

test("a table of nothing but its first row is not lost", () => {
  assert.deepEqual(of("text/markdown", "| Open | from nine |\n| --- | --- |\n"), ["Open; from nine"]);
});

test("plain text: a title is a heading; alone it is a passage", () => {
  assert.deepEqual(of("text/plain", "Opening hours\n\nFrom nine to five.\n"), ["Opening hours\nFrom nine to five."]);
  assert.deepEqual(of("text/plain", "The office closes at five"), ["The office closes at five"]);
  assert.deepEqual(of("text/plain", " \n\n \n"), []);
});

test("long paragraphs are cut between words, and nothing is lost", () => {
  const words = Array.from({ length: 400 }, (_, at) => `word${at}`).join(" ");
  const passages = of("text/markdown", `# Head\n\n${words}\n`);
  assert.ok(passages.length > 3 && passages.every((passage) => /^Head\n.{1,600}$/.test(passage)));
  assert.equal(passages.map((passage) => passage.slice("Head\n".length)).join(" "), words);
  assert.equal(of("text/plain", `${"x".repeat(1500)}.`).join(""), `${"x".repeat(1500)}.`);
});
