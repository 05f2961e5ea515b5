// Models: bases, which belong to the appliance, and aligned ones, which belong to the user who aligned them.
import { Failure } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Catalog } from "../../catalog/index.ts";
import { asked, modelNotFound } from "../../catalog/models.ts";
import type { AlignedRow, BaseRow } from "../../catalog/store.ts";
import { oneOf, textOf, type Verbs } from "../../contract/admin.ts";
import type { Caller, Handlers } from "../../contract/endpoint.ts";
import type { promotions } from "../../contract/promotions.ts";
import { mergedWeightTypes, type SavedFile, type Trainer } from "../../engine/train/trainer.ts";
import { prepareForgetting } from "../../store/idempotency.ts";
import type { Store } from "../../store/open.ts";
import { type ExportOrder, exportFormats, exportModel } from "./export.ts";
import { baseRecord, createHandlers, type ModelContract, type Removal, type Told } from "./handlers.ts";
import { type ImportSource, removeFile } from "./import.ts";
import { createPromotions, type PromotionParts } from "./promotion.ts";
import type { Serving } from "./serving.ts";
import type { Stock } from "./stock.ts";
import { type ModelsSql, prepareModels } from "./store.ts";

export interface ModelsParts extends Told, Omit<PromotionParts, "sql" | "catalog" | "deployments"> {
  store: Store;
  log: Log;
  catalog: Catalog;
  serving: Serving;
  stock: Stock;
  /** Where model files are kept. */
  folder: string;
  /** Starts the trainer, which makes exports. */
  startTrainer: () => Trainer;
  /** Throws forbidden unless the caller's key has the scope admin; `what` names the action in the message. */
  requireAdmin: (caller: Caller, what: string) => void;
  /** Deletes the guards' results for the model. Called in the transaction that deletes the model, before its row is deleted. */
  forgetModel: (modelId: string) => void;
  /**
   * Removes what a deleted alignment had kept because its model still existed. Called in the same transaction, after the
   * model's row has been deleted.
   */
  modelGone: (alignmentId: string) => void;
}

export interface Models {
  handlers: Handlers<ModelContract & typeof promotions>;
  /** Commands that are given on the machine itself: import, list, remove and export models. */
  verbs: Verbs;
}

/** Maximum number of uses of a model that a message names. */
const mostNamed = 10;

export function createModels(parts: ModelsParts): Models {
  const { store, log, catalog, serving, stock, folder } = parts;
  const sql = prepareModels(store);
  const forgetReplies = prepareForgetting(store);

  async function removeBase(row: BaseRow, by?: Caller): Promise<void> {
    refuseUsed(sql, row, catalog.runs.needing(row.id));
    // Unload all idle bases, because this base may be one of them.
    while (await serving.freeIdle());
    store.transaction(() => {
      refuseUsed(sql, row, catalog.runs.needing(row.id));
      sql.deleteSources.run(row.id);
      sql.deleteBase.run(row.id);
      parts.audit("model.remove", row.id, { name: row.name, sha256: row.sha256 }, by);
    });
    await removeFile(row.path, folder);
    log("info", "model.removed", { modelId: row.id, name: row.name });
  }

  async function removeAligned({ id, name, alignment_id, adapter_sha256 }: AlignedRow, caller: Caller): Promise<void> {
    const files = store.transaction(() => {
      const { deployment_status } = sql.alignedById.get(id)!;
      if (deployment_status !== "UNDEPLOYED") throw new Failure("still_deployed", `The model is ${deployment_status}`);
      const channels = sql.channelsOfModel.all(id).map(({ channel }) => channel);
      if (channels.length > 0) throw new Failure("still_promoted", `The model is promoted to ${channels.join(", ")}`);
      const uses = catalog.runs.needing(id);
      if (uses.length > 0) throw new Failure("in_use", `The model is needed by ${uses.slice(0, mostNamed).join(", ")}`);
      sql.removeDeployments.run(id);
      parts.forgetModel(id);
      const { adapter_path, sources_path } = sql.removeAligned.get(id)!;
      parts.modelGone(alignment_id);
      forgetReplies(caller.userId, id);
      parts.audit("model.delete", id, { name, alignment_id, sha256: adapter_sha256 }, caller);
      return [adapter_path, ...(sources_path === null ? [] : [sources_path])];
    });
    for (const path of files)
      if (!stock.isArriving(path) && sql.isFileUsed.get({ path })!.any === 0) await removeFile(path, folder);
    log("info", "model.removed", { modelId: id, name });
  }

  /**
   * Writes an aligned model's adapter, or the base merged with it, to the path of the order. Throws not_found, bad_request,
   * trainer_error.
   */
  async function exportAligned(order: ExportOrder): Promise<SavedFile[]> {
    const row = sql.alignedNamed.get(asked("", order.id));
    if (!row) throw modelNotFound();
    const files = await exportModel(
      { basePath: row.base_path, adapterPath: row.adapter_path },
      order,
      parts.startTrainer,
    );
    parts.audit("model.export", row.id, { format: order.format, path: order.path });
    return files;
  }

  const removal: Removal = {
    removeAligned,
    async removeBase(row, caller) {
      parts.requireAdmin(caller, "A base model belongs to all users: deleting it");
      await removeBase(row, caller);
    },
  };

  return {
    handlers: {
      ...createHandlers(parts, { sql, catalog, deployments: serving, stock, removal }),
      ...createPromotions({ ...parts, sql, catalog: catalog.models, deployments: serving }),
    },
    verbs: {
      "model.import": async (args) => baseRecord(await stock.importBase(sourceOf(args))),
      "model.list": () => catalog.models.bases().map(baseRecord),
      async "model.remove"(args) {
        const row = catalog.models.base(textOf(args, "id"));
        if (!row) throw modelNotFound();
        await removeBase(row);
      },
      "model.export": (args) => exportAligned(orderOf(args)),
    },
  };
}

/**
 * Throws conflict if models, alignments or evaluations were made with the base, and in_use if unfinished work needs it.
 * `needing` are the ids of that work: evaluations, benchmarks being made, and alignments that use the base as teacher, judge
 * or preference model.
 */
function refuseUsed(sql: ModelsSql, row: BaseRow, needing: readonly string[]): void {
  const uses = Object.entries(sql.usesOfBase.get({ id: row.id })!).filter(([, count]) => count > 0);
  if (uses.length > 0)
    throw new Failure(
      "conflict",
      `${row.name} is used by ${uses.map(([what, count]) => `${count} ${what}`).join(", ")}`,
    );
  if (needing.length > 0)
    throw new Failure("in_use", `${row.name} is needed by ${needing.slice(0, mostNamed).join(", ")}`);
}

function sourceOf(args: unknown): ImportSource {
  const { name, sha256, mode } = args as Partial<ImportSource>;
  return {
    path: textOf(args, "path"),
    mode: mode === "link" ? "link" : "copy",
    ...(name === undefined ? {} : { name }),
    ...(sha256 === undefined ? {} : { sha256 }),
  };
}

const orderOf = (args: unknown): ExportOrder => ({
  id: textOf(args, "id"),
  path: textOf(args, "path"),
  format: oneOf(exportFormats, args, "format"),
  weightType: oneOf(mergedWeightTypes, args, "weight_type"),
});
