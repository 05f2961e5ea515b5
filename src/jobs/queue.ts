// The job queue. Every claim raises the job's fence, and every later write must present that fence, so that a worker with a stale claim
// changes nothing. States, moves and invariants are in states.ts; the schema enforces them as well.
import { Failure, type FailureCode } from "../base/errors.ts";
import { newId } from "../base/ids.ts";
import type { Log } from "../base/log.ts";
import type { Clock } from "../base/time.ts";
import { isDuplicate, type Store } from "../store/open.ts";
import { edges, isTerminal, type JobKind, type JobState } from "./states.ts";

export interface Claim {
  jobId: string;
  kind: JobKind;
  subjectId: string;
  ownerId: string;
  fence: number;
  attempt: number;
  maxAttempts: number;
}

export interface Job extends Claim {
  state: JobState;
  errorCode: string | null;
  errorText: string | null;
  createdAt: string;
  finishedAt: string | null;
}

export interface MoveOptions {
  /** For a move to `failed`; `internal` if absent. */
  errorCode?: FailureCode;
  errorText?: string;
  /** Note for the job's history. */
  detail?: string;
  /** For a move to `queued`: the attempt ended in an orderly way (e.g. a shutdown) and does not count against max_attempts. */
  orderly?: boolean;
}

export interface Queue {
  /** Adds a job, inside the caller's transaction, and returns its id. Throws conflict if the subject has live work of this kind. */
  enqueue(work: { kind: JobKind; subjectId: string; ownerId: string }): string;
  /** Claims the oldest queued job of this kind, which is then running under a new fence. Null if no job is queued. */
  claim(kind: JobKind): Claim | null;
  /**
   * Moves the job, records the move in its history, and runs `also` to change the caller's rows, all in one transaction. Returns false, and
   * changes nothing, if the claim is stale.
   */
  move(claim: Claim, to: JobState, options?: MoveOptions, also?: () => void): boolean;
  /** Sets the attempt back to 1, inside the caller's transaction, because the work has produced something that lasts. */
  renew(claim: Claim): void;
  /** Moves queued → stopped or running → stopping. Returns the new state; null if the subject has no live work of this kind. */
  requestStop(subjectId: string, kind: JobKind): JobState | null;
  /** The subject's latest job of this kind. */
  of(subjectId: string, kind: JobKind): Job | null;
  count(kind: JobKind, states: readonly JobState[]): number;
  /** Number of jobs of every kind and state. */
  counts(): { kind: JobKind; state: JobState; count: number }[];
  /** Moves the jobs of older epochs, whose processes are dead, and returns them. Called at start, with the data folder taken. */
  recover(): Job[];
}

interface Row {
  id: string;
  owner_id: string;
  kind: JobKind;
  subject_id: string;
  state: JobState;
  fence: number;
  attempt: number;
  max_attempts: number;
  error_code: string | null;
  error_text: string | null;
  created_at: string;
  finished_at: string | null;
}

const toJob = (row: Row): Job => ({
  jobId: row.id,
  kind: row.kind,
  subjectId: row.subject_id,
  ownerId: row.owner_id,
  fence: row.fence,
  attempt: row.attempt,
  maxAttempts: row.max_attempts,
  state: row.state,
  errorCode: row.error_code,
  errorText: row.error_text,
  createdAt: row.created_at,
  finishedAt: row.finished_at,
});

function prepareAll(store: Store) {
  return {
    insert: store.prepare<[string, string, string, string, number, string]>(
      "INSERT INTO job(id, owner_id, kind, subject_id, state, created_seq, created_at) VALUES(?, ?, ?, ?, 'queued', ?, ?)",
    ),
    byId: store.prepare<[string], Row>("SELECT * FROM job WHERE id = ?"),
    latest: store.prepare<[string, string], Row>(
      "SELECT * FROM job WHERE subject_id = ? AND kind = ? ORDER BY created_seq DESC LIMIT 1",
    ),
    oldestQueued: store.prepare<[string], Row>(
      "SELECT * FROM job WHERE state = 'queued' AND kind = ? ORDER BY created_seq LIMIT 1",
    ),
    ofOlderEpochs: store.prepare<[number], Row>(
      "SELECT * FROM job WHERE state IN('running', 'stopping') AND epoch < ? ORDER BY created_seq",
    ),
    countKind: store.prepare<[string, string], { n: number }>(
      "SELECT count(*) AS n FROM job WHERE kind = ? AND state IN(SELECT value FROM json_each(?))",
    ),
    counts: store.prepare<[], { kind: JobKind; state: JobState; count: number }>(
      "SELECT kind, state, count(*) AS count FROM job GROUP BY kind, state",
    ),
    update: store.prepare<{
      id: string;
      from: JobState;
      fence: number;
      to: JobState;
      nextFence: number;
      epoch: number | null;
      attempt: number;
      errorCode: string | null;
      errorText: string | null;
      finishedAt: string | null;
    }>(
      `UPDATE job SET state = :to, fence = :nextFence, epoch = :epoch, attempt = :attempt, error_code = :errorCode,
       error_text = :errorText, finished_at = :finishedAt WHERE id = :id AND state = :from AND fence = :fence`,
    ),
    renew: store.prepare<[string, number]>(
      "UPDATE job SET attempt = 1 WHERE id = ? AND fence = ? AND state IN('running', 'stopping')",
    ),
    event: store.prepare<[string, number, string | null, string, string, string | null, string]>(
      `INSERT INTO job_event(job_id, fence, from_state, to_state, at, detail, seq)
       VALUES(?, ?, ?, ?, ?, ?, 1 + (SELECT coalesce(max(seq), 0) FROM job_event WHERE job_id = ?))`,
    ),
    epoch: store.prepare<[], { epoch: number }>("SELECT epoch FROM supervisor"),
    nextEpoch: store.prepare<[string], { epoch: number }>(
      "UPDATE supervisor SET epoch = epoch + 1, started_at = ? RETURNING epoch",
    ),
  };
}

export function createQueue(parts: { store: Store; clock: Clock; log: Log }): Queue {
  const { store, clock, log } = parts;
  const sql = prepareAll(store);
  let epoch = sql.epoch.get()!.epoch;

  const record = (row: Row, fence: number, to: JobState, detail?: string): void => {
    const from = row.state === to ? null : row.state;
    sql.event.run(row.id, fence, from, to, clock.now(), detail ?? null, row.id);
  };

  /** Runs inside a transaction. A claim is the only move that raises fence and attempt. */
  const apply = (row: Row, to: JobState, options: MoveOptions & { claiming?: boolean } = {}): void => {
    const live = to === "running" || to === "stopping";
    const fence = row.fence + (options.claiming ? 1 : 0);
    const { changes } = sql.update.run({
      id: row.id,
      from: row.state,
      fence: row.fence,
      to,
      nextFence: fence,
      epoch: live ? epoch : null,
      attempt: row.attempt + (options.claiming ? 1 : 0) - (to === "queued" && options.orderly ? 1 : 0),
      errorCode: to === "failed" ? (options.errorCode ?? "internal") : null,
      errorText: to === "failed" ? (options.errorText ?? null) : null,
      finishedAt: isTerminal(to) ? clock.now() : null,
    });
    if (changes !== 1) throw new Error(`job ${row.id} changed during its own transaction`);
    record(row, fence, to, options.detail);
    log("info", "job.moved", { jobId: row.id, kind: row.kind, subjectId: row.subject_id, from: row.state, to, fence });
  };

  return {
    enqueue({ kind, subjectId, ownerId }) {
      const id = newId("job");
      try {
        sql.insert.run(id, ownerId, kind, subjectId, store.nextSeq(), clock.now());
      } catch (error) {
        if (isDuplicate(error))
          throw new Failure("conflict", "Work of this kind is already in progress", { cause: error });
        throw error;
      }
      record(sql.byId.get(id)!, 0, "queued");
      return id;
    },

    claim: (kind) =>
      store.transaction(() => {
        const row = sql.oldestQueued.get(kind);
        if (!row) return null;
        apply(row, "running", { claiming: true });
        return toJob(sql.byId.get(row.id)!);
      }),

    move: (claim, to, options = {}, also = () => {}) =>
      store.transaction(() => {
        const row = sql.byId.get(claim.jobId);
        if (!row || row.fence !== claim.fence || isTerminal(row.state) || row.state === "queued") return false;
        if (!edges[row.state].includes(to)) throw new Error(`job: the transition ${row.state} → ${to} is not allowed`);
        apply(row, to, options);
        also();
        return true;
      }),

    renew: ({ jobId, fence }) => void sql.renew.run(jobId, fence),

    requestStop: (subjectId, kind) =>
      store.transaction(() => {
        const row = sql.latest.get(subjectId, kind);
        if (!row || isTerminal(row.state)) return null;
        if (row.state === "stopping") return "stopping";
        const to = row.state === "queued" ? "stopped" : "stopping";
        apply(row, to, { detail: "stop requested" });
        return to;
      }),

    of(subjectId, kind) {
      const row = sql.latest.get(subjectId, kind);
      return row ? toJob(row) : null;
    },

    count: (kind, states) => sql.countKind.get(kind, JSON.stringify(states))!.n,

    counts: () => sql.counts.all(),

    recover: () =>
      store.transaction(() => {
        epoch = sql.nextEpoch.get(clock.now())!.epoch;
        return sql.ofOlderEpochs.all(epoch).map((row) => {
          const detail = `the supervisor of this job ended; the epoch is now ${epoch}`;
          if (row.state === "stopping") apply(row, "stopped", { detail });
          else if (row.attempt < row.max_attempts) apply(row, "queued", { detail });
          else {
            const errorText = `The appliance ended ${row.attempt} times while this was running`;
            apply(row, "failed", { errorCode: "supervisor_restart", errorText, detail });
          }
          return toJob(sql.byId.get(row.id)!);
        });
      }),
  };
}
