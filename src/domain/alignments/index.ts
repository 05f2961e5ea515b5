// Alignments: they turn an organisation's documents into a model of its own.
//
//   PROCESSING (queued ──► preparing ──► training ◄──► checking ──► packaging) ──► COMPLETED
//        │ stop                                       └──failure──► FAILED
//        └──► STOPPING ──► STOPPED
//   deleted while queued or preparing: its run is stopped; deleted after it has ended: its files and its row are removed, but
//   while its model exists the row stays, with only what the model was made of
//
// Invariants:
//   1. The public status is a view of the job's state, so the two cannot disagree.
//   2. While an alignment is not terminal, creating one with the same configuration returns that alignment.
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
import type { DocumentSnapshot } from "../../contract/documents.ts";
import { type Caller, Download, EventStream, type Handlers, type Input, type Reply } from "../../contract/endpoint.ts";
import type { Recipe, SnapshotDocument } from "../../contract/run-folder.ts";
import type { RunVerdict } from "../../contract/verdict.ts";
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
import { estimateOf, type RunCost } from "./estimate.ts";
import { streamEvents } from "./event-stream.ts";
import type { ProgressNote } from "./progress.ts";
import { makeRunFolder, removeRunFolder, removeSnapshot, tidyRuns } from "./snapshot.ts";
import type { AlignmentRow, AlignmentsSql } from "./store.ts";

export interface AlignableBase {
  id: string;
  sha256: string;
  architecture: string;
  can_be_aligned: 0 | 1;
  reason: string | null;
}

export interface BenchmarkItem {
  sample_num: number;
  instruction: string;
  response: string;
  aliases: string[];
  cluster: string;
  split: "dev" | "sealed" | "retention";
}

export interface AlignmentsParts {
  store: Store;
  sql: AlignmentsSql;
  autoAlignsSql: AutoAlignsSql;
  queue: Queue;
  clock: Clock;
  moves: Moves;
  /** Whether auto-align requests are carried out; otherwise they are only recorded. */
  autoAligns: boolean;
  /** Directory of the run folders. */
  runs: string;
  recipes: ReadonlyMap<string, Recipe>;
  /** Tells the runner that there is work. */
  wake: () => void;
  /** Finds a base by id or name; null if there is none. */
  findBase: (name: string) => AlignableBase | null;
  /**
   * Finds a base by its name on a hub, and imports it if it is not here. Throws hub_unavailable and what an import
   * throws.
   */
  hubBase: (name: string, caller: Caller) => Promise<AlignableBase>;
  /** Each document once, with the sha256 of its original file. Throws not_found unless all of them are the owner's. */
  snapshotDocuments: (
    ownerId: string,
    ids: readonly string[],
  ) => Promise<{ document: SnapshotDocument; sha256: string }[]>;
  /** The owner's benchmark; null when there is none. */
  findBenchmark: (ownerId: string, benchmarkId: string) => { id: string; sha256: string } | null;
  itemsOf: (benchmarkId: string) => BenchmarkItem[];
  /** Throws a validation failure if an auto-align's target uses a reward that cannot score every item. */
  checkMetric: (config: AutoAlignRequest["config"], items: readonly BenchmarkItem[]) => Promise<void>;
  /** The id of a model that answers chats. Throws not_found. */
  findModel: (ownerId: string, model: string) => string;
  /** Id and kind of a model of this appliance; null if the owner has none of that name. */
  describeModel: (ownerId: string, model: string) => { modelId: string; kind: string } | null;
  hasUpstream: (name: string) => boolean;
  /** For each item, the expected answers of other items, which its own answer must not name. */
  competitorsOf: (items: readonly BenchmarkItem[]) => string[][];
  /** Memory and speed of a run over this base. */
  costOf: (baseModelId: string, recipe: Recipe) => Promise<RunCost>;
  /** What a queued alignment waits for besides its turn; null if nothing. */
  waitingFor: (alignmentId: string) => string | null;
  /** Asks the run to stop; resolves once it has acknowledged. */
  stopRun: (alignmentId: string) => Promise<void>;
  /** Ends an attempt that is being prepared, before its run or in it; resolves once it is certain to end as stopped. */
  cancelRun: (alignmentId: string) => Promise<void>;
  /** Ends what an auto-align is doing now. Throws stop_rejected, stop_unreachable. */
  interruptRun: (autoAlignId: string) => Promise<void>;
  /** Writes an entry of the audit log, in the caller's transaction. */
  audit: (act: string, subject: string, detail: Record<string, unknown>, by: Caller) => void;
}

export interface Alignments {
  handlers: Handlers<typeof alignments>;
  /**
   * Starts an auto-align as the endpoint does, with documents to learn from besides the project's. Throws what the
   * endpoint throws.
   */
  beginAutoAlign: AutoAligns["begin"];
  /** Alignments of the owner that hold a snapshot of the document, newest first. */
  snapshotsOf(ownerId: string, documentId: string): DocumentSnapshot[];
  /** Deletes these snapshots. Throws conflict while one of the alignments is under way. */
  removeSnapshots(ownerId: string, documentId: string): Promise<void>;
  /** Whether an alignment of the owner is under way. */
  isAligning(ownerId: string): boolean;
  /** Ids of alignments under way that are measured by a benchmark. */
  measuredBy(benchmarkId: string): string[];
  /** Ids of alignments under way that ask a model of this appliance, as teacher, judge or preference model. */
  asking(modelId: string): string[];
  /** Detaches a benchmark that is being deleted, in the caller's transaction: its alignments keep only its id. */
  loseBenchmark(benchmarkId: string): void;
  /**
   * Called when the alignment's model is deleted, in the caller's transaction: removes what a deleted alignment had
   * kept for it.
   */
  loseModel(alignmentId: string): void;
  /** Called when a run has ended: removes what is left if the alignment was deleted meanwhile. */
  runEnded(alignmentId: string): Promise<void>;
  /** Called at start, after the queue has recovered: updates auto-aligns whose job that recovery ended. */
  recover(): void;
  /**
   * Removes run folders without an alignment, left by a crash between folder and row, or by a deletion between row and
   * folder.
   */
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

type Status = Reply<(typeof alignments)["alignments.status"]>;
type ListRow = Reply<(typeof alignments)["alignments.list"]>["alignment_projects"][number];

const statusOf: Record<JobState, Status["status"]> = {
  queued: "PROCESSING",
  running: "PROCESSING",
  stopping: "STOPPING",
  succeeded: "COMPLETED",
  failed: "FAILED",
  stopped: "STOPPED",
};

const listStatusOf: Record<JobState, ListRow["status"]> = {
  queued: "PENDING",
  running: "PENDING",
  stopping: "PENDING",
  succeeded: "COMPLETED",
  failed: "FAILED",
  stopped: "STOPPED",
};

export function createAlignments(parts: AlignmentsParts): Alignments {
  const { store, sql, queue, clock, runs } = parts;
  const forgetReplies = prepareForgetting(store);
  /** Ids whose folders exist or are being made, and whose rows are not written yet. */
  const making = new Set<string>();
  /** Ids of alignments from whose snapshots a document is being removed. */
  const losing = new Set<string>();

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
   * Returns the alignment under way with the same configuration, if any: looked for before the folder is made, and
   * again in the transaction.
   */
  async function create({ body, keepReply }: Input<Create>, caller: Caller): Promise<Created> {
    const ownerId = caller.userId;
    const base = await alignableBase(parts, body.base_model_id, caller);
    const recipe = recipeOf(parts, body.workflow_id);
    const teacher = teacherOf(parts, caller, body);
    const documents = await parts.snapshotDocuments(ownerId, body.document_ids);
    const benchmark = benchmarkOf(parts, caller, body);
    const benchmarkId = benchmark?.id ?? null;

    const sha256s = documents.map(({ sha256 }) => sha256);
    const known = (): AlignmentRow | undefined =>
      sql.underWay
        .all(ownerId, base.id, body.workflow_id)
        .find(
          (row) =>
            row.benchmark_id === benchmarkId &&
            row.organisation === (body.organisation ?? null) &&
            sameDocuments(row, sha256s) &&
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
        originals: sha256s,
        dev: benchmark && devOf(parts, benchmark),
        organisation: body.organisation ?? null,
        teacher: teacher && { model: teacher.model, provider: teacher.provider },
      });
      const other = store.transaction(() => {
        const one = known();
        if (one !== undefined) return one;
        // It may have been deleted while the folder was made.
        benchmarkOf(parts, caller, body);
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

  /** A document that both a project and its auto-aligns hold is listed once, under the project's id. */
  function snapshotsOf(ownerId: string, documentId: string): DocumentSnapshot[] {
    const holding = Map.groupBy(sql.holding.all({ ownerId, documentId }), ({ project_id }) => project_id);
    return [...holding].map(([alignment_id, rows]) => {
      const { name, created_at: created_date } = rows.at(-1)!;
      return { alignment_id, name, under_way: rows.some(({ is_live }) => is_live === 1), created_date };
    });
  }

  async function removeSnapshots(ownerId: string, documentId: string): Promise<void> {
    const live = snapshotsOf(ownerId, documentId).filter((one) => one.under_way);
    if (live.length > 0)
      throw new Failure(
        "conflict",
        `Alignments under way need the snapshot: ${live.map((one) => one.alignment_id).join(", ")}`,
      );
    for (const { id } of sql.holding.all({ ownerId, documentId })) {
      losing.add(id);
      await removeSnapshot(join(runs, id), documentId).finally(() => losing.delete(id));
    }
  }

  const autoAligns = createAutoAligns({
    ...{ store, queue, clock, runs, making, losing, owned },
    sql: parts.autoAlignsSql,
    alignmentsSql: sql,
    moves: parts.moves,
    recipes: parts.recipes,
    executes: parts.autoAligns,
    wake: parts.wake,
    alignableBase: (name, caller) => alignableBase(parts, name, caller),
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
    if (row.state === "queued") throw new Failure("not_started");
    await parts.stopRun(row.id);
    return sql.byId.get(row.id)!.state;
  }

  /**
   * Erases an alignment that has ended, in the caller's transaction: all of it or, if it has a model, all but what that
   * was made of.
   */
  function erase(id: string, hasModel: boolean): void {
    autoAligns.removeOf(id);
    if (hasModel) return void sql.strip.run(id);
    sql.loseEvaluation.run(id);
    sql.remove.run(id);
  }

  async function remove(row: AlignmentRow, caller: Caller): Promise<string> {
    autoAligns.refuseLive(row.id);
    const isPreparing = row.state === "running" && (row.phase === "queued" || row.phase === "preparing");
    if (isPreparing)
      await parts.cancelRun(row.id).catch((error) => {
        const isLate = error instanceof Failure && error.code === "already_terminal";
        throw isLate ? new Failure("under_way", error.message, { cause: error }) : error;
      });
    const left = store.transaction(() => {
      autoAligns.refuseLive(row.id);
      const { state, model_id } = sql.byId.get(row.id)!;
      if (state === "running") throw new Failure("under_way", `The alignment is in the phase ${row.phase}`);
      // Queued: no process is running that would have to be asked.
      if (state === "queued") queue.requestStop(row.id, "align");
      const own = sql.ofAutoAligns.all(row.id);
      for (const { id } of [row, ...own]) sql.hide.run({ id, at: clock.now() });
      for (const one of own) erase(one.id, one.model_id !== null);
      if (state !== "stopping") erase(row.id, model_id !== null);
      forgetReplies(caller.userId, row.id);
      parts.audit("alignment.delete", row.id, { state }, caller);
      const models = [model_id, ...own.map((one) => one.model_id)].filter((id) => id !== null);
      return { isEnding: state === "stopping", models, own: own.map(({ id }) => id) };
    });
    for (const id of left.own) await removeRunFolder(runs, id);
    if (left.isEnding) return "Cancelled: its run ends, and its files go with it.";
    await removeRunFolder(runs, row.id);
    if (left.models.length === 0) return "Deleted.";
    return left.models.length === 1
      ? `Deleted. Its model ${left.models[0]} stays.`
      : `Deleted. Its models ${left.models.join(", ")} stay.`;
  }

  return {
    beginAutoAlign: autoAligns.begin,
    snapshotsOf,
    removeSnapshots,
    isAligning: (ownerId) => sql.live.get(ownerId)!.any === 1,
    measuredBy: (benchmarkId) => [...new Set(sql.liveOnBenchmark.all(benchmarkId).map(({ id }) => id))],
    asking: (modelId) => [...new Set(sql.liveAsking.all({ modelId }).map(({ id }) => id))],
    loseBenchmark: (benchmarkId) => void sql.loseBenchmark.run(benchmarkId),
    loseModel(alignmentId) {
      if (sql.byId.get(alignmentId)?.deleted_at != null) erase(alignmentId, false);
    },
    async runEnded(alignmentId) {
      const row = sql.byId.get(alignmentId);
      if (row === undefined || isKept(row)) return;
      store.transaction(() => erase(row.id, row.model_id !== null));
      await removeRunFolder(runs, row.id);
    },
    recover: () => tellStranded({ store, sql: parts.autoAlignsSql, moves: parts.moves }),
    async tidy() {
      for (const row of sql.hidden.all())
        if (!isKept(row)) store.transaction(() => erase(row.id, row.model_id !== null));
      await tidyRuns(runs, (id) => making.has(id) || isKept(sql.byId.get(id)));
    },
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
        teacherOf(parts, caller, body);
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
          return estimateOf(planned, recipe, await parts.costOf(base.id, recipe));
        } finally {
          await thread.close();
        }
      },
      "alignments.coverage": async ({ params }, caller) => {
        const { id } = owned(caller, params.alignment_id);
        const report = await readPrepareReport(join(runs, id));
        if (report === null) throw new Failure("not_found", "The alignment's rows are not made yet");
        return report.study.coverage;
      },
      "alignments.events": async ({ params, lastEventId, signal }, caller) => {
        const { id } = owned(caller, params.alignment_id);
        if (lastEventId !== null && !/^\d{1,15}$/.test(lastEventId))
          throw invalid(["header", "last-event-id"], "is no event's id", "int_parsing");
        const source = {
          path: join(runs, id, "events.jsonl"),
          isOver: () => isTerminal(sql.byId.get(id)?.state ?? "stopped"),
        };
        return new EventStream(streamEvents(source, Number(lastEventId ?? 0), signal));
      },
    },
  };
}

/** Whether the run folder is kept: for a deleted alignment, until its run has ended. */
const isKept = (row: AlignmentRow | undefined): boolean =>
  row !== undefined && (row.deleted_at === null || !isTerminal(row.state));

function recipeOf({ recipes }: AlignmentsParts, name: string): Recipe {
  const recipe = recipes.get(name);
  if (recipe !== undefined) return recipe;
  throw invalid(["body", "workflow_id"], `is none of ${[...recipes.keys()].join(", ")}`, "enum_error");
}

async function alignableBase(parts: AlignmentsParts, name: string, caller: Caller): Promise<AlignableBase> {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(name)?.[1];
  if (scheme !== undefined && scheme !== "hf")
    throw new Failure(
      "base_model_unsupported",
      `A base model is an id, a name or an hf:// name; no ${scheme}:// is read`,
    );
  const base = scheme === "hf" ? await parts.hubBase(name, caller) : parts.findBase(name);
  if (base === null) throw new Failure("not_found", "Base model not found");
  if (base.can_be_aligned === 0)
    throw new Failure("base_model_unsupported", `The base model does not support alignment: ${base.reason}`);
  return base;
}

const existing = (row: AlignmentRow): Created => ({
  alignment_id: row.id,
  status: "PROCESSING",
  message: "An alignment with the same configuration already exists",
});

/** Compares documents by sha256, in any order. */
function sameDocuments(row: AlignmentRow, sha256s: readonly string[]): boolean {
  const theirs = JSON.parse(row.document_sha256s_json) as string[];
  return JSON.stringify(theirs.toSorted()) === JSON.stringify(sha256s.toSorted());
}

/** The request's benchmark, or null if it names none. Throws not_found unless it is the caller's. */
function benchmarkOf(
  { findBenchmark }: AlignmentsParts,
  { userId }: Caller,
  body: Input<Create>["body"],
): { id: string; sha256: string } | null {
  if (body.benchmark_id === undefined) return null;
  const found = findBenchmark(userId, body.benchmark_id);
  if (found === null) throw new Failure("not_found", "Benchmark not found");
  return found;
}

/**
 * The teacher that the request names, with the caller's key, or null. Throws not_found or a validation failure before
 * anything is made.
 */
function teacherOf(parts: AlignmentsParts, caller: Caller, body: Input<Create>["body"]): Teacher | null {
  const { teacher_model: model, teacher_provider: provider = null } = body;
  if (model === undefined) return null;
  const key_id = caller.keyId;
  if (provider === null) return { model: parts.findModel(caller.userId, model), provider, key_id };
  if (!parts.hasUpstream(provider))
    throw invalid(["body", "teacher_provider"], "no upstream of this name is configured");
  return { model, provider, key_id };
}

function sameTeacher(kept: string | null, wanted: Teacher | null): boolean {
  const known = kept === null ? null : (JSON.parse(kept) as Teacher);
  return known?.model === wanted?.model && known?.provider === wanted?.provider;
}

/**
 * The dev split as the run folder gets it. Nothing of the sealed split, not even as a competing answer, may get into
 * the folder.
 */
function devOf(parts: AlignmentsParts, { id: benchmarkId, sha256 }: { id: string; sha256: string }) {
  const all = parts.itemsOf(benchmarkId);
  const dev = all.filter((item) => item.split === "dev");
  const competitors = parts.competitorsOf(dev);
  const items = dev.map(({ sample_num, instruction, response, aliases, cluster }, index) => ({
    sample_num,
    instruction,
    response,
    aliases,
    cluster,
    competitors: competitors[index]!,
  }));
  return { benchmarkId, sha256, items, questions: all.map(({ instruction }) => instruction) };
}

const parse = <T>(text: string | null): T | null => (text === null ? null : (JSON.parse(text) as T));

/** The report as the run wrote it, without the path of the base on this machine. */
function toReport(text: string | null): Record<string, unknown> | null {
  const report = parse<Record<string, unknown> & { base?: Record<string, unknown> }>(text);
  if (!report?.base) return report;
  const { path: _, ...base } = report.base;
  return { ...report, base };
}

function toStatus(row: AlignmentRow): Status {
  const note = parse<ProgressNote>(row.progress_json);
  const isLive = row.state === "running" || row.state === "stopping";
  const report = toReport(row.report_json);
  return {
    alignment_id: row.id,
    name: row.name,
    description: row.description,
    status: statusOf[row.state],
    // An interrupted run is queued again, whatever phase it had reached.
    phase: (isTerminal(row.state) ? "ended" : row.state === "queued" ? "queued" : row.phase) as Status["phase"],
    ...(isTerminal(row.state) ? { last_phase: row.phase } : {}),
    base_model: row.base_model_id,
    workflow_id: row.workflow_id,
    document_ids: JSON.parse(row.document_ids_json) as string[],
    benchmark_id: row.benchmark_id ?? row.deleted_benchmark_id,
    created_date: row.created_at,
    started_date: row.started_at,
    completed_date: row.finished_at,
    progress: row.progress,
    progress_detail: isLive ? (note?.detail ?? null) : null,
    estimated_completion: isLive ? (note?.estimated_completion ?? null) : null,
    budget: parse<Status["budget"] & object>(row.budget_json),
    performance_metrics: parse<Record<string, number | null>>(row.metrics_json),
    verdict: (report?.verdict ?? null) as RunVerdict | null,
    report,
    model_id: row.model_id,
    evaluation_id: row.evaluation_id,
    error: row.error_text,
  };
}

/** Optional fields are left out until they have a value. */
function toListRow(row: AlignmentRow, creator: string): ListRow {
  const documents = JSON.parse(row.document_ids_json) as string[];
  const { phase, progress_detail, estimated_completion, performance_metrics } = toStatus(row);
  const optional = <K extends keyof ListRow>(key: K, value: ListRow[K] | null | undefined) =>
    value === null || value === undefined ? {} : { [key]: value };
  return {
    id: row.id,
    name: row.name,
    base_model: row.base_model_id,
    status: listStatusOf[row.state],
    created_date: row.created_at,
    documents,
    document_count: documents.length,
    creator,
    ...optional("completed_date", row.finished_at),
    ...(isTerminal(row.state) ? {} : { progress: row.progress, phase }),
    ...optional("progress_detail", progress_detail),
    ...optional("estimated_completion", estimated_completion),
    ...(row.state === "succeeded" ? optional("performance_metrics", performance_metrics) : {}),
    ...optional("error", row.error_text),
    ...optional("evaluation_id", row.evaluation_id),
    ...optional("model_id", row.model_id),
  };
}
