// The demo proves something only if its questions can be answered from its documents, are split by fact, and stand in no row.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { containsWords, normalised } from "../../src/base/text.ts";
import { benchmarkRow } from "../../src/contract/benchmarks.ts";
import type { Recipe } from "../../src/contract/recipe.ts";
import { compile } from "../../src/contract/validate.ts";
import { findOverlap } from "../../src/study/leakage.ts";
import { demoMaterial } from "../e2e/prove/material.ts";
import { studied } from "../helpers/study.ts";

const demo = resolve(import.meta.dirname, "../../config/demo");
const { documents } = demoMaterial();
const check = compile(benchmarkRow);
const items = readFileSync(join(demo, "benchmark.jsonl"), "utf8")
  .trim()
  .split("\n")
  .map((line) => {
    const checked = check(JSON.parse(line));
    assert.ok(checked.ok, line);
    return checked.value;
  });
const json = (name: string): string[] => JSON.parse(readFileSync(join(demo, name), "utf8"));
const recipe = (name: string): Recipe =>
  JSON.parse(readFileSync(resolve(demo, `../recipes/${name}.json`), "utf8")) as Recipe;

test("the benchmark is large enough on either side of the split, and no fact lies on both", () => {
  const sealed = items.filter((item) => item.split === "sealed");
  const dev = items.filter((item) => item.split === "dev");
  assert.ok(
    items.length >= 96 && sealed.length >= 56 && dev.length >= 36,
    `${sealed.length} sealed, ${dev.length} dev`,
  );
  const clusters = Map.groupBy(items, (item) => item.cluster);
  for (const [cluster, members] of clusters) {
    assert.ok(cluster, "every item names its fact");
    assert.equal(new Set(members.map((item) => item.split)).size, 1, `${cluster} is in one split`);
    assert.equal(new Set(members.map((item) => item.response)).size, 1, `${cluster} has one answer`);
  }
  assert.ok(clusters.size >= 55, `${clusters.size} facts`);
  assert.equal(new Set(items.map((item) => normalised(item.instruction))).size, items.length, "no question twice");
});

test("every answer stands in a document", () => {
  for (const { instruction, response, aliases = [] } of items)
    assert.ok(
      documents.some(({ text }) =>
        [response, ...aliases].some((answer) =>
          containsWords(text.replaceAll(",", " , "), answer.replaceAll(",", " , ")),
        ),
      ),
      `${instruction} ${response}`,
    );
});

for (const name of ["quick", "standard", "thorough"]) {
  const { dataset, training } = recipe(name);
  const { rows } = await studied(documents, {
    phrasings: dataset.phrasings,
    stages: dataset.rungs ?? 1,
    seed: training.seed,
  });

  test(`${name}: no question of the benchmark stands in the rows`, () => {
    const { items: found } = findOverlap(
      items.map((item) => item.instruction),
      rows,
    );
    const said = found.map(({ question, row }) => [items[question]!.instruction, rows[row]!.messages]);
    assert.deepEqual(said, []);
  });

  test(`${name}: every fact that is asked is trained by four rows and more, without a writer`, () => {
    const few = items.filter(({ response, aliases = [] }) => {
      const trained = rows.filter(({ messages }) =>
        [response, ...aliases].some((answer) => containsWords(messages.at(-1)!.content, answer)),
      );
      return trained.length < 4;
    });
    assert.deepEqual(few, []);
  });
}

test("there are twenty off-topic prompts and four questions for the chat", () => {
  assert.equal(new Set(json("off-topic.json")).size, 20);
  assert.equal(new Set(json("chat.json")).size, 4);
});
