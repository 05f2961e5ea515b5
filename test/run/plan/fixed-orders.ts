// What a planner is held against: every order of the four arms that train, each given an equal part of the hours, and supervised
// training alone. They are no fools: the better checkpoint by dev score less what the suites lost goes on, an adapter that harms is
// scaled at the end, and training ends when dev meets the target.
import {
  type Arm,
  baseOf,
  type Check,
  type Checkpoint,
  check,
  runPhase,
  suites,
  tolerance,
  type World,
} from "./worlds.ts";

const trainingArms = ["supervised", "distil", "reinforce", "represent"] as const satisfies readonly Arm[];

const ordersOf = (left: readonly Arm[]): Arm[][] =>
  left.length === 0
    ? [[]]
    : left.flatMap((first) => ordersOf(left.filter((arm) => arm !== first)).map((rest) => [first, ...rest]));

export const fixedOrders: readonly { name: string; order: readonly Arm[] }[] = [
  { name: "supervised only", order: ["supervised", "supervised", "supervised"] },
  ...ordersOf(trainingArms).map((order) => ({ name: order.join(", "), order })),
];

const share = (right: readonly boolean[]): number => (100 * right.filter(Boolean).length) / right.length;

/** Dev score, up to the target, less points that the suites lost beyond what they may: as they are seen, not as they are. */
const seenValue = (world: World, found: Check, base: Check): number =>
  Math.min(world.target, share(found.correct)) -
  suites.reduce(
    (sum, suite) => sum + Math.max(0, share(base.suites[suite]) - share(found.suites[suite]) - tolerance[suite]),
    0,
  );

/** The checkpoint that a fixed order ends with. */
export function runFixedOrder(world: World, order: readonly Arm[], budgetHours: number): Checkpoint {
  const base = baseOf(world);
  const baseCheck = check(world, base);
  let best = { checkpoint: base, found: baseCheck, value: seenValue(world, baseCheck, baseCheck) };
  const consider = (checkpoint: Checkpoint): void => {
    const found = check(world, checkpoint);
    const value = seenValue(world, found, baseCheck);
    if (value >= best.value) best = { checkpoint, found, value };
  };
  const scales = [0.85, 0.7, 0.5];
  let left = budgetHours - world.profileHours - world.lookHours - scales.length * world.checkHours;
  for (const [at, arm] of order.entries()) {
    let part = left / (order.length - at);
    // In phases of usual length: one long phase would be lost whole to one accident.
    while (part > world.checkHours && share(best.found.correct) < world.target) {
      const { steps } = world.forecast[arm];
      const ran = runPhase(world, best.checkpoint, { arm, steps, hours: part - world.checkHours });
      if (ran.steps === 0) break;
      part -= ran.hours + world.checkHours;
      left -= ran.hours + world.checkHours;
      consider(ran.checkpoint);
      // An edit is made once; what it leaves of its part goes to the arms after it.
      if (arm === "represent") break;
    }
  }
  const trained = best.checkpoint;
  if (trained !== base && best.value < Math.min(world.target, share(best.found.correct)))
    for (const scale of scales)
      consider(runPhase(world, trained, { arm: "scale", steps: 1, hours: 1, scale }).checkpoint);
  return best.checkpoint;
}
