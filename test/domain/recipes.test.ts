// The presets that ship are recipes; they differ in how much they spend, and the prompts for replay are enough.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { type Recipe, recipe } from "../../src/contract/recipe.ts";
import { compile } from "../../src/contract/validate.ts";

const config = resolve(import.meta.dirname, "../../config");
const check = compile(recipe);
const read = (name: string): Recipe => {
  const checked = check(JSON.parse(readFileSync(join(config, "recipes", name), "utf8")));
  assert.ok(checked.ok, `${name}: ${JSON.stringify(checked)}`);
  return checked.value;
};

test("every file in config/recipes is a recipe, and the three presets are there", () => {
  const names = readdirSync(join(config, "recipes"));
  for (const name of names) read(name);
  for (const preset of ["quick.json", "standard.json", "thorough.json"]) assert.ok(names.includes(preset), preset);
});

test("each preset shows a fact more often than the one before", () => {
  const shown = ["quick.json", "standard.json", "thorough.json"].map((name) => {
    const { dataset, training } = read(name);
    return dataset.phrasings * (dataset.rungs ?? 1) * training.epochs;
  });
  assert.deepEqual(
    shown,
    shown.toSorted((a, b) => a - b),
  );
  assert.equal(new Set(shown).size, shown.length);
});

test("replay has hundreds of short prompts, each once", () => {
  const prompts = JSON.parse(readFileSync(join(config, "replay-prompts.json"), "utf8")) as string[];
  assert.ok(prompts.length >= 600);
  assert.equal(new Set(prompts.map((prompt) => prompt.toLowerCase())).size, prompts.length);
  for (const prompt of prompts) assert.ok(prompt.trim() !== "" && prompt.split(" ").length <= 60, prompt);
});
