// npm run prove:auto [-- --only NAME,NAME --dir FOLDER --threads N --arm auto|supervised --no-write]: three auto-aligns of the starter
// model, each beside one of as many hours that may only train supervised, and the paired difference of what they made on the sealed
// questions, written to test/e2e/RESULTS.md. Start it again after an interruption, and it goes on where it was. Another commit and other
// options need another FOLDER. Nothing else should run on the machine. --arm runs only one of the two and prints no comparison. Once both
// have run, a start without --arm compares them.
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { wilson } from "../../src/base/statistics/intervals.ts";
import { compareScores } from "../../src/base/statistics/paired.ts";
import { readRecipes } from "../../src/domain/alignments/recipes.ts";
import { declines } from "../../src/domain/evaluations/declines.ts";
import { resultsOf, writeSection } from "../helpers/results.ts";
import { type Carried, carried } from "./auto/perform.ts";
import { type Task, taskNames, taskOf } from "./auto/tasks.ts";
import { answers, baseModel, sealedRight } from "./prove/experiment.ts";

const root = resolve(import.meta.dirname, "../..");
const { values } = parseArgs({
  options: {
    only: { type: "string", default: taskNames.join(",") },
    dir: { type: "string", default: join(root, ".cache/prove-auto") },
    preset: { type: "string", default: "standard" },
    threads: { type: "string", default: "2" },
    arm: { type: "string" },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});
const threads = Number(values.threads);
const names = values.only.split(",");
for (const name of names)
  if (!taskNames.includes(name)) throw new Error(`--only ${name}: is none of ${taskNames.join(", ")}`);
const recipe = (await readRecipes(join(root, "config/recipes"))).get(values.preset)!;

/** Of each sealed answer: right, and whether it declines. */
interface Graded {
  right: boolean[];
  declined: boolean[];
}

interface Proven {
  task: Task;
  base: Graded;
  /** By what may be done. */
  made: Record<Arm, Graded & Pick<Carried, "told" | "because">>;
}

const arms = ["auto", "supervised"] as const;
type Arm = (typeof arms)[number];

const carriedAs = (task: Task, arm: Arm): Promise<Carried> =>
  carried(join(values.dir, task.name, arm), task, {
    request: arm === "supervised" ? { method: "supervised" } : {},
    recipe,
    threads,
  });

async function proven(name: string): Promise<Proven> {
  const task = await taskOf(name);
  const sealed = task.items.filter(({ split }) => split === "sealed");
  const graded = (given: readonly string[]): Graded => ({
    right: sealedRight(task.items, given),
    declined: given.map(declines),
  });
  const made = {} as Proven["made"];
  for (const arm of arms) {
    const { told, because, given } = await carriedAs(task, arm);
    made[arm] = { ...graded(given), told, because };
  }
  const said = await answers(join(values.dir, name, "sealed-base.json"), baseModel, sealed, threads);
  return { task, base: graded(said), made };
}

/** Points of a hundred. */
function scoreOf({ right, declined }: Graded, { scored }: Task): { score: number; of: number[] } {
  const of = right.map((isRight, at) => {
    if (isRight) return 1;
    return scored === "right" || declined[at] ? 0 : -1;
  });
  return { score: (100 * of.reduce((sum: number, one) => sum + one, 0)) / of.length, of };
}

const points = (value: number): string => value.toFixed(1);

function told(graded: Graded, task: Task): string {
  const { score } = scoreOf(graded, task);
  if (task.scored === "right") {
    const { low, high } = wilson(graded.right.filter(Boolean).length, graded.right.length);
    return `${points(score)} (${points(low)}–${points(high)})`;
  }
  const count = (list: readonly boolean[]): number => list.filter(Boolean).length;
  return `${points(score)} (${count(graded.right)} right, ${count(graded.declined)} declined)`;
}

function rowOf({ task, base, made }: Proven): string {
  const { auto, supervised } = made;
  // Half as much, so that scores lie within 0 and 1; the difference is doubled again.
  const half = (graded: Graded): number[] => scoreOf(graded, task).of.map((one) => (one + 1) / 2);
  const clusters = task.items.filter(({ split }) => split === "sealed").map(({ cluster }) => cluster);
  const { difference, low, high, p_value } = compareScores(half(auto), half(supervised), clusters);
  const minutes = (one: Proven["made"]["auto"]): string =>
    `${Math.round(60 * one.told.hours)} min, ${one.told.phases} phases, ${one.told.status}`;
  return [
    task.name,
    String(clusters.length),
    told(base, task),
    `${told(supervised, task)}; ${minutes(supervised)}`,
    `${told(auto, task)}; ${minutes(auto)}`,
    `${points(2 * difference)} (${points(2 * low)} to ${points(2 * high)}), p ${p_value.toPrecision(2)}`,
  ].join(" | ");
}

if (values.arm !== undefined) {
  const arm = arms.find((one) => one === values.arm);
  if (arm === undefined) throw new Error(`--arm ${values.arm}: is none of ${arms.join(", ")}`);
  for (const name of names) await carriedAs(await taskOf(name), arm);
  process.exit();
}

const titles = "Task | Sealed | Base | Supervised alone | Auto-align | Difference, paired";
const rows = new Map<string, string>();
for (const name of names) {
  const one = await proven(name);
  rows.set(name, `| ${rowOf(one)} |`);
  process.stdout.write(`${rows.get(name)}\n${one.made.auto.because.map((text) => `  ${text}\n`).join("")}`);
}
if (values.write)
  await writeSection(resultsOf(import.meta.dirname), "auto", (old) => {
    const kept = taskNames.map(
      (name) => rows.get(name) ?? old.split("\n").find((line) => line.startsWith(`| ${name} |`)),
    );
    return [
      "## Three auto-aligns",
      "",
      "`npm run prove:auto`: each beside one of as many hours that may only train supervised; targets, documents and hours stand in `test/e2e/auto/tasks.ts`.",
      "",
      `| ${titles} |`,
      `|${titles.replaceAll(/[^|]+/g, "---")}|`,
      ...kept.filter((line) => line !== undefined),
    ].join("\n");
  });
