// What the result of a run that failed tells of the error.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import type { RunRequest } from "../../src/contract/run-folder.ts";
import { failedResult } from "../../src/run/result.ts";

const errorOf = (error: unknown) => failedResult({ fence: 1 } as RunRequest, error).error;

test("a failure is told in its own words, and of any other error nothing but that the run failed", () => {
  assert.deepEqual(errorOf(new Failure("no_training_rows", "The documents state nothing")), {
    code: "no_training_rows",
    message: "The documents state nothing",
  });
  const path = "/var/lib/plumbline/runs/alignment_1/rows.jsonl";
  const missing = Object.assign(new Error(`ENOENT: no such file or directory, open '${path}'`), { code: "ENOENT" });
  for (const error of [missing, new TypeError("x is undefined"), "words"])
    assert.deepEqual(errorOf(error), { code: "run_failed", message: "The run failed" });
  assert.equal(errorOf(Object.assign(new Error(`ENOSPC, write '${path}'`), { code: "ENOSPC" }))?.code, "disk_full");
});
