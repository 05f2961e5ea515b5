// The planner beside every fixed order of arms, world by world, and the claims that `npm run prove:plan` prints and `npm test` holds it to.
import { fixedOrders, runFixedOrder } from "./fixed-orders.ts";
import { type Outcome, simulate, smallestVisibleMiss } from "./simulation.ts";
import { makeWorld, trueScore, trueValue, type World } from "./worlds.ts";

export interface Tournament {
  worlds: number;
  /** Runs of the planner: how they ended, and what must not happen. */
  ends: Record<Outcome["status"], number>;
  confirmed: number;
  /** Reached, and confirmed, with a true score below the target by however little. */
  reachedBelow: number;
  confirmedBelow: number;
  overBudget: number;
  falseReached: number;
  /** Phases that truly lost 10 points and more, and those of them that were confirmed. */
  large: number;
  largeConfirmed: number;
  /** Runs that confirm a regression, and that confirm one that is none. */
  alarmed: number;
  falselyAlarmed: number;
  /** Worlds without a limit of hours, which a fixed order cannot share out; all of them ended. */
  unlimited: number;
  standings: Standing[];
}

export interface Standing {
  name: string;
  /** Mean points below the best of all that ran in the same world, where worlds have a limit of hours. */
  regret: number;
  /** The same in worlds whose priors are roughly right, and wrong. */
  regretRight: number;
  regretWrong: number;
  /** Mean of its value less the planner's, with the 95 % half-width. */
  lead: number;
  error: number;
}

const names = ["planner", ...fixedOrders.map(({ name }) => name)];

export function play(indexes: readonly number[], onWorld: (done: number) => void = () => undefined): Tournament {
  const found: Omit<Tournament, "standings"> = {
    worlds: indexes.length,
    ends: { REACHED: 0, BUDGET_SPENT: 0, PAUSED: 0 },
    confirmed: 0,
    reachedBelow: 0,
    confirmedBelow: 0,
    overBudget: 0,
    falseReached: 0,
    large: 0,
    largeConfirmed: 0,
    alarmed: 0,
    falselyAlarmed: 0,
    unlimited: 0,
  };
  const values: { hasWrongPriors: boolean; points: number[] }[] = [];
  for (const [at, index] of indexes.entries()) {
    const world = makeWorld(index);
    const outcome = simulate(world);
    tally(found, world, outcome);
    const { budgetHours, hasWrongPriors } = world;
    if (budgetHours === null) found.unlimited++;
    else {
      const fixed = fixedOrders.map(({ order }) => trueValue(world, runFixedOrder(world, order, budgetHours)));
      values.push({ hasWrongPriors, points: [trueValue(world, outcome.checkpoint), ...fixed] });
    }
    onWorld(at + 1);
  }
  return { ...found, standings: names.map((name, which) => standingOf(name, which, values)) };
}

/** What hours are compared with: sums in another order differ in the last digits. */
const roundingHours = 1e-9;

function tally(found: Omit<Tournament, "standings">, world: World, outcome: Outcome): void {
  const { status, state, checkpoint, stepHours, regressions, decisions } = outcome;
  found.ends[status]++;
  if (world.budgetHours !== null && state.hours > world.budgetHours + stepHours + roundingHours) found.overBudget++;
  found.large += regressions.large;
  found.largeConfirmed += regressions.largeConfirmed;
  if (regressions.confirmed > 0) found.alarmed++;
  if (regressions.false > 0) found.falselyAlarmed++;
  if (status !== "REACHED") return;
  const end = decisions.at(-1)!.next;
  const isConfirmed = end.kind === "end" && end.confirmed === true;
  const missing = world.target - trueScore(world, checkpoint);
  const n = state.looks.at(-1)!.scores.length;
  if (isConfirmed) found.confirmed++;
  if (missing > 0) found.reachedBelow++;
  if (missing > 0 && isConfirmed) found.confirmedBelow++;
  if (missing > smallestVisibleMiss(world.target, n)) found.falseReached++;
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

function standingOf(
  name: string,
  which: number,
  values: readonly { hasWrongPriors: boolean; points: readonly number[] }[],
): Standing {
  const regrets = (isWrong: boolean | null): number[] =>
    values
      .filter(({ hasWrongPriors }) => isWrong === null || hasWrongPriors === isWrong)
      .map(({ points }) => Math.max(...points) - points[which]!);
  const leads = values.map(({ points }) => points[which]! - points[0]!);
  const lead = mean(leads);
  const variance = leads.reduce((sum, one) => sum + (one - lead) ** 2, 0) / (leads.length - 1);
  return {
    name,
    regret: mean(regrets(null)),
    regretRight: mean(regrets(false)),
    regretWrong: mean(regrets(true)),
    lead,
    error: 1.96 * Math.sqrt(variance / leads.length),
  };
}

/** False claims and false alarms: up to so many of 2,000 runs a share of 5 % is refuted (one-sided, 1 %). */
export const mostFalse = (worlds: number): number => Math.floor((78 / 2000) * worlds);

/** What does not hold, in sentences. */
export function broken({ worlds, overBudget, falseReached, falselyAlarmed, standings }: Tournament): string[] {
  const [planner, ...fixed] = standings as [Standing, ...Standing[]];
  const best = fixed.reduce((least, one) => (one.regret < least.regret ? one : least));
  const claims: [boolean, string][] = [
    [overBudget === 0, `${overBudget} runs exceed their hours by more than a step`],
    [falseReached <= mostFalse(worlds), `${falseReached} runs claim a target that is missed visibly`],
    [falselyAlarmed <= mostFalse(worlds), `${falselyAlarmed} runs confirm a regression that is none`],
    [best.lead <= best.error, `${best.name} beats the planner by ${best.lead.toFixed(2)} points`],
    ...fixed
      .filter((one) => one !== best || one.name === "supervised only")
      .map((one): [boolean, string] => [planner.regret < one.regret, `${one.name} is no worse than the planner`]),
  ];
  return claims.filter(([holds]) => !holds).map(([, text]) => text);
}
