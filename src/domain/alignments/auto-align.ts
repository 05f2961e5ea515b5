// Auto-align requests: recorded, and given back as they came. Nothing carries them out yet.
import { Failure } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import type { Clock } from "../../base/time.ts";
import type { alignments } from "../../contract/alignments.ts";
import { type Caller, type Handlers, JsonText, type Reply } from "../../contract/endpoint.ts";
import type { Store } from "../../store/open.ts";
import type { AlignmentRow, AlignmentsSql, AutoAlignRow } from "./store.ts";

type Group = Pick<typeof alignments, "alignments.auto_align" | "alignments.auto_align_record">;
type Shown = NonNullable<Reply<(typeof alignments)["alignments.status"]>["auto_align"]>[number];

export interface AutoAlign {
  handlers: Handlers<Group>;
  /** The latest requests of a project, newest first. */
  shownOf(alignmentId: string): Shown[];
}

interface AutoAlignParts {
  store: Store;
  sql: AlignmentsSql;
  clock: Clock;
  /** Throws not_found. */
  owned: (caller: Caller, alignmentId: string) => AlignmentRow;
  findBenchmark: (ownerId: string, benchmarkId: string) => { id: string } | null;
}

export function createAutoAlign({ store, sql, clock, owned, findBenchmark }: AutoAlignParts): AutoAlign {
  return {
    handlers: {
      "alignments.auto_align": async ({ params, body, raw, keepReply }, caller) => {
        const { id: alignmentId } = owned(caller, params.alignment_id);
        const { config: _, ...request } = body;
        if (request.benchmark_id !== null && findBenchmark(caller.userId, request.benchmark_id) === null)
          throw new Failure("not_found", "Benchmark not found");
        const id = newId("auto_align");
        return store.transaction(() => {
          sql.insertAutoAlign.run({
            id,
            ownerId: caller.userId,
            alignmentId,
            request: JSON.stringify(request),
            config: raw.config ?? "null",
            seq: store.nextSeq(),
            at: clock.now(),
          });
          const reply = {
            auto_align_id: id,
            alignment_id: alignmentId,
            status: "RECORDED" as const,
            message: "The request is recorded and not carried out yet; read it under this id",
          };
          keepReply(reply);
          return reply;
        });
      },
      "alignments.auto_align_record": async ({ params }, caller) => {
        const { id } = owned(caller, params.alignment_id);
        const row = sql.autoAlign.get(params.auto_align_id, id);
        if (row === undefined) throw new Failure("not_found", "Auto-align request not found");
        return new JsonText(recordText(row));
      },
    },
    shownOf: (alignmentId) =>
      sql.autoAlignsOf.all(alignmentId).map((row) => ({
        auto_align_id: row.id,
        status: row.status,
        target_score: (JSON.parse(row.request_json) as { target_score: number }).target_score,
        created_date: row.created_at,
      })),
  };
}

/** The configuration's text goes in as it is: read and written again, its numbers and duplicate keys would change. */
function recordText(row: AutoAlignRow): string {
  const record = JSON.stringify({
    auto_align_id: row.id,
    alignment_id: row.alignment_id,
    status: row.status,
    created_date: row.created_at,
    ...(JSON.parse(row.request_json) as object),
  });
  return `${record.slice(0, -1)},"config":${row.config_text}}`;
}
