// Builds what the owner of an auto-align reads: its full record, and its entry in the project's status.
import { type FailureCode, failures } from "../../../base/errors.ts";
import type { alignments } from "../../../contract/alignments.ts";
import type { AutoAlignRequest } from "../../../contract/auto-align.ts";
import type { Reply } from "../../../contract/endpoint.ts";
import type { AutoAlignRow } from "./store.ts";

type Record = Reply<(typeof alignments)["alignments.auto_align_record"]>;
export type Shown = NonNullable<Reply<(typeof alignments)["alignments.status"]>["auto_align"]>[number];

const requestOf = (row: AutoAlignRow): AutoAlignRequest => JSON.parse(row.request_json) as AutoAlignRequest;

export const toShown = (row: AutoAlignRow): Shown => ({
  auto_align_id: row.id,
  ...progressOf(row),
  target_score: requestOf(row).target_score,
  hours: row.hours,
  model_id: row.model_id,
  created_date: row.created_at,
});

const progressOf = ({
  status,
  phase,
  phases,
  dev_json,
}: AutoAlignRow): Pick<Shown, "status" | "phase" | "phases" | "dev"> => ({
  status,
  phase,
  phases,
  dev: dev_json === null ? null : (JSON.parse(dev_json) as Shown["dev"]),
});

function errorOf({ error_code, error_text }: AutoAlignRow): Record["error"] {
  if (error_code === null) return null;
  const { hint } = failures[error_code as FailureCode];
  return { code: error_code, message: error_text!, hint };
}

/**
 * Returns the record as JSON. The configuration's text is inserted unchanged, because parsing and serialising would
 * change its numbers and drop duplicate keys.
 */
export function recordText(row: AutoAlignRow, cards: readonly { card_json: string }[]): string {
  const request = requestOf(row);
  const { max_compute_hours: most = null } = request;
  const record = {
    auto_align_id: row.id,
    alignment_id: row.alignment_id,
    created_date: row.created_at,
    updated_date: row.updated_at,
    ended_date: row.ended_at,
    ...progressOf(row),
    stopping: row.stopping === 1,
    hours: { spent: row.hours, left: most === null ? null : Math.max(0, most - row.hours) },
    confirmed: row.confirmed === null ? null : row.confirmed === 1,
    looks: JSON.parse(row.looks_json) as Record["looks"],
    cards: cards.map(({ card_json }) => JSON.parse(card_json) as Record["cards"][number]),
    help: JSON.parse(row.help_json) as string[],
    model_id: row.model_id,
    evaluation_id: row.evaluation_id,
    error: errorOf(row),
    ...request,
  };
  return `${JSON.stringify(record).slice(0, -1)},"config":${row.config_text}}`;
}
