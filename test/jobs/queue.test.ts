import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import fc from "fast-check";
import { Failure } from "../../src/base/errors.ts";
import { createLog } from "../../src/base/log.ts";
import { sleep, systemClock } from "../../src/base/time.ts";
import { noTraces } from "../../src/base/traces.ts";
import { type Claim, createQueue, type Queue } from "../../src/jobs/queue.ts";
import { createRunner, type Worker } from "../../src/jobs/runner.ts";
import { edges, isTerminal, type JobState } from "../../src/jobs/states.ts";
import { openStore, type Store } from "../../src/store/open.ts";

const log = createLog("error", () => {});
let folder: string;
let store: Store;
let queue: Queue;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "plumbline-queue-"));
  store = openStore(join(folder, "plumbline.db"));
  store.prepare("INSERT INTO user VALUES('u', 'u', '')").run();
  queue = createQueue({ store, clock: systemClock, log });
});
afterEach(() => {
  store.close();
  rmSync(folder, { recursive: true, force: true });
});

const enqueue = (subjectId = "s"): string =>
  store.transaction(() => queue.enqueue({ kind: "align", subjectId, ownerId: "u" }));
const state = (subjectId = "s"): JobState | undefined => queue.of(subjectId, "align")?.state;

/** Every job's history: contiguous, from queued, each step an edge, ending in the job's state. */
function assertHistories(): void {
  const jobs = store.prepare<[], { id: string; state: JobState; fence: number }>("SELECT * FROM job").all();
  for (const job of jobs) {
    const events = store
      .prepare<[string], { seq: number; fence: number; from_state: JobState | null; to_state: JobState }>(
        "SELECT * FROM job_event WHERE job_id = ? ORDER BY seq",
      )
      .all(job.id);
    events.forEach((event, index) => {
      assert.equal(event.seq, index + 1);
      const before = events[index - 1];
      assert.equal(event.from_state, before?.to_state ?? null);
      if (before) assert.ok(edges[before.to_state].includes(event.to_state));
      assert.equal(event.fence - (before?.fence ?? 0), event.to_state === "running" ? 1 : 0);
    });
    assert.equal(events.at(-1)?.to_state, job.state);
    assert.equal(events.at(-1)?.fence, job.fence);
  }
}

describe("the queue", () => {
  test("hands out the oldest of a kind, once", () => {
    enqueue("a");
    enqueue("b");
    assert.equal(queue.claim("evaluate"), null);
    assert.equal(queue.claim("align")?.subjectId, "a");
    assert.equal(queue.claim("align")?.subjectId, "b");
    assert.equal(queue.claim("align"), null);
    assertHistories();
  });

  test("a subject has one live job of a kind; deploy and undeploy count as one kind", () => {
    enqueue();
    assert.throws(
      () => enqueue(),
      (error) => error instanceof Failure && error.code === "conflict",
    );
    queue.enqueue({ kind: "deploy", subjectId: "m", ownerId: "u" });
    assert.throws(() => queue.enqueue({ kind: "undeploy", subjectId: "m", ownerId: "u" }), Failure);
    queue.move(queue.claim("align")!, "succeeded");
    enqueue();
    assertHistories();
  });

  test("a failing transaction of the caller takes the job with it", () => {
    assert.throws(() =>
      store.transaction(() => {
        queue.enqueue({ kind: "align", subjectId: "s", ownerId: "u" });
        throw new Error("no");
      }),
    );
    assert.equal(queue.of("s", "align"), null);
  });

  test("the room's rows are written with the move, or neither is", () => {
    enqueue();
    const claim = queue.claim("align")!;
    assert.throws(() =>
      queue.move(claim, "succeeded", {}, () => {
        throw new Error("no");
      }),
    );
    assert.equal(state(), "running");
    let called = false;
    assert.equal(
      queue.move({ ...claim, fence: claim.fence - 1 }, "succeeded", {}, () => {
        called = true;
      }),
      false,
    );
    assert.equal(called, false);
    assert.equal(queue.move(claim, "failed", { errorCode: "run_failed", errorText: "why" }), true);
    assert.equal(queue.of("s", "align")?.errorText, "why");
  });

  test("an illegal move is an error, not a silence", () => {
    enqueue();
    assert.throws(() => queue.move(queue.claim("align")!, "stopped"), /is not allowed/);
  });

  test("stop: queued ends at once, running is asked, nothing is null", () => {
    assert.equal(queue.requestStop("s", "align"), null);
    enqueue();
    assert.equal(queue.requestStop("s", "align"), "stopped");
    enqueue();
    const claim = queue.claim("align")!;
    assert.equal(queue.requestStop("s", "align"), "stopping");
    assert.equal(queue.requestStop("s", "align"), "stopping");
    assert.equal(queue.move(claim, "succeeded"), true);
    assert.equal(queue.requestStop("s", "align"), null);
    assert.equal(queue.count("align", ["succeeded", "stopped"]), 2);
    assertHistories();
  });

  test("recover: running is queued again, stopping is stopped, too many deaths fail", () => {
    enqueue("stopped");
    queue.claim("align");
    queue.requestStop("stopped", "align");
    enqueue("again");
    for (let attempt = 1; attempt <= 5; attempt++) {
      const claim = queue.claim("align")!;
      assert.equal(claim.attempt, attempt);
      queue.recover();
      assert.equal(state("again"), attempt < 5 ? "queued" : "failed");
      assert.equal(queue.move(claim, "succeeded"), false);
    }
    assert.equal(state("stopped"), "stopped");
    assert.equal(queue.of("again", "align")?.errorCode, "supervisor_restart");
    assertHistories();
  });

  test("an orderly end does not count as an attempt", () => {
    enqueue();
    for (let i = 0; i < 8; i++) {
      const claim = queue.claim("align")!;
      assert.equal(claim.attempt, 1);
      queue.move(claim, "queued", { orderly: true });
    }
    assertHistories();
  });
});

test("whatever happens in whatever order, only the holder of the latest fence moves a job, and it ends once", () => {
  const step = fc.oneof(
    fc.constant({ do: "claim" as const }),
    fc.constant({ do: "recover" as const }),
    fc.constant({ do: "stop" as const }),
    fc.constant({ do: "enqueue" as const }),
    fc.record({
      do: fc.constant("move" as const),
      worker: fc.nat(5),
      to: fc.constantFrom<JobState>("succeeded", "failed", "stopped", "queued"),
    }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
      const subject = `s${store.nextSeq()}`;
      const claims: Claim[] = [];
      let ends = 0;
      let jobs = 0;
      for (const action of steps) {
        const before = queue.of(subject, "align");
        const live = before !== null && !isTerminal(before.state);
        if (action.do === "enqueue" && !live) {
          enqueue(subject);
          jobs++;
        } else if (action.do === "claim") {
          const claim = queue.claim("align");
          if (claim) claims.push(claim);
          assert.equal(claim !== null, before?.state === "queued");
        } else if (action.do === "recover") queue.recover();
        else if (action.do === "stop") assert.equal(queue.requestStop(subject, "align") !== null, live);
        else if (action.do === "move" && claims.length > 0) {
          const claim = claims[action.worker % claims.length]!;
          const mine = before?.jobId === claim.jobId && before.fence === claim.fence;
          const holds = mine && (before.state === "running" || before.state === "stopping");
          if (holds && !edges[before.state].includes(action.to)) assert.throws(() => queue.move(claim, action.to));
          else {
            const moved = queue.move(claim, action.to);
            assert.equal(moved, holds);
          }
        }
        const after = queue.of(subject, "align");
        if (live && after && isTerminal(after.state)) ends++;
        if (before && isTerminal(before.state) && after?.jobId === before.jobId) assert.deepEqual(after, before);
      }
      assert.ok(ends <= jobs);
      // Leave nothing live behind for the next history.
      queue.requestStop(subject, "align");
      queue.recover();
      queue.requestStop(subject, "align");
    }),
    { numRuns: 150 },
  );
  assertHistories();
});

describe("the runner", () => {
  const run = (worker: Partial<Worker> & Pick<Worker, "run">) => {
    const runner = createRunner({ queue, log, traces: noTraces });
    runner.start({ align: { concurrency: 2, ...worker } });
    return runner;
  };
  const until = async (what: () => boolean): Promise<void> => {
    for (let i = 0; i < 400 && !what(); i++) await sleep(5);
    assert.ok(what());
  };

  test("claims up to its concurrency, and goes on when one ends", async () => {
    for (const subject of ["a", "b", "c"]) enqueue(subject);
    let active = 0;
    let most = 0;
    const runner = run({
      run: async (claim) => {
        most = Math.max(most, ++active);
        await sleep(10);
        active--;
        queue.move(claim, "succeeded");
      },
    });
    await until(() => queue.count("align", ["succeeded"]) === 3);
    assert.equal(most, 2);
    await runner.stop();
  });

  test("asks before it claims", async () => {
    enqueue();
    let may = false;
    const runner = run({ canStart: () => may, run: async (claim) => void queue.move(claim, "succeeded") });
    await sleep(30);
    assert.equal(state(), "queued");
    may = true;
    runner.wake();
    await until(() => state() === "succeeded");
    await runner.stop();
  });

  test("a worker that throws fails its job: a Failure by its code, the rest as internal without a word", async () => {
    enqueue("a");
    enqueue("b");
    const runner = run({
      run: async (claim) => {
        throw claim.subjectId === "a" ? new Failure("no_training_rows", "none") : new Error("/secret/path");
      },
    });
    await until(() => queue.count("align", ["failed"]) === 2);
    assert.deepEqual(
      ["a", "b"].map((subject) => [queue.of(subject, "align")?.errorCode, queue.of(subject, "align")?.errorText]),
      [
        ["no_training_rows", "none"],
        ["internal", "Internal error"],
      ],
    );
    await runner.stop();
  });

  test("a worker that ends without a move fails its job", async () => {
    enqueue();
    const runner = run({ run: async () => {} });
    await until(() => state() === "failed");
    await runner.stop();
  });

  test("going down queues again what runs, keeps a stop that was asked for, and waits for every worker", async () => {
    enqueue("a");
    enqueue("b");
    let ended = 0;
    const runner = run({
      run: async (_claim, signal) => {
        await sleep(60_000, signal);
        await sleep(10);
        ended++;
      },
    });
    await until(() => queue.count("align", ["running"]) === 2);
    queue.requestStop("b", "align");
    await runner.stop();
    assert.equal(ended, 2);
    assert.deepEqual([state("a"), state("b")], ["queued", "stopped"]);
    assert.equal(queue.of("a", "align")?.attempt, 0);
  });
});
