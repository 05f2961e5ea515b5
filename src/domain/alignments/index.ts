// Alignments turn an organisation's documents into a model of its own.
//
//   PROCESSING (queued ──► preparing ──► training ◄──► checking ──► packaging; checking ◄──► repairing) ──► COMPLETED
//        │ stop                                       └──failure──► FAILED
//        └──► STOPPING ──► STOPPED
//   Deleting an alignment that is queued or preparing stops its run. Deleting one that has ended removes its files and its row, but
//   while its model exists the row stays, with only what the model was made of.
//
// Invariants:
//   1. The public status is a view of the job's state, so the two cannot disagree.
//   2. While an alignment is neither terminal nor stopping, creating one with the same configuration returns that alignment.
//   3. A row exists only if its run folder is complete and synced.
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { Failure, invalid } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";
import { newId } from "../../base/ids.ts";
import type { Clock } from "../../base/time.ts";
import type { alignments } from "../../contract/alignments.ts";
import type { AutoAlignRequest } from "../../contract/auto-align.ts";
import { type Caller, Download, EventStream, type Handlers, type Input, type Reply } from "../../contract/endpoint.ts";
import type { Recipe } from "../../contract/recipe.ts";
import type { SnapshotDocument } from "../../contract/run-folder.ts";
import type { Queue } from "../../jobs/queue.ts";
import { isTerminal, type JobState, statesShownAs } from "../../jobs/states.ts";
import { readPrepareReport } from "../../run/folder/rows.ts";
import type { Teacher } from "../../run/folder/teacher.ts";
import { prepareForgetting } from "../../store/idempotency.ts";
import type { Store } from "../../store/open.ts";
import { openStudyThread } from "../../study/thread.ts";
import { type AutoAligns, createAutoAligns } from "./auto/index.ts";
import type { Moves } from "./auto/moves.ts";
import type { AutoAlignsSql } from "./auto/store.ts";
import { tellStranded } from "./auto/work.ts";
import type { Erasure } from "./erasure.ts";
import { estimateOf, type RunCost } from "./estimate.ts";
import { streamEvents } from "./event-stream.ts";
import { listStatusOf, statusOf, toListRow, toStatus } from "./record.ts";
import { makeRunFolder, removeRunFolder } from "./snapshot.ts";
import type { Snapshots } from "./snapshots.ts";
import type { AlignmentRow, AlignmentsSql } from "./store.ts";
import {
  type AlignableBase,
  alignableBase,
  type BenchmarkItem,
  benchmarkOf,
  devOf,
  type Lookups,
  recipeOf,
  sameDocuments,
  sameTeacher,
  teacherOf,
} from "./wanted.ts";

export interface AlignmentsParts extends Lookups {
  store: Store;
  sql: AlignmentsSql;
  autoAlignsSql: AutoAlignsSql;
  queue: Queue;
  clock: Clock;
  moves: Moves;
  snapshots: Snapshots;
  erasure: Erasure;
  /** Whether auto-align requests are carried out; otherwise they are only recorded. */
  autoAligns: boolean;
  /** Directory of the run folders. */
  runs: string;
  /** Tells the runner that there is work. */
  wake: () => void;
  /** Returns each document once, with the sha256 of its original file. Throws not_found unless all of them are the owner's. */
  snapshotDocuments: (
    ownerId: string,
    ids: readonly string[],
  ) => Promise<{ document: SnapshotDocument; sha256: string }[]>;
  /** Throws not_found unless all of the documents exist and are the owner's. */
  checkDocuments: (ownerId: string, ids: readonly string[]) => void;
  /** Throws a validation failure if an auto-align's target uses a reward that cannot score every item. */
  checkMetric: (config: AutoAlignRequest["config"], items: readonly BenchmarkItem[]) => Promise<void>;
  /** Finds a model of this appliance by id or name; null if the owner has none of that name. */
  describeModel: (ownerId: string, model: string) => { modelId: string; kind: string } | null;
  /** Estimates the memory and speed of a run that trains this base by this recipe. */
  costOf: (baseModelId: string, recipe: Recipe) => Promise<RunCost>;
  /** What a queued alignment waits for besides its turn; null if nothing. */
  waitingFor: (alignmentId: string) => string | null;
  /** Asks the run to stop. Resolves once the run has acknowledged. */
  stopRun: (alignmentId: string) => Promise<void>;
  /** Cancels an attempt that is being prepared, before or after its run has started. Resolves once it is certain to stop. */
  cancelRun: (alignmentId: string) => Promise<void>;
  /** Ends an auto-align's current run or look. Throws stop_rejected, stop_unreachable. */
  interruptRun: (autoAlignId: string) => Promise<void>;
  /** Writes an entry of the audit log, in the caller's transaction. */
  audit: (act: string, subject: string, detail: Record<string, unknown>, by: Caller) => void;
}

export interface Alignments {
  handlers: Handlers<typeof alignments>;
  /**
   * Starts an auto-align as the endpoint does. It may learn from further documents besides the project's. Throws what
   * the endpoint throws.
   */
  beginAutoAlign: AutoAligns["begin"];
  /** Called at start, after the queue has recovered. Updates auto-aligns whose job ended in that recovery. */
  recover(): void;
  /** Completes deletions that a crash interrupted, and removes run folders without an alignment. */
  tidy(): Promise<void>;
}

type Create = (typeof alignments)["alignments.create"];
type Created = Reply<Create>;

interface Wanted {
  body: Input<Create>["body"];
  ownerId: string;
  base: AlignableBase;
  documents: Awaited<ReturnType<AlignmentsParts["snapshotDocuments"]>>;
  teacher: Teacher | null;
}

export function createAlignments(parts: AlignmentsParts): Alignments {
  const { store, sql, queue, clock, runs, erasure } = parts;
  const forgetReplies = prepareForgetting(store);
  /** Ids whose folders exist or are being made, and whose rows are not written yet. */
  const making = new Set<string>();

  const owned = (caller: Caller, id: string): AlignmentRow => {
    const row = sql.owned.get(id, caller.userId);
    if (row === undefined) throw new Failure("not_found", "Alignment not found");
    return row;
  };

  /** Inserts the row and its job, in the caller's transaction. */
  function insert(id: string, wanted: Wanted): void {
    const { body, ownerId, base, documents, teacher } = wanted;
    sql.insert.run({
      id,
      ownerId,
      name: body.alignment_name,
      description: body.description ?? null,
      workflowId: body.workflow_id,
      baseModelId: base.id,
      benchmarkId: body.benchmark_id ?? null,
      documentIds: JSON.stringify(documents.map(({ document }) => document.id)),
      documentNames: JSON.stringify(documents.map(({ document }) => document.name)),
      documentSha256s: JSON.stringify(documents.map(({ sha256 }) => sha256)),
      teacher: teacher && JSON.stringify(teacher),
      rewardModels: null,
      organisation: body.organisation ?? null,
      autoAlignOf: null,
      seq: store.nextSeq(),
      at: clock.now(),
    });
    queue.enqueue({ kind: "align", subjectId: id, ownerId });
  }

  /**
   * Creates an alignment. If one with the same configuration is under way, returns that one instead. Looks for it before
   * the folder is made, and again in the transaction.
   */
  async function create({ body, keepReply }: Input<Create>, caller: Caller): Promise<Created> {
    const ownerId = caller.userId;
    const base = await alignableBase(parts, body.base_model_id, caller);
    const recipe = recipeOf(parts, body.workflow_id);
    const teacher = teacherOf(parts, caller, body);
    const documents = await parts.snapshotDocuments(ownerId, body.document_ids);
    const benchmark = benchmarkOf(parts, caller, body);
    const benchmarkId = benchmark?.id ?? null;

    const documentIds = documents.map(({ document }) => document.id);
    const known = (): AlignmentRow | undefined =>
      sql.underWay
        .all(ownerId, base.id, body.workflow_id)
        .find(
          (row) =>
            row.benchmark_id === benchmarkId &&
            row.organisation === (body.organisation ?? null) &&
            sameDocuments(row, documentIds) &&
            sameTeacher(row.teacher_json, teacher),
        );
    const before = known();
    if (before !== undefined) return existing(before);

    const id = newId("alignment");
    const reply: Created = { alignment_id: id, status: "PROCESSING" };
    making.add(id);
    let isKept = false;
    try {
      await makeRunFolder(runs, {
        alignmentId: id,
        recipeName: body.workflow_id,
        recipe,
        base: { id: base.id, sha256: base.sha256, architecture: base.architecture },
        documents: documents.map(({ document }) => document),
        originals: documents.map(({ sha256 }) => sha256),
        dev: benchmark && devOf(parts, benchmark),
        organisation: body.organisation ?? null,
        teacher: teacher && { model: teacher.model, provider: teacher.provider },
      });
      const other = store.transaction(() => {
        const one = known();
        if (one !== undefined) return one;
        // Benchmark and documents may have been deleted while the folder was made.
        benchmarkOf(parts, caller, body);
        parts.checkDocuments(ownerId, body.document_ids);
        if (parts.snapshots.isLosing(body.document_ids)) throw new Failure("not_found", "A document was not found");
        insert(id, { body, ownerId, base, documents, teacher });
        keepReply(reply, [id]);
        return null;
      });
      if (other !== null) return existing(other);
      isKept = true;
    } finally {
      if (!isKept) await removeRunFolder(runs, id);
      making.delete(id);
    }
    parts.wake();
    return reply;
  }

  const autoAligns = createAutoAligns({
    ...{ store, queue, clock, runs, making, owned },
    snapshots: parts.snapshots,
    sql: parts.autoAlignsSql,
    alignmentsSql: sql,
    moves: parts.moves,
    recipes: parts.recipes,
    executes: parts.autoAligns,
    wake: parts.wake,
    alignableBase: (name, caller) => {
      // The contract's `config.base_model` is an id of the model hub, which has no scheme.
      const isHubId = /^[^/:]+\/[^/:]+$/.test(name) && parts.findBase(name) === null;
      return alignableBase(parts, isHubId ? `hf://${name}` : name, caller, ["config", "base_model"]);
    },
    findBenchmark: parts.findBenchmark,
    sealedOf: (benchmarkId) => parts.itemsOf(benchmarkId).filter(({ split }) => split === "sealed"),
    devOf: (benchmark) => devOf(parts, benchmark),
    checkMetric: (config, benchmarkId) => parts.checkMetric(config, parts.itemsOf(benchmarkId)),
    interrupt: parts.interruptRun,
    describeModel: parts.describeModel,
    hasUpstream: parts.hasUpstream,
  });

  async function stop(row: AlignmentRow): Promise<JobState> {
    if (isTerminal(row.state)) throw new Failure("already_terminal");
    if (row.state === "stopping") throw new Failure("already_terminal", "The alignment is already stopping");
    if (row.state === "queued" || isPreparing(row)) throw new Failure("not_started");
    await parts.stopRun(row.id);
    return sql.byId.get(row.id)!.state;
  }

  async function remove(row: AlignmentRow, caller: Caller): Promise<string> {
    autoAligns.refuseLive(row.id);
    if (isPreparing(row))
      await parts.cancelRun(row.id).catch((error) => {
        const isLate = error instanceof Failure && error.code === "already_terminal";
        throw isLate ? new Failure("under_way", error.message, { cause: error }) : error;
      });
    const left = store.transaction(() => {
      autoAligns.refuseLive(row.id);
      const { state, model_id } = sql.byId.get(row.id)!;
      if (state === "running") throw new Failure("under_way", `The alignment is in the phase ${row.phase}`);
      // A queued alignment has no process to stop, so its job is simply stopped.
      if (state === "queued") queue.requestStop(row.id, "align");
      const own = sql.ofAutoAligns.all(row.id);
      for (const { id } of [row, ...own]) sql.hide.run({ id, at: clock.now() });
      for (const one of own) erasure.erase(one.id, one.model_id !== null);
      if (state !== "stopping") erasure.erase(row.id, model_id !== null);
      forgetReplies(caller.userId, row.id);
      parts.audit("alignment.delete", row.id, { state }, caller);
      const models = [model_id, ...own.map((one) => one.model_id)].filter((id) => id !== null);
      return { isEnding: state === "stopping", models, own: own.map(({ id }) => id) };
    });
    for (const id of left.own) await removeRunFolder(runs, id);
    if (left.isEnding) return "Cancelled: its run ends, and its files are deleted.";
    await removeRunFolder(runs, row.id);
    if (left.models.length === 0) return "Deleted.";
    return left.models.length === 1
      ? `Deleted. Its model ${left.models[0]} is kept.`
      : `Deleted. Its models ${left.models.join(", ")} are kept.`;
  }

  return {
    beginAutoAlign: autoAligns.begin,
    recover: () => tellStranded({ store, sql: parts.autoAlignsSql, moves: parts.moves }),
    tidy: () => erasure.tidy((id) => making.has(id)),
    handlers: {
      "alignments.create": create,
      ...autoAligns.handlers,
      "alignments.status": async ({ params }, caller) => {
        const row = owned(caller, params.alignment_id);
        const waiting_for = row.state === "queued" ? parts.waitingFor(row.id) : null;
        return { ...toStatus(row), waiting_for, auto_align: autoAligns.shownOf(row.id) };
      },
      "alignments.stop": async ({ params }, caller) => {
        const row = owned(caller, params.alignment_id);
        return { alignment_id: row.id, status: statusOf[await stop(row)] };
      },
      "alignments.delete": async ({ params }, caller) => {
        const row = owned(caller, params.alignment_id);
        return { alignment_id: row.id, message: await remove(row, caller) };
      },
      "alignments.list": async ({ query: { status, limit, offset } }, { userId: ownerId, userName }) => {
        const states = JSON.stringify(statesShownAs(listStatusOf, status));
        const rows = sql.page.all({ ownerId, states, limit, offset });
        return {
          alignment_projects: rows.map((row) => toListRow(row, userName)),
          total: sql.count.get({ ownerId, states })!.n,
        };
      },
      "alignments.report": async ({ params }, caller) => {
        const { id } = owned(caller, params.alignment_id);
        const path = join(runs, id, "artefact", "report.html");
        const bytes = await stat(path).catch((error) => {
          if (isErrno(error, "ENOENT")) throw new Failure("not_found", "The alignment has no report yet");
          throw error;
        });
        const content = createReadStream(path);
        return new Download({ name: `${id}.html`, mediaType: "text/html", bytes: bytes.size, content });
      },
      "alignments.estimate": async ({ body, signal }, caller) => {
        const base = await alignableBase(parts, body.base_model_id, caller);
        const recipe = recipeOf(parts, body.workflow_id);
        const isTaught = teacherOf(parts, caller, body) !== null;
        const documents = await parts.snapshotDocuments(caller.userId, body.document_ids);
        benchmarkOf(parts, caller, body);
        const thread = openStudyThread(signal);
        try {
          const { phrasings, rungs: stages = 1 } = recipe.dataset;
          const planned = await thread.forecast({
            documents: documents.map(({ document }) => document),
            organisation: body.organisation ?? null,
            options: { phrasings, stages, seed: recipe.training.seed },
          });
          return estimateOf(planned, recipe, await parts.costOf(base.id, recipe), { isTaught });
        } finally {
          await thread.close();
        }
      },
      "alignments.coverage": async ({ params }, caller) => {
        const { id } = owned(caller, params.alignment_id);
        const report = await readPrepareReport(join(runs, id));
        if (report === null) throw new Failure("not_found", "The alignment's rows have not been made yet");
        return report.study.coverage;
      },
      "alignments.events": async ({ params, lastEventId, signal }, caller) => {
        const { id } = owned(caller, params.alignment_id);
        if (lastEventId !== null && !/^\d{1,15}$/.test(lastEventId))
          throw invalid(["header", "last-event-id"], "is not the id of an event", "int_parsing");
        const source = {
          path: join(runs, id, "events.jsonl"),
          isOver: () => isTerminal(sql.byId.get(id)?.state ?? "stopped"),
        };
        return new EventStream(streamEvents(source, Number(lastEventId ?? 0), signal), { mayBeSilent: true });
      },
    },
  };
}

/** Whether the run has begun and does not train yet. */
const isPreparing = ({ state, phase }: AlignmentRow): boolean =>
  state === "running" && (phase === "queued" || phase === "preparing");

const existing = (row: AlignmentRow): Created => ({
  alignment_id: row.id,
  status: "PROCESSING",
  message: "An alignment with the same configuration already exists",
});
