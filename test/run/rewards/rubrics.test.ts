// Rubrics as documents and cells of a data set hold them, and what is refused.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { SnapshotDocument } from "../../../src/contract/run-folder.ts";
import { essentialOf } from "../../../src/run/rewards/judged.ts";
import { rubricInCell, rubricOf } from "../../../src/run/rewards/rubrics.ts";
import { documentOf } from "../../helpers/study.ts";

const notes = documentOf("# Lamps\n\n- Orla weighs 3 kg.\n", "text/markdown", "notes.md");
const table = documentOf(
  'criterion,level\n"Names the form, and its number",essential\nIs polite,optional\nIs short,\n',
  "text/csv",
  "support.csv",
);
const list = documentOf(
  "# Rubric\n\n- Is short\n\n## Essential\n\n* Names the form\n1. Gives its number\n\n## Optional criteria\n\n- Is polite\n",
  "text/markdown",
  "tone.md",
);

test("a CSV document has a criterion a row, another one a criterion an item, of its heading's level", () => {
  const inTable = rubricOf([notes, table, list], "support");
  assert.equal(inTable.document, table);
  assert.deepEqual(inTable.criteria, [
    { text: "Names the form, and its number", level: "essential" },
    { text: "Is polite", level: "optional" },
    { text: "Is short", level: "important" },
  ]);
  assert.deepEqual(rubricOf([notes, table, list], "tone.md").criteria, [
    { text: "Is short", level: "important" },
    { text: "Names the form", level: "essential" },
    { text: "Gives its number", level: "essential" },
    { text: "Is polite", level: "optional" },
  ]);
});

test("a right answer surely meets what is essential, or everything where nothing is", () => {
  const { criteria } = rubricOf([table], "support");
  assert.deepEqual(essentialOf(criteria), ["Names the form, and its number"]);
  assert.deepEqual(essentialOf(criteria.slice(1)), ["Is polite", "Is short"]);
});

test("a cell of a data set is a JSON list of criteria", () => {
  assert.deepEqual(rubricInCell('[{"text":"Says 5","level":"essential"},{"text":"Is short","weight":2}]', "row 1"), [
    { text: "Says 5", level: "essential" },
    { text: "Is short", level: "important" },
  ]);
  const refused: [string, RegExp][] = [
    ["", /row 1: its rubric must be a JSON list/],
    ["[]", /JSON list/],
    ["says 5", /JSON list/],
    ["[null]", /row 1: a criterion of its rubric has no text/],
    ['[{"text":"a","level":"vital"}]', /row 1: the level must be one of essential, important, optional/],
  ];
  for (const [cell, message] of refused) assert.throws(() => rubricInCell(cell, "row 1"), { message });
});

test("what is no rubric is refused with the field", () => {
  const csv = (text: string) => documentOf(text, "text/csv", "support.csv");
  const refused: [SnapshotDocument[], string, RegExp][] = [
    [[notes], "support", /must name a document of the project: notes\.md/],
    [
      [table, documentOf("- a\n", "text/plain", "support.txt")],
      "support",
      /several documents: support\.csv, support\.txt/,
    ],
    [[documentOf("Nothing here.\n", "text/plain", "support.txt")], "support", /has 0 criteria/],
    [[csv("statement\nIs polite\n")], "support", /row 1 of support\.csv has no criterion/],
    [[csv("criterion,level\nIs polite,very\n")], "support", /row 1 of support\.csv: the level must be one of/],
    [[csv("criterion,level\nIs, polite,optional\n")], "support", /cannot be read as CSV/],
  ];
  for (const [documents, ref, message] of refused)
    assert.throws(
      () => rubricOf(documents, ref),
      (error: Error) => {
        assert.match(error.message, /^config\.reward\.rubric_ref: /);
        assert.match(error.message, message);
        return true;
      },
    );
});
