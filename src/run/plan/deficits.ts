// Why dev items are wrong, and how many points each reason is worth. The gain that an arm can expect depends on these
// points.
import type { CheckedCheckpoint, Diagnosis, ProbedItem } from "./state.ts";

/**
 * The classes of wrong items; the first that applies counts.
 *
 *   disputed     independent answers agree with each other but not with the reference; a person should look, as no training helps
 *   format       the content is right, the form is not
 *   forgotten    the base had it right
 *   elicitation  some of eight samples are right
 *   knowledge    no sample is right, but the answer with the passage is, or a data set shows how such questions are answered
 *   reading      wrong even with the passage
 */
export const deficitClasses = ["disputed", "format", "forgotten", "elicitation", "knowledge", "reading"] as const;
export type DeficitClass = (typeof deficitClasses)[number];
/** The classes, and `abstention`: the part of an item's missing points that declining would gain. */
export const headroomClasses = [...deficitClasses, "abstention"] as const;
export type HeadroomClass = (typeof headroomClasses)[number];
export type Headroom = Record<HeadroomClass, number>;

/** Points of dev that a checkpoint misses in each class. */
export function headroomOf(diagnosis: Diagnosis, { dev, sampled }: CheckedCheckpoint): Headroom {
  const { items } = diagnosis;
  const headroom = Object.fromEntries(headroomClasses.map((name) => [name, 0])) as Headroom;
  for (const [at, item] of items.entries()) {
    const byDeclining = gainByDeclining(item, dev[at]!);
    const missed = 1 - dev[at]! - byDeclining;
    headroom.abstention += (100 * byDeclining) / items.length;
    if (missed > 0)
      headroom[deficitOf(diagnosis, item, sampled?.[at] ?? item.sampled)] += (100 * missed) / items.length;
  }
  return headroom;
}

/** What an item of this score would gain by declining, in [0, 1]. */
export const gainByDeclining = ({ declining = 0 }: ProbedItem, score: number): number => Math.max(0, declining - score);

/**
 * Whether a score is all of an item's points, or more than half of them and more than `declining` earns. Declining thus
 * does not count as right, unless the item has no better answer.
 */
export const isRight = (score: number, declining = 0): boolean => score === 1 || score > Math.max(0.5, declining);

/** Class of an item that is wrong now. */
export function deficitOf(
  { has_examples: hasExamples }: Pick<Diagnosis, "has_examples">,
  item: ProbedItem,
  sampled: number,
): DeficitClass {
  if (item.disputed) return "disputed";
  if (item.format_only) return "format";
  if (isRight(item.closed_book, item.declining)) return "forgotten";
  if (sampled > 0) return "elicitation";
  return hasExamples || isRight(item.open_book, item.declining) ? "knowledge" : "reading";
}
