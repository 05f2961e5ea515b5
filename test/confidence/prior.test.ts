// Which prior answers for which base.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Prior } from "../../src/confidence/calibration.ts";
import { priorFor } from "../../src/confidence/prior.ts";
import { modelOf } from "../helpers/calibration.ts";

const priorOf = (family: string): Prior => ({
  format: 1,
  family,
  about: "",
  model: modelOf("logprob_sum", 1),
  statistics: { n: 0, accuracy: null, auroc: null, brier: null },
});
const priors = ["qwen2.5", "smollm2"].map(priorOf);
const chosen = (entries: [string, string][]) => {
  const { prior, isOwnFamily } = priorFor(priors, { values: new Map(entries) });
  return [prior.family, isOwnFamily];
};

test("a base has its own family's prior, by basename before name; any other has SmolLM2's", () => {
  assert.deepEqual(chosen([["general.basename", "smollm2"]]), ["smollm2", true]);
  assert.deepEqual(chosen([["general.name", "SmolLM2 360M Instruct"]]), ["smollm2", true]);
  assert.deepEqual(chosen([["general.basename", "Qwen2.5"]]), ["qwen2.5", true]);
  assert.deepEqual(
    chosen([
      ["general.basename", "Mistral"],
      ["general.name", "a smollm2 killer"],
    ]),
    ["smollm2", false],
  );
  assert.deepEqual(chosen([]), ["smollm2", false]);
  assert.throws(() => priorFor([], { values: new Map() }), RangeError);
});
