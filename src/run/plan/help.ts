// What would help when a plan ends short of its target, each with the points of dev that it could be worth at most.
import { mostLooks } from "./looks.ts";
import { bestSize } from "./offers.ts";
import { rateFactorOf } from "./repairs.ts";
import type { Situation } from "./situation.ts";
import { arms, type Help } from "./state.ts";

/** Lists what could gain points, the most helpful first. */
export function helpOf({ state, survey, beliefs, excluded }: Situation): Help[] {
  const { best } = survey;
  const { limits, diagnosis, looks } = state;
  const { disputed, knowledge, reading } = best.headroom;
  const n = diagnosis.items.length;
  const gainOf = (arm: (typeof arms)[number]): number =>
    bestSize(state, beliefs, {
      arm,
      from: best,
      hours: Number.POSITIVE_INFINITY,
      rateFactor: rateFactorOf(state, survey, arm),
    })?.gain ?? 0;
  const forHours = excluded.filter(({ isForHours }) => isForHours);
  const help: Help[] = [
    {
      kind: "hours",
      points: Math.max(0, ...forHours.map(({ arm }) => gainOf(arm))),
      text: `More hours, for a phase of ${forHours.map(({ arm }) => arm).join(" or ")}.`,
    },
    {
      kind: "fewer_limits",
      points: Math.max(0, ...arms.filter((arm) => !limits.arms.includes(arm) && arm !== "represent").map(gainOf)),
      text: "Arms that the request or this base excludes.",
    },
    {
      kind: "documents",
      points: knowledge,
      text: `Documents that say more about ${questions(knowledge, n)}: the model answers them with the passage, but training has not taught it the answers.`,
    },
    {
      kind: "larger_base",
      points: reading,
      text: `A larger base model: ${questions(reading, n)} are wrong even with the passage.`,
    },
    {
      kind: "review_items",
      points: disputed,
      text: `A person's review of ${questions(disputed, n)}: independent answers agree with each other but not with the reference.`,
    },
    {
      kind: "larger_benchmark",
      points: looks.length >= mostLooks ? Math.max(0, limits.target_score - best.score) || best.error : 0,
      text: `More questions: with ${n} dev questions, the error is ${best.error.toFixed(1)} points.`,
    },
  ];
  return help.filter(({ points }) => points > 0).sort((one, other) => other.points - one.points);
}

const questions = (points: number, n: number): string => `${Math.round((points / 100) * n)} of ${n} dev questions`;
