// Guards (regression suites): abilities that must not get worse by training. A run measures them on its model and on the base. The
// results are stored with the model, and read for evaluation results and promotions.
import type { GuardRow } from "./store.ts";

/** Scores of the base and of the aligned model on one item of a guard, in [0, 1]. */
export interface GuardItem {
  /** Name of the item, the same in every run. */
  item: string;
  /** What was asked. */
  text: string;
  base: number;
  aligned: number;
}

export interface Guard {
  name: string;
  n: number;
  /** Points out of 100 if items are compared, else the measured value (nats, perplexity). */
  base: number;
  aligned: number;
  /** Upper limit for the aligned model's value, for a guard where less is better and no items are compared. */
  most?: number | null;
  /** Results of single items. Includes at least those of the n items on which the two models' scores differ. */
  items: GuardItem[];
}

export const toGuardRow = (modelId: string, { items, most, ...guard }: Guard): GuardRow => ({
  ...guard,
  model_id: modelId,
  most: most ?? null,
  items_json: JSON.stringify(items),
});

export const fromGuardRow = ({ name, n, base, aligned, most, items_json }: GuardRow): Guard => ({
  name,
  n,
  base,
  aligned,
  most,
  items: JSON.parse(items_json) as GuardItem[],
});
