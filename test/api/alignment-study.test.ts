// What surrounds a study: what it would take, who teaches, what became rows, and what is left of a deleted document.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import type { Catalog } from "../../src/catalog/index.ts";
import { createSnapshots } from "../../src/domain/alignments/snapshots.ts";
import { type AlignmentsHouse, ada, alignmentsHouse, bob, item, items } from "./alignments-house.ts";

const refused = (status: number, words: RegExp) => (error: unknown) => {
  assert.ok(error instanceof Failure, String(error));
  assert.equal(error.status, status, error.message);
  assert.match(JSON.stringify([error.message, error.details]), words);
  return true;
};

/** Two sections, which are a passage each. The test's documents have their text in their ids. */
const section = (thing: string): string => `${thing}\n\nThe ${thing} costs 41 euros.`;
const text = `${section("Lantern")}\n\n${section("Boat")}`;
const document_ids = [`document_${text}`];
const body = { alignment_name: "it", base_model_id: "model_base", document_ids, workflow_id: "quick" };

describe("an estimate", () => {
  let house: AlignmentsHouse;
  before(async () => {
    house = await alignmentsHouse({ limit: 300 });
  });
  after(() => house.close());
  const estimate = (rest: object = {}, caller = ada) =>
    house.call("alignments.estimate", { body: { ...body, ...rest } }, caller);

  test("says rows, tokens and minutes as ranges that hold each other, and starts nothing", async () => {
    const found = await estimate();
    assert.equal(found.passages, 2);
    assert.ok(found.targets >= 2, "both sections state a price");
    for (const range of [found.rows, found.train_tokens, found.minutes])
      assert.ok(0 < range.low && range.low <= range.likely && range.likely <= range.high, JSON.stringify(range));
    assert.deepEqual((await house.call("alignments.list", { query: {} })).alignment_projects, []);
  });

  test("more documents and a longer preset take more", async () => {
    const one = await estimate();
    const two = await estimate({ document_ids: [...document_ids, `document_${section("Third lamp")}`] });
    // Enough words that no preset runs out of other questions about them.
    const told =
      "Every autumn the master counts ropes, lamps, anchors, oars and spare sails before boats are lent to schools, since what breaks in winter is ordered from Tarnby";
    const harbour = [`document_Harbour\n\n${told}.`];
    const standard = await estimate({ workflow_id: "standard", document_ids: harbour });
    const longer = await estimate({ workflow_id: "thorough", document_ids: harbour });
    assert.ok(two.rows.likely > one.rows.likely);
    assert.ok(longer.train_tokens.likely > standard.train_tokens.likely);
  });

  test("says how often a teacher would be asked", async () => {
    assert.equal((await estimate()).teacher_messages, null);
    assert.deepEqual((await estimate({ teacher_model: "model_teacher" })).teacher_messages, {
      low: 3,
      likely: 5,
      high: 7,
    });
    const more = await estimate({ teacher_model: "model_teacher", workflow_id: "thorough" });
    assert.deepEqual(more.teacher_messages, { low: 4, likely: 8, high: 12 });
  });

  test("refuses what creation refuses", async () => {
    await assert.rejects(estimate({ workflow_id: "none" }), refused(422, /workflow_id/));
    await assert.rejects(estimate({ document_ids: ["document_bob"] }), refused(404, /document/i));
    await assert.rejects(estimate({ base_model_id: "model_odd" }), refused(400, /architecture/));
  });
});

test("where the device's speed is not known, neither are the minutes", async () => {
  const house = await alignmentsHouse();
  try {
    assert.equal((await house.call("alignments.estimate", { body })).minutes, null);
  } finally {
    await house.close();
  }
});

test("deleting an alignment whose teacher is being asked ends that, and leaves nothing", async () => {
  const told = Promise.withResolvers<void>();
  const house = await alignmentsHouse({
    say: (_, signal) =>
      new Promise((_resolve, reject) => {
        told.resolve();
        signal.addEventListener("abort", () => reject(signal.reason));
      }),
  });
  try {
    const params = {
      alignment_id: (await house.call("alignments.create", { body: { ...body, teacher_model: "model_teacher" } }))
        .alignment_id,
    };
    await told.promise;
    await assert.rejects(house.call("alignments.stop", { params }), refused(400, /not started/));
    assert.match((await house.call("alignments.delete", { params })).message, /^Cancelled/);
    const folder = join(house.runs, params.alignment_id);
    while (existsSync(folder)) await new Promise((resolve) => setTimeout(resolve, 10));
    assert.equal(house.queue.of(params.alignment_id, "align")!.state, "stopped");
    await assert.rejects(house.call("alignments.status", { params }), refused(404, /not found/));
    assert.deepEqual(house.gpu.snapshot().grants, []);
  } finally {
    await house.close();
  }
});

test("no auto-align begins before the project's teacher has answered", async () => {
  const told = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<string>();
  const house = await alignmentsHouse({
    say: async () => {
      told.resolve();
      return answer.promise;
    },
  });
  try {
    const sent = { ...body, teacher_model: "model_teacher" };
    const { alignment_id } = await house.call("alignments.create", { body: sent });
    const begin = () => house.call("alignments.auto_align", { params: { alignment_id }, body: { target_score: 5 } });
    await assert.rejects(begin(), refused(409, /teacher is not done yet/));
    await told.promise;
    await assert.rejects(begin(), refused(409, /teacher is not done yet/));
    answer.resolve(JSON.stringify({ answer: "41 euros", questions: ["What is the price?"] }));
    await house.until(alignment_id, "COMPLETED");
    // Nothing to measure by: it is planned, but not refused any more.
    assert.equal((await begin()).status, "FAILED");
  } finally {
    await house.close();
  }
});

test("an auto-align says that it learns without the project's teacher where that wrote nothing", async () => {
  const sealed = ["red", "blue", "teal"].map((colour, at) => item(10 + at, "sealed", `Colour of door ${at}?`, colour));
  const house = await alignmentsHouse({
    items: [items[0]!, ...sealed],
    say: async () => {
      throw new Failure("upstream_failed");
    },
  });
  try {
    const sent = { ...body, teacher_model: "model_teacher", benchmark_id: "benchmark_ada" };
    const { alignment_id } = await house.call("alignments.create", { body: sent });
    await house.until(alignment_id, "FAILED");
    rmSync(join(house.runs, alignment_id, "teacher.jsonl"), { force: true });
    const begun = await house.call("alignments.auto_align", { params: { alignment_id }, body: { target_score: 5 } });
    assert.match(begun.message, /^The auto-align is queued; .*without the project's teacher/);
  } finally {
    await house.close();
  }
});

describe("a teacher", () => {
  let house: AlignmentsHouse;
  let asked: string[] = [];
  let fails = false;
  before(async () => {
    house = await alignmentsHouse({
      say: async (content) => {
        asked.push(content);
        if (fails) throw new Failure("upstream_failed");
        const questions = [content.includes("What is the price?") ? "How much?" : "What is the price?"];
        return JSON.stringify({ answer: "41 euros", questions });
      },
    });
  });
  after(() => house.close());

  test("is never reached by default, and is named by model, or by model and upstream", async () => {
    const create = (rest: object) => house.call("alignments.create", { body: { ...body, ...rest } });
    await assert.rejects(create({ teacher_provider: "elsewhere" }), refused(422, /teacher_model/));
    await assert.rejects(create({ teacher_model: "x", teacher_provider: "nowhere" }), refused(422, /upstream/));
    await assert.rejects(create({ teacher_model: "model_none" }), refused(404, /model/));
    await house.until((await create({})).alignment_id, "COMPLETED");
    assert.deepEqual(asked, []);
  });

  test("is asked about each passage once, and once more about the facts that it names, before the run starts", async () => {
    asked = [];
    const sent = { ...body, teacher_model: "model_teacher" };
    const { alignment_id } = await house.call("alignments.create", { body: sent });
    await house.until(alignment_id, "COMPLETED");
    assert.equal(asked.length, 4);
    for (const thing of ["Lantern", "Boat"]) {
      const about = asked.filter((prompt) => prompt.includes(`\n---\nThe ${thing} costs`));
      assert.equal(about.length, 2);
      assert.match(about[1]!, /\n\{"answer":"41 euros","questions":\["What is the price\?"\]\}$/);
    }
    const lines = readFileSync(join(house.runs, alignment_id, "teacher.jsonl"), "utf8")
      .trim()
      .split("\n");
    assert.equal(lines.length, 4);
    const request = JSON.parse(readFileSync(join(house.runs, alignment_id, "request.json"), "utf8"));
    assert.deepEqual(request.teacher, { model: "model_teacher", provider: null }, "and the run is told no key");
  });

  test("is not asked again by another alignment of the same documents", async () => {
    asked = [];
    const sent = { ...body, teacher_model: "model_teacher" };
    const { alignment_id } = await house.call("alignments.create", { body: sent });
    await house.until(alignment_id, "COMPLETED");
    assert.deepEqual(asked, []);
    const other = await house.call("alignments.create", {
      body: { ...body, teacher_model: "near", teacher_provider: "elsewhere" },
    });
    await house.until(other.alignment_id, "COMPLETED");
    assert.equal(asked.length, 4);
  });

  test("that cannot be asked fails the alignment, which says why", async () => {
    fails = true;
    const sent = { ...body, teacher_model: "far", teacher_provider: "elsewhere" };
    const { alignment_id } = await house.call("alignments.create", { body: sent });
    const { error } = await house.until(alignment_id, "FAILED");
    assert.equal(typeof error, "string");
  });
});

describe("after the rows are made", () => {
  let house: AlignmentsHouse;
  before(async () => {
    house = await alignmentsHouse();
  });
  after(() => house.close());

  test("coverage is told to the owner alone, and not before", async () => {
    const alignment_id = await house.align();
    const params = { alignment_id };
    await house.until(alignment_id, "COMPLETED");
    await assert.rejects(house.call("alignments.coverage", { params }), refused(404, /not been made yet/));
    const passage = { start: 0, end: 9, heading: "a", rows: 2, written: 0, none: null };
    const documents = [{ document_id: "document_a", name: "a.txt", passages: [passage] }];
    const coverage = { content: 1, covered: 1, written: 0, documents };
    mkdirSync(join(house.runs, alignment_id, "prepared"), { recursive: true });
    writeFileSync(join(house.runs, alignment_id, "prepared/report.json"), JSON.stringify({ study: { coverage } }));
    assert.deepEqual(await house.call("alignments.coverage", { params }), coverage);
    await assert.rejects(house.call("alignments.coverage", { params }, bob), refused(404, /./));
  });

  test("snapshots of a document are listed and deleted, but not under a run", async () => {
    const alignment_id = await house.training(await house.align({ waits: true }));
    const [document] = JSON.parse(readFileSync(join(house.runs, alignment_id, "order.json"), "utf8")).documents;
    const { snapshotsOf } = house.catalog.runs;
    const { remove: removeSnapshots } = house.snapshots;
    assert.deepEqual(
      snapshotsOf(ada.userId, document.id).map((one) => [one.alignment_id, one.under_way]),
      [[alignment_id, true]],
    );
    assert.deepEqual(snapshotsOf(bob.userId, document.id), []);
    await assert.rejects(removeSnapshots(ada.userId, document.id), refused(409, new RegExp(alignment_id)));
    await house.call("alignments.stop", { params: { alignment_id } });
    await house.until(alignment_id, "STOPPED");
    const file = join(house.runs, alignment_id, "snapshot/documents/0.json");
    assert.ok(existsSync(file));
    await removeSnapshots(ada.userId, document.id);
    assert.ok(!existsSync(file), "the text is gone");
    assert.ok(!existsSync(join(house.runs, alignment_id, "prepared")), "and the rows made of it");
    await removeSnapshots(ada.userId, document.id);
  });

  test("an alignment whose document is deleted while its folder is made is not made", async (t) => {
    const [document_id] = document_ids;
    const before = readdirSync(house.runs);
    const creating = house.call("alignments.create", { body });
    house.deleted.add(document_id!);
    await assert.rejects(creating, refused(404, /document/));
    house.deleted.clear();
    assert.deepEqual(readdirSync(house.runs), before);

    // Likewise where the document is still there, but its snapshots are being removed.
    const isLosing = t.mock.method(house.snapshots, "isLosing", () => true);
    await assert.rejects(house.call("alignments.create", { body }), refused(404, /document/));
    assert.deepEqual(isLosing.mock.calls[0]!.arguments, [document_ids]);
    assert.deepEqual(readdirSync(house.runs), before);
  });
});

test("a document is being lost until it is gone from every snapshot", async (t) => {
  const runs = mkdtempSync(join(tmpdir(), "plumbline-snapshots-"));
  t.after(() => rmSync(runs, { recursive: true }));
  const ids = ["auto_align_1", "alignment_1"];
  for (const id of ids) {
    mkdirSync(join(runs, id, "snapshot/documents"), { recursive: true });
    writeFileSync(join(runs, id, "order.json"), JSON.stringify({ documents: [{ id: "document_a" }] }));
  }
  const losing: boolean[][] = [];
  const isLosing = (): boolean[] => ["document_a", "document_b"].map((id) => snapshots.isLosing([id]));
  function* holding() {
    for (const id of ids) {
      losing.push(isLosing());
      yield { id };
    }
  }
  const catalog = { runs: { snapshotsOf: () => [], holding } } as unknown as Pick<Catalog, "runs">;
  const snapshots = createSnapshots({ runs, catalog });
  await snapshots.remove(ada.userId, "document_a");
  assert.deepEqual(losing, [
    [true, false],
    [true, false],
  ]);
  assert.deepEqual(isLosing(), [false, false]);
});
