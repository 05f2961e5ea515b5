// Guards: abilities that a run measures of its model beside its base, because training must not cost them. Kept with the model, and
// read when it is promoted.
import type { GuardRow } from "./store.ts";

/** Of one item of a guard; scores in [0, 1]. */
export interface GuardItem {
  /** What it is called, the same in every run. */
  item: string;
  /** What was asked. */
  text: string;
  base: number;
  aligned: number;
}

export interface Guard {
  name: string;
  n: number;
  /** Points out of 100 where items are compared, else what was measured (nats, perplexity). */
  base: number;
  aligned: number;
  /** The aligned model's value at most, where less is better and no item is compared. */
  most?: number | null;
  /** At least those of the n that the two answered differently. */
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
