// Coverage: which passages got rows, whose words they are in, and why there are none.
import assert from "node:assert/strict";
import { test } from "node:test";
import { coverageOf } from "../../src/study/coverage.ts";
import { passagesOf } from "../../src/study/passages.ts";
import type { StudyRow } from "../../src/study/row.ts";
import { documentOf } from "../helpers/study.ts";

const documents = [
  documentOf(
    "# Boats\n\n## Hire\n\nA day costs 5 euros.\n\n## Code\n\n```\nrow(1)\n```\n\n## Care\n\nDry them.\n",
    "text/markdown",
    "boats.md",
  ),
  documentOf("\n", "text/plain", "empty.txt"),
  documentOf("# Nets\n\nThey are green.\n", "text/markdown", "nets.md"),
];
const passages = passagesOf(documents);
const row = (kind: string, target: string): StudyRow => ({ kind, target, stage: 0, source: null, messages: [] });

test("rows are counted by their passage; recall alone covers nothing, and code is no content", () => {
  const rows = [
    row("keywords", "0.0:7"),
    row("writer", "0.0:7"),
    row("statement", "0.0=0"),
    row("recall", "0.2"),
    row("replay", "replay"),
  ];
  const { documents: told, ...sums } = coverageOf(documents, passages, rows);
  assert.deepEqual(sums, { content: 3, covered: 1, written: 1 });
  assert.deepEqual(
    told.map(({ document_id, name, passages: own }) => [
      document_id,
      name,
      own.map(({ heading, rows, written, none }) => [heading, rows, written, none]),
    ]),
    [
      [
        "document_boats.md",
        "boats.md",
        [
          ["Boats > Hire", 3, 1, null],
          ["Boats > Code", 0, 0, "code"],
          ["Boats > Care", 0, 0, "nothing_told"],
        ],
      ],
      ["document_empty.txt", "empty.txt", []],
      ["document_nets.md", "nets.md", [["Nets", 0, 0, "nothing_told"]]],
    ],
  );
});

test("a passage's place holds its text", () => {
  const [hire] = coverageOf(documents, passages, []).documents[0]!.passages;
  assert.equal(documents[0]!.text.slice(hire!.start, hire!.end), "A day costs 5 euros.");
});

test("passages of the tenth document are not those of the first", () => {
  const many = Array.from({ length: 12 }, (_, at) =>
    documentOf(`# D${at}\n\nIt is ${at}.\n`, "text/markdown", `${at}.md`),
  );
  const { documents: told } = coverageOf(many, passagesOf(many), [row("keywords", "1.0:6"), row("keywords", "10.0:6")]);
  assert.deepEqual(
    told.map(({ passages: [own] }) => own!.rows),
    [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0],
  );
});
