// The endpoints of auto-aligns. Each request is recorded, with its configuration byte for byte. If it is carried out, a run folder is
// made from the project's snapshot and queued under the auto-align's own id (auto/statuses.ts, auto/work.ts).
//
// Invariants:
//   1. At most one auto-align of a project is under way at a time.
//   2. A request that cannot be planned is recorded too, as FAILED with the reason, because its values are checked only at planning.
//   3. Of the sealed questions, the run folder holds only salted marks, the size of each third and, after a look, scores and clusters.
import { join } from "node:path";
import { Failure, invalid } from "../../../base/errors.ts";
import { newId } from "../../../base/ids.ts";
import type { Clock } from "../../../base/time.ts";
import type { alignments } from "../../../contract/alignments.ts";
import { type Caller, EventStream, type Handlers, JsonText, type Reply } from "../../../contract/endpoint.ts";
import type { Queue } from "../../../jobs/queue.ts";
import { isTerminal } from "../../../jobs/states.ts";
import type { Store } from "../../../store/open.ts";
import { isSnapshotWhole, makeRunFolder, readWholeSnapshot, removeRunFolder } from "../snapshot.ts";
import type { Snapshots } from "../snapshots.ts";
import type { AlignmentRow, AlignmentsSql } from "../store.ts";
import { streamAutoAlign } from "./events.ts";
import type { Moves } from "./moves.ts";
import { type AskedAutoAlign, type Extra, type Planned, type PlanningParts, planOf, withDocuments } from "./plan.ts";
import { recordText, type Shown, toShown } from "./record.ts";
import { hasEnded } from "./statuses.ts";
import type { AutoAlignRow, AutoAlignsSql } from "./store.ts";

type Group = Pick<
  typeof alignments,
  | "alignments.auto_align"
  | "alignments.auto_align_record"
  | "alignments.auto_align_resume"
  | "alignments.auto_align_stop"
  | "alignments.auto_align_events"
>;
type Accepted = Reply<Group["alignments.auto_align"]>;

/** The teacher's replies are copied from the project, so they must be complete. */
function refuseUntaught({ teacher_json, state, phase }: AlignmentRow): void {
  if (teacher_json !== null && !isTerminal(state) && (phase === "queued" || phase === "preparing"))
    throw new Failure(
      "conflict",
      "The project's teacher is not done yet: start the auto-align once the project is training",
    );
}

const withoutTeacher = ". It learns without the project's teacher, who wrote nothing before the project ended";

const nothingElse: Extra = { documents: [], also: () => {} };

export interface AutoAligns {
  handlers: Handlers<Group>;
  /** Starts an auto-align as the endpoint does, with `extra` added to its project. Throws what the endpoint throws. */
  begin(asked: AskedAutoAlign, caller: Caller, alignmentId: string, extra: Extra): Promise<Accepted>;
  /** The latest auto-aligns of a project, newest first. */
  shownOf(alignmentId: string): Shown[];
  /** Throws under_way if an auto-align of the project is under way. */
  refuseLive(alignmentId: string): void;
}

export interface AutoAlignsParts extends PlanningParts {
  store: Store;
  sql: AutoAlignsSql;
  alignmentsSql: AlignmentsSql;
  queue: Queue;
  clock: Clock;
  moves: Moves;
  /** Directory of the run folders. */
  runs: string;
  /** Whether requests are carried out; otherwise they are only recorded. */
  executes: boolean;
  /** Ids whose folders exist or are being made, and whose rows are not written yet. */
  making: Set<string>;
  snapshots: Snapshots;
  wake: () => void;
  /** Throws not_found. */
  owned: (caller: Caller, alignmentId: string) => AlignmentRow;
  /** Ends the auto-align's current run or look. Throws stop_rejected, stop_unreachable. */
  interrupt: (autoAlignId: string) => Promise<void>;
}

export function createAutoAligns(parts: AutoAlignsParts): AutoAligns {
  const { store, sql, queue, clock, moves, runs } = parts;

  const ownedOne = (
    { params }: { params: { alignment_id: string; auto_align_id: string } },
    { userId: ownerId }: Caller,
  ): AutoAlignRow => {
    const row = sql.owned.get({ id: params.auto_align_id, alignmentId: params.alignment_id, ownerId });
    if (row === undefined) throw new Failure("not_found", "Auto-align request not found");
    return row;
  };

  const acceptedAs = ({ id, alignment_id, status }: AutoAlignRow, message: string): Accepted => ({
    auto_align_id: id,
    alignment_id,
    status,
    message,
  });

  function record(id: string, { body, raw }: AskedAutoAlign, project: AlignmentRow): void {
    const { config: _, ...request } = body;
    sql.insert.run({
      id,
      ownerId: project.owner_id,
      alignmentId: project.id,
      request: JSON.stringify(request),
      config: raw.config ?? "null",
      seq: store.nextSeq(),
      at: clock.now(),
    });
  }

  function refuseOther(projectId: string): void {
    const other = sql.live.get(projectId);
    if (other !== undefined)
      throw new Failure(
        "conflict",
        `The project's auto-align ${other.id} is ${other.status}: stop it, or wait until it ends`,
      );
  }

  /** Inserts the hidden alignment row and its job, in the caller's transaction. */
  function enqueue(id: string, project: AlignmentRow, planned: Planned): void {
    const { base, benchmarkId, organisation, rewardModels } = planned;
    parts.alignmentsSql.insert.run({
      id,
      ownerId: project.owner_id,
      name: project.name,
      description: project.description,
      workflowId: project.workflow_id,
      baseModelId: base.id,
      benchmarkId,
      documentIds: project.document_ids_json,
      documentNames: project.document_names_json,
      documentSha256s: project.document_sha256s_json,
      // The teacher is not asked again.
      teacher: null,
      rewardModels: rewardModels && JSON.stringify(rewardModels),
      organisation,
      autoAlignOf: project.id,
      seq: store.nextSeq(),
      at: clock.now(),
    });
    queue.enqueue({ kind: "align", subjectId: id, ownerId: project.owner_id });
  }

  function recordOnly(input: AskedAutoAlign, project: AlignmentRow, { also }: Extra): Accepted {
    return store.transaction(() => {
      const id = newId("auto_align");
      record(id, input, project);
      also(id);
      return keep(input, id, "The request is recorded but not executed on this appliance; read it under this id");
    });
  }

  async function begin(input: AskedAutoAlign, caller: Caller, project: AlignmentRow, extra = nothingElse) {
    if (!parts.executes) return recordOnly(input, project, extra);
    const id = newId("auto_align");
    refuseOther(project.id);
    refuseUntaught(project);
    const folder = join(runs, project.id);
    const snapshot = await readWholeSnapshot(folder);
    let planned: Planned | Failure;
    try {
      const past = (baseId: string) => sql.past.all({ ownerId: project.owner_id, baseId });
      planned = await planOf(parts, { id, project, caller, past, ...input, snapshot: withDocuments(snapshot, extra) });
    } catch (error) {
      if (!(error instanceof Failure) || error.code === "disk_full") throw error;
      planned = error;
    }
    if (planned instanceof Failure) return failAtPlanning(id, input, caller, project.id, planned);
    parts.making.add(id);
    let isKept = false;
    try {
      await makeRunFolder(runs, { ...planned, alignmentId: id, recipeName: project.workflow_id });
      const reply = store.transaction(() => {
        // Any of these may have changed while the folder was made.
        parts.owned(caller, project.id);
        refuseOther(project.id);
        const documentIds = JSON.parse(project.document_ids_json) as string[];
        if (parts.snapshots.isLosing(documentIds) || !isSnapshotWhole(folder, snapshot.documents.length))
          throw new Failure("snapshot_gone");
        if (parts.findBenchmark(caller.userId, planned.benchmarkId) === null)
          throw new Failure("not_found", "Benchmark not found");
        record(id, input, project);
        enqueue(id, project, planned);
        extra.also(id);
        const untaught = project.teacher_json !== null && snapshot.teacher === null ? withoutTeacher : "";
        return keep(input, id, `The auto-align is queued; follow its progress under this id${untaught}`);
      });
      isKept = true;
      parts.wake();
      return reply;
    } finally {
      if (!isKept) await removeRunFolder(runs, id);
      parts.making.delete(id);
    }
  }

  function failAtPlanning(id: string, input: AskedAutoAlign, caller: Caller, projectId: string, why: Failure) {
    return store.transaction(() => {
      record(id, input, parts.owned(caller, projectId));
      moves.to(id, "FAILED", { errorCode: why.code, errorText: why.message });
      return keep(input, id, `${why.message}. ${why.hint}`);
    });
  }

  /** Builds the reply and keeps it for the request's idempotency key, in the transaction that made the row. */
  function keep({ keepReply }: AskedAutoAlign, id: string, message: string): Accepted {
    const row = sql.byId.get(id)!;
    const reply = acceptedAs(row, message);
    keepReply(reply, [row.alignment_id]);
    return reply;
  }

  function resume({ id, status }: AutoAlignRow): Accepted {
    if (status !== "PAUSED")
      throw new Failure("conflict", `The auto-align is ${status}: only a PAUSED one can be resumed`);
    goOn(id, () => sql.resume.run({ id }));
    return acceptedAs(sql.byId.get(id)!, "The auto-align continues");
  }

  /** Continues a paused auto-align with a new job. */
  function goOn(id: string, also: () => void): void {
    store.transaction(() => {
      const { owner_id: ownerId } = sql.byId.get(id)!;
      also();
      moves.to(id, "RUNNING");
      queue.enqueue({ kind: "align", subjectId: id, ownerId });
    });
    parts.wake();
  }

  const setStopping = (id: string, stopping: 0 | 1): void =>
    void sql.setStopping.run({ id, stopping, at: clock.now() });

  async function stop(row: AutoAlignRow): Promise<Accepted> {
    const { id, status, stopping, job_state } = row;
    if (hasEnded(status)) throw new Failure("conflict", `The auto-align has already ended: it is ${status}`);
    if (stopping === 1) throw new Failure("conflict", "The auto-align is already stopping");
    const isUnplanned = status === "RECORDED" || status === "PLANNING";
    if (isUnplanned && (job_state === null || job_state === "queued"))
      store.transaction(() => {
        queue.requestStop(id, "align");
        moves.to(id, "STOPPED");
      });
    else if (status === "PAUSED") goOn(id, () => setStopping(id, 1));
    else await interrupt(id);
    const now = sql.byId.get(id)!;
    return acceptedAs(
      now,
      now.status === "STOPPED"
        ? "Stopped before its first decision"
        : "No further phase starts; the best checkpoint so far is packaged",
    );
  }

  /** Stops the current run or look. Sets the flag first, so that a process that starts meanwhile learns of the stop from its request. */
  async function interrupt(id: string): Promise<void> {
    setStopping(id, 1);
    await parts.interrupt(id).catch((error) => {
      // A run that refuses the stop continues, so the flag is cleared. If a run does not answer, the flag stays set, so
      // that no further phase starts once its process has ended.
      if (error instanceof Failure && error.code === "stop_rejected") setStopping(id, 0);
      throw error;
    });
  }

  return {
    handlers: {
      "alignments.auto_align": async (input, caller) => {
        const project = parts.owned(caller, input.params.alignment_id);
        const { benchmark_id } = input.body;
        if (benchmark_id !== null && parts.findBenchmark(caller.userId, benchmark_id) === null)
          throw new Failure("not_found", "Benchmark not found");
        return begin(input, caller, project);
      },
      "alignments.auto_align_record": async (input, caller) => {
        const row = ownedOne(input, caller);
        return new JsonText(recordText(row, sql.cards.all(row.id)));
      },
      "alignments.auto_align_resume": async (input, caller) => resume(ownedOne(input, caller)),
      "alignments.auto_align_stop": async (input, caller) => stop(ownedOne(input, caller)),
      "alignments.auto_align_events": async (input, caller) => {
        const { id, alignment_id } = ownedOne(input, caller);
        const { lastEventId, signal } = input;
        const known = /^(\d{1,15})\.(\d{1,15})$/.exec(lastEventId ?? "0.0");
        if (known === null) throw invalid(["header", "last-event-id"], "is not the id of an event", "int_parsing");
        const source = {
          path: join(runs, id, "events.jsonl"),
          /** True also for an auto-align that was only recorded. */
          isOver: () => {
            const row = sql.byId.get(id);
            return row === undefined || hasEnded(row.status) || row.job_state === null;
          },
          movesAfter: (seq: number) => sql.movesAfter.all({ id, seq }),
          subject: { auto_align_id: id, alignment_id },
        };
        return new EventStream(streamAutoAlign(source, { event: Number(known[1]), move: Number(known[2]) }, signal), {
          mayBeSilent: true,
        });
      },
    },
    shownOf: (alignmentId) => sql.latest.all(alignmentId).map(toShown),
    begin: (asked, caller, alignmentId, extra) => begin(asked, caller, parts.owned(caller, alignmentId), extra),
    refuseLive(alignmentId) {
      const row = sql.live.get(alignmentId);
      if (row !== undefined)
        throw new Failure("under_way", `Its auto-align ${row.id} is ${row.status}: stop it, and wait until it ends`);
    },
  };
}
