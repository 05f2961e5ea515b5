// A data set: which documents are one, what its rows are, what is refused, and that an auto-align trains and draws by it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { AutoAlignRequest } from "../../src/contract/auto-align.ts";
import type { Recipe } from "../../src/contract/recipe.ts";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import type { Run } from "../../src/run/context.ts";
import { dataSetKind, withDataSet } from "../../src/run/data-set.ts";
import { runAlignment } from "../../src/run/run.ts";
import { documentOf } from "../helpers/study.ts";
import { claimAutoAlign, devItem, eventsOf, newRunFolder, partsOf, recipeOf } from "./run-harness.ts";

const notes = documentOf("# Lamps\n\nThe lamp called Orla weighs 3 kg.\n", "text/markdown", "notes.md");
const sums = documentOf(
  'prompt;answer;source\n"What is 2; and 3?";5;x\nWhat is 4 and 4?;8;y\n',
  "text/csv",
  "sums.csv",
);
const prices = documentOf("lamp,price\nOrla,10 euros\n", "text/csv", "prices.csv");

const lamps = documentOf(
  ["# Stock", "", "| Lamp | Price |", "|---|---|", "| Orla | 10 euros |", "| Brim | 11 euros |", ""].join("\n"),
  "text/markdown",
  "lamps.md",
);

type Source = Recipe["dataset"]["source"];
const usual = { document: null, prompt_field: "prompt", answer_field: "answer" };

function parted(documents: SnapshotDocument[], source: Source): Run["snapshot"] {
  const { dataset, ...recipe } = recipeOf(undefined);
  const given = {
    request: { recipe: { ...recipe, dataset: { ...dataset, ...(source && { source }) } } },
    snapshot: { documents, dev: [], marks: null },
  };
  return withDataSet(given as unknown as Run).snapshot;
}

test("documents with the two columns are the data set, and the others are studied", () => {
  const { documents, dataSet } = parted([notes, sums, prices], usual);
  assert.deepEqual(documents, [notes, prices]);
  assert.deepEqual(
    dataSet!.map(({ kind, messages }) => [kind, ...messages.map(({ role, content }) => `${role}: ${content}`)]),
    [
      [dataSetKind, "user: What is 2; and 3?", "assistant: 5"],
      [dataSetKind, "user: What is 4 and 4?", "assistant: 8"],
    ],
  );
  const named = parted([notes, sums, prices], { document: "prices", prompt_field: "lamp", answer_field: "price" });
  assert.deepEqual(named.documents, [notes, sums]);
  assert.deepEqual(
    named.dataSet!.map(({ messages }) => messages[1]!.content),
    ["10 euros"],
  );
  assert.equal(parted([notes, sums], undefined).dataSet, undefined);
});

test("what cannot be a data set is refused with the field that says so", () => {
  const gap = documentOf("prompt,answer\nWhat is 1 and 1?,2\nWhat is 1 and 2?,\n", "text/csv", "gap.csv");
  const uneven = documentOf("prompt,answer\nWhat is 1, and 2?,3\n", "text/csv", "uneven.csv");
  const refused: [SnapshotDocument[], Source, RegExp][] = [
    [[notes, prices], usual, /^config\.dataset\.prompt_field: no CSV document .* columns prompt and answer/],
    [[notes], { ...usual, document: "sums" }, /^config\.dataset\.split: must name a document .*notes\.md/],
    [[notes], { ...usual, document: "notes.md" }, /^config\.dataset\.split: notes\.md is not a CSV document/],
    [
      [prices],
      { ...usual, document: "prices" },
      /^config\.dataset\.prompt_field: prices\.csv has no column prompt; it has/,
    ],
    [[prices], { ...usual, document: "prices", prompt_field: "lamp" }, /^config\.dataset\.answer_field: /],
    [[gap], usual, /^config\.dataset: row 2 of gap\.csv has no answer/],
    [[uneven], usual, /^config\.dataset: uneven\.csv cannot be read as CSV/],
  ];
  for (const [documents, source, message] of refused) assert.throws(() => parted(documents, source), { message });
});

const asked = Array.from({ length: 12 }, (_, at) => `Say the word that stands for lamp number ${at}.`);
const words = documentOf(
  ["question,reply", ...asked.map((prompt, at) => `${prompt},word ${at}`), ""].join("\n"),
  "text/csv",
  "words.csv",
);
const options = {
  documents: [words],
  dev: [devItem(1, "How heavy is the lamp called Ember?", "7 kg"), devItem(2, asked[3]!, "word 3")],
};

async function autoRun(request: AutoAlignRequest, given = options) {
  const folder = await newRunFolder(given);
  claimAutoAlign(folder, { request, thirds: [1, 1, 1] });
  const clock = { monotonicMs: () => 0, now: () => "2026-01-01T00:00:00.000Z" };
  const result = await runAlignment(folder, partsOf({ over: { clock } }));
  return { folder, result };
}

test("a choice among the options of its prompts is paid, and so is what quotes the passages of documents", async () => {
  const colours = ["red", "teal", "gold"];
  const picked = Array.from({ length: 9 }, (_, at) => {
    const list = colours.map((colour, index) => `${"ABC"[index]}) ${colour}`).join("\n");
    return `"Which colour has boat ${at}?\n${list}",${colours[at % 3]}`;
  });
  const boats = documentOf(["question,reply", ...picked, ""].join("\n"), "text/csv", "boats.csv");
  const unknownIn = async (documents: SnapshotDocument[], verifier_ref: string, dataset?: object) => {
    const config = {
      ...(dataset && { dataset }),
      reward: { verifier_ref },
      sampling: { prompt_groups_per_step: 2, group_size: 2, max_tokens: 4 },
      training: { max_steps: 1 },
    } as NonNullable<AutoAlignRequest["config"]>;
    const given = { documents, dev: options.dev };
    const { folder, result } = await autoRun({ target_score: 99, sequencing: ["reinforce"], config }, given);
    assert.equal(result.outcome, "paused", result.error?.message);
    return eventsOf(folder).flatMap(({ kind, metrics }) => (kind === "step" ? [metrics!.unknown_rewards] : []));
  };
  const columns = { prompt_field: "question", answer_field: "reply" };
  for (const unknown of [
    await unknownIn([boats], "builtin:choice", columns),
    await unknownIn([lamps], "builtin:citation"),
  ]) {
    assert.ok(unknown.length > 0);
    assert.ok(
      unknown.every((count) => count === 0),
      String(unknown),
    );
  }
});

test("a reward that can judge no prompt is refused before anything trains, with its field", async () => {
  const dataset = { prompt_field: "question", answer_field: "reply" };
  for (const [reward, field] of [
    [{ verifier_ref: "builtin:choice" }, "verifier_ref"],
    [{ verifier_ref: "builtin:citation" }, "verifier_ref"],
    [{ composite: { "builtin:exact": 1, "builtin:choice": 1 } }, "composite"],
  ] as const) {
    const { folder, result } = await autoRun({
      target_score: 99,
      sequencing: ["supervised", "reinforce"],
      config: { dataset, reward },
    });
    assert.match(
      result.error?.message ?? "",
      new RegExp(`^config\\.reward\\.${field}: builtin:c.* nothing to judge by`),
    );
    assert.ok(eventsOf(folder).every(({ kind }) => kind !== "step"));
  }
});

test("where other arms can train, a reward that can judge no prompt only leaves reinforcement out, and the card says why", async () => {
  const { folder, result } = await autoRun({
    target_score: 99,
    config: {
      dataset: { prompt_field: "question", answer_field: "reply" },
      reward: { verifier_ref: "builtin:choice" },
      training: { max_steps: 1 },
    },
  });
  assert.equal(result.error, null);
  const cards = eventsOf(folder).flatMap(({ card }) => (card === undefined ? [] : [card]));
  assert.ok(cards.length > 0);
  for (const { excluded } of cards as { excluded: { arm: string; reason: string }[] }[])
    assert.match(
      excluded.find(({ arm }) => arm === "reinforce")?.reason ?? "",
      /builtin:choice finds nothing to judge by in any prompt/,
    );
});

test("phases train on its rows and draw for its prompts, but for those that meet a question of the benchmark", async () => {
  const { folder, result } = await autoRun({
    target_score: 99,
    sequencing: ["supervised", "reinforce"],
    config: {
      dataset: { prompt_field: "question", answer_field: "reply", file_type: "csv" },
      reward: { type: "verifier", verifier_ref: "builtin:regex?pattern=[aeiou]" },
      sampling: { prompt_groups_per_step: 2, group_size: 4, max_tokens: 4 },
      training: { max_steps: 3 },
    },
  });
  assert.equal(result.outcome, "paused", result.error?.message);
  const lines = readFileSync(join(folder, "prepared/rows.jsonl"), "utf8").trim().split("\n");
  const rows = lines.map((line) => JSON.parse(line) as { kind: string; messages: { content: string }[] });
  assert.deepEqual(
    rows.map(({ kind, messages }) => [kind, messages[0]!.content]),
    asked.filter((_, at) => at !== 3).map((prompt) => [dataSetKind, prompt]),
  );
  const cards = eventsOf(folder).flatMap(({ card }) => (card === undefined ? [] : [card]));
  assert.equal(cards.length, 3);
  const steps = eventsOf(folder).filter(({ kind, metrics }) => kind === "step" && metrics?.reward !== undefined);
  assert.ok(steps.length > 0);
});
