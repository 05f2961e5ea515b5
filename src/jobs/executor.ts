// Starts alignment runs and follows them. A run is a folder and a process that works on it; this executor spawns the process
// as a child on this machine.
//
//   start ──► running ──exit 0, 1, 3, 4, 5──► collected (result.json)
//                │  └────exit 75────────────► started again a few times, because an earlier process still holds the lock
//                │  └────exit 2─────────────► run_folder_invalid
//                │  └────any other──────────► run_crashed
//                └──no heartbeat for silenceMs──► SIGTERM ──killMs──► SIGKILL ──► run_crashed
//
// A run and its trainer end when the run's stdin closes, so a killed appliance leaves no process behind. A run can ask questions of models
// that it has not loaded itself. The answers are written to its stdin. When the run ends, its open questions are aborted.
import { createWriteStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../base/errors.ts";
import { isErrno, linesFrom, sha256OfFile } from "../base/files.ts";
import type { Log } from "../base/log.ts";
import { type Child, type Ended, linesOf } from "../base/processes.ts";
import { sleep } from "../base/time.ts";
import { type RunEvent, type RunResult, runEvent, runResult } from "../contract/run-folder.ts";
import { type ModelQuestion, type RunCommand, type RunReply, runExit, runReply } from "../contract/run-lines.ts";
import { compile } from "../contract/validate.ts";

export interface Follow {
  /** Number of the last event that is already known; 0 if none is. */
  afterSeq: number;
  /** Called for each event in order. If it throws, it is called for the same event again. */
  onEvent(event: RunEvent): void;
  /**
   * Answers the run's questions. Without this function, all questions fail. `signal` aborts when the run ends. If the function throws, the
   * run is sent the error's message.
   */
  onAsk?(question: ModelQuestion, signal: AbortSignal): Promise<string | readonly number[]>;
}

export interface RunStatus {
  running: boolean;
  /** Number of the last event handed to onEvent. */
  lastSeq: number;
}

export interface Executor {
  /**
   * Starts the run of a folder, or resumes it. Resolves with its result once the run has ended and `onEvent` has been called for all
   * events. Rejects with run_crashed, run_locked or run_folder_invalid.
   */
  start(folder: string, follow: Follow): Promise<RunResult>;
  status(folder: string): RunStatus;
  /**
   * Asks the run to stop. Resolves once the run has acknowledged the command; `start` resolves later. Rejects with not_started,
   * stop_unreachable, stop_rejected.
   */
  stop(folder: string): Promise<void>;
  pause(folder: string): Promise<void>;
  resume(folder: string): Promise<void>;
  /** Reads the result of a run that has ended, and checks its artefact files. Rejects with run_crashed. */
  collect(folder: string): Promise<RunResult>;
  /** Ends all runs. Each can be started again from its last checkpoint. */
  close(): Promise<void>;
}

/** Times in milliseconds. */
export interface Patience {
  /** Time without a heartbeat after which the run is ended. */
  silenceMs: number;
  /** Time that a run has to end, after SIGTERM or `close`, before SIGKILL. */
  killMs: number;
  /** Time to wait for the acknowledgement of a command. */
  ackMs: number;
  /** Time between attempts to start a run whose folder is locked, and the number of attempts. */
  lockedMs: number;
  lockedTries: number;
}

export const patience: Patience = { silenceMs: 60_000, killMs: 10_000, ackMs: 10_000, lockedMs: 1000, lockedTries: 5 };

interface Active {
  child: Child;
  lastSeq: number;
  nextCommand: number;
  waiting: Map<number, { resolve(): void; reject(error: Failure): void }>;
}

const checkReply = compile(runReply);
const checkEvent = compile(runEvent);
const checkResult = compile(runResult);

export function createLocalExecutor(parts: {
  /** Starts `plumbline run <folder>`. */
  launch: (folder: string) => Child;
  log: Log;
  patience?: Partial<Patience>;
}): Executor {
  const waits = { ...patience, ...parts.patience };
  const active = new Map<string, Active>();
  /** Folders whose `start` has not finished, including those that wait for the next attempt because they are locked. */
  const held = new Set<string>();
  let closed = false;

  const runOnce = async (folder: string, follow: Follow): Promise<Ended & { lastWords: string }> => {
    const log = parts.log.with({ run: folder });
    const child = parts.launch(folder);
    const run: Active = { child, lastSeq: follow.afterSeq, nextCommand: 1, waiting: new Map() };
    active.set(folder, run);
    const events = followEvents(join(folder, "events.jsonl"), run, follow, log);
    const watch = watchSilence(child, waits, log);
    const words = keepLog(child, join(folder, "run.log"));
    const over = new AbortController();
    const listening = (async () => {
      for await (const line of linesOf(child.stdout)) {
        const reply = parseReply(line);
        if (reply === null) log("warn", "run.bad_reply", { line: line.slice(0, 200) });
        else if (reply.kind === "heartbeat") {
          watch.alive();
          events.read().catch((error) => log("error", "run.events_unread", { error }));
        } else if (reply.kind === "ask") void answer(child, reply, follow, over.signal);
        else settle(run, reply);
      }
    })();
    try {
      const ended = await child.ended.catch((error) => {
        throw new Failure("run_crashed", `The run could not be started: ${(error as Error).message}`, { cause: error });
      });
      await listening;
      await events.read();
      return { ...ended, lastWords: words() };
    } finally {
      watch.done();
      over.abort();
      active.delete(folder);
      for (const waiting of run.waiting.values())
        waiting.reject(new Failure("stop_unreachable", "The run ended before it answered"));
    }
  };

  const send = (folder: string, command: RunCommand["command"]): Promise<void> => {
    const run = active.get(folder);
    if (run === undefined) return Promise.reject(new Failure("not_started"));
    const seq = run.nextCommand++;
    run.child.stdin.write(`${JSON.stringify({ seq, command } satisfies RunCommand)}\n`);
    return new Promise<void>((resolve, reject) => {
      const timer = setTimeout(
        () => settleWith(() => reject(new Failure("stop_unreachable", `No answer to ${command}`))),
        waits.ackMs,
      );
      const settleWith = (then: () => void): void => {
        clearTimeout(timer);
        run.waiting.delete(seq);
        then();
      };
      run.waiting.set(seq, {
        resolve: () => settleWith(resolve),
        reject: (error) => settleWith(() => reject(error)),
      });
    });
  };

  return {
    async start(folder, follow) {
      if (held.has(folder)) throw new Failure("run_locked");
      held.add(folder);
      try {
        let afterSeq = follow.afterSeq;
        const onEvent: Follow["onEvent"] = (event) => {
          follow.onEvent(event);
          afterSeq = event.seq;
        };
        for (let tries = 1; !closed; tries++) {
          const ended = await runOnce(folder, { ...follow, afterSeq, onEvent });
          if (ended.code === runExit.invalid) throw new Failure("run_folder_invalid", ended.lastWords);
          if (ended.code !== runExit.locked) return await collectAfter(folder, ended);
          if (tries >= waits.lockedTries) throw new Failure("run_locked");
          await sleep(waits.lockedMs);
        }
        throw new Failure("run_crashed", "The appliance is stopping");
      } finally {
        held.delete(folder);
      }
    },
    status: (folder) => ({ running: active.has(folder), lastSeq: active.get(folder)?.lastSeq ?? 0 }),
    stop: (folder) => send(folder, "stop"),
    pause: (folder) => send(folder, "pause"),
    resume: (folder) => send(folder, "resume"),
    collect,
    async close() {
      closed = true;
      const runs = [...active.values()];
      for (const { child } of runs) child.stdin.end();
      await Promise.all(
        runs.map(async ({ child }) => {
          const timer = setTimeout(() => child.kill("SIGKILL"), waits.killMs);
          await child.ended.catch(() => {});
          clearTimeout(timer);
        }),
      );
    },
  };
}

/** Exit codes of a run that has written its result. */
const ends: number[] = [runExit.completed, runExit.failed, runExit.stopped, runExit.look, runExit.paused];

/**
 * Returns the result of a run that has just ended. The exit code must agree with the result, because the folder of a run that crashed may
 * still contain an older result. Otherwise throws run_crashed.
 */
async function collectAfter(folder: string, ended: Ended & { lastWords: string }): Promise<RunResult> {
  const how = ended.signal ?? `exit ${ended.code}`;
  if (ended.code === null || !ends.includes(ended.code))
    throw new Failure("run_crashed", `The run ended with ${how}: ${ended.lastWords || "no output"}`);
  const result = await collect(folder);
  if (runExit[result.outcome] !== ended.code)
    throw new Failure("run_crashed", `The run ended with ${how}, but its result says ${result.outcome}`);
  return result;
}

async function collect(folder: string): Promise<RunResult> {
  const crashed = (why: string): Failure => new Failure("run_crashed", `result.json: ${why}`);
  const text = await readFile(join(folder, "result.json"), "utf8").catch((error) => {
    if (isErrno(error, "ENOENT")) throw crashed("does not exist");
    throw error;
  });
  const checked = checkResult(parseJson(text));
  if (!checked.ok) throw crashed(checked.details.map((detail) => `${detail.loc.join(".")} ${detail.msg}`).join("; "));
  for (const file of checked.value.files) {
    const path = join(folder, "artefact", file.name);
    const size = await stat(path).then(
      (found) => found.size,
      () => null,
    );
    if (size !== file.bytes || (await sha256OfFile(path)) !== file.sha256)
      throw crashed(`artefact/${file.name} does not match the result`);
  }
  return checked.value;
}

/** Answers a run's question. Never rejects. If there is no answer, the run is sent the reason and decides what to do. */
async function answer(child: Child, { seq = 1, question }: RunReply, { onAsk }: Follow, signal: AbortSignal) {
  let told: Pick<RunCommand, "said" | "failed">;
  try {
    if (onAsk === undefined || question === undefined) throw new Error("this run has nobody to answer its questions");
    told = { said: (await onAsk(question, signal)) as RunCommand["said"] & {} };
  } catch (error) {
    told = { failed: error instanceof Error ? error.message : String(error) };
  }
  if (!signal.aborted)
    child.stdin.write(`${JSON.stringify({ seq, command: "answer", ...told } satisfies RunCommand)}\n`);
}

function settle(run: Active, reply: RunReply): void {
  const waiting = reply.seq === undefined ? undefined : run.waiting.get(reply.seq);
  if (reply.kind === "ack") waiting?.resolve();
  else waiting?.reject(new Failure("stop_rejected", reply.message));
}

/**
 * Returns `read`, which calls `onEvent` for the events that the file has gained since the last call. Calls never overlap. A line is used
 * only once it is complete. If `onEvent` throws, the next call starts with the same event.
 */
function followEvents(path: string, run: Active, follow: Follow, log: Log): { read(): Promise<void> } {
  let offset = 0;
  const hand = (line: string): void => {
    const checked = checkEvent(parseJson(line));
    if (!checked.ok) log("warn", "run.bad_event", { line: line.slice(0, 200) });
    else if (checked.value.seq > run.lastSeq) {
      follow.onEvent(checked.value);
      run.lastSeq = checked.value.seq;
    }
  };
  const readMore = async (): Promise<void> => {
    for (const { text, end } of await linesFrom(path, offset)) {
      hand(text);
      offset = end;
    }
  };
  let last: Promise<void> = Promise.resolve();
  return {
    read() {
      last = last.catch(() => {}).then(readMore);
      return last;
    },
  };
}

/** Ends a child that sends no heartbeat for `silenceMs`. `alive` must be called at each heartbeat. */
function watchSilence(child: Child, waits: Patience, log: Log): { alive(): void; done(): void } {
  let ending = false;
  const onSilence = (): void => {
    ending = true;
    log("error", "run.silent", { pid: child.pid, seconds: waits.silenceMs / 1000 });
    child.kill("SIGTERM");
    clearTimeout(timer);
    timer = setTimeout(() => child.kill("SIGKILL"), waits.killMs);
  };
  let timer = setTimeout(onSilence, waits.silenceMs);
  return {
    alive() {
      if (!ending) timer.refresh();
    },
    done: () => clearTimeout(timer),
  };
}

/** Appends the child's stderr to a file in the run folder. The returned function returns the last line. */
function keepLog(child: Child, path: string): () => string {
  const file = createWriteStream(path, { flags: "a", mode: 0o600 });
  file.on("error", () => {});
  let tail = "";
  child.stderr.on("data", (part: Buffer) => {
    file.write(part);
    tail = (tail + part.toString("utf8")).slice(-4096);
  });
  child.stderr.on("close", () => file.end());
  return () => tail.trimEnd().split("\n").at(-1) ?? "";
}

function parseReply(line: string): RunReply | null {
  const checked = checkReply(parseJson(line));
  return checked.ok ? checked.value : null;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
