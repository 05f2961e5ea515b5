// Whether a table's first row names its columns or is a row like those below it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { namesColumns } from "../../src/study/table-header.ts";

const below = [
  ["A", "7", "9"],
  ["B", "8", "10"],
];

test("words name columns, figures like those below do not", () => {
  assert.equal(namesColumns(["Size", "Small", "Large"], below), true);
  assert.equal(namesColumns(["C", "9", "6"], below), false);
});

test("years and figures that ascend name columns", () => {
  assert.equal(namesColumns(["Zone", "2023", "2019"], below), true);
  assert.equal(namesColumns(["kg", "10", "50"], below), true);
});

test("a figure is read by the mark that it has for decimals or thousands", () => {
  assert.equal(namesColumns(["Tarif", "5,40", "12"], below), true);
  assert.equal(namesColumns(["Tarif", "5.40", "5,2"], below), false);
  assert.equal(namesColumns(["kWh", "900", "1,200"], below), true);
  assert.equal(namesColumns(["kWh", "900", "1.200"], below), true);
});
