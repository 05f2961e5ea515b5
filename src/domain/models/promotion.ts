// Promotions: which model answers to the name of a channel.
//
//   promote   a model replaces the channel's model, unless it is significantly worse or nothing is proven; a reason overrides this
//   rollback  undoes one promotion: the model that it replaced is promoted again; after the channel's first, no model is left
//
// Invariants:
//   1. A move writes a history row, the pointer, the audit entry and the deployment that it needs, in one transaction.
//   2. The pointer names a model and the promotion that put it there. A rollback goes to the promotion before that one, never to
//      a rollback, so that each call takes one step back.
//   3. A model that is refused is promoted only with a reason.

import { Failure, invalid, type ValidationDetail } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Clock } from "../../base/time.ts";
import { type ModelCatalog, modelNotFound } from "../../catalog/models.ts";
import type { AlignedRow } from "../../catalog/store.ts";
import type { Caller, Handlers, Reply } from "../../contract/endpoint.ts";
import type { promotions } from "../../contract/promotions.ts";
import type { Store } from "../../store/open.ts";
import type { Deployments } from "./deploy.ts";
import type { ModelsSql, PromotedRow, PromotionRow } from "./store.ts";

export type PromotionRecord = Reply<(typeof promotions)["models.promote"]>;
export type Verdict = NonNullable<PromotionRecord["verdict"]>;

export interface PromotionParts {
  store: Store;
  sql: ModelsSql;
  catalog: ModelCatalog;
  deployments: Deployments;
  clock: Clock;
  log: Log;
  audit: (act: string, subject: string, detail: Record<string, unknown>, by?: Caller) => void;
  /** Judges whether a model may replace another one. */
  judgePromotion: (ownerId: string, modelId: string, inPlaceOf: string) => Verdict;
  wake: () => void;
}

export function createPromotions(parts: PromotionParts): Handlers<typeof promotions> {
  const { store, sql, catalog, deployments, clock, log } = parts;

  function alignedOf(caller: Caller, name: string): AlignedRow {
    const row = catalog.aligned(caller.userId, name);
    if (row) return row;
    if (catalog.base(name)) throw new Failure("conflict", "Only an aligned model can be promoted, not a base model");
    throw modelNotFound();
  }

  /**
   * Carries out a move (invariant 1). `pointTo` is the model that the channel then names, and the `seq` of the promotion that
   * put the model there; a null `seq` means this move. If `pointTo` is null, the channel is left without a model.
   */
  function move(
    caller: Caller,
    row: Omit<PromotionRow, "seq" | "owner_id" | "key_id" | "at">,
    pointTo: { modelId: string; seq: number | null } | null,
  ): PromotionRecord {
    const whole = { ...row, owner_id: caller.userId, key_id: caller.keyId, at: clock.now() };
    const channel = { ownerId: caller.userId, baseId: row.base_model_id, channel: row.channel };
    store.transaction(() => {
      const { seq } = sql.insertPromotion.get(whole)!;
      if (pointTo === null) sql.unpoint.run(channel);
      else {
        sql.point.run({ ...channel, modelId: pointTo.modelId, seq: pointTo.seq ?? seq });
        const model = sql.alignedById.get(pointTo.modelId)!;
        if (model.deployment_status !== "DEPLOYED") deployments.deploy(model);
      }
      const { model_id, replaced_model_id, reason, overridden } = row;
      const detail = { channel: row.channel, replaced_model_id, reason, overridden: overridden === 1 };
      parts.audit(`model.${row.act}`, model_id ?? replaced_model_id!, detail, caller);
    });
    parts.wake();
    log("info", `model.${row.act}d`, { channel: row.channel, modelId: row.model_id, replaced: row.replaced_model_id });
    return toRecord(whole);
  }

  /** Throws validation if a model has the channel's name, because that model would answer instead of the channel. */
  function refuseTaken(caller: Caller, channel: string): void {
    if (catalog.aligned(caller.userId, channel) ?? catalog.base(channel))
      throw invalid(["body", "channel"], `a model is already named ${channel}; give the channel another name`);
  }

  /**
   * The channel to which a model is promoted. Throws conflict if there is none, and several_channels if there are several and
   * `channel` is undefined.
   */
  function channelOf(model: AlignedRow, channel: string | undefined): PromotedRow {
    const channels = sql.channelsOfModel
      .all(model.id)
      .filter((one) => channel === undefined || one.channel === channel);
    if (channels.length === 0)
      throw new Failure("conflict", `${model.id} is not promoted${channel === undefined ? "" : ` to ${channel}`}`);
    if (channels.length > 1)
      throw new Failure(
        "several_channels",
        `${model.id} is promoted to ${channels.map((one) => one.channel).join(", ")}`,
      );
    return channels[0]!;
  }

  return {
    "models.promote": async ({ params, body }, caller) => {
      const model = alignedOf(caller, params.model_id);
      const { channel = model.name, reason = null, override = reason !== null } = body;
      refuseTaken(caller, channel);
      const current = sql.promotedOn.get({ ownerId: caller.userId, baseId: model.base_model_id, channel });
      if (current?.model_id === model.id) return toRecord(sql.promotion.get(current.promotion_seq)!);
      const verdict = parts.judgePromotion(caller.userId, model.id, current?.model_id ?? model.base_model_id);
      const against = refusals(verdict);
      if (against.length > 0 && !override)
        throw new Failure("promotion_refused", against.map(({ msg }) => msg).join("; "), {
          details: withItems(verdict),
        });
      return move(
        caller,
        {
          base_model_id: model.base_model_id,
          channel,
          act: "promote",
          model_id: model.id,
          replaced_model_id: current?.model_id ?? null,
          before_seq: current?.promotion_seq ?? null,
          overridden: against.length > 0 ? 1 : 0,
          reason,
          verdict_json: JSON.stringify(verdict),
        },
        { modelId: model.id, seq: null },
      );
    },

    "models.rollback": async ({ params, body }, caller) => {
      const model = alignedOf(caller, params.model_id);
      const current = channelOf(model, body.channel);
      const { before_seq } = sql.promotion.get(current.promotion_seq)!;
      const before = before_seq === null ? null : sql.promotion.get(before_seq)!;
      if (before && !sql.alignedById.get(before.model_id!))
        throw new Failure(
          "conflict",
          `${before.model_id}, which was promoted before it, was deleted: promote another model`,
        );
      return move(
        caller,
        {
          base_model_id: current.base_model_id,
          channel: current.channel,
          act: "rollback",
          model_id: before?.model_id ?? null,
          replaced_model_id: model.id,
          before_seq,
          overridden: 0,
          reason: body.reason ?? null,
          verdict_json: "null",
        },
        before && { modelId: before.model_id!, seq: before.seq },
      );
    },

    "models.promotions": async ({ query: { channel = null, limit, offset } }, { userId }) => ({
      promoted: sql.channelsOfOwner
        .all(userId)
        .filter((one) => channel === null || one.channel === channel)
        .map(({ promotion_seq: _, ...one }) => one),
      promotions: sql.promotions.all({ ownerId: userId, channel, limit, offset }).map(toRecord),
      total: sql.countPromotions.get({ ownerId: userId, channel })!.n,
    }),
  };
}

const toRecord = (row: Omit<PromotionRow, "seq">): PromotionRecord => ({
  channel: row.channel,
  base_model_id: row.base_model_id,
  act: row.act,
  model_id: row.model_id,
  replaced_model_id: row.replaced_model_id,
  overridden: row.overridden === 1,
  reason: row.reason,
  verdict: JSON.parse(row.verdict_json) as Verdict | null,
  key_id: row.key_id,
  at: row.at,
});

const points = (value: number): string => value.toFixed(1);

/** The reasons that keep a model from being promoted, one entry each. */
function refusals({ comparisons, limits, unproven }: Verdict): ValidationDetail[] {
  return [
    ...(unproven === null ? [] : [{ loc: ["sealed"], msg: unproven, type: "unproven" }]),
    ...comparisons
      .filter(({ regressed }) => regressed)
      .map(({ about, name, compared_with, lost, gained, n, difference, p_worse }) => ({
        loc: [about, name],
        msg:
          `${about} ${name}: ${points(difference)} points compared with ${compared_with}, ` +
          `${lost} of ${n} items lost and ${gained} gained, p ${p_worse.toPrecision(2)}`,
        type: "regression",
      })),
    ...limits
      .filter(({ exceeded }) => exceeded)
      .map(({ name, value, most }) => ({
        loc: ["guard", name],
        msg: `guard ${name}: ${value.toPrecision(4)}; the limit is ${most.toPrecision(4)}`,
        type: "limit",
      })),
  ];
}

/** The refusals, followed by the items that each regression lost. */
const withItems = (verdict: Verdict): ValidationDetail[] => [
  ...refusals(verdict),
  ...verdict.comparisons
    .filter(({ regressed }) => regressed)
    .flatMap(({ about, name, lost_items }) =>
      lost_items.map(({ item, text, expected, answer, former_answer }) => ({
        loc: [about, name, item],
        msg: [
          text,
          ...(expected === null ? [] : [`expected: ${expected}`]),
          ...(former_answer === null ? [] : [`before: ${former_answer}`]),
          ...(answer === null ? [] : [`now: ${answer}`]),
        ].join(" | "),
        type: "lost_item",
        ctx: { text, expected, answer, former_answer },
      })),
    ),
];
