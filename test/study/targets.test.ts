// What is to be known of a document: spans, cells, the keys of rows, and what a document itself asks.
import assert from "node:assert/strict";
import { test } from "node:test";
import { worthAsking } from "../../src/study/spans.ts";
import { namesOf, saidOf, studyTargets, targetsOf } from "../../src/study/targets.ts";
import { documentOf, targetsIn } from "../helpers/study.ts";

const told = (text: string, ...kinds: string[]): [before: string, answer: string, after: string][] =>
  targetsIn([documentOf(text)])
    .targets.filter(({ kind }) => kinds.includes(kind))
    .map(({ before, answer, after }) => [before, answer, after]);

test("a span parts what says it in two, and knows what was said just before", () => {
  const document = documentOf("# Oven\n\nThe oven is old. It holds 240 litres of dough.\n\nIt was built in 1931.\n");
  const { passages, lexicon } = targetsIn([document]);
  const targets = passages.flatMap((passage) =>
    targetsOf(
      passage,
      worthAsking(passage, [], () => 100, lexicon.tells),
    ),
  );
  const [litres] = targets.filter(({ kind }) => kind === "number");
  assert.deepEqual(
    [litres!.earlier, litres!.before, litres!.answer, litres!.after],
    ["The oven is old.", "It holds ", "240 litres", " of dough."],
  );
  assert.equal(document.text.slice(litres!.place.start, litres!.place.end).trim(), "It holds 240 litres of dough.");
  // Another paragraph goes on from nothing.
  assert.deepEqual(
    targets.filter(({ kind }) => kind === "time").map(({ earlier }) => earlier),
    [""],
  );
});

const clausesIn = (text: string): string[] =>
  targetsIn([documentOf(text)])
    .targets.filter(({ kind }) => kind === "clause")
    .map(({ answer }) => answer);

test("a sentence is asked for as a whole, since half of one says something else; a long one is parted at its semicolons", () => {
  const mill =
    "It was built in Tarnby by Ada Lund in 1931, when the mill still stood by the river, and has been lit every morning since, but for one winter.";
  assert.deepEqual(clausesIn(`# Oven\n\n${mill} It holds 240 litres; that is a lot.\n`), [
    mill,
    "It holds 240 litres; that is a lot.",
  ]);
  const parts = [
    "The oven is lit at four in the morning by whoever has the early shift that week, with dry wood from the shed and never with coal or peat, and is fed every half hour until the stones are white",
    "whoever comes second puts the loaves in and rings the bell at the gate of the yard.",
  ];
  assert.deepEqual(clausesIn(`# Oven\n\n${parts.join("; ")}\n`), parts);
});

test("a clause knows what in it is worth asking for", () => {
  const [oven] = targetsIn([documentOf("# Oven\n\nThe oven holds 240 litres of dough.\n")]).targets;
  assert.deepEqual(
    oven!.parts!.map(({ start, end }) => oven!.passage.text.slice(start, end)),
    ["240 litres"],
  );
});

test("a line of a table of contents is a heading that stands elsewhere: nothing is asked of it", () => {
  const contents = "# Oven\n\n- 1. How the oven is lit\n- 2. Cleaning\n\n";
  const text = `${contents}## 1. How the oven is lit\n\nIt is lit at four with dry wood.\n\n## 2. Cleaning\n\nIt is swept on Sundays.\n`;
  assert.deepEqual(clausesIn(text), ["It is lit at four with dry wood.", "It is swept on Sundays."]);
});

test("a salutation states nothing", () => {
  const letter = "# Oven\n\nDear members, dear friends of the oven,\n\nit is lit again from Monday on.\n";
  assert.deepEqual(clausesIn(letter), ["it is lit again from Monday on."]);
  const price = "# Oven\n\nMembers of the club pay 25 euro for each day of the course,\n\nall others pay 40 euro.\n";
  assert.equal(clausesIn(price).length, 2);
  assert.deepEqual(clausesIn("# Oven\n\n- it is never left open at night,\n- it is swept once a week.\n"), [
    "it is never left open at night,",
    "it is swept once a week.",
  ]);
});

test("an item is said with the words that introduce its list, and these are not asked for by themselves", () => {
  const list =
    "# Oven\n\nWhoever leaves last checks that:\n\n- the oven door is shut\n- all the lights are out\n\nThen it is time to go home.\n";
  const { targets } = targetsIn([documentOf(list)]);
  assert.deepEqual(targets.map(saidOf), [
    "Whoever leaves last checks that: the oven door is shut",
    "Whoever leaves last checks that: all the lights are out",
    "Then it is time to go home.",
  ]);
  const long = "Whoever leaves last, and that may be anybody who has a key of the yard, checks that:";
  assert.deepEqual(
    targetsIn([documentOf(list.replace("Whoever leaves last checks that:", long))]).targets.map(saidOf),
    [
      "the oven door is shut (Whoever leaves last, and that may be anybody who has a key of the yard, checks that)",
      "all the lights are out (Whoever leaves last, and that may be anybody who has a key of the yard, checks that)",
      "Then it is time to go home.",
    ],
  );
});

test("a short sentence that a writer asks about states something", () => {
  const { passages, lexicon } = targetsIn([documentOf("# Oven\n\nNo milk, please. Ask Ada Lund at the mill.\n")]);
  const clausesWith = (proposed: string[]): string[] =>
    passages.flatMap((passage) =>
      studyTargets(
        passage,
        worthAsking(passage, proposed, () => 0, lexicon.tells),
      ).map(({ answer }) => answer),
    );
  assert.deepEqual(clausesWith([]), ["Ask Ada Lund at the mill."]);
  assert.deepEqual(clausesWith(["milk"]), ["No milk, please.", "Ask Ada Lund at the mill."]);
});

const loaves = "# Loaves\n\n| Loaf | Price | Baker |\n|---|---|---|\n| Rye | 4.20 | Ada Lund |\n| Spelt | 5.10 | |\n";

test("every cell that says something is asked by its row and column, the first names the row", () => {
  assert.deepEqual(told(loaves, "cell"), [
    ["Rye, Ada Lund, Price", "4.20", ""],
    ["Rye, Baker", "Ada Lund", ""],
    ["Spelt, Price", "5.10", ""],
  ]);
});

test("a row is asked by its other cells, where two and more are told", () => {
  assert.deepEqual(told(loaves, "key"), [["4.20, Ada Lund", "Rye", ""]]);
  assert.deepEqual(told("| Nr | A | B |\n|---|---|---|\n| 12 | kg 1 | kg 2 |\n", "key"), [], "a number is no name");
});

test("a row goes by its first cell and by those in words; a remark is none", () => {
  const remark = "this one is only sold on Fridays after ten";
  assert.deepEqual(namesOf(["TW-1", "Rye loaf", "4.20", remark, ""], 2), ["TW-1", "Rye loaf"]);
  assert.deepEqual(namesOf(["TW-1", "Rye loaf", "4.20"], 1), ["TW-1"]);
  assert.deepEqual(namesOf(["", "Rye loaf", "4.20"], 2), ["Rye loaf"]);
});

test("a question that a document asks is answered by what follows, up to the next one", () => {
  const text =
    "# Letters\n\nMay I bring my goat? Yes, on a lead. Ask Ada first. And a cow? ¿Y una vaca? No, they frighten the hens.\n";
  assert.deepEqual(told(text, "asked"), [
    ["May I bring my goat?", "Yes, on a lead. Ask Ada first.", ""],
    ["¿Y una vaca?", "No, they frighten the hens.", ""],
  ]);
  const arabic = "# الأسئلة\n\nما هي مدة الإجازة السنوية؟ عشرون يوما في السنة.\n";
  assert.deepEqual(told(arabic, "asked"), [["ما هي مدة الإجازة السنوية؟", "عشرون يوما في السنة.", ""]]);
  assert.deepEqual(clausesIn(arabic), ["عشرون يوما في السنة."]);
});

test("a heading that asks is answered by its section, whole sentences of it and not too many", () => {
  const long = Array.from(
    { length: 6 },
    (_, at) => `Sentence ${"abcdef"[at]} is made of just ten words, neither more nor.`,
  );
  const text = `# Goats\n\n## May I bring one?\n\nYes, on a lead.\n\n## How are they fed?\n\n${long.join(" ")}\n`;
  // Of sentences of ten words four fit into an answer.
  assert.deepEqual(told(text, "asked"), [
    ["May I bring one?", "Yes, on a lead.", ""],
    ["How are they fed?", long.slice(0, 4).join(" "), ""],
  ]);
});

test("a heading that asks is answered by the first passage below it alone", () => {
  const long = (letter: string): string => `It is fed with ${Array(36).fill(letter).join(" ")}.`;
  const paged = `# Goats\n\n## How are they fed?\n\n${long("a")}\n\n${long("b")}\n`;
  assert.deepEqual(told(paged, "asked"), [["How are they fed?", long("a"), ""]]);
  const parted = "# Goats\n\n## How are they fed?\n\nBy hand.\n\n**At night**\nBy nobody.\n\nBut for the old ones.\n";
  assert.deepEqual(told(parted, "asked"), [["How are they fed?", "By hand.", ""]]);
  const late = "# Goats\n\n## How are they fed?\n\n**At night**\nBy nobody.\n\nBy hand.\n";
  assert.deepEqual(told(late, "asked"), [["How are they fed?", "By hand.", ""]]);
});

test("a statement in a script without spaces is asked for, and one of few words is not", () => {
  assert.deepEqual(clausesIn("# 规定\n\n病假需要医生的证明。年假。\n"), ["病假需要医生的证明。"]);
});

test("targets have names of their own, whatever stands twice", () => {
  const { targets } = targetsIn([
    documentOf(`${loaves}\n${loaves}\nIt costs 5 euros. It costs 5 euros.\n`),
    documentOf(loaves),
  ]);
  assert.equal(new Set(targets.map(({ id }) => id)).size, targets.length);
});
