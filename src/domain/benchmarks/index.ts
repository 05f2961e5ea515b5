// Benchmarks are questions with their right answers. Training may see dev items. Sealed items are only for measuring.
import { Failure } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import { minimumDetectableEffect } from "../../base/statistics/paired.ts";
import type { Clock } from "../../base/time.ts";
import type { Catalog } from "../../catalog/index.ts";
import type { BenchmarkRow } from "../../catalog/store.ts";
import type { benchmarks as promises } from "../../contract/benchmarks.ts";
import type { Caller, Handlers, Reply } from "../../contract/endpoint.ts";
import type { Queue } from "../../jobs/queue.ts";
import { isTerminal, type JobState } from "../../jobs/states.ts";
import { prepareForgetting } from "../../store/idempotency.ts";
import type { Store } from "../../store/open.ts";
import { checker } from "./create/job.ts";
import { type DraftSettings, type Gates, settingsOf } from "./create/parts.ts";
import type { Keeping } from "./keep.ts";
import type { BenchmarkRows, DraftRow } from "./store.ts";

type BenchmarkRecord = Reply<(typeof promises)["benchmarks.get"]>;

export interface BenchmarksParts {
  store: Store;
  clock: Clock;
  queue: Queue;
  catalog: Catalog;
  rows: BenchmarkRows;
  keeping: Keeping;
  /** Tells the runner that there is work. */
  wake: () => void;
  /** Whether an upstream of this name is configured. */
  hasUpstream: (name: string) => boolean;
  /** Removes the document within the caller's transaction. Call the returned function after the commit. */
  removeDocument: (ownerId: string, documentId: string) => () => void;
  /** Number of drafts checked so far, even if not stored yet, if this benchmark is being made; otherwise 0. */
  checkedOf: (benchmarkId: string) => number;
  /** Deletes an evaluation that has ended, within the caller's transaction. */
  removeEvaluation: (evaluationId: string, caller: Caller) => void;
  /** Detaches the benchmark from alignments that used it, within the caller's transaction. They keep only its id. */
  loseBenchmark: (benchmarkId: string) => void;
  /** Writes an entry of the audit log, in the caller's transaction. */
  audit: (act: string, subject: string, detail: Record<string, unknown>, by: Caller) => void;
}

export function benchmarkHandlers(parts: BenchmarksParts): Handlers<typeof promises> {
  const { store, clock, queue, catalog, rows, keeping } = parts;
  const { items } = catalog.benchmarks;
  const forgetReplies = prepareForgetting(store);

  function toRecord(row: BenchmarkRow): BenchmarkRecord {
    const splits = { dev: 0, sealed: 0, retention: 0 };
    for (const { split, n } of rows.splits.all(row.id)) splits[split] = n;
    const draft = row.draft_id === null ? null : rows.draft.get(row.draft_id)!;
    return {
      benchmark_id: row.id,
      name: row.name,
      document_ids: draft === null ? [row.document_id] : (JSON.parse(draft.document_ids_json) as string[]),
      status: "READY",
      n_samples: splits.dev + splits.sealed + splits.retention,
      splits,
      sha256: row.sha256,
      version: row.version,
      previous_id: row.previous_id,
      struck: row.struck_json === null ? null : (JSON.parse(row.struck_json) as { items: number[]; reason: string }),
      generation: draft === null ? null : generationOf(draft),
      warnings: warningsOf(row, splits, draft),
      progress_detail: null,
      error: null,
      created_at: row.created_at,
      updated_at: row.updated_at,
    };
  }

  function get(ownerId: string, id: string): BenchmarkRow {
    const row = rows.get.get(ownerId, id);
    if (row) return row;
    const draft = rows.ownedDraft.get(ownerId, id);
    if (!draft) throw new Failure("not_found");
    throw new Failure(
      "conflict",
      `The benchmark is ${statusOf[draft.state]}: ${errorOf(draft) ?? "its items are available once it is READY"}`,
    );
  }

  function record(ownerId: string, id: string): BenchmarkRecord {
    const row = rows.get.get(ownerId, id);
    if (row) return toRecord(row);
    const draft = rows.ownedDraft.get(ownerId, id);
    if (!draft) throw new Failure("not_found");
    return draftRecord(draft, parts.checkedOf(draft.id));
  }

  /** Returns the id of the named model or, without a name, of the only text base. Throws not_found or validation. */
  const modelOf = (ownerId: string, name: string | undefined): string =>
    catalog.models.find(ownerId, name ?? catalog.models.onlyBase(["text"])).modelId;

  function generatorOf(
    ownerId: string,
    key_id: string,
    body: { generator_model?: string; generator_provider?: string },
  ): DraftSettings["generator"] {
    const { generator_model: model, generator_provider: provider = null } = body;
    if (model === undefined) return null;
    if (provider === null) return { model: modelOf(ownerId, model), provider, key_id };
    if (!parts.hasUpstream(provider)) throw invalid(["generator_provider"], "no upstream of this name is configured");
    return { model, provider, key_id };
  }

  /** Deletes a draft that is still queued, or that ended without a benchmark. Throws under_way while it is being made. */
  function removeDraft({ id, state }: DraftRow, caller: Caller): void {
    store.transaction(() => {
      if (!isTerminal(state) && (state !== "queued" || queue.requestStop(id, "generate") !== "stopped"))
        throw new Failure("under_way", "The benchmark is still being created");
      forgetDraft(id);
      forgetReplies(caller.userId, id);
      parts.audit("benchmark.delete", id, { state }, caller);
    });
  }

  function forgetDraft(id: string): void {
    rows.dropCandidates.run(id);
    rows.removeDraft.run(id);
  }

  /**
   * Deletes a benchmark and its evaluations, and returns the number of these evaluations. Throws in_use if running work
   * needs the benchmark, or if it has evaluations and `withEvaluations` is false.
   */
  function remove(row: BenchmarkRow, withEvaluations: boolean, caller: Caller): number {
    const { removed, sweep } = store.transaction(() => {
      const aligning = catalog.runs.alignmentsOn(row.id);
      if (aligning.length > 0)
        throw new Failure("in_use", `Running alignments are measured with it: ${some(aligning)}`);
      const { live, ended } = catalog.runs.evaluationsOn(row.id);
      if (live.length > 0) throw new Failure("in_use", `Evaluations on it have not finished: ${some(live)}`);
      if (ended.length > 0 && !withEvaluations)
        throw new Failure(
          "in_use",
          `Send evaluations=true to delete its ${ended.length} evaluations too: ${some(ended)}`,
        );
      for (const id of ended) parts.removeEvaluation(id, caller);
      parts.loseBenchmark(row.id);
      rows.loseVersion.run(row.id);
      rows.removeItems.run(row.id);
      rows.remove.run(row.id);
      const left = rows.sharing.get({ documentId: row.document_id, draftId: row.draft_id })!;
      if (row.draft_id !== null && left.draft === 0) forgetDraft(row.draft_id);
      forgetReplies(row.owner_id, row.id);
      parts.audit("benchmark.delete", row.id, { name: row.name, evaluations: ended.length }, caller);
      const sweep = left.document === 0 ? parts.removeDocument(row.owner_id, row.document_id) : () => {};
      return { removed: ended.length, sweep };
    });
    sweep();
    return removed;
  }

  return {
    "benchmarks.upload": async ({ files, signal, keepReply }, { userId }) =>
      keeping
        .upload(userId, files[0]!, signal, (row) => {
          const reply = toRecord(row);
          keepReply(reply, [reply.benchmark_id]);
          return reply;
        })
        .catch((error) => {
          if (error instanceof Failure && error.code === "document_invalid")
            throw new Failure("benchmark_invalid", error.message, { cause: error });
          throw error;
        }),

    "benchmarks.create": async ({ body, keepReply }, { userId, keyId }) => {
      const { document_ids, n_samples, seed, benchmark_name = "Made from documents" } = body;
      const generator = generatorOf(userId, keyId, body);
      const settings: DraftSettings = {
        model_id: modelOf(userId, body.model),
        wanted: n_samples,
        seed,
        generator,
      };
      catalog.documents.check(userId, document_ids);
      const id = newId("benchmark");
      const reply = store.transaction(() => {
        rows.addDraft.run({
          id,
          owner_id: userId,
          name: benchmark_name,
          document_ids_json: JSON.stringify(document_ids),
          settings_json: JSON.stringify(settings),
          created_seq: store.nextSeq(),
          created_at: clock.now(),
        });
        queue.enqueue({ kind: "generate", subjectId: id, ownerId: userId });
        const begun = record(userId, id);
        keepReply(begun, [id]);
        return begun;
      });
      parts.wake();
      return reply;
    },

    "benchmarks.stop": async ({ params }, { userId }) => {
      record(userId, params.benchmark_id);
      if (queue.requestStop(params.benchmark_id, "generate") === null)
        throw new Failure("conflict", "The benchmark is not being created");
      return record(userId, params.benchmark_id);
    },

    "benchmarks.strike": async ({ params, body, keepReply }, { userId }) => {
      const row = get(userId, params.benchmark_id);
      const all = items(row.id);
      const known = new Set(all.map(({ sample_num }) => sample_num));
      const unknown = body.items.find((number) => !known.has(number));
      if (unknown !== undefined) throw new Failure("not_found", `The benchmark has no sample ${unknown}`);
      const struck = new Set(body.items);
      const left = all.filter(({ sample_num }) => !struck.has(sample_num));
      if (left.length === 0) throw new Failure("no_item_left");
      const { owner_id, document_id, name, version, draft_id } = row;
      const next = { owner_id, document_id, name, draft_id, version: version + 1, previous_id: row.id };
      return store.transaction(() => {
        const reply = toRecord(keeping.add({ ...next, struck_json: JSON.stringify(body) }, left));
        keepReply(reply, [reply.benchmark_id]);
        return reply;
      });
    },

    "benchmarks.delete": async ({ params: { benchmark_id: id }, query }, caller) => {
      const row = rows.get.get(caller.userId, id);
      const draft = row ? undefined : rows.ownedDraft.get(caller.userId, id);
      if (!row && !draft) throw new Failure("not_found");
      if (draft) removeDraft(draft, caller);
      const removed = row ? remove(row, query.evaluations, caller) : 0;
      return { benchmark_id: id, message: removed === 0 ? "Deleted." : `Deleted, with ${removed} evaluations on it.` };
    },

    "benchmarks.list": async ({ query: { limit, offset } }, { userId }) => ({
      benchmarks: rows.page.all(userId, userId, limit, offset).map(({ id }) => record(userId, id)),
      total: rows.count.get(userId, userId)?.n ?? 0,
    }),

    "benchmarks.get": async ({ params }, { userId }) => record(userId, params.benchmark_id),

    "benchmarks.data": async ({ params }, { userId }) => {
      const row = get(userId, params.benchmark_id);
      const { document_ids, n_samples, splits, sha256, name, version, previous_id, generation } = toRecord(row);
      return {
        benchmark_id: row.id,
        document_ids,
        samples: items(row.id),
        metadata: { name, n_samples, splits, sha256, version, previous_id, generation },
      };
    },
  };
}

/** Lists the first five ids, and says how many more there are. */
const some = (ids: readonly string[]): string =>
  ids.length <= 5 ? ids.join(", ") : `${ids.slice(0, 5).join(", ")} and ${ids.length - 5} more`;

const invalid = (loc: (string | number)[], msg: string): Failure =>
  new Failure("validation", msg, { details: [{ loc: ["body", ...loc], msg, type: "value_error" }] });

const statusOf: Record<JobState, BenchmarkRecord["status"]> = {
  queued: "PROCESSING",
  running: "PROCESSING",
  stopping: "PROCESSING",
  succeeded: "READY",
  failed: "FAILED",
  stopped: "STOPPED",
};

const errorOf = ({ state, error_text }: DraftRow): string | null =>
  state === "stopped" ? "It was stopped" : error_text;

/** Builds the record of a benchmark that is being made, or whose creation failed or was stopped. */
function draftRecord(draft: DraftRow, checked: number): BenchmarkRecord {
  const { phase, state, candidates, seconds } = draft;
  const written = phase === "phrasing" ? draft.phrased : draft.checked;
  const done = phase === "checking" ? Math.max(written, checked) : written;
  const rate = written > 0 && seconds > 0 ? written / seconds : null;
  const isEnded = state === "failed" || state === "stopped";
  return {
    benchmark_id: draft.id,
    name: draft.name,
    document_ids: JSON.parse(draft.document_ids_json) as string[],
    status: statusOf[state],
    n_samples: 0,
    splits: { dev: 0, sealed: 0, retention: 0 },
    sha256: null,
    version: 1,
    previous_id: null,
    struck: null,
    generation: generationOf(draft),
    warnings: [],
    progress_detail: isEnded
      ? null
      : {
          phase,
          done,
          // This is an upper bound, because the work ends as soon as there are enough items.
          total: phase === "queued" || phase === "reading" ? null : candidates,
          unit: phase === "phrasing" ? "passages" : "candidates",
          rate,
          seconds_left: rate === null ? null : (candidates - done) / rate,
        },
    error: errorOf(draft),
    created_at: draft.created_at,
    updated_at: draft.updated_at,
  };
}

/** With fewer sealed questions than this, even large gains can be chance. */
const fewSealed = 30;
/** Assumed share of an evaluation's items that two models answer differently. */
const usualDiscordance = 0.2;

function warningsOf(
  { version }: BenchmarkRow,
  splits: BenchmarkRecord["splits"],
  draft: DraftRow | null,
): BenchmarkRecord["warnings"] {
  const { dev, sealed, retention } = splits;
  const n = dev + sealed + retention;
  const wanted = draft === null || version > 1 ? 0 : settingsOf(draft).wanted;
  const unseen = Math.ceil(minimumDetectableEffect(sealed, usualDiscordance));
  return [
    ...(n >= wanted
      ? []
      : [
          {
            code: "fewer_than_wanted",
            message: `${n} of the ${wanted} requested items: generation.gates shows where the others were dropped. More documents or a generator_model give more items`,
          },
        ]),
    ...(sealed >= fewSealed
      ? []
      : [
          {
            code: "few_sealed",
            message: `With ${sealed} sealed questions, a gain of less than ${unseen} points is detected in fewer than 80 % of all cases`,
          },
        ]),
  ];
}

function generationOf(draft: DraftRow): NonNullable<BenchmarkRecord["generation"]> {
  const { model_id, wanted, seed, generator } = settingsOf(draft);
  const { gates, categories } = JSON.parse(draft.gates_json) as Gates;
  const by = generator && { model: generator.model, provider: generator.provider };
  return { wanted, model_id, generator: by, seed, checker, gates, categories };
}
