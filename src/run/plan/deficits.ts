// Why dev items are wrong, and how many points each reason is worth; the arms bid on those points.
import type { CheckedCheckpoint, Diagnosis, ProbedItem } from "./state.ts";

/**
 *   disputed     independent answers agree against the reference: a person should look, no training helps
 *   format       the content is right, the form is not
 *   forgotten    the base had it right
 *   elicitation  some of eight samples are right
 *   knowledge    none is, and the passage makes it right, or examples show how such questions are answered
 *   reading      wrong even with the passage
 */
export const deficitClasses = ["disputed", "format", "forgotten", "elicitation", "knowledge", "reading"] as const;
export type DeficitClass = (typeof deficitClasses)[number];
/** `abstention`: the part of an item's points that it would get for declining. */
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

/** More than half of an item's points: a reward may pay up to half for declining. */
export const isRight = (score: number): boolean => score > 0.5;

/** Class of an item that is wrong now. */
export function deficitOf(
  { has_examples: hasExamples }: Pick<Diagnosis, "has_examples">,
  item: ProbedItem,
  sampled: number,
): DeficitClass {
  if (item.disputed) return "disputed";
  if (item.format_only) return "format";
  if (isRight(item.closed_book)) return "forgotten";
  if (sampled > 0) return "elicitation";
  return hasExamples || isRight(item.open_book) ? "knowledge" : "reading";
}
