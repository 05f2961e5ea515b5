// Shares the hours left among the phases of a given sequence, by expected points per hour. Every phase gets at least
// its smallest size.
import { type Offer, offersOf, scales } from "./offers.ts";
import { rateFactorOf } from "./repairs.ts";
import type { Situation } from "./situation.ts";
import type { Arm } from "./state.ts";

/**
 * The offer for the first of the phases left, in the size that its share of the hours allows. Null where no phase is
 * left or that phase is not affordable.
 */
export function allocate(situation: Situation, left: readonly Arm[], hours: number): Offer | null {
  const { state } = situation;
  const sizes = left.map((arm) => sizesOf(situation, arm, hours));
  if (sizes.length === 0 || sizes[0]!.length === 0) return null;
  const chosen = sizes.map(() => 0);
  let spent = sizes.reduce((sum, offers) => sum + (offers[0]?.hours ?? 0), 0);
  for (;;) {
    let [best, most] = [-1, 0];
    for (const [at, offers] of sizes.entries()) {
      const [now, larger] = [offers[chosen[at]!], offers[chosen[at]! + 1]];
      if (now === undefined || larger === undefined || spent + larger.hours - now.hours > hours) continue;
      const marginal = (larger.gain - now.gain) / (larger.hours - now.hours);
      if (marginal > most) [best, most] = [at, marginal];
    }
    if (best < 0) break;
    const offers = sizes[best]!;
    spent += offers[chosen[best]! + 1]!.hours - offers[chosen[best]!]!.hours;
    chosen[best]!++;
  }
  const first = sizes[0]![chosen[0]!]!;
  return { ...first, mostHours: Math.max(first.hours - state.check_hours, hours - (spent - first.hours)) };
}

/**
 * The offers of a phase from the smallest size to the largest. A phase of `scale` has only one offer: the scale with
 * the greatest expected gain.
 */
function sizesOf({ state, survey, beliefs }: Situation, arm: Arm, hours: number): Offer[] {
  const rateFactor = rateFactorOf(state, survey, arm);
  const offers = offersOf(state, beliefs, { arm, from: survey.best, hours, rateFactor, scales });
  if (arm !== "scale") return offers;
  return offers.length === 0 ? [] : [offers.reduce((one, other) => (other.gain > one.gain ? other : one))];
}
