// What must hold after every fault, whatever it was. Each check returns what is broken, in words; nothing returned is sound.
//
//   I1 the database is sound          I4 the history of work is legal
//   I2 what was acknowledged is there I5 files and rows agree
//   I3 no job is stuck                I6 no process is left behind
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import Database from "better-sqlite3";
import { places } from "../../src/base/config.ts";
import { isTemporary, sha256OfFile } from "../../src/base/files.ts";
import { edges, type JobKind, type JobState } from "../../src/jobs/states.ts";

const graceMs = 60_000;

/** Something the appliance has answered 2xx to, and how to see that it is still so. */
export interface Acknowledged {
  what: string;
  /** Throws when it is not. */
  still(): Promise<void>;
}

interface JobRow {
  id: string;
  kind: JobKind;
  state: JobState;
  epoch: number | null;
  attempt: number;
}

/** Reads beside a live appliance; never writes. */
function read<T>(data: string, work: (db: Database.Database) => T): T {
  const db = new Database(places(data).database, { readonly: true, timeout: 10_000 });
  try {
    return work(db);
  } finally {
    db.close();
  }
}

/** I1 */
export const databaseIsSound = (data: string): string[] =>
  read(data, (db) => {
    const said = db.pragma("integrity_check", { simple: true });
    const dangling = db.pragma("foreign_key_check") as { table: string; rowid: number }[];
    return [
      ...(said === "ok" ? [] : [`I1 integrity_check: ${said}`]),
      ...dangling.map((row) => `I1 ${row.table} row ${row.rowid} refers to nothing`),
    ];
  });

/** I2 */
export async function acknowledgedIsThere(acknowledged: readonly Acknowledged[]): Promise<string[]> {
  const broken: string[] = [];
  for (const { what, still } of acknowledged)
    await still().catch((error: Error) => broken.push(`I2 ${what}: ${error.message}`));
  return broken;
}

/** I3: waits until no live job is of an older epoch and no queued one waits while nothing of its kind runs. */
export async function noJobIsStuck(data: string, withinMs: number): Promise<string[]> {
  const until = performance.now() + withinMs;
  for (;;) {
    const broken = read(data, stuckJobs);
    if (broken.length === 0 || performance.now() > until) return broken;
    await delay(200);
  }
}

function stuckJobs(db: Database.Database): string[] {
  const { epoch } = db.prepare<[], { epoch: number }>("SELECT epoch FROM supervisor").get()!;
  const jobs = db.prepare<[], JobRow>("SELECT * FROM job WHERE state IN('queued', 'running', 'stopping')").all();
  return jobs.flatMap((job) => {
    if (job.state !== "queued")
      return job.epoch === epoch
        ? []
        : [`I3 ${job.kind} ${job.id} is ${job.state} in epoch ${job.epoch}, now ${epoch}`];
    const isBusy = jobs.some((other) => other.kind === job.kind && other.state !== "queued");
    return isBusy ? [] : [`I3 ${job.kind} ${job.id} waits while nothing of its kind runs`];
  });
}

/** I4 */
export const historyIsLegal = (data: string): string[] =>
  read(data, (db) => {
    const broken: string[] = [];
    const events = db.prepare<
      [string],
      { seq: number; from_state: JobState | null; to_state: JobState; fence: number }
    >("SELECT * FROM job_event WHERE job_id = ? ORDER BY seq");
    for (const job of db.prepare<[], JobRow>("SELECT * FROM job").all()) {
      let state = null as JobState | null;
      let fence = 0;
      for (const [index, event] of events.all(job.id).entries()) {
        if (event.seq !== index + 1) broken.push(`I4 job ${job.id}: event ${event.seq} stands at place ${index + 1}`);
        if (event.from_state !== state)
          broken.push(`I4 job ${job.id}: event ${event.seq} is from ${event.from_state}, not ${state}`);
        if (state !== null && !edges[state].includes(event.to_state))
          broken.push(`I4 job ${job.id}: ${state} → ${event.to_state}`);
        if (event.fence < fence) broken.push(`I4 job ${job.id}: fence falls to ${event.fence}`);
        state = event.to_state;
        fence = event.fence;
      }
      if (state !== job.state) broken.push(`I4 job ${job.id} is ${job.state}, its history ends ${state}`);
    }
    return broken;
  });

/**
 * I5. Files without a row may be as young as `graceMs`, temporary ones must be younger than the start of the appliance. Waits: what an
 * earlier life left is swept once the models are back.
 */
export async function filesAndRowsAgree(data: string, bootedAt: number, withinMs: number): Promise<string[]> {
  const until = performance.now() + withinMs;
  for (;;) {
    const broken = await disagreements(data, bootedAt);
    if (broken.length === 0 || performance.now() > until) return broken;
    await delay(200);
  }
}

async function disagreements(data: string, bootedAt: number): Promise<string[]> {
  const at = places(data);
  const wanted = read(data, (db) => ({
    documents: db
      .prepare<[], { id: string; sha256: string; text_sha256: string; structure_sha256: string | null }>(
        "SELECT * FROM document",
      )
      .all(),
    bases: db
      .prepare<[], { id: string; path: string; sha256: string; bytes: number }>("SELECT * FROM base_model")
      .all(),
    adapters: db
      .prepare<[], { id: string; adapter_path: string; adapter_sha256: string; sources_path: string | null }>(
        "SELECT * FROM aligned_model",
      )
      .all(),
  }));
  const blob = (digest: string): string => join(at.blobs, digest.slice(0, 2), digest);
  const references = [
    ...wanted.documents.flatMap((row) => [
      { what: `document ${row.id}`, path: blob(row.sha256), sha256: row.sha256 },
      { what: `text of document ${row.id}`, path: blob(row.text_sha256), sha256: row.text_sha256 },
      // One of an older version has none.
      ...[row.structure_sha256 ?? []].flat().map((sha256) => ({
        what: `structure of document ${row.id}`,
        path: blob(sha256),
        sha256,
      })),
    ]),
    ...wanted.bases.map((row) => ({ what: `base ${row.id}`, path: row.path, sha256: row.sha256 })),
    ...wanted.adapters.map((row) => ({ what: `model ${row.id}`, path: row.adapter_path, sha256: row.adapter_sha256 })),
    // The file is named by its hash.
    ...wanted.adapters.flatMap(({ id, sources_path: path }) =>
      path === null ? [] : [{ what: `sources of model ${id}`, path, sha256: basename(path, ".json") }],
    ),
  ];
  const broken: string[] = [];
  for (const { what, path, sha256 } of references) {
    const found = await sha256OfFile(path).catch((error: Error) => error.message);
    if (found !== sha256) broken.push(`I5 ${what}: ${path} is ${found}`);
  }
  const known = new Set(references.map((reference) => reference.path));
  for (const { path, changedAt } of [...filesUnder(at.blobs), ...filesUnder(at.models)])
    if (!known.has(path) && Date.now() - changedAt > graceMs) broken.push(`I5 ${path} belongs to nothing`);
  for (const { path, changedAt } of filesUnder(data))
    if (isTemporaryPath(path) && changedAt < bootedAt) broken.push(`I5 ${path} is left from before the start`);
  return broken;
}

const isTemporaryPath = (path: string): boolean =>
  path.split("/").some(isTemporary) || path.includes("/uploads/") || path.endsWith(".tmp");

function filesUnder(folder: string): { path: string; changedAt: number }[] {
  try {
    return readdirSync(folder, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile())
      .flatMap((entry) => {
        const path = join(entry.parentPath, entry.name);
        try {
          return [{ path, changedAt: statSync(path).ctimeMs }];
        } catch {
          return []; // gone since it was listed
        }
      });
  } catch {
    return [];
  }
}

interface ProcessEntry {
  pid: number;
  parent: number;
  /** With the pid it names one process for ever. */
  startedTicks: string;
  command: string;
}

function processes(): ProcessEntry[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, "utf8");
        const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
        if (fields[0] === "Z") return []; // dead, only not yet waited for
        const command = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ").trim();
        return [{ pid: Number(name), parent: Number(fields[1]), startedTicks: fields[19]!, command }];
      } catch {
        return [];
      }
    });
}

/** Everything that a process has started, and what that has started. */
export function descendantsOf(pid: number): ProcessEntry[] {
  const all = processes();
  const found: ProcessEntry[] = [];
  for (let parents = [pid]; parents.length > 0; ) {
    const children = all.filter((entry) => parents.includes(entry.parent));
    found.push(...children);
    parents = children.map((child) => child.pid);
  }
  return found;
}

/** I6: waits until none of what a dead appliance had started lives. */
export async function noneIsLeftOf(descendants: readonly ProcessEntry[], withinMs: number): Promise<string[]> {
  const until = performance.now() + withinMs;
  for (;;) {
    const alive = processes().filter((entry) =>
      descendants.some((other) => other.pid === entry.pid && other.startedTicks === entry.startedTicks),
    );
    if (alive.length === 0) return [];
    if (performance.now() > until) return alive.map((entry) => `I6 process ${entry.pid} lives on: ${entry.command}`);
    await delay(100);
  }
}

/** I6 once more, from the other side: who works on this data folder, and belongs to nobody. */
export function strangersOn(data: string, owner: number): string[] {
  const own = new Set([owner, ...descendantsOf(owner).map((entry) => entry.pid)]);
  return processes()
    .filter((entry) => entry.command.includes(dirname(places(data).database)) && !own.has(entry.pid))
    .map((entry) => `I6 process ${entry.pid} works on ${data}: ${entry.command}`);
}
