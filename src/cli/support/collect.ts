// Collects a support file, part by part. A part that cannot be made contains the reason instead, and the others are still
// made, because a user who asks for help usually has a broken appliance.
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { arch, cpus, homedir, hostname, loadavg, release, totalmem, uptime, userInfo } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Config, installation, places, settingsShown } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";
import { trainerVersion, versionsInstalled } from "../../base/versions.ts";
import type { RunEvent } from "../../contract/run-folder.ts";
import { openToRead } from "../../store/open.ts";
import { currentVersion, problemsOf, schemaVersion } from "../../store/snapshot.ts";
import { checkMachine } from "../checks.ts";
import { watchRun } from "../phases.ts";
import { leftOut, redacted, redactedLine } from "./redact.ts";
import { jobsOf, requestsOf, rowsOf } from "./store.ts";

/** Maximum number of runs (the newest ones) and of log lines (the last ones) in the file. */
const [mostRuns, mostLines] = [20, 5000];

export type Bundle = Record<string, unknown>;

export interface SupportOptions {
  now: Date;
  /** Path of a log file to add; null for none. */
  log: string | null;
}

export async function collect(config: Config, { now, log }: SupportOptions): Promise<Bundle> {
  const lines = log === null ? undefined : await lastLines(log);
  const { database, runs } = places(config.data);
  return {
    made_at: now.toISOString(),
    versions: await part(async () => ({
      ...(await versionsInstalled()),
      trainer: await trainerVersion(config.trainer),
      node: process.version,
      schema: currentVersion(),
    })),
    machine: {
      system: `${process.platform} ${arch()} ${release()}`,
      processor: cpus()[0]?.model ?? "unknown",
      cores: cpus().length,
      memory_bytes: totalmem(),
      load: loadavg(),
      uptime_seconds: Math.round(uptime()),
    },
    settings: settingsShown(),
    checks: await part(async () =>
      (await checkMachine(config)).map((check) => ({ ...check, found: withoutPlaces(check.found, config) })),
    ),
    ...(await ofDatabase(database, runs)),
    ...(lines && { log: lines }),
  };
}

/** Returns what `make` returns, or the error's code or name if it throws. Messages are left out, because they may quote names. */
async function part<T>(make: () => T | Promise<T>): Promise<T | { not_made: string }> {
  try {
    return await make();
  } catch (error) {
    const { code, name } = error as NodeJS.ErrnoException;
    return { not_made: code ?? name };
  }
}

async function ofDatabase(path: string, runs: string): Promise<Bundle> {
  const bytes = await stat(path).then(
    (facts) => facts.size,
    () => null,
  );
  if (bytes === null) return { database: { not_made: "ENOENT" } };
  const facts = await part(() => ({ bytes, schema: schemaVersion(path), problems: problemsOf(path).length }));
  const store = await part(() => openToRead(path));
  if ("not_made" in store) return { database: facts, jobs: store };
  try {
    const jobs = await part(() => jobsOf(store));
    const aligned = Array.isArray(jobs) ? jobs.filter(({ kind }) => kind === "align").slice(0, mostRuns) : [];
    return {
      database: facts,
      rows: await part(() => rowsOf(store)),
      requests: await part(() => requestsOf(store)),
      jobs,
      runs: await Promise.all(aligned.map(({ subject_id }) => part(() => runOf(join(runs, subject_id))))),
    };
  } finally {
    store.close();
  }
}

/**
 * Summary of a run's events: the count of each kind, the seconds of each phase, the warnings and failures, and the last
 * event.
 */
async function runOf(folder: string): Promise<object> {
  // Text after the last newline is an event that is still being written, or that a crash cut off.
  const lines = (await readFile(join(folder, "events.jsonl"), "utf8")).split("\n").slice(0, -1);
  const events = lines.map((line) => JSON.parse(line) as RunEvent);
  const counts: Record<string, number> = {};
  const run = watchRun();
  for (const event of events) {
    counts[event.kind] = (counts[event.kind] ?? 0) + 1;
    run.see(event);
  }
  return {
    counts,
    seconds: run.seconds(),
    warnings: redacted(events.filter(({ kind }) => kind === "warning" || kind === "failed")),
    last: redacted(events.at(-1) ?? null),
  };
}

/** The text of a check without the paths and names of this machine and of its user. */
function withoutPlaces(text: string, config: Config): string {
  const paths = [config.data, config.trainer, config.starterModel, installation, homedir()]
    .filter((path) => path !== "/")
    .sort((a, b) => b.length - a.length);
  const withoutPaths = paths.reduce((told, path) => told.replaceAll(path, leftOut), text);
  const names = [config.host, hostname(), userInfo().username].filter((name) => name !== "");
  return names.reduce(
    (told, name) => told.replace(new RegExp(`(?<![\\w.])${RegExp.escape(name)}(?!\\w)`, "g"), leftOut),
    withoutPaths,
  );
}

/**
 * Returns the last lines of a log, redacted, and the number of lines that plumbline did not write. The log may be of any
 * length: at most twice `mostLines` lines are held in memory. Throws usage if the file cannot be read.
 */
async function lastLines(path: string): Promise<{ lines: unknown[]; others: number }> {
  const kept: unknown[] = [];
  let others = 0;
  try {
    for await (const line of createInterface({ input: createReadStream(path, "utf8") })) {
      const told = redactedLine(line);
      if (told === null) others++;
      else kept.push(told);
      if (kept.length > 2 * mostLines) kept.splice(0, kept.length - mostLines);
    }
  } catch (error) {
    if (isErrno(error, "ENOENT", "EACCES", "EISDIR"))
      throw new Failure("usage", `${path} cannot be read: ${(error as NodeJS.ErrnoException).code}`);
    throw error;
  }
  return { lines: kept.slice(-mostLines), others };
}
