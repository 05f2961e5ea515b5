// Auto-aligns that are carried out, from request to model: every status, what is refused, what is told, and that no kill between any two
// steps changes what comes of one. The run is acted, and decides what its document says.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { sleep } from "../../src/base/time.ts";
import type { EventStream, StreamEvent } from "../../src/contract/endpoint.ts";
import type { Act } from "../helpers/acting-run.ts";
import { type AlignmentsHouse, ada, alignmentsHouse, bob, item, items } from "./alignments-house.ts";

const secrets = ["teal", "amber", "ivory", "crimson", "olive", "umber"];
const sealed = secrets.map((colour, at) => item(10 + at, "sealed", `Which colour has the sealed door ${at}?`, colour));
const asked = [items[0]!, items[2]!, ...sealed];

const fails =
  (status: number, words: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof Failure, String(error));
    assert.equal(error.status, status, error.message);
    assert.match(error.message, words);
    return true;
  };

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
type Any = any;

/** A project whose run has ended, and whose auto-aligns behave so. */
async function project(house: AlignmentsHouse, act: Act): Promise<string> {
  const id = await house.align(act, { benchmark_id: "benchmark_ada" });
  await house.until(id, "COMPLETED");
  return id;
}

const idsOf = (alignment_id: string, auto_align_id: string) => ({ params: { alignment_id, auto_align_id } });

async function begin(house: AlignmentsHouse, alignment_id: string, body: object = {}): Promise<string> {
  const sent = { target_score: 80, ...body };
  return (await house.call("alignments.auto_align", { params: { alignment_id }, body: sent })).auto_align_id;
}

const recordOf = (house: AlignmentsHouse, project: string, id: string): Promise<Any> =>
  house.call("alignments.auto_align_record", idsOf(project, id));

async function until(
  house: AlignmentsHouse,
  project: string,
  id: string,
  holds: string | ((record: Any) => boolean),
): Promise<Any> {
  const end = performance.now() + 40_000;
  for (;;) {
    const record = await recordOf(house, project, id);
    if (typeof holds === "string" ? record.status === holds : holds(record)) return record;
    const isFailed = record.status === "FAILED" && holds !== "FAILED";
    if (isFailed || performance.now() > end) assert.fail(`never came: ${holds} of ${JSON.stringify(record)}`);
    await sleep(20);
  }
}

const toldOf = (house: AlignmentsHouse, id: string): string[] =>
  house.told
    .filter(({ autoAlignId }) => autoAlignId === id)
    .map(({ from, to, phase }) => `${from} ${to}${phase === null ? "" : ` ${phase}`}`);

async function eventsOf(house: AlignmentsHouse, project: string, id: string, lastEventId?: string) {
  const given = { ...idsOf(project, id), ...(lastEventId === undefined ? {} : { lastEventId }) };
  const stream = (await house.call("alignments.auto_align_events", given)) as EventStream;
  const events: StreamEvent[] = [];
  for await (const event of stream.events) events.push(event);
  return events;
}

describe("one house", () => {
  let house: AlignmentsHouse;
  before(async () => {
    house = await alignmentsHouse({ acted: true, maxRuns: 4, items: asked });
  });
  after(() => house.close());
  const stop = (alignment: string, id: string, caller = ada) =>
    house.call("alignments.auto_align_stop", idsOf(alignment, id), caller);
  const resume = (alignment: string, id: string, caller = ada) =>
    house.call("alignments.auto_align_resume", idsOf(alignment, id), caller);

  test("from request through phases and looks to a model: record, status, transitions, events, folder", async () => {
    const of = await project(house, { plan: ["supervised", "look", "distil", "look"], ends: "REACHED" });
    const config = { adapter: { rank: 9 }, mine: [1, "a"] };
    const accepted = await house.call("alignments.auto_align", {
      params: { alignment_id: of },
      body: { target_score: 80, max_compute_hours: 4, config },
    });
    assert.equal(accepted.status, "RECORDED");
    assert.equal(accepted.alignment_id, of);
    const id = accepted.auto_align_id;
    const record = await until(house, of, id, "REACHED");
    assert.deepEqual(record.config, config);
    assert.equal(record.confirmed, false);
    assert.deepEqual(record.hours, { spent: 1, left: 3 });
    assert.deepEqual([record.phases, record.phase, record.stopping, record.error], [2, null, false, null]);
    assert.deepEqual(record.dev, { score: 20, low: 0, high: 100, n: 12 });
    assert.equal(record.looks.length, 2);
    assert.deepEqual(record.help, ["More documents"]);
    assert.deepEqual(
      record.cards.map((card: Any) => [card.step, card.next.kind, card.next.phase?.arm]),
      [
        [0, "phase", "supervised"],
        [1, "look", undefined],
        [2, "phase", "distil"],
        [3, "look", undefined],
        [4, "end", undefined],
      ],
    );
    assert.ok(record.model_id && record.ended_date);
    assert.ok(house.made.evaluations.includes(`${record.model_id} benchmark_ada`));
    const moves = ["RECORDED PLANNING", "PLANNING RUNNING supervised", "RUNNING RUNNING distil", "RUNNING REACHED"];
    assert.deepEqual(toldOf(house, id), moves);

    const {
      auto_align: shown,
      status,
      model_id,
    } = await house.call("alignments.status", {
      params: { alignment_id: of },
    });
    assert.equal(status, "COMPLETED");
    assert.notEqual(model_id, record.model_id);
    assert.deepEqual(
      { ...shown[0], created_date: "" },
      {
        ...{ auto_align_id: id, status: "REACHED", phase: null, phases: 2, dev: record.dev, target_score: 80 },
        ...{ hours: 1, model_id: record.model_id, created_date: "" },
      },
    );

    const events = await eventsOf(house, of, id);
    const told = events.filter(({ event }) => event === "transition").map(({ data }) => JSON.parse(data));
    assert.deepEqual(
      told.map(({ from, to, phase }) => `${from} ${to}${phase === null ? "" : ` ${phase}`}`),
      moves,
    );
    assert.ok(events.some(({ data }) => JSON.parse(data).kind === "step"));
    for (const at of [1, 5, events.length - 2])
      assert.deepEqual(await eventsOf(house, of, id, events[at]!.id), events.slice(at + 1));
    await assert.rejects(eventsOf(house, of, id, "7"), fails(422, /last-event-id/));

    // The run is told sizes, and nothing that is sealed.
    const request = JSON.parse(readFileSync(join(house.runs, id, "request.json"), "utf8"));
    assert.deepEqual(request.auto_align.thirds, [2, 2, 2]);
    assert.deepEqual(request.auto_align.request.config, config);
    assert.deepEqual([request.auto_align.resumes, request.auto_align.stopping], [[], false]);
    assert.equal(request.dev.items, 2);
    const text = readdirSync(join(house.runs, id), { recursive: true, encoding: "utf8", withFileTypes: true })
      .filter((file) => file.isFile())
      .map((file) => readFileSync(join(file.parentPath, file.name), "utf8"))
      .join("\n");
    for (const secret of [...secrets, "sealed door"]) assert.ok(!text.includes(secret), secret);
  });

  test("what earlier ones gained over the same base is given to the next, the latest first", async () => {
    const of = await project(house, { plan: ["supervised", "distil"] });
    await until(house, of, await begin(house, of), "BUDGET_SPENT");
    const id = await begin(house, of);
    await until(house, of, id, "BUDGET_SPENT");
    const { past } = JSON.parse(readFileSync(join(house.runs, id, "request.json"), "utf8")).auto_align;
    assert.ok(past.length >= 2);
    assert.deepEqual(past[0], { arm: "supervised", headroom: 40, gain: 10 });
  });

  test("a row of its own is in no list and is no alignment of anybody; what it uses is in use", async () => {
    const of = await project(house, { plan: ["supervised"], waitsIn: 1 });
    const documentId = JSON.parse(
      house.store
        .prepare<[string], { ids: string }>("SELECT document_ids_json AS ids FROM alignment WHERE id = ?")
        .get(of)!.ids,
    )[0];
    const id = await begin(house, of);
    await until(house, of, id, (record) => record.phase === "supervised");
    const { alignment_projects: rows } = await house.call("alignments.list", { query: { limit: 100 } });
    assert.ok(rows.every((row: Any) => row.id.startsWith("alignment_")));
    for (const name of ["alignments.status", "alignments.stop", "alignments.delete", "alignments.events"] as const)
      await assert.rejects(house.call(name, { params: { alignment_id: id } }), fails(404, /not found/));
    await assert.rejects(
      house.call("alignments.auto_align", { params: { alignment_id: id }, body: { target_score: 1 } }),
      fails(404, /not found/),
    );
    // The same alignment can be asked for, and is another one.
    assert.ok(house.catalog.runs.isAligning(ada.userId));
    assert.deepEqual(house.catalog.runs.alignmentsOn("benchmark_ada"), [of]);
    assert.deepEqual(
      house.catalog.runs.snapshotsOf(ada.userId, documentId).map((one) => [one.alignment_id, one.under_way]),
      [[of, true]],
    );
    await assert.rejects(house.snapshots.remove(ada.userId, documentId), fails(409, /Running alignments/));
    await assert.rejects(begin(house, of), fails(409, /RUNNING/));
    await assert.rejects(house.call("alignments.delete", { params: { alignment_id: of } }), fails(409, /stop it/));
    await stop(of, id);
    const record = await until(house, of, id, "STOPPED");
    assert.equal(record.model_id, null, "the phase was not carried out: the base is the best");
    // Ended, it holds nothing back; without the snapshot no other can begin.
    await house.snapshots.remove(ada.userId, documentId);
    assert.ok(!existsSync(join(house.runs, id, "snapshot/documents/0.json")));
    assert.ok(!existsSync(join(house.runs, id, "plan")));
    await assert.rejects(begin(house, of), fails(409, /snapshot of a.txt was deleted/));
  });

  test("none begins while one of its project's documents is being removed", async (t) => {
    const of = await project(house, { plan: ["supervised"] });
    const { documents } = JSON.parse(readFileSync(join(house.runs, of, "order.json"), "utf8"));
    const isLosing = t.mock.method(house.snapshots, "isLosing", () => true);
    await assert.rejects(begin(house, of), fails(409, /snapshot/));
    assert.deepEqual(isLosing.mock.calls[0]!.arguments, [documents.map(({ id }: Any) => id)]);
    isLosing.mock.restore();
    await until(house, of, await begin(house, of), "BUDGET_SPENT");
  });

  test("stopped while a phase runs it packages the best so far; silenced transitions are kept, not told", async () => {
    const of = await project(house, { plan: ["supervised", "distil"], waitsIn: 2 });
    const id = await begin(house, of, { notify_on_phase_transition: false });
    await until(house, of, id, (record) => record.phase === "distil");
    await assert.rejects(resume(of, id), fails(409, /RUNNING/));
    await assert.rejects(stop(of, id, bob), fails(404, /not found/));
    const answers = await Promise.allSettled([stop(of, id), stop(of, id)]);
    assert.deepEqual(answers.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    const record = await until(house, of, id, "STOPPED");
    assert.deepEqual([record.phases, record.stopping], [1, true]);
    assert.ok(record.model_id);
    assert.deepEqual(toldOf(house, id), []);
    const told = (await eventsOf(house, of, id)).filter(({ event }) => event === "transition");
    assert.equal(told.length, 4);
    await assert.rejects(stop(of, id), fails(409, /ended/));
  });

  test("stopped before its first decision it is STOPPED at once, without a model", async () => {
    const of = await project(house, { plan: ["supervised"], waitsIn: 0 });
    const id = await begin(house, of);
    await until(
      house,
      of,
      id,
      (record) => record.status === "PLANNING" && existsSync(join(house.runs, id, "events.jsonl")),
    );
    await stop(of, id);
    const record = await until(house, of, id, "STOPPED");
    assert.equal(record.model_id, null);
    assert.deepEqual(toldOf(house, id), ["RECORDED PLANNING", "PLANNING STOPPED"]);
    assert.equal(house.queue.of(id, "align")!.state, "stopped");
  });

  test("a run that refuses to stop goes on, and may be asked again", async () => {
    const of = await project(house, { plan: ["supervised"], waitsIn: 1, refusesStop: true });
    const id = await begin(house, of);
    await until(house, of, id, (record) => record.phase === "supervised");
    await assert.rejects(stop(of, id), fails(502, /because/));
    assert.equal((await recordOf(house, of, id)).stopping, false);
    await assert.rejects(stop(of, id), fails(502, /because/));
  });

  test("paused, resumed, paused again, and stopped from there", async () => {
    const of = await project(house, {
      plan: ["supervised", "pause", "look", "distil", "pause", "scale", "pause"],
    });
    const id = await begin(house, of);
    const paused = await until(house, of, id, "PAUSED");
    assert.deepEqual(paused.help, ["More documents"]);
    assert.deepEqual([paused.phases, paused.model_id, paused.ended_date], [1, null, null]);
    assert.equal(house.queue.of(id, "align")!.state, "succeeded");
    await assert.rejects(begin(house, of), fails(409, /PAUSED/));
    assert.deepEqual(house.catalog.runs.alignmentsOn("benchmark_ada").includes(of), true);
    await assert.rejects(resume(of, id, bob), fails(404, /not found/));
    assert.equal((await resume(of, id)).status, "RUNNING");
    const again = await until(house, of, id, (record) => record.status === "PAUSED" && record.phases === 2);
    assert.equal(again.cards.length, 5);
    assert.equal((await resume(of, id)).status, "RUNNING");
    await until(house, of, id, (record) => record.status === "PAUSED" && record.phases === 3);
    assert.equal((await stop(of, id)).status, "RUNNING");
    const record = await until(house, of, id, "STOPPED");
    assert.ok(record.model_id);
    const { auto_align } = JSON.parse(readFileSync(join(house.runs, id, "request.json"), "utf8"));
    assert.deepEqual(auto_align.resumes, [
      { phases: 1, looks: 0 },
      { phases: 2, looks: 1 },
    ]);
    assert.deepEqual(toldOf(house, id), [
      "RECORDED PLANNING",
      "PLANNING RUNNING supervised",
      "RUNNING PAUSED",
      "PAUSED RUNNING",
      "RUNNING RUNNING distil",
      "RUNNING PAUSED",
      "PAUSED RUNNING",
      "RUNNING RUNNING scale",
      "RUNNING PAUSED",
      "PAUSED RUNNING",
      "RUNNING STOPPED",
    ]);
  });

  test("no phase that brings anything leaves no model", async () => {
    const of = await project(house, { plan: ["supervised", "look"], isBase: true });
    const id = await begin(house, of);
    const record = await until(house, of, id, "BUDGET_SPENT");
    assert.deepEqual([record.model_id, record.confirmed], [null, null]);
  });

  test("memory is reserved for what the run trains: by the configuration, and by no longer rows than the base can read", async () => {
    const of = await project(house, { plan: ["supervised", "look"] });
    const config = { adapter: { rank: 256 }, rendering: { max_seq_len: 2048 } };
    await until(house, of, await begin(house, of, { config }), "BUDGET_SPENT");
    const { adapter, rendering } = house.costed.at(-1)!;
    assert.deepEqual([adapter.rank, rendering.max_seq_len], [256, 2048]);
    const long = { rendering: { max_seq_len: 8192 } };
    await until(house, of, await begin(house, of, { config: long }), "BUDGET_SPENT");
    assert.equal(house.costed.at(-1)!.rendering.max_seq_len, 4096);
  });

  test("what cannot be planned is recorded, and FAILED says why", async () => {
    const of = await project(house, { plan: [] });
    const bare = await house.align({ plan: [] });
    await house.until(bare, "COMPLETED");
    for (const [alignment, body, code, words] of [
      [bare, {}, "auto_align_unmeasurable", /names an existing benchmark/],
      [of, { config: { base_model: "model_none" } }, "not_found", /Base model/],
      [of, { config: { base_model: "model_odd" } }, "base_model_unsupported", /architecture/],
      [of, { config: { base_model: "organisation/name" } }, "hub_unavailable", /cannot be fetched/],
      // A sealed question, by its number alone: its answer is a colour.
      [
        of,
        { config: { reward: { verifier_ref: "builtin:numeric" }, evaluation: { metrics: ["reward"] } } },
        "validation",
        /evaluation\.metrics: reward cannot score question \d+ /,
      ],
    ] as const) {
      const accepted = await house.call("alignments.auto_align", {
        params: { alignment_id: alignment },
        body: { target_score: 5, ...body },
      });
      assert.equal(accepted.status, "FAILED");
      assert.match(accepted.message, words);
      const record = await recordOf(house, alignment, accepted.auto_align_id);
      assert.equal(record.error.code, code);
      assert.ok(record.error.hint.length > 0);
      assert.deepEqual(toldOf(house, accepted.auto_align_id), ["RECORDED PLANNING", "PLANNING FAILED"]);
      assert.ok(!existsSync(join(house.runs, accepted.auto_align_id)));
      const events = await eventsOf(house, alignment, accepted.auto_align_id);
      assert.equal(events.length, 2);
    }
    // With a benchmark of the request's own it can be.
    const id = await begin(house, bare, { benchmark_id: "benchmark_ada" });
    await until(house, bare, id, "BUDGET_SPENT");
  });

  test("a run that breaks the contract fails with a reason", async () => {
    const cases = [
      ["no_word", "run_crashed", /does not report on its auto-align/],
      ["bad_status", "run_crashed", /its status is RUNNING/],
      ["odd_checkpoint", "run_crashed", /has no adapter/],
    ] as const;
    for (const [lie, code, words] of cases) {
      const of = await project(house, { plan: lie === "odd_checkpoint" ? ["look"] : ["supervised"], lie });
      const id = await begin(house, of);
      const { error, model_id } = await until(house, of, id, "FAILED");
      assert.equal(error.code, code);
      assert.match(error.message, words);
      assert.equal(model_id, null);
      assert.equal(house.queue.of(id, "align")!.state, "failed");
    }
    for (const lie of ["no_card", "bad_card"] as const) {
      const of = await project(house, { plan: ["supervised"], lie });
      const id = await begin(house, of);
      const record = await until(house, of, id, "BUDGET_SPENT");
      assert.deepEqual(record.cards, []);
      assert.deepEqual(toldOf(house, id), ["RECORDED PLANNING", "PLANNING RUNNING", "RUNNING BUDGET_SPENT"]);
    }
  });

  test("deleting the project takes its auto-aligns along, but for their models", async () => {
    const of = await project(house, { plan: ["supervised"] });
    const id = await begin(house, of);
    const { model_id } = await until(house, of, id, "BUDGET_SPENT");
    const { message } = await house.call("alignments.delete", { params: { alignment_id: of } });
    assert.ok(message.includes(model_id), message);
    for (const folder of [of, id]) assert.ok(!existsSync(join(house.runs, folder)));
    await assert.rejects(recordOf(house, of, id), fails(404, /not found/));
    const row = house.store.prepare<[string], { name: string }>("SELECT name FROM alignment WHERE id = ?");
    assert.equal(row.get(id)!.name, "", "what its model was made of stays with it");
    house.store.prepare<[string]>("DELETE FROM aligned_model WHERE id = ?").run(model_id);
    house.erasure.loseModel(id);
    assert.equal(row.get(id), undefined);
  });

  test("the database refuses what no status allows", () => {
    const insert = (status: string) =>
      house.store
        .prepare<string[]>(
          `INSERT INTO auto_align(id, owner_id, alignment_id, status, request_json, config_text, created_seq, created_at, updated_at)
           VALUES(?, 'user_ada', (SELECT id FROM alignment LIMIT 1), ?, '{}', 'null', 1, '', '')`,
        )
        .run(`auto_align_${status}`, status);
    assert.throws(() => insert("RUNNING"), /illegal beginning/);
    insert("RECORDED");
    const move = house.store.prepare<string[]>("UPDATE auto_align SET status = ? WHERE id = 'auto_align_RECORDED'");
    assert.throws(() => move.run("RUNNING"), /illegal move/);
    assert.throws(() => move.run("nonsense"), /CHECK|illegal/);
  });
});

test("a benchmark about too few facts is told at planning, with how many it has", async () => {
  const house = await alignmentsHouse({ acted: true, items });
  try {
    const of = await project(house, { plan: [] });
    const { status, message } = await house.call("alignments.auto_align", {
      params: { alignment_id: of },
      body: { target_score: 5 },
    });
    assert.equal(status, "FAILED");
    assert.match(message, /1 sealed questions are about 1 facts/);
  } finally {
    await house.close();
  }
});

describe("killed and started again", () => {
  const plan = ["supervised", "look", "distil", "pause", "scale", "look"];
  const expected = [
    "RECORDED PLANNING",
    "PLANNING RUNNING supervised",
    "RUNNING RUNNING distil",
    "RUNNING PAUSED",
    "PAUSED RUNNING",
    "RUNNING RUNNING scale",
    "RUNNING REACHED",
  ];

  /** What came of it: whatever died, this is the same. */
  async function outcome(house: AlignmentsHouse, of: string, id: string) {
    await until(house, of, id, "PAUSED");
    await house.call("alignments.auto_align_resume", idsOf(of, id));
    const record = await until(house, of, id, "REACHED");
    const looks = [0, 1].map((look) => readFileSync(join(house.runs, id, "looks", `${look}`, "scores.json"), "utf8"));
    return { phases: record.phases, cards: record.cards.length, hours: record.hours.spent, looks };
  }

  test("the run dies once at every place, and decides and tells the same", async () => {
    const asks: number[][] = [];
    const house = await alignmentsHouse({
      acted: true,
      items: asked,
      score: async ({ samples }) => {
        asks.push([...samples]);
        return { scores: samples.map(() => 1), hours: 0.25 };
      },
    });
    try {
      const whole = await project(house, { plan, ends: "REACHED" });
      const id = await begin(house, whole);
      const first = await outcome(house, whole, id);
      assert.deepEqual(toldOf(house, id), expected);
      assert.equal(new Set(asks.flat()).size, 4, "two thirds, and disjoint");
      for (const places of [
        ["card 0", "phase 1", "card 1"],
        ["phase 2", "card 4", "phase 3", "before end"],
      ]) {
        const of = await project(house, { plan, ends: "REACHED", diesAt: places });
        const id = await begin(house, of);
        assert.deepEqual(await outcome(house, of, id), first, places.join());
        assert.deepEqual(toldOf(house, id), expected, places.join());
      }
    } finally {
      await house.close();
    }
  });

  test("one that dies more often than a job is tried goes on, as long as each decision is a new one", async () => {
    const house = await alignmentsHouse({ acted: true, items: asked });
    try {
      const diesAt = ["card 0", "phase 1", "card 1", "phase 2", "card 2", "phase 3", "before end"];
      const of = await project(house, { plan: ["supervised", "distil", "scale"], diesAt });
      const id = await begin(house, of);
      await until(house, of, id, "BUDGET_SPENT");
      const { fence, attempt, maxAttempts } = house.queue.of(id, "align")!;
      assert.ok(fence > maxAttempts && attempt <= maxAttempts, `${fence} claims, attempt ${attempt}`);
    } finally {
      await house.close();
    }
  });

  test("one that dies again and again without a new decision is given up", async () => {
    const house = await alignmentsHouse({ acted: true, items: asked });
    try {
      const of = await project(house, { plan: ["supervised", "distil"], diesAt: ["card 0"], diesAlwaysAt: "phase 2" });
      const id = await begin(house, of);
      const { error } = await until(house, of, id, "FAILED");
      assert.equal(error.code, "run_crashed");
      const { attempt, maxAttempts } = house.queue.of(id, "align")!;
      assert.equal(attempt, maxAttempts);
    } finally {
      await house.close();
    }
  });

  test("the appliance goes down in a phase, in a look, before its scores are written and after, and while paused", async () => {
    let [looks, isHeld] = [0, true];
    const looking = Promise.withResolvers<void>();
    const house = await alignmentsHouse({
      acted: true,
      items: asked,
      score: async ({ samples, signal }) => {
        looks++;
        if (isHeld) {
          looking.resolve();
          await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
        }
        return { scores: samples.map(() => 1), hours: 0.25 };
      },
    });
    try {
      const plan = ["supervised", "look", "pause", "distil"];
      const of = await project(house, { plan, ends: "REACHED", waitsIn: 1, waitsOnce: true });
      const id = await begin(house, of);
      const told: string[] = [];
      const restart = async () => {
        told.push(...toldOf(house, id));
        await house.restart();
      };
      await until(house, of, id, (record) => record.phase === "supervised");
      await restart();
      await looking.promise;
      isHeld = false;
      await restart();
      await until(house, of, id, "PAUSED");
      assert.equal(looks, 2, "asked again, since nothing was written");
      await restart();
      await house.call("alignments.auto_align_resume", idsOf(of, id));
      await restart();
      const record = await until(house, of, id, "REACHED");
      told.push(...toldOf(house, id));
      assert.equal(looks, 2);
      assert.ok(record.model_id);
      assert.deepEqual(told, [
        "RECORDED PLANNING",
        "PLANNING RUNNING supervised",
        "RUNNING PAUSED",
        "PAUSED RUNNING",
        "RUNNING RUNNING distil",
        "RUNNING REACHED",
      ]);
    } finally {
      await house.close();
    }
  });

  test("a stop in a look ends it, and the best so far is packaged", async () => {
    const looking = Promise.withResolvers<void>();
    const house = await alignmentsHouse({
      acted: true,
      items: asked,
      score: ({ signal }) => {
        looking.resolve();
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      },
    });
    try {
      const of = await project(house, { plan: ["supervised", "look"] });
      const id = await begin(house, of);
      await looking.promise;
      assert.deepEqual(house.gpu.snapshot().grants, [], "the run's memory is free for the look");
      await house.call("alignments.auto_align_stop", idsOf(of, id));
      const record = await until(house, of, id, "STOPPED");
      assert.ok(record.model_id);
    } finally {
      await house.close();
    }
  });

  test("scores that are there are read, not asked for again; want of room is waited for; what fails fails", async () => {
    let [looks, fault] = [0, new Failure("out_of_memory", "others hold it", { context: { fitsAlone: true } })];
    const house = await alignmentsHouse({
      acted: true,
      items: asked,
      score: async ({ samples }) => {
        if (looks++ % 2 === 0) throw fault;
        return { scores: samples.map(() => 1), hours: 0.25 };
      },
    });
    try {
      const of = await project(house, { plan: ["supervised", "look"] });
      await until(house, of, await begin(house, of), "BUDGET_SPENT");
      assert.equal(looks, 2);
      fault = new Failure("model_load_failed", "it does not load");
      const id = await begin(house, of);
      const { error } = await until(house, of, id, "FAILED");
      assert.equal(error.code, "model_load_failed");
      const known = await project(house, { plan: ["pause", "look"] });
      const paused = await begin(house, known);
      await until(house, known, paused, "PAUSED");
      mkdirSync(join(house.runs, paused, "looks/0"), { recursive: true });
      writeFileSync(
        join(house.runs, paused, "looks/0/scores.json"),
        JSON.stringify({ scores: [1], clusters: ["a"], hours: 0.1 }),
      );
      rmSync(join(house.runs, paused, "result.json"));
      await house.call("alignments.auto_align_stop", idsOf(known, paused));
      await until(house, known, paused, "STOPPED");
      assert.equal(looks, 3);
    } finally {
      await house.close();
    }
  });

  test("a job that ended while the appliance went down is told at the next start", async () => {
    const house = await alignmentsHouse({ acted: true, items: asked });
    try {
      const of = await project(house, { plan: ["supervised"], waitsIn: 1 });
      const id = await begin(house, of);
      await until(house, of, id, (record) => record.phase === "supervised");
      house.store.prepare<[string]>("UPDATE job SET attempt = max_attempts, epoch = 0 WHERE subject_id = ?").run(id);
      house.queue.recover();
      await house.restart();
      const { error } = await until(house, of, id, "FAILED");
      assert.equal(error.code, "supervisor_restart");
    } finally {
      await house.close();
    }
  });
});
