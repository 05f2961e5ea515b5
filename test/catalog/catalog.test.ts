// The catalog over a connection that cannot write: whose things are found, and what work holds and needs which.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { createLog } from "../../src/base/log.ts";
import { systemClock } from "../../src/base/time.ts";
import { type Catalog, createCatalog } from "../../src/catalog/index.ts";
import { createQueue } from "../../src/jobs/queue.ts";
import type { JobKind } from "../../src/jobs/states.ts";
import { openStore, openToRead, type Store } from "../../src/store/open.ts";

const folder = mkdtempSync(join(tmpdir(), "plumbline-catalog-"));
const path = join(folder, "db");
const log = createLog("error", () => {});
let store: Store;
let readOnly: Store;
let catalog: Catalog;

/** Inserts a row, its values by column. */
function insert(table: string, row: Record<string, string | number | null>): void {
  const names = Object.keys(row);
  store
    .prepare<(string | number | null)[]>(`INSERT INTO ${table}(${names}) VALUES(${names.map(() => "?")})`)
    .run(...Object.values(row));
}

const made = { created_seq: 1, created_at: "2026-05-04T12:00:00Z" };
const dated = { ...made, updated_at: made.created_at };

/** Queues a job for a thing of ann's; `isStopped`: and ends it. */
function enqueue(kind: JobKind, subjectId: string, isStopped = false): void {
  const queue = createQueue({ store, clock: systemClock, log });
  queue.enqueue({ kind, subjectId, ownerId: "ann" });
  if (isStopped) queue.requestStop(subjectId, kind);
}

function addAlignment(id: string, row: Record<string, string | number | null>): void {
  insert("alignment", {
    ...{ id, owner_id: "ann", name: id, workflow_id: "quick", base_model_id: "model_base", ...made },
    ...{ document_ids_json: '["document_1"]', document_names_json: "[]", document_sha256s_json: "[]", ...row },
  });
  enqueue("align", id);
}

function addEvaluation(id: string, modelId: string, isStopped: boolean): void {
  const of = { owner_id: "ann", name: id, model_id: modelId, base_model_id: "model_base", benchmark_id: "benchmark_1" };
  insert("evaluation", { id, ...of, n_samples: 1, settings_json: '{"judge":{"model_id":"model_judge"}}', ...dated });
  enqueue("evaluate", id, isStopped);
}

before(() => {
  store = openStore(path);
  for (const id of ["ann", "ben"]) insert("user", { id, name: id, created_at: made.created_at });
  const base =
    "INSERT INTO base_model VALUES(?, ?, 'llama', 64, ?, 'Q4_1', 1, 1, 1, NULL, NULL, ?, '/base.gguf', 1, '', ?, 0)";
  const addBase = store.prepare<(string | number)[]>(base);
  addBase.run("model_base", "small", 1, "a", "text");
  addBase.run("model_far", "encoder", 9, "b", "embedding");
  addBase.run("model_near", "encoder", 3, "c", "embedding");
  const file = {
    name: "it",
    media_type: "text/plain",
    bytes: 1,
    characters: 1,
    sha256: "x",
    text_sha256: "x",
    ...made,
  };
  insert("document", { id: "document_1", owner_id: "ann", kind: "document", ...file });
  insert("document", { id: "document_2", owner_id: "ann", kind: "benchmark", ...file });
  const settings = { model_id: "model_near", wanted: 1, seed: 0, generator: { model: "model_writer", provider: null } };
  insert("benchmark_draft", {
    ...{ id: "benchmark_2", owner_id: "ann", name: "made", document_ids_json: "[]" },
    ...{ settings_json: JSON.stringify(settings), ...dated },
  });
  enqueue("generate", "benchmark_2");
  insert("benchmark", {
    ...{ id: "benchmark_1", owner_id: "ann", document_id: "document_2", name: "things", sha256: "y", ...dated },
  });
  for (const [sample_num, split] of ["dev", "sealed", "sealed"].entries())
    insert("benchmark_item", {
      ...{ benchmark_id: "benchmark_1", sample_num: sample_num + 1, instruction: "Which?", response: "This", split },
      ...{ aliases_json: '["That"]', cluster: `c${sample_num}` },
    });
  addEvaluation("evaluation_live", "model_asked", false);
  addEvaluation("evaluation_over", "model_other", true);
  addAlignment("alignment_1", {
    teacher_json: '{"model":"model_teacher","provider":null}',
    benchmark_id: "benchmark_1",
  });
  addAlignment("alignment_2", { auto_align_of: "alignment_1", created_seq: 2 });
  readOnly = openToRead(path);
  catalog = createCatalog({ store: readOnly, log });
});
after(() => {
  readOnly.close();
  store.close();
  rmSync(folder, { recursive: true, force: true });
});

test("the connection refuses to write, so all that follows only reads", () => {
  assert.throws(() => readOnly.prepare("DELETE FROM alignment").run(), /readonly/);
});

test("things are their owner's alone", () => {
  const { documents, benchmarks } = catalog;
  assert.deepEqual([documents.has("ann", "document_1"), documents.has("ben", "document_1")], [true, false]);
  assert.equal(documents.has("ann", "document_2"), false, "a benchmark's file is no document");
  documents.check("ann", ["document_1", "document_1"]);
  assert.throws(() => documents.check("ben", ["document_1"]), { code: "not_found" });
  assert.deepEqual(benchmarks.owned("ann", "benchmark_1"), {
    ...{ id: "benchmark_1", name: "things", sha256: "y", samples: 3 },
  });
  assert.equal(benchmarks.owned("ben", "benchmark_1"), null);
  assert.deepEqual(
    benchmarks.items("benchmark_1").map(({ sample_num, split, aliases }) => [sample_num, split, aliases]),
    [
      [1, "dev", ["That"]],
      [2, "sealed", ["That"]],
      [3, "sealed", ["That"]],
    ],
  );
});

test("of models, the only base of a kind, and the smallest encoder", () => {
  const { models } = catalog;
  assert.equal(models.base("small")?.id, "model_base");
  assert.equal(models.base("encoder"), null, "two have the name");
  assert.equal(models.onlyBase(["text"]), "model_base");
  assert.throws(() => models.onlyBase(["embedding"]), /model_far \(encoder\)/);
  assert.equal(models.encoder()?.sha256, "c");
  assert.equal(models.encoderOf("b")?.baseId, "model_far");
  assert.equal(models.encoderOf("a"), null, "a text model is no encoder");
  assert.throws(() => models.find("ann", "model_none"), { code: "not_found" });
});

test("what unfinished work holds and needs", () => {
  const { runs } = catalog;
  assert.deepEqual([runs.isAligning("ann"), runs.isAligning("ben")], [true, false]);
  assert.deepEqual(
    runs.holding("ann", "document_1").map(({ id, project_id }) => [id, project_id]),
    [
      ["alignment_2", "alignment_1"],
      ["alignment_1", "alignment_1"],
    ],
  );
  assert.deepEqual(
    runs.snapshotsOf("ann", "document_1").map((one) => [one.alignment_id, one.under_way]),
    [["alignment_1", true]],
  );
  assert.deepEqual(runs.snapshotsOf("ben", "document_1"), []);
  assert.deepEqual(runs.alignmentsOn("benchmark_1"), ["alignment_1"]);
  assert.deepEqual(runs.evaluationsOn("benchmark_1"), { live: ["evaluation_live"], ended: ["evaluation_over"] });
  const needing = (modelId: string): string[] => runs.needing(modelId);
  assert.deepEqual(needing("model_asked"), ["evaluation_live"]);
  assert.deepEqual(needing("model_judge"), ["evaluation_live"]);
  assert.deepEqual(needing("model_other"), [], "its evaluation is over");
  assert.deepEqual(needing("model_near"), ["benchmark_2"]);
  assert.deepEqual(needing("model_writer"), ["benchmark_2"]);
  assert.deepEqual(needing("model_teacher"), ["alignment_1"]);
});
