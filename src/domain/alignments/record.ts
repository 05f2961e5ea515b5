// Builds what the owner of an alignment sees of it.
import type { alignments } from "../../contract/alignments.ts";
import type { Reply } from "../../contract/endpoint.ts";
import type { RunVerdict } from "../../contract/verdict.ts";
import { isTerminal, type JobState } from "../../jobs/states.ts";
import type { ProgressNote } from "./progress.ts";
import type { AlignmentRow } from "./store.ts";

export type Status = Reply<(typeof alignments)["alignments.status"]>;
export type ListRow = Reply<(typeof alignments)["alignments.list"]>["alignment_projects"][number];

export const statusOf: Record<JobState, Status["status"]> = {
  queued: "PROCESSING",
  running: "PROCESSING",
  stopping: "STOPPING",
  succeeded: "COMPLETED",
  failed: "FAILED",
  stopped: "STOPPED",
};

export const listStatusOf: Record<JobState, ListRow["status"]> = {
  queued: "PENDING",
  running: "PENDING",
  stopping: "PENDING",
  succeeded: "COMPLETED",
  failed: "FAILED",
  stopped: "STOPPED",
};

const parse = <T>(text: string | null): T | null => (text === null ? null : (JSON.parse(text) as T));

/** Parses the report that the run wrote, and leaves out the path of the base on this machine. */
function toReport(text: string | null): Record<string, unknown> | null {
  const report = parse<Record<string, unknown> & { base?: Record<string, unknown> }>(text);
  if (!report?.base) return report;
  const { path: _, ...base } = report.base;
  return { ...report, base };
}

export function toStatus(row: AlignmentRow): Status {
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

/** Builds an entry of the list of alignments. Optional fields are left out until they have a value. */
export function toListRow(row: AlignmentRow, creator: string): ListRow {
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
