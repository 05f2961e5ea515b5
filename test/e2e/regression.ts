// npm run prove:regression [-- --rate 0.02 --hours 0.4 --dir FOLDER --threads 2]: an auto-align of `sums` whose supervised phase is
// planted to harm what the starter model knows, by a peak rate far too high. Told: every decision, what was found to be lost, by which
// phase, and what was done about it. Fails unless a loss was found, attributed to a phase and repaired or rolled back. Start it again
// after an interruption, and it goes on where it was. Another commit and other options need another FOLDER.
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { readRecipes } from "../../src/domain/alignments/recipes.ts";
import type { DecisionCard, Next } from "../../src/run/plan/state.ts";
import { carried } from "./auto/perform.ts";
import { taskOf } from "./auto/tasks.ts";
import { eventsOf } from "./prove/experiment.ts";

const root = resolve(import.meta.dirname, "../..");
const { values } = parseArgs({
  options: {
    rate: { type: "string", default: "0.02" },
    hours: { type: "string", default: "0.4" },
    dir: { type: "string", default: join(root, ".cache/prove-regression") },
    threads: { type: "string", default: "2" },
  },
});
const recipe = (await readRecipes(join(root, "config/recipes"))).get("standard")!;
const task = await taskOf("sums");
const { config } = task.request;
const { told } = await carried(values.dir, task, {
  request: {
    max_compute_hours: Number(values.hours),
    config: { ...config, optimizer: { learning_rate: Number(values.rate) } },
  },
  recipe,
  threads: Number(values.threads),
});

/** A run that was interrupted tells its last decision again. */
const decisions = new Map<number, DecisionCard & { next: Next }>();
for (const { card } of eventsOf(join(values.dir, "run")))
  if (card !== undefined) decisions.set(Number(card.step), card as unknown as DecisionCard & { next: Next });
const cards = [...decisions.values()];
const found: string[] = [];
let answered = 0;
for (const [at, { because, regressions, next, best }] of cards.entries()) {
  process.stdout.write(`${at}. dev ${best.dev.score.toFixed(1)} at ${best.checkpoint}: ${because}\n`);
  for (const { checkpoint, suite, points, cause } of regressions) {
    const phase = next.kind === "phase" ? next.phase : null;
    const isRepaired = phase?.repairs?.checkpoint === checkpoint;
    const goesOnFrom = next.kind === "phase" ? next.phase.from : next.checkpoint;
    const isRolledBack = goesOnFrom !== checkpoint;
    if (isRepaired || isRolledBack) answered++;
    const remedy = isRepaired ? phase!.repairs!.remedy : isRolledBack ? "rolled back" : "kept";
    found.push(`| ${suite} | ${points.toFixed(1)} | ${checkpoint} | ${cause} | ${remedy} |`);
  }
}
process.stdout.write(
  [
    "",
    "| Lost | Points | Found at | By | Then |",
    "|---|---|---|---|---|",
    ...found,
    "",
    `${told.status}: ${told.checkpoint}`,
    "",
  ].join("\n"),
);
if (found.length === 0 || answered < found.length) process.exitCode = 1;
