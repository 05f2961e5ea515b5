// Alignments from request to result: who gets what answer, what a run may know, and how every way of ending ends.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { sha256 } from "../../src/base/files.ts";
import type { Download, EventStream, StreamEvent } from "../../src/contract/endpoint.ts";
import { type AlignmentsHouse, ada, alignmentsHouse, bob, items, watch } from "./alignments-house.ts";

const fails =
  (status: number, words: RegExp = /./) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof Failure, String(error));
    assert.equal(error.status, status, error.message);
    assert.match(error.message, words);
    return true;
  };

const body = {
  alignment_name: "it",
  base_model_id: "model_base",
  document_ids: ["document_a"],
  workflow_id: "quick",
};

describe("one house", () => {
  let house: AlignmentsHouse;
  before(async () => {
    house = await alignmentsHouse({ maxRuns: 4 });
  });
  after(() => house.close());
  const idOf = (id: string) => ({ params: { alignment_id: id } });
  const preparing = async (id: string): Promise<void> => {
    while (!existsSync(join(house.runs, id, "pid"))) await new Promise((resolve) => setTimeout(resolve, 10));
    while ((await house.call("alignments.status", idOf(id))).progress_detail === null)
      await new Promise((resolve) => setTimeout(resolve, 10));
  };

  test("creating: what is refused, and how", async () => {
    const refused: [given: object, status: number, words: RegExp][] = [
      [{ document_ids: [] }, 422, /./],
      [{ document_ids: undefined }, 422, /./],
      [{ alignment_name: "" }, 422, /./],
      [{ unknown: 1 }, 422, /./],
      [{ document_ids: Array.from({ length: 10_001 }, (_, index) => `document_${index}`) }, 422, /./],
      [{ workflow_id: "../secret" }, 422, /workflow_id/],
      [{ workflow_id: "https://example.org/x.json" }, 422, /workflow_id/],
      [{ workflow_id: "constructor" }, 422, /workflow_id/],
      [{ base_model_id: "model_none" }, 404, /Base model/],
      [{ base_model_id: "model_odd" }, 400, /architecture is unknown/],
      [{ base_model_id: "hf://org/model" }, 400, /cannot be fetched/],
      [{ base_model_id: "file:///etc/passwd" }, 400, /file:\/\/ is not supported/],
      [{ document_ids: ["document_a", "document_bob"] }, 404, /document/i],
      [{ document_ids: ["nonsense"] }, 404, /document/i],
      [{ benchmark_id: "benchmark_none" }, 404, /Benchmark/],
    ];
    for (const [given, status, words] of refused) {
      const sent = JSON.parse(JSON.stringify({ ...body, ...given }));
      await assert.rejects(
        house.call("alignments.create", { body: sent }),
        fails(status, words),
        JSON.stringify(given),
      );
    }
    await assert.rejects(
      house.call("alignments.create", { body: { ...body, benchmark_id: "benchmark_ada" } }, bob),
      fails(404, /Benchmark/),
    );
    assert.deepEqual(readdirSync(house.runs), []);
    const error = await house.call("alignments.create", { body: { ...body, workflow_id: "nope" } }).catch((e) => e);
    assert.deepEqual(error.details[0].loc, ["body", "workflow_id"]);
  });

  test("a run from creation to model: status, rows, folder, result", async () => {
    const id = await house.align({ steps: 4 }, { benchmark_id: "benchmark_ada", description: "why" });
    const done = await house.until(id, "COMPLETED");
    assert.equal(done.progress, 100);
    assert.deepEqual([done.phase, done.last_phase], ["ended", "packaging"]);
    assert.equal(done.description, "why");
    assert.equal(done.error, null);
    assert.equal(done.performance_metrics.dev_score, 80);
    assert.equal(done.performance_metrics.tokens_per_second, 100);
    assert.ok(!("loss_hex" in done.performance_metrics));
    assert.ok(done.model_id && done.started_date && done.completed_date);
    assert.deepEqual(house.made.evaluations, [`${done.model_id} benchmark_ada`]);

    const { seen } = done.report;
    assert.deepEqual(seen.budget, done.budget);
    assert.equal(seen.fence, 1);
    assert.equal(seen.recipe_name, "quick");
    assert.equal(seen.dev.items, 2);
    // The hashes that the records have go with it, so that its report can name them.
    const { sha256s } = house.store
      .prepare<[string], { sha256s: string }>("SELECT document_sha256s_json AS sha256s FROM alignment WHERE id = ?")
      .get(id)!;
    const originals = seen.documents.map((one: { original_sha256: string }) => one.original_sha256);
    assert.deepEqual([originals, seen.dev.benchmark_sha256], [JSON.parse(sha256s), sha256("x")]);
    assert.equal(seen.base.path, "/base.gguf");
    const { path: _, ...base } = seen.base;
    assert.deepEqual(done.report.base, base, "where the base lies on this machine is nobody's business");

    const { alignment_projects: rows } = await house.call("alignments.list");
    const row = rows.find((one: { id: string }) => one.id === id);
    assert.equal(row.status, "COMPLETED");
    assert.equal(row.creator, "ada");
    assert.equal(row.document_count, 1);
    const sourcesOf = (modelId: string) =>
      house.store
        .prepare<[string], { sources_path: string | null }>("SELECT sources_path FROM aligned_model WHERE id = ?")
        .get(modelId)!.sources_path;
    const sources = JSON.parse(readFileSync(sourcesOf(done.model_id)!, "utf8"));
    assert.deepEqual(sources, { format: 1, documents: [id], passages: [] });
    const older = await house.until(await house.align({ older: true }), "COMPLETED");
    assert.equal(sourcesOf(older.model_id), null);
    assert.ok(!("progress" in row) && !("error" in row) && !("phase" in row) && !("progress_detail" in row));
    assert.deepEqual((await house.call("alignments.list", {}, bob)).alignment_projects, []);
  });

  test("a row of the list says how far the run is, as its status does", async () => {
    const id = await house.training(await house.align({ waits: true }));
    const status = await watch(house, id, (found) => found.progress_detail?.unit === "steps");
    const { alignment_projects: rows } = await house.call("alignments.list", { query: { status: "PENDING" } });
    const row = rows.find((one: { id: string }) => one.id === id);
    assert.deepEqual([row.phase, row.progress_detail.unit], ["training", "steps"]);
    assert.ok(row.progress_detail.done >= status.progress_detail.done && row.progress >= status.progress);
    await house.call("alignments.stop", { params: { alignment_id: id } });
    await house.until(id, "STOPPED");
  });

  test("nothing of the sealed split is anywhere in the run's folder", async () => {
    const id = await house.align({ steps: 2 }, { benchmark_id: "benchmark_ada" });
    await house.until(id, "COMPLETED");
    const files = readdirSync(join(house.runs, id), { recursive: true, encoding: "utf8", withFileTypes: true });
    const text = files
      .filter((file) => file.isFile())
      .map((file) => readFileSync(join(file.parentPath, file.name), "utf8"))
      .join("\n");
    for (const secret of ["teal", "third warehouse", "capital of France"]) assert.ok(!text.includes(secret), secret);
    const dev = readFileSync(join(house.runs, id, "snapshot/dev.jsonl"), "utf8")
      .trim()
      .split("\n");
    assert.deepEqual(
      dev.map((line) => JSON.parse(line)).map(({ sample_num, competitors }) => ({ sample_num, competitors })),
      [
        { sample_num: 1, competitors: ["Jo Lind"] },
        { sample_num: 3, competitors: ["Marta Keller"] },
      ],
    );
  });

  test("a sealed question among the training rows fails the run, and no model is made", async () => {
    const before = house.made.models.length;
    const asked = { benchmark_id: "benchmark_ada" };
    const late = await house.align({ row: items[1]!.instruction, steps: 1 }, asked);
    const found = await house.until(late, "FAILED");
    assert.match(found.error, /samples 2/);
    // Long before it would have ended.
    const early = await house.align({ row: `Well: ${items[1]!.instruction}`, waits: true }, asked);
    assert.match((await house.until(early, "FAILED")).error, /samples 2/);
    assert.equal(house.made.models.length, before);
    assert.equal(house.queue.of(early, "align")!.errorCode, "benchmark_leak");
    // Without that benchmark the row is a row like others.
    await house.until(await house.align({ row: items[1]!.instruction, steps: 1 }), "COMPLETED");
  });

  test("a run that breaks the contract fails with a reason; one that fails says its own", async () => {
    const cases = [
      [{ lie: "no_result" }, /result\.json: does not exist/],
      [{ lie: "bad_json" }, /result\.json/],
      [{ lie: "wrong_hash" }, /does not match the result/],
      [{ lie: "old_fence" }, /result\.json/],
      [{ lie: "no_report" }, /no report\.json/],
      [{ lie: "report_no_json" }, /not valid JSON/],
      [{ lie: "wrong_exit" }, /says completed/],
      [{ dies: { times: 9, saved: false } }, /SIGKILL: the last words/],
      [{ fails: { code: "no_training_rows", message: "Nothing to learn" } }, /^Nothing to learn$/],
      [{ fails: { code: "odd", message: "Nobody knows" } }, /^odd: Nobody knows$/],
    ] as const;
    const before = house.made.models.length;
    const started = await Promise.all(cases.map(([behaviour]) => house.align(behaviour)));
    for (const [index, [, words]] of cases.entries()) {
      const found = await house.until(started[index]!, "FAILED");
      assert.match(found.error, words);
      assert.equal(found.model_id, null);
    }
    assert.equal(house.made.models.length, before);
    assert.equal(house.queue.of(started.at(-1)!, "align")!.errorCode, "run_failed");
    assert.equal(house.queue.of(started.at(-2)!, "align")!.errorCode, "no_training_rows");
    const { alignment_projects: rows } = await house.call("alignments.list", { query: { limit: 100 } });
    assert.match(rows.find((row: { id: string }) => row.id === started[0]).error, /result\.json/);
    const listed = async (query: object) => (await house.call("alignments.list", { query })).alignment_projects;
    const failed = await listed({ status: "FAILED", limit: 100 });
    assert.deepEqual(
      failed,
      rows.filter((row: { status: string }) => row.status === "FAILED"),
    );
    assert.deepEqual(await listed({ status: "FAILED", limit: 1, offset: 1 }), [failed[1]]);
    await assert.rejects(listed({ status: "PROCESSING" }), fails(422));
  });

  test("a run that dies past a checkpoint is tried again, and progress never falls", async () => {
    const id = await house.align({ dies: { times: 2, saved: true }, steps: 5, stepMs: 20 });
    let highest = 0;
    for (;;) {
      const { progress, status } = await house.call("alignments.status", idOf(id));
      assert.ok(progress >= highest, `${progress} after ${highest}`);
      highest = progress;
      if (status !== "PROCESSING") break;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await house.until(id, "COMPLETED");
    assert.equal(readFileSync(join(house.runs, id, "tries"), "utf8"), "3");
    assert.equal(house.queue.of(id, "align")!.attempt, 3);
  });

  test("fifty identical creates at once are one run; in another order of documents, too", async () => {
    const given = { ...body, document_ids: ["document_x#1", "document_y#2"] };
    const replies = await Promise.all(
      Array.from({ length: 50 }, (_, index) => {
        const document_ids = index % 2 === 0 ? given.document_ids : given.document_ids.toReversed();
        return house.call("alignments.create", { body: { ...given, alignment_name: `n${index}`, document_ids } });
      }),
    );
    assert.equal(new Set(replies.map((reply) => reply.alignment_id)).size, 1);
    assert.equal(replies.filter((reply) => reply.message === undefined).length, 1);
    assert.ok(replies.every((reply) => reply.status === "PROCESSING"));
    const id = replies[0].alignment_id;
    const theirs = await house.call("alignments.create", { body: given }, bob);
    assert.notEqual(theirs.alignment_id, id);
    await house.until(id, "COMPLETED");
    const again = await house.call("alignments.create", { body: given });
    assert.notEqual(again.alignment_id, id);
    await house.until(again.alignment_id, "COMPLETED");
    const known = house.store
      .prepare<[], { id: string }>("SELECT id FROM alignment")
      .all()
      .map((row) => row.id);
    assert.deepEqual(readdirSync(house.runs).sort(), known.sort());
  });

  test("stop: acknowledged, refused, unanswered, not started, ended, foreign, twice", async () => {
    const stop = (id: string, caller = ada) => house.call("alignments.stop", idOf(id), caller);
    const good = await house.training(await house.align({ waits: true }));
    await assert.rejects(stop(good, bob), fails(404));
    const answers = await Promise.allSettled([stop(good), stop(good)]);
    const statuses = answers.map((answer) =>
      answer.status === "fulfilled" ? answer.value.status : answer.reason.status,
    );
    assert.equal(statuses.filter((status) => status === 400).length, 1, String(statuses));
    assert.ok(
      statuses.some((status) => status === "STOPPING" || status === "STOPPED"),
      String(statuses),
    );
    const stopped = await house.until(good, "STOPPED");
    assert.equal(stopped.model_id, null);
    assert.equal(stopped.error, null);
    await assert.rejects(stop(good), fails(400, /already ended/));

    const early = await house.align({ prepares: true });
    await preparing(early);
    await assert.rejects(stop(early), fails(400, /not started training/));
    await house.call("alignments.delete", idOf(early));

    const rude = await house.training(await house.align({ waits: true, onStop: "refused" }));
    await assert.rejects(stop(rude), fails(502, /because/));
    assert.equal((await house.call("alignments.status", idOf(rude))).status, "PROCESSING");
    await assert.rejects(stop(rude), fails(502));
  });

  test("deleting one that prepares cancels it: its run ends, nothing is left of it, and the same can be asked for again", async () => {
    const gone = async (id: string): Promise<void> => {
      await assert.rejects(house.call("alignments.status", idOf(id)), fails(404));
      const row = house.store.prepare<[string], { id: string }>("SELECT id FROM alignment WHERE id = ?");
      for (let tries = 0; row.get(id) !== undefined || existsSync(join(house.runs, id)); tries++) {
        assert.ok(tries < 500, `${id} stays`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      assert.equal(house.queue.of(id, "align")!.state, "stopped");
    };
    const [models, acts] = [house.made.models.length, house.made.acts.length];
    const id = await house.align({ prepares: true });
    await preparing(id);
    const pid = childOf(house, id);
    await assert.rejects(house.call("alignments.delete", idOf(id), bob), fails(404));
    assert.match((await house.call("alignments.delete", idOf(id))).message, /^Cancelled/);
    const again = await house.align({ prepares: true });
    assert.notEqual(again, id);
    await gone(id);
    assert.throws(() => process.kill(pid, 0));
    await assert.rejects(house.call("alignments.delete", idOf(id)), fails(404));
    await preparing(again);
    await house.call("alignments.delete", idOf(again));
    await gone(again);
    assert.deepEqual(house.made.acts.slice(acts), [`alignment.delete ${id}`, `alignment.delete ${again}`]);

    // One that does not stop stays, and so does one that trains.
    const rude = await house.align({ prepares: true, onStop: "refused" });
    await preparing(rude);
    await assert.rejects(house.call("alignments.delete", idOf(rude)), fails(502));
    assert.equal((await house.call("alignments.status", idOf(rude))).status, "PROCESSING");
    process.kill(childOf(house, rude), "SIGKILL");
    await house.until(rude, "FAILED");
    const training = await house.training(await house.align({ waits: true }));
    await assert.rejects(house.call("alignments.delete", idOf(training)), fails(409, /training/));
    await house.call("alignments.stop", idOf(training));
    // Also while it stops: then its files go once it has.
    await house.call("alignments.delete", idOf(training));
    await gone(training);
    assert.equal(house.made.models.length, models);
  });

  test("the report's page is there once the run has finished, for its owner alone", async () => {
    const running = await house.training(await house.align({ waits: true }));
    await assert.rejects(house.call("alignments.report", idOf(running)), fails(404, /no report yet/));
    await house.call("alignments.stop", idOf(running));
    const id = await house.align();
    await house.until(id, "COMPLETED");
    const page = (await house.call("alignments.report", idOf(id))) as Download;
    assert.equal(page.mediaType, "text/html");
    const parts: Buffer[] = [];
    for await (const part of page.content) parts.push(part as Buffer);
    assert.match(Buffer.concat(parts).toString("utf8"), /^<!doctype html>/);
    assert.equal(Buffer.concat(parts).length, page.bytes);
    await assert.rejects(house.call("alignments.report", idOf(id), bob), fails(404));
  });

  test("events: all of them, from the last one known, live, and to the end", async () => {
    const read = async (id: string, lastEventId?: string): Promise<StreamEvent[]> => {
      const given = { ...idOf(id), ...(lastEventId === undefined ? {} : { lastEventId }) };
      const stream = (await house.call("alignments.events", given)) as EventStream;
      const events: StreamEvent[] = [];
      for await (const event of stream.events) events.push(event);
      return events;
    };
    const id = await house.align({ steps: 6, stepMs: 30 });
    const live = await read(id);
    assert.deepEqual(
      live.map((event) => Number(event.id)),
      live.map((_, index) => index + 1),
    );
    assert.equal(JSON.parse(live.at(-1)!.data).kind, "done");
    assert.deepEqual(await read(id), live);
    assert.deepEqual(await read(id, "5"), live.slice(5));
    assert.deepEqual(await read(id, String(live.length)), []);
    await assert.rejects(house.call("alignments.events", { ...idOf(id), lastEventId: "x" }), fails(422));
    await assert.rejects(house.call("alignments.events", idOf(id), bob), fails(404));
  });
});

test("two at once have a budget each; a third waits in queued, where it cannot be stopped", async () => {
  const house = await alignmentsHouse({ maxRuns: 3, memory: 2 * (512 << 20) + 100 });
  try {
    const ids = [await house.align({ waits: true }), await house.align({ waits: true, stepMs: 6 })];
    for (const id of ids) await house.training(id);
    const waiting = await house.align({ steps: 1 });
    for (const id of ids) {
      const { status, budget } = await house.call("alignments.status", { params: { alignment_id: id } });
      assert.equal(status, "PROCESSING");
      assert.ok(
        budget.threads >= 1 &&
          budget.threads <= 8 &&
          budget.memory_bytes <= house.gpu.snapshot().grants[0]!.bytes.machine,
      );
    }
    assert.equal(house.gpu.snapshot().grants.length, 2);
    const third = await watch(house, waiting, (found) => found.waiting_for !== null);
    assert.equal(third.phase, "queued");
    assert.equal(third.waiting_for, "It needs 513 MiB of the machine's memory, but only 1 MiB are free");
    assert.equal(third.budget, null);
    await assert.rejects(
      house.call("alignments.stop", { params: { alignment_id: waiting } }),
      fails(400, /not started/),
    );
    // One that nobody has begun is cancelled at once.
    const cancelled = await house.align({ steps: 2 });
    await house.call("alignments.delete", { params: { alignment_id: cancelled } });
    assert.equal(house.queue.of(cancelled, "align")!.state, "stopped");
    assert.ok(!existsSync(join(house.runs, cancelled)));
    await assert.rejects(house.call("alignments.status", { params: { alignment_id: cancelled } }), fails(404));
    for (const id of ids) await house.call("alignments.stop", { params: { alignment_id: id } });
    for (const id of ids) await house.until(id, "STOPPED");
    await house.until(waiting, "COMPLETED");
    assert.deepEqual(house.gpu.snapshot().grants, []);
    assert.equal(house.grants.most, 2);
  } finally {
    await house.close();
  }
});

test("what can never fit fails rather than waits, and says what it would take", async () => {
  const house = await alignmentsHouse({ memory: 1000 });
  try {
    const { error } = await house.until(await house.align(), "FAILED");
    assert.equal(
      error,
      "Even with the smallest passes and nothing else running, it needs 513 MiB of the machine's memory, but only 1 MiB are free",
    );
  } finally {
    await house.close();
  }
});

const GiB = 2 ** 30;
/** Three sizes of passes on a GPU. */
const onGpu = [4096, 2048, 1024].map((passTokens) => ({
  passTokens,
  memoryBytes: GiB,
  gpuMemoryBytes: passTokens * 2 ** 20,
}));

test("on a GPU the run has its memory there, of passes as large as the trainer says, and who is late takes smaller ones", async () => {
  const house = await alignmentsHouse({ maxRuns: 4, memory: 8 * GiB, gpuMemory: 8 * GiB, needs: onGpu });
  const budgetOf = async (id: string) =>
    (await house.call("alignments.status", { params: { alignment_id: id } })).budget;
  try {
    const first = await house.training(await house.align({ waits: true, stepMs: 5 }));
    assert.deepEqual(await budgetOf(first), {
      memory_bytes: GiB,
      gpu_memory_bytes: 4 * GiB,
      threads: 8,
      pass_tokens: 4096,
      full_pass_tokens: 4096,
    });
    // Of eight GiB one is for answers: three are left, and two of them are enough for half as many tokens.
    const second = await house.training(await house.align({ waits: true, stepMs: 6 }));
    assert.equal((await budgetOf(second)).pass_tokens, 2048);
    const third = await house.training(await house.align({ waits: true, stepMs: 7 }));
    assert.equal((await budgetOf(third)).pass_tokens, 1024);
    const fourth = await house.align({ steps: 1 });
    const { phase, waiting_for } = await watch(house, fourth, (found) => found.waiting_for !== null);
    assert.deepEqual(
      [phase, waiting_for],
      ["queued", "It needs 1024 MiB of the GPU's memory, but only 0 MiB are free"],
    );
    // The model that answers has its eighth.
    assert.ok(house.gpu.reserve("an evaluation", { machine: 0, gpu: GiB }));
    for (const id of [first, second, third]) await house.call("alignments.stop", { params: { alignment_id: id } });
    assert.equal((await house.until(fourth, "COMPLETED")).waiting_for, null);
  } finally {
    await house.close();
  }
});

test("models that nobody uses make way before a run takes smaller passes", async () => {
  let idle = 2;
  const house = await alignmentsHouse({
    gpuMemory: 8 * GiB,
    needs: onGpu,
    makeRoom: async () => {
      if (idle === 0) return false;
      idle--;
      kept[idle]!.release();
      return true;
    },
  });
  house.gpu.reserve("a model in use", { machine: 0, gpu: 2 * GiB });
  const kept = [0, 1].map((at) => house.gpu.reserve(`idle ${at}`, { machine: 0, gpu: 3 * GiB })!);
  try {
    const id = await house.training(await house.align({ waits: true }));
    assert.equal(idle, 0);
    const { budget } = await house.call("alignments.status", { params: { alignment_id: id } });
    assert.equal(budget.pass_tokens, 4096);
  } finally {
    await house.close();
  }
});

test("a run that goes on keeps the passes that it began with, also where there is room for larger ones now", async () => {
  const house = await alignmentsHouse({ gpuMemory: 8 * GiB, needs: onGpu });
  const other = house.gpu.reserve("a model in use", { machine: 0, gpu: 5 * GiB })!;
  const passesOf = async (id: string) =>
    (await house.call("alignments.status", { params: { alignment_id: id } })).budget.pass_tokens;
  try {
    const id = await house.training(await house.align({ waits: true }));
    assert.equal(await passesOf(id), 2048);
    other.release();
    await house.restart();
    await house.training(id);
    assert.equal(house.gpu.snapshot().grants[0]!.bytes.gpu, 2 * GiB);
    assert.equal(await passesOf(id), 2048);
  } finally {
    await house.close();
  }
});

test("a run whose cost the trainer cannot tell fails with the reason", async () => {
  const house = await alignmentsHouse({ costFails: new Failure("trainer_died", "The trainer ended with SIGILL") });
  try {
    assert.match((await house.until(await house.align(), "FAILED")).error, /SIGILL/);
  } finally {
    await house.close();
  }
});

test("a run that is silent when asked to stop is answered 503, ended, and then stopped", async () => {
  const house = await alignmentsHouse({ ackMs: 200, silenceMs: 1500 });
  try {
    const id = await house.align({ waits: true, onStop: "none" });
    await house.training(id);
    await assert.rejects(house.call("alignments.stop", { params: { alignment_id: id } }), fails(503));
    // A stop that nobody acknowledged was not accepted, so the configuration is still that one's.
    const asked = (await house.call("alignments.status", { params: { alignment_id: id } })).document_ids;
    const again = await house.call("alignments.create", { body: { ...body, document_ids: asked } });
    assert.equal(again.alignment_id, id);
    assert.equal(again.message, "An alignment with the same configuration already exists");
    const pid = childOf(house, id);
    process.kill(pid, "SIGSTOP");
    await house.until(id, "STOPPED");
    assert.throws(() => process.kill(pid, 0));
  } finally {
    await house.close();
  }
});

const childOf = (house: AlignmentsHouse, id: string): number =>
  Number(readFileSync(join(house.runs, id, "pid"), "utf8"));

test("going down and starting again goes on with the same folder; leftovers go", async () => {
  const house = await alignmentsHouse();
  try {
    const id = await house.align({ steps: 40, stepMs: 50 });
    await house.training(id);
    mkdirSync(join(house.runs, "alignment_unknown"));
    writeFileSync(join(house.runs, ".tmp-half"), "");
    const before = await house.call("alignments.status", { params: { alignment_id: id } });
    await house.restart();
    assert.ok(!existsSync(join(house.runs, "alignment_unknown")) && !existsSync(join(house.runs, ".tmp-half")));
    const done = await house.until(id, "COMPLETED");
    assert.equal(done.started_date, before.started_date);
    assert.equal(done.report.seen.fence, 2);
    assert.equal(house.queue.of(id, "align")!.attempt, 1);
    const events = readFileSync(join(house.runs, id, "events.jsonl"), "utf8")
      .trim()
      .split("\n");
    assert.deepEqual(
      events.map((line) => JSON.parse(line).seq),
      events.map((_, index) => index + 1),
    );
  } finally {
    await house.close();
  }
});

test("stop racing the end leaves one outcome, and a model only with COMPLETED", async () => {
  const house = await alignmentsHouse({ maxRuns: 4 });
  try {
    await Promise.all(
      Array.from({ length: 12 }, async (_, index) => {
        const id = await house.align({ steps: 3, stepMs: 20 + index });
        const given = { params: { alignment_id: id } };
        while ((await house.call("alignments.status", given)).phase === "queued")
          await new Promise((resolve) => setTimeout(resolve, 10));
        await new Promise((resolve) => setTimeout(resolve, 40 * index));
        await house
          .call("alignments.stop", given)
          .catch((error) => assert.ok([400, 503].includes(error.status), String(error)));
        for (;;) {
          const { status, model_id } = await house.call("alignments.status", given);
          if (status === "COMPLETED" || status === "STOPPED") {
            assert.equal(model_id !== null, status === "COMPLETED");
            return;
          }
          assert.notEqual(status, "FAILED");
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
      }),
    );
  } finally {
    await house.close();
  }
});
