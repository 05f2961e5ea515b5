// Deployments: which aligned models answer requests.
//
//               deploy                    loaded
//   UNDEPLOYED ────────► DEPLOYING ───────────────────► DEPLOYED
//       ▲  ▲                 │ failed: `error`            │  ▲
//       │  └─────────────────┘                   undeploy │  │ failed: `error`
//       │                    unloaded                     ▼  │
//       └─────────────────────────────────────────── UNDEPLOYING
//
// Invariants:
//   1. A move is a deployment task (PROCESSING → READY | FAILED) and a job; both begin in one transaction, and both end in one.
//   2. A request for a move that is under way or done returns its task. A request for the opposite of a move that is under way
//      is a conflict.
//   3. loads_begun is raised before each native load and set to 0 when the load ends. After two loads that never ended, which
//      are taken as crashes, the model stays UNDEPLOYED with `error`, so that it does not crash the appliance at every start.
//   4. A model marked DEPLOYED is loaded, except between the start of the appliance and the end of the model's redeployment,
//      after a redeployment whose failure could not be written, and after an undeployment that failed, if the model could not be
//      loaded again (holdAgain).

import { Failure, type FailureCode } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import type { Log } from "../../base/log.ts";
import { type Clock, sleep } from "../../base/time.ts";
import { refOf } from "../../catalog/models.ts";
import type { AlignedRow, DeploymentStatus } from "../../catalog/store.ts";
import type { Reply } from "../../contract/endpoint.ts";
import type { models } from "../../contract/models.ts";
import type { ModelPool } from "../../engine/generator.ts";
import type { Claim, Queue } from "../../jobs/queue.ts";
import type { Worker, Workers } from "../../jobs/runner.ts";
import { isTerminal } from "../../jobs/states.ts";
import type { Store } from "../../store/open.ts";
import { mostLoadsBegun } from "./load-watch.ts";
import type { DeploymentRow, ModelsSql } from "./store.ts";

export type DeploymentTask = Reply<(typeof models)["models.deployment"]>;

export interface DeploymentParts {
  store: Store;
  sql: ModelsSql;
  queue: Queue;
  /** A deployed model has a lease under its id. */
  pool: ModelPool;
  clock: Clock;
  log: Log;
  /** URL for chats with a deployed model. */
  endpointUrl: () => string;
}

export interface Deployments {
  deploy(model: AlignedRow): DeploymentTask;
  undeploy(model: AlignedRow): DeploymentTask;
  latest(modelId: string): DeploymentTask | null;
  workers: { deploy: Worker; undeploy: Worker };
  /**
   * Ends tasks that a crash left unfinished, then loads the deployed models one by one. Called once the server listens. Begins
   * no further load once the signal is aborted.
   */
  redeployAtStart(signal?: AbortSignal): Promise<void>;
  /** Models that were deployed or deploying when the appliance started, and do not serve yet. */
  waiting(): string[];
  /**
   * Returns the workers so that they begin no job while a model is waiting. After a start, no model is loaded yet, and work
   * that was queued before would take the memory that the deployed models need.
   */
  afterRedeployment(workers: Workers): Workers;
  /** Resolves once the model is no longer waiting. */
  settled(modelId: string): Promise<void>;
  /** Ends the waits for models that will not be loaded any more, with cut_off. Called once the workers' signal is aborted. */
  giveUp(): void;
}

/** Wait before a transaction that failed, as on a full disk, is tried again. */
const retryMs = 1000;

/** What differs between the two moves. */
const moves = {
  deploy: { from: "UNDEPLOYED", during: "DEPLOYING", to: "DEPLOYED", opposite: "UNDEPLOYING" },
  undeploy: { from: "DEPLOYED", during: "UNDEPLOYING", to: "UNDEPLOYED", opposite: "DEPLOYING" },
} as const satisfies Record<DeploymentRow["kind"], Record<string, DeploymentStatus>>;

export function createDeployments(parts: DeploymentParts): Deployments {
  const { store, sql, queue, pool, clock, log } = parts;
  const waiting = new Map<string, PromiseWithResolvers<void>>();
  for (const row of sql.inStatus.all(JSON.stringify(["DEPLOYED", "DEPLOYING"])))
    waiting.set(row.id, Promise.withResolvers());

  const taskOf = (row: DeploymentRow): DeploymentTask => ({
    model_id: row.model_id,
    status: row.status,
    result:
      row.status === "READY"
        ? { deployment_id: row.id, endpoint_url: parts.endpointUrl() }
        : row.status === "FAILED"
          ? { error: row.error! }
          : null,
    start_time: row.started_at,
    end_time: row.ended_at,
  });

  function insert(modelId: string, kind: DeploymentRow["kind"], status: DeploymentRow["status"], error: string | null) {
    const at = clock.now();
    const row = { id: newId("deployment"), model_id: modelId, kind, status, error, started_at: at };
    sql.insertDeployment.run({ ...row, ended_at: status === "PROCESSING" ? null : at, seq: store.nextSeq() });
    return sql.latestDeployment.get({ modelId, kind })!;
  }

  /** Begins a move (invariants 1 and 2). The status is read again, because it may have changed since the caller read the row. */
  const begin = (kind: DeploymentRow["kind"], { id, owner_id }: AlignedRow): DeploymentTask =>
    store.transaction(() => {
      const { from, during, to, opposite } = moves[kind];
      const status = sql.alignedById.get(id)!.deployment_status;
      if (status === opposite) throw new Failure("conflict", `The model is ${opposite}; wait until that task ends`);
      const latest = sql.latestDeployment.get({ modelId: id, kind: null });
      if (status === during) return taskOf(latest!);
      // The status endpoint returns the latest task, so one is recorded if the latest is another: a model that was never
      // deployed has no undeploy task, and a deployment may have failed since.
      const isDone = latest?.kind === kind && latest.status === "READY";
      if (status === to) return taskOf(isDone ? latest : insert(id, kind, "READY", null));
      if (status !== from) throw new Error(`a model cannot be ${status}`);
      sql.moveModel.run({ id, to: during, error: null });
      queue.enqueue({ kind, subjectId: id, ownerId: owner_id });
      return taskOf(insert(id, kind, "PROCESSING", null));
    });

  /** Ends the task, within the transaction that moves the job. */
  function end(task: DeploymentRow, failure: Failure | null): void {
    const { from, to } = moves[task.kind];
    const error = failure && reasonOf(failure);
    sql.endDeployment.run({ id: task.id, status: failure ? "FAILED" : "READY", error, at: clock.now() });
    sql.moveModel.run({ id: task.model_id, to: failure ? from : to, error });
  }

  /** Loads the model. The row of `task` counts the load (invariant 3). */
  async function loadCounted(model: AlignedRow, task: DeploymentRow): Promise<void> {
    const begun = sql.latestDeployment.get({ modelId: model.id, kind: "deploy" })!.loads_begun;
    if (begun >= mostLoadsBegun)
      throw new Failure(
        "model_load_failed",
        `Loading it crashed the appliance ${begun} times, so it is not tried again automatically`,
      );
    sql.setLoadsBegun.run(begun + 1, task.id);
    try {
      await pool.hold(model.id, refOf(model));
    } finally {
      sql.setLoadsBegun.run(0, task.id);
    }
  }

  const settled = async (modelId: string): Promise<void> => waiting.get(modelId)?.promise;

  function settle(modelId: string): void {
    waiting.get(modelId)?.resolve();
    waiting.delete(modelId);
  }

  /** Retries `write`, because the task must end with its job (invariant 1), and the runner alone would end only the job. */
  async function untilWritten(modelId: string, write: () => boolean, signal: AbortSignal): Promise<boolean> {
    for (;;)
      try {
        return write();
      } catch (error) {
        log("error", "deployment.unwritten", { modelId, error });
        if (signal.aborted) throw error;
        await sleep(retryMs, signal);
      }
  }

  /**
   * Makes one of the two workers. They differ only in what they do between the transaction that begins the move and the one
   * that ends it: `act`, and `undo` if the move failed.
   */
  const worker =
    (
      kind: DeploymentRow["kind"],
      act: (model: AlignedRow, task: DeploymentRow, signal: AbortSignal) => Promise<void>,
      undo: (model: AlignedRow) => Promise<void>,
    ) =>
    async (claim: Claim, signal: AbortSignal): Promise<void> => {
      const task = sql.latestDeployment.get({ modelId: claim.subjectId, kind })!;
      const model = sql.alignedById.get(claim.subjectId)!;
      let failure: Failure | null = null;
      try {
        await act(model, task, signal);
      } catch (error) {
        if (signal.aborted) throw error;
        log("error", `model.${kind}_failed`, { modelId: model.id, error });
        failure = error instanceof Failure ? error : new Failure("internal", undefined, { cause: error });
      }
      const write = (): boolean =>
        failure
          ? queue.move(claim, "failed", errorOf(failure), () => end(task, failure))
          : queue.move(claim, "succeeded", {}, () => end(task, null));
      const ended = await untilWritten(model.id, write, signal);
      if (failure || !ended) await undo(model);
      settle(model.id);
    };

  /** Unloads the model once its running answers have finished. */
  async function unload(model: AlignedRow, _task: DeploymentRow, signal: AbortSignal): Promise<void> {
    const leaving = Promise.withResolvers<void>();
    const leave = () => leaving.reject(signal.reason);
    if (signal.aborted) leave();
    signal.addEventListener("abort", leave);
    try {
      await Promise.race([settled(model.id).then(() => pool.quiet(refOf(model))), leaving.promise]);
    } finally {
      signal.removeEventListener("abort", leave);
    }
    await pool.letGo(model.id);
  }

  /**
   * Holds the model again after an unload that failed, because the model then stays deployed. If this fails too, the next
   * request loads the model.
   */
  async function holdAgain(model: AlignedRow): Promise<void> {
    try {
      await pool.hold(model.id, refOf(model));
    } catch (error) {
      log("error", "model.hold_failed", { modelId: model.id, error });
    }
  }

  /** Ends tasks whose job has already ended, because the queue gave the job up at start. */
  function endOrphans(): void {
    for (const model of sql.inStatus.all(JSON.stringify(["DEPLOYING", "UNDEPLOYING"]))) {
      const task = sql.latestDeployment.get({ modelId: model.id, kind: null })!;
      const job = queue.of(model.id, task.kind);
      if (job && !isTerminal(job.state)) continue;
      store.transaction(() => end(task, new Failure((job?.errorCode as FailureCode | null) ?? "supervisor_restart")));
      if (task.kind === "deploy") settle(model.id);
      else waiting.set(model.id, Promise.withResolvers());
    }
  }

  async function redeploy(modelId: string): Promise<void> {
    try {
      const model = sql.alignedById.get(modelId);
      // The model may have been undeployed, or deleted, while other models were loaded.
      if (model?.deployment_status !== "DEPLOYED") return;
      await loadCounted(model, sql.latestDeployment.get({ modelId, kind: "deploy" })!);
    } catch (error) {
      log("error", "model.redeploy_failed", { modelId, error });
      const failure = error instanceof Failure ? error : new Failure("internal", undefined, { cause: error });
      store.transaction(() => {
        insert(modelId, "deploy", "FAILED", reasonOf(failure));
        sql.moveModel.run({ id: modelId, to: "UNDEPLOYED", error: reasonOf(failure) });
      });
    } finally {
      settle(modelId);
    }
  }

  return {
    deploy: (model) => begin("deploy", model),
    undeploy: (model) => begin("undeploy", model),
    latest(modelId) {
      const row = sql.latestDeployment.get({ modelId, kind: null });
      return row ? taskOf(row) : null;
    },
    workers: {
      deploy: { concurrency: 1, run: worker("deploy", loadCounted, (model) => pool.letGo(model.id)) },
      // Each undeployment waits for the running answers of its model, and must not hold up the other undeployments.
      undeploy: { concurrency: 8, run: worker("undeploy", unload, holdAgain) },
    },
    async redeployAtStart(signal) {
      try {
        endOrphans();
      } catch (error) {
        log("error", "model.orphans_unended", { error });
      }
      // A model that was undeployed since the start is not loaded, but its undeployment waits for its turn here.
      for (const { id } of sql.inStatus.all(JSON.stringify(["DEPLOYED", "UNDEPLOYING"]))) {
        // A load that begins after a stop was requested would be cut off, and would count as a crash at the next start.
        if (signal?.aborted) return;
        // A failure that cannot be written must not keep the later models waiting. A request then loads the model.
        await redeploy(id).catch((error) => log("error", "model.redeploy_unwritten", { modelId: id, error }));
      }
    },
    waiting: () => [...waiting.keys()],
    afterRedeployment: (workers) =>
      Object.fromEntries(
        Object.entries(workers).map(([kind, worker]) => {
          const canStart = (): boolean => waiting.size === 0 && (worker.canStart?.() ?? true);
          return [kind, { ...worker, canStart }];
        }),
      ),
    giveUp() {
      for (const { promise, reject } of waiting.values()) {
        promise.catch(() => {});
        reject(new Failure("cut_off"));
      }
    },
    settled,
  };
}

const reasonOf = (failure: Failure): string => `${failure.message}. ${failure.hint}`;
const errorOf = (failure: Failure) => ({ errorCode: failure.code, errorText: failure.message });
