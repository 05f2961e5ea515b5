// The executor against a run that keeps, or breaks, the contract of the run folder.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { createLog } from "../../src/base/log.ts";
import { linesOf, startNode } from "../../src/base/processes.ts";
import { sleep } from "../../src/base/time.ts";
import type { RunEvent } from "../../src/contract/run-folder.ts";
import { createLocalExecutor, type Patience } from "../../src/jobs/executor.ts";

const script = join(import.meta.dirname, "fake-run.ts");
const quiet = createLog("error", () => {});
const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function folderOf(behaviour: object): string {
  const folder = mkdtempSync(join(tmpdir(), "executor-"));
  folders.push(folder);
  writeFileSync(join(folder, "behaviour.json"), JSON.stringify(behaviour));
  return folder;
}

const executorWith = (patience: Partial<Patience> = {}) =>
  createLocalExecutor({ launch: (folder) => startNode(script, [folder]), log: quiet, patience });

const failsWith = (code: string, words: RegExp) => (error: unknown) =>
  error instanceof Failure && error.code === code && words.test(error.message);

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** Until it holds, for a few seconds at most. */
async function eventually(holds: () => boolean, what: string): Promise<void> {
  for (let tries = 0; tries < 300; tries++) {
    if (holds()) return;
    await sleep(20);
  }
  assert.fail(`never came: ${what}`);
}

test("a run is followed to its result: every new event once and in order, whole lines only", async () => {
  const folder = folderOf({ events: 20, torn: true, garbage: true });
  const seen: number[] = [];
  const result = await executorWith().start(folder, { afterSeq: 5, onEvent: (event) => seen.push(event.seq) });
  assert.equal(result.outcome, "completed");
  assert.deepEqual(
    seen,
    Array.from({ length: 15 }, (_, index) => index + 6),
  );
});

test("an event that could not be taken is handed over again", async () => {
  const folder = folderOf({ events: 3, waits: true });
  const executor = executorWith();
  const seen: number[] = [];
  let refused = false;
  const ended = executor.start(folder, {
    afterSeq: 0,
    onEvent(event: RunEvent) {
      if (event.seq === 2 && !refused) {
        refused = true;
        throw new Error("busy");
      }
      seen.push(event.seq);
    },
  });
  await eventually(() => seen.length === 3, "three events");
  await executor.stop(folder);
  await ended;
  assert.deepEqual(seen, [1, 2, 3]);
});

test("what a run asks is answered on its stdin, a failure too; a run that ends takes its questions with it", async () => {
  const judge = (content: string) => ({ of: "judge", content, choices: ["Yes", "No"] });
  const scored = { of: "preference_model", prompt: "P", answers: ["a", "b"] };
  const folder = folderOf({ asks: [judge("one"), scored, judge("none")] });
  await executorWith().start(folder, {
    afterSeq: 0,
    onEvent: () => {},
    async onAsk(question) {
      if (question.of === "preference_model") return question.answers.map((_, at) => at);
      if (question.content === "none") throw new Failure("upstream_failed", "It is away");
      return "Yes";
    },
  });
  const answers = JSON.parse(readFileSync(join(folder, "answers"), "utf8")) as { seq: number }[];
  assert.deepEqual(
    answers.sort((a, b) => a.seq - b.seq),
    [
      { seq: 1, command: "answer", said: "Yes" },
      { seq: 2, command: "answer", said: [0, 1] },
      { seq: 3, command: "answer", failed: "It is away" },
    ],
  );
  const nobody = folderOf({ asks: [judge("one")] });
  await executorWith().start(nobody, { afterSeq: 0, onEvent: () => {} });
  assert.match(readFileSync(join(nobody, "answers"), "utf8"), /nobody to answer/);

  const left = Promise.withResolvers<void>();
  const executor = executorWith();
  const waiting = folderOf({ asks: [judge("one")] });
  const asked = Promise.withResolvers<void>();
  const ended = executor.start(waiting, {
    afterSeq: 0,
    onEvent: () => {},
    onAsk: (_, signal) => {
      asked.resolve();
      signal.addEventListener("abort", () => left.resolve());
      return new Promise(() => {});
    },
  });
  ended.catch(() => {});
  await asked.promise;
  await executor.close();
  await left.promise;
});

test("a locked folder is tried again, a few times", async () => {
  const patience = { lockedMs: 20, lockedTries: 3 };
  const follow = { afterSeq: 0, onEvent: () => {} };
  const soon = folderOf({ lockedTimes: 2 });
  assert.equal((await executorWith(patience).start(soon, follow)).outcome, "completed");
  const never = folderOf({ lockedTimes: 9 });
  await assert.rejects(executorWith(patience).start(never, follow), failsWith("run_locked", /./));
  assert.equal(readFileSync(join(never, "tries"), "utf8"), "3");
});

test("stop and pause are acknowledged; a refusal, silence and a run that is not there are told apart", async () => {
  const follow = { afterSeq: 0, onEvent: () => {} };
  const good = folderOf({ waits: true, events: 1 });
  const executor = executorWith({ ackMs: 300 });
  await assert.rejects(executor.stop(good), failsWith("not_started", /./));
  const ended = executor.start(good, follow);
  await eventually(() => executor.status(good).lastSeq === 1, "the first event");
  await executor.pause(good);
  await executor.resume(good);
  await executor.stop(good);
  assert.equal((await ended).outcome, "stopped");
  assert.equal(executor.status(good).running, false);

  for (const [answer, code] of [
    ["refused", "stop_rejected"],
    ["none", "stop_unreachable"],
  ] as const) {
    const folder = folderOf({ waits: true, events: 1, answer });
    const running = executor.start(folder, follow);
    running.catch(() => {});
    await eventually(() => executor.status(folder).lastSeq === 1, "the first event");
    await assert.rejects(executor.stop(folder), failsWith(code, answer === "refused" ? /because/ : /stop/));
    assert.ok(executor.status(folder).running);
  }
  await executor.close();
});

test("a run without a result has crashed, and its last words are told", async () => {
  const follow = { afterSeq: 0, onEvent: () => {} };
  await assert.rejects(
    executorWith().start(folderOf({ exit: 7 }), follow),
    failsWith("run_crashed", /exit 7.*the last words/),
  );
  await assert.rejects(
    executorWith().start(folderOf({ exit: 2 }), follow),
    failsWith("run_folder_invalid", /the last words/),
  );
  const torn = folderOf({ result: { format: 1, outcome: "completed" } });
  await assert.rejects(executorWith().start(torn, follow), failsWith("run_crashed", /result.json: fence/));
  const lying = folderOf({
    result: { format: 1, fence: 1, outcome: "stopped", error: null, chosen_step: null, files: [], metrics: {} },
  });
  await assert.rejects(executorWith().start(lying, follow), failsWith("run_crashed", /says stopped/));
});

test("an artefact that is not what the result says is refused", async () => {
  const files = [{ name: "adapter.gguf", bytes: 3, sha256: "0".repeat(64) }];
  const folder = folderOf({
    result: { format: 1, fence: 1, outcome: "completed", error: null, chosen_step: 1, files, metrics: {} },
  });
  mkdirSync(join(folder, "artefact"));
  writeFileSync(join(folder, "artefact", "adapter.gguf"), "abc");
  const ended = executorWith().start(folder, { afterSeq: 0, onEvent: () => {} });
  await assert.rejects(ended, failsWith("run_crashed", /adapter.gguf/));
});

test("a silent run is ended", async () => {
  const folder = folderOf({ silent: true });
  const ended = executorWith({ silenceMs: 600, killMs: 200 }).start(folder, { afterSeq: 0, onEvent: () => {} });
  await assert.rejects(ended, failsWith("run_crashed", /SIGTERM/));
});

test("a stopped process that cannot even be asked to end is killed", async () => {
  const folder = folderOf({ waits: true, events: 1 });
  const executor = executorWith({ silenceMs: 600, killMs: 200 });
  const ended = executor.start(folder, { afterSeq: 0, onEvent: () => {} });
  ended.catch(() => {});
  await eventually(() => executor.status(folder).lastSeq === 1, "the first event");
  process.kill(Number(readFileSync(join(folder, "pid"), "utf8")), "SIGSTOP");
  await assert.rejects(ended, failsWith("run_crashed", /SIGKILL/));
});

test("a killed appliance leaves no run behind", async () => {
  const folder = folderOf({ waits: true, events: 1 });
  const host = startNode(join(import.meta.dirname, "executor-host.ts"), [script, folder]);
  for await (const _ of linesOf(host.stdout)) break;
  const pid = Number(readFileSync(join(folder, "pid"), "utf8"));
  assert.ok(isAlive(pid));
  host.kill("SIGKILL");
  await eventually(() => !isAlive(pid), "the end of the run");
});

test("closing the executor ends its runs", async () => {
  const folder = folderOf({ waits: true, events: 1 });
  const executor = executorWith();
  const ended = executor.start(folder, { afterSeq: 0, onEvent: () => {} });
  ended.catch(() => {});
  await eventually(() => executor.status(folder).lastSeq === 1, "the first event");
  await executor.close();
  await assert.rejects(ended, failsWith("run_crashed", /./));
});
