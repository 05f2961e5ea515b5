// The states of a job, and every legal move.
//
//   queued ──claim──► running ──finish──► succeeded
//     │                 │ ├────fail─────► failed
//     │                 │ └──requeue────► queued        (its process died; fence rises with the next claim)
//     │                 └────stop───────► stopping ──► stopped | succeeded | failed | queued
//     └──stop──► stopped
//
// Invariants, each of which the schema also enforces by a CHECK, an index or a trigger:
//   1. One live job per subject and kind of work.
//   2. Every write of a claim presents its fence; a stale fence changes nothing.
//   3. A running job carries the epoch of the supervisor that claimed it. If the epoch is older than the current one, the job's process
//      is dead.
//   4. A terminal job never moves again, and has finished_at; a failed one has an error code.

export const jobStates = ["queued", "running", "stopping", "succeeded", "failed", "stopped"] as const;
export type JobState = (typeof jobStates)[number];

export const jobKinds = ["align", "evaluate", "deploy", "undeploy", "generate"] as const;
export type JobKind = (typeof jobKinds)[number];

export const edges: Record<JobState, readonly JobState[]> = {
  queued: ["running", "stopped"],
  running: ["stopping", "succeeded", "failed", "queued"],
  stopping: ["stopped", "succeeded", "failed", "queued"],
  succeeded: [],
  failed: [],
  stopped: [],
};

export const isTerminal = (state: JobState): boolean => edges[state].length === 0;

/** SQL condition: the job `j` is not in a terminal state. */
export const isLive = `j.state IN(${jobStates
  .filter((state) => !isTerminal(state))
  .map((state) => `'${state}'`)
  .join(", ")})`;

/** The job states that a resource shows as `status`; all states if `status` is undefined. */
export const statesShownAs = <Shown>(shown: Record<JobState, Shown>, status: Shown | undefined): JobState[] =>
  jobStates.filter((state) => status === undefined || shown[state] === status);
