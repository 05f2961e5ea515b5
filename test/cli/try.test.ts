// plumbline try: the demo's steps against an appliance that somebody else runs. That they end in a model is the demo's to show, which
// takes the same steps; here it is that they can be taken up again.
import assert from "node:assert/strict";
import { test } from "node:test";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import { insertAlignJob } from "../helpers/rows.ts";
import { scriptedHouse } from "../helpers/scripted.ts";
import { plumbline } from "./plumbline.ts";

test("what was begun is taken up again, and nothing is made twice but an alignment that failed", async (context) => {
  const it = await scriptedHouse();
  context.after(() => it.close());
  const settings = { PLUMBLINE_KEY: it.key, PLUMBLINE_ADDRESS: it.url };
  // There are no weights to align: the alignment is made, and fails.
  const said = [await plumbline(["try"], settings), await plumbline(["try"], settings)];
  for (const { code, stderr } of said) {
    assert.equal(code, exitCodes.failure.code, stderr);
    assert.match(stderr, /Uploaded 8 documents and a benchmark: 42 dev, 77 sealed questions\n/);
    assert.match(stderr, /The base model answers 0\.0 % of 77 sealed questions\n/);
    assert.match(stderr, /plumbline: .*ended FAILED: .*cannot be read \(ENOENT\)/);
  }
  const count = (table: string): number =>
    it.store.prepare<[], { n: number }>(`SELECT count(*) AS n FROM ${table}`).get()!.n;
  assert.deepEqual(["benchmark", "evaluation", "alignment"].map(count), [1, 1, 2]);
  // As if the latest had been completed by a later job: it is taken up, and has no model to deploy.
  const latest = "SELECT id, owner_id FROM alignment ORDER BY created_seq DESC LIMIT 1";
  const { id, owner_id } = it.store.prepare<[], { id: string; owner_id: string }>(latest).get()!;
  insertAlignJob(it.store, id, owner_id, "succeeded");
  assert.doesNotMatch((await plumbline(["try"], settings)).stderr, /ended FAILED/);
  assert.deepEqual(["benchmark", "evaluation", "alignment"].map(count), [1, 1, 2]);
  assert.equal((await it.call("documents.list", { query: "limit=100" })).body.documents.length, 8);
});
