// The search that questions are held against, and which words tell something.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { headingOf } from "../../src/study/heading.ts";
import { lexiconOf } from "../../src/study/lexicon.ts";
import { type Passage, passagesOf } from "../../src/study/passages.ts";
import { documentOf } from "../helpers/study.ts";

/** One passage a section. */
const sections = (...texts: [heading: string, text: string][]): Passage[] =>
  passagesOf([documentOf(`# Farm\n\n${texts.map(([heading, text]) => `## ${heading}\n\n${text}\n`).join("\n")}`)]);

const farm = sections(
  ["Geese", "The geese eat barley at dusk. They sleep on the pond."],
  ["Goats", "The goats eat hay at dawn. They sleep in the barn."],
  ["Hens", "The hens eat barley and barley bread. They sleep in the barn."],
);
const { rankOf, weightOf, tells } = lexiconOf(farm);
const ranks = (question: string): number[] => farm.map((passage) => rankOf(question, passage));

test("a question finds the passage that has its words, also by its heading", () => {
  // Geese have «eat» and «at», hens only «eat».
  assert.deepEqual(ranks("What do goats eat at dawn?"), [2, 1, 3]);
  assert.equal(ranks("Who sleeps on the pond?")[0], 1);
  assert.equal(ranks("geese")[0], 1);
});

test("a passage without any of the words ranks behind all", () => {
  assert.deepEqual(ranks("submarine"), [4, 4, 4]);
  assert.equal(ranks("pond")[2], 1 + 1 + 3);
});

test("the same score is the same rank, as of a word that two alike passages have", () => {
  const twins = sections(["One", "The gate is green."], ["Two", "The gate is green."]);
  const lexicon = lexiconOf(twins);
  assert.deepEqual(
    twins.map((passage) => lexicon.rankOf("Which gate?", passage)),
    [1, 1],
  );
});

test("BM25: more of a word counts more, a rare word more than a common one, the order of words nothing", () => {
  assert.ok(rankOf("barley", farm[2]!) < rankOf("barley", farm[0]!));
  // «barn» two have, «pond» one: who has only the rarer word goes first.
  assert.equal(rankOf("barn pond", farm[0]!), 1);
  const words = "What do the goats in barn eat dawn".split(" ");
  fc.assert(
    fc.property(fc.shuffledSubarray(words, { minLength: words.length }), (shuffled) => {
      assert.deepEqual(ranks(shuffled.join(" ")), ranks(words.join(" ")));
    }),
  );
});

test("BM25: of two passages with a word once, the shorter goes first", () => {
  const made = sections(["A", "Alder."], ["B", `Alder ${"and other trees of the wood ".repeat(4)}.`]);
  const lexicon = lexiconOf(made);
  assert.deepEqual(
    made.map((passage) => lexicon.rankOf("alder", passage)),
    [1, 2],
  );
});

test("the weight of a word is what its share of the units says, in nats", () => {
  // Six sentences; «sleep» stands in three, «pond» in one, «otter» in none.
  assert.ok(Math.abs(weightOf("sleep") - Math.log(7 / 3.5)) < 1e-12);
  assert.ok(Math.abs(weightOf("pond") - Math.log(7 / 1.5)) < 1e-12);
  assert.ok(Math.abs(weightOf("otter") - Math.log(7 / 0.5)) < 1e-12);
});

test("words that hold sentences together tell nothing; what figures are counted in does, however frequent", () => {
  const long = sections(
    ...Array.from({ length: 40 }, (_, at): [string, string] => [
      `Boat ${at}`,
      `It was built of wood in yard Y${at}. It carries ${at + 2} crates of fish${at}.`,
    ]),
  );
  const lexicon = lexiconOf(long);
  for (const word of ["it", "of", "built", "in"]) assert.ok(!lexicon.tells(word), word);
  for (const word of ["fish7", "crates"]) assert.ok(lexicon.tells(word), word);
  assert.ok(!tells("x") && tells("dusk"));
});

const word = fc.constantFrom(..."mill river gate rope boot lamp kite silo crane vault moss fern".split(" "));
const texts = fc.array(fc.array(word, { minLength: 3, maxLength: 12 }), { minLength: 2, maxLength: 8 });

test("a question of all of a passage's own words and its heading finds it", () => {
  fc.assert(
    fc.property(texts, (all) => {
      const made = sections(...all.map((words, at): [string, string] => [`Part${at}`, `${words.join(" ")} x${at}y.`]));
      const lexicon = lexiconOf(made);
      for (const passage of made)
        assert.equal(lexicon.rankOf(`${headingOf(passage)} ${passage.text}`, passage), 1, passage.text);
    }),
    { numRuns: 100 },
  );
});

test("a script without spaces is searched by its words", () => {
  const rules = sections(["年假", "公司的员工每年有十五天的年假。"], ["病假", "病假需要医生的证明。"]);
  const lexicon = lexiconOf(rules);
  assert.deepEqual(lexicon.search("请病假要证明吗？"), [rules[1]]);
  assert.deepEqual(
    rules.map((passage) => lexicon.rankOf("请病假要证明吗？", passage)),
    [4, 1],
  );
});

test("no passages, no weights to divide by", () => {
  assert.equal(lexiconOf([]).rankOf("anything", farm[0]!), 1);
});
