// A block's words without its marks, and a row's cells.
import assert from "node:assert/strict";
import { test } from "node:test";
import { cellsOf, delimiterOf, plainText, withoutAddresses } from "../../src/study/inline.ts";

test("marks of Markdown go, their words stay, on one line", () => {
  const cases: [string, string][] = [
    ["The **old**\nmill", "The old mill"],
    ["see [the plan](https://x.example/a_b)", "see the plan"],
    ["run `make all` & wait", "run make all & wait"],
    ["5 \\* 3 is 15", "5 * 3 is 15"],
    ["Moe &amp; Sons", "Moe & Sons"],
    ["*a* _b_ **c**", "a b c"],
    ["snake_case_name stays", "snake_case_name stays"],
    ["no marks at all", "no marks at all"],
    ["> 5 kg & *more*", "> 5 kg & more"],
    ["1. Scope & terms", "1. Scope & terms"],
  ];
  for (const [raw, plain] of cases) assert.equal(plainText(raw, "text/markdown"), plain);
  assert.equal(plainText("5 * 3 * 2\n  is **30**", "text/plain"), "5 * 3 * 2 is **30**");
});

test("what is not read of links and pictures is hidden, and every other character keeps its place", () => {
  const cases: [raw: string, hidden: string[]][] = [
    ["A [rye](https://x.example/p) loaf", ["](https://x.example/p)"]],
    ["A [*rye*](<a b> 'c d') loaf", ["](<a b> 'c d')"]],
    ["A ![loaf](a.png) and [![rye](b.png)](c_(d)).", ["![loaf](a.png)", "![rye](b.png)](c_(d))"]],
    ["A [](a) and [ale](b)", ["[](a)", "](b)"]],
    ["> 5 [kg](a), f(x)] (y)", ["](a)"]],
    ["no [link]", []],
  ];
  for (const [raw, hidden] of cases) {
    const left = hidden.reduce((text, part) => text.replace(part, ".".repeat(part.length)), raw);
    assert.equal(withoutAddresses(raw), left);
  }
});

test("cells of Markdown and of CSV, with what their marks guard", () => {
  assert.deepEqual(cellsOf("| Rye | **4.20** | a \\| b |", false, "|"), ["Rye", "4.20", "a | b"]);
  assert.deepEqual(cellsOf("| Age | > 65 years* | - 10 °C * | > 5 & < 10 | # 5 & *6* |", false, "|"), [
    "Age",
    "> 65 years*",
    "- 10 °C *",
    "> 5 & < 10",
    "# 5 & 6",
  ]);
  assert.deepEqual(cellsOf("Rye | 4.20", false, "|"), ["Rye", "4.20"]);
  assert.deepEqual(cellsOf('"Rye, dark",4.20,"say ""hm"""', true, ","), ["Rye, dark", "4.20", 'say "hm"']);
  assert.deepEqual(cellsOf("Roggen;4,20;", true, ";"), ["Roggen", "4,20", ""]);
});

test("a table's delimiter is the mark that its first line has most of", () => {
  assert.equal(delimiterOf("a;b;c\n1,2;3,4;5,6\n"), ";");
  assert.equal(delimiterOf("a\tb\n"), "\t");
  assert.equal(delimiterOf("a,b;c,d\n"), ",");
  assert.equal(delimiterOf("alone"), ",");
});
