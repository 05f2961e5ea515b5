// Handlers of the endpoints in contract/models.ts.

import { existsSync } from "node:fs";
import { Failure } from "../../base/errors.ts";
import type { Catalog } from "../../catalog/index.ts";
import { modelNotFound } from "../../catalog/models.ts";
import type { AlignedRow, BaseRow } from "../../catalog/store.ts";
import type { Calibration } from "../../confidence/calibration.ts";
import { chatBody } from "../../contract/chat-body.ts";
import type { confidences } from "../../contract/confidence.ts";
import type { Caller, Handlers, Reply } from "../../contract/endpoint.ts";
import type { models } from "../../contract/models.ts";
import { confidenceRecord, voidNow } from "./confidence.ts";
import type { Deployments } from "./deploy.ts";
import { downloadAdapter } from "./download.ts";
import { loadErrorOf } from "./load-watch.ts";
import type { Stock } from "./stock.ts";
import type { ModelsSql } from "./store.ts";

export type BaseRecord = Reply<(typeof models)["models.base"]>["base_models"][number];
export type AlignedRecord = Extract<Reply<(typeof models)["models.get"]>, { lineage: unknown }>;
type ListRow = Reply<(typeof models)["models.aligned"]>["domain_aligned_models"][number];

export type ModelContract = typeof models & typeof confidences;

/** What the handlers get from the settings and from other rooms. */
export interface Told {
  evaluationsOf: (modelId: string) => AlignedRecord["evaluations"];
  usageOf: (modelId: string) => AlignedRecord["usage"];
  /** Folder in which the run that made a model left its adapter for PEFT. */
  peftFolderOf: (alignmentId: string) => string;
  /** Context tokens of one slot. */
  slotPool: { slotContext: number };
  /** The inference engine. A calibration made with another engine is void. */
  engine: string;
  /** Called after a job has been queued. */
  wake: () => void;
}

export interface Removal {
  removeAligned(row: AlignedRow, caller: Caller): Promise<void>;
  /** Throws forbidden unless the caller's key has the scope admin. */
  removeBase(row: BaseRow, caller: Caller): Promise<void>;
}

export interface HandlerParts {
  sql: ModelsSql;
  catalog: Pick<Catalog, "models" | "runs">;
  deployments: Deployments;
  stock: Pick<Stock, "hubBase" | "importUpload">;
  removal: Removal;
}

export function createHandlers(told: Told, parts: HandlerParts): Handlers<ModelContract> {
  const { sql, deployments, removal, stock } = parts;
  const { models: catalog, runs } = parts.catalog;
  const { calibrationOf } = catalog;
  const alignedOf = (caller: Caller, name: string): AlignedRow => {
    const row = catalog.aligned(caller.userId, name);
    if (!row) throw modelNotFound();
    return row;
  };
  return {
    "models.base": async ({ query }) => ({
      base_models: catalog.bases(query.limit, query.offset).map(baseRecord),
    }),

    "models.aligned": async ({ query }, { userId }) => {
      const { deployment_status: status = null, base_model_id: baseId = null, limit, offset } = query;
      const filter = { ownerId: userId, status, baseId };
      const rows = sql.alignedPage.all({ ...filter, limit, offset });
      if (rows.length === 0 && !sql.ownsAligned.get(userId))
        throw new Failure(runs.isAligning(userId) ? "first_model_under_way" : "no_aligned_models");
      return { domain_aligned_models: rows.map(listRow), total: sql.countAligned.get(filter)!.n };
    },

    "models.get": async ({ params }, caller) => {
      const aligned = catalog.aligned(caller.userId, params.model_id);
      if (aligned) return alignedRecord(aligned, calibrationOf(aligned), sql, told);
      const base = catalog.base(params.model_id);
      if (!base) throw modelNotFound();
      return baseRecord(base);
    },

    "models.delete": async ({ params }, caller) => {
      const aligned = catalog.aligned(caller.userId, params.model_id);
      if (aligned) {
        await removal.removeAligned(aligned, caller);
        return { model_id: aligned.id, message: "Deleted, with its adapter. Its evaluations are kept." };
      }
      const base = catalog.base(params.model_id);
      if (!base) throw modelNotFound();
      await removal.removeBase(base, caller);
      return { model_id: base.id, message: "Deleted." };
    },

    "models.import": async ({ body }, caller) => baseRecord(await stock.hubBase(body.source, caller, ["source"])),

    "models.upload": async ({ files, query }, caller) => baseRecord(await stock.importUpload(files[0]!, query, caller)),

    "models.confidence": async ({ params, query }, caller) => {
      const row = alignedOf(caller, params.model_id);
      return confidenceRecord(row, calibrationOf(row), told.engine, query.max_error);
    },

    "models.download": async ({ params, query }, caller) => {
      const row = alignedOf(caller, params.model_id);
      return downloadAdapter(row, query.format, told.peftFolderOf(row.alignment_id));
    },

    "models.deploy": async ({ params }, caller) => {
      const task = deployments.deploy(alignedOf(caller, params.model_id));
      told.wake();
      return task;
    },

    "models.undeploy": async ({ params }, caller) => {
      const task = deployments.undeploy(alignedOf(caller, params.model_id));
      told.wake();
      return task;
    },

    "models.deployment": async ({ params }, caller) => {
      const task = deployments.latest(alignedOf(caller, params.model_id).id);
      if (!task) throw new Failure("not_found", "The model was never deployed");
      return task;
    },
  };
}

export const baseRecord = (row: BaseRow): BaseRecord => ({
  model_id: row.id,
  model_name: row.name,
  kind: row.kind,
  architecture: row.architecture,
  context_length: row.context_length,
  parameters: row.parameters,
  file_type: row.file_type,
  bytes: row.bytes,
  memory_bytes: row.memory_bytes,
  can_be_aligned: row.can_be_aligned === 1,
  reason: row.reason,
  license: row.license,
  load_error: loadErrorOf(row),
  sha256: row.sha256,
  created_at: row.created_at,
});

const listRow = (row: AlignedRow): ListRow => ({
  model_id: row.id,
  model_name: row.name,
  deployment_status: row.deployment_status,
  base_model_id: row.base_model_id,
  base_model_name: row.base_model_name,
  alignment_id: row.project_id,
  ...(row.project_id === row.alignment_id ? {} : { auto_align_id: row.alignment_id }),
  created_at: row.created_at,
});

function alignedRecord(row: AlignedRow, calibration: Calibration, sql: ModelsSql, told: Told): AlignedRecord {
  const lineage = sql.lineage.get(row.alignment_id)!;
  const voided = voidNow(calibration, row, told.engine);
  const calibrated = calibration.calibrated && voided === null;
  return {
    ...listRow(row),
    error: row.error,
    performance_metrics: lineage.metrics_json === null ? null : numbersOf(JSON.parse(lineage.metrics_json)),
    evaluations: told.evaluationsOf(row.id),
    usage: told.usageOf(row.id),
    lineage: {
      base_sha256: row.base_sha256,
      adapter_sha256: row.adapter_sha256,
      workflow_id: lineage.workflow_id,
      document_ids: JSON.parse(lineage.document_ids_json) as string[],
      document_sha256s: JSON.parse(lineage.document_sha256s_json) as string[],
      benchmark_id: lineage.benchmark_id,
    },
    confidence: { calibrated, reason: voided ?? calibration.reason, n: calibrated ? calibration.statistics.n : 0 },
    downloadable: { gguf: existsSync(row.adapter_path), peft: existsSync(told.peftFolderOf(row.alignment_id)) },
    conversation: {
      context_tokens: told.slotPool.slotContext,
      max_tokens: chatBody.properties.max_tokens.default,
      prompt_truncate_len: chatBody.properties.prompt_truncate_len.default,
      temperature: chatBody.properties.temperature.default,
      conversation_saving_enabled: false,
    },
  };
}

/** The run's metrics that are single numbers. Its series and texts are shown only with the alignment. */
const numbersOf = (metrics: Record<string, unknown>): Record<string, number | null> =>
  Object.fromEntries(
    Object.entries(metrics).filter((entry): entry is [string, number | null] => {
      const [, value] = entry;
      return value === null || typeof value === "number";
    }),
  );
