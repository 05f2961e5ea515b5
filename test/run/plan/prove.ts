// npm run prove:plan [-- --worlds N]: the planner in every simulated world beside every fixed order of arms; one table, and 1 as the exit
// code where a claim does not hold.
import { parseArgs } from "node:util";
import { broken, mostFalse, play, type Tournament } from "./tournament.ts";

const { values } = parseArgs({ options: { worlds: { type: "string", default: "2000" } } });
const count = Number(values.worlds);
const started = performance.now();
const found = play(
  Array.from({ length: count }, (_, index) => index),
  (done) => {
    if (done % 100 === 0) process.stderr.write(`${done} of ${count} worlds\n`);
  },
);
const failures = broken(found);
process.stdout.write(`${table(found)}\n`);
for (const failure of failures) process.stdout.write(`\nDoes not hold: ${failure}.\n`);
process.stderr.write(`${((performance.now() - started) / 1000).toFixed(0)} s\n`);
process.exitCode = failures.length === 0 ? 0 : 1;

function table(tournament: Tournament): string {
  const { worlds, ends, confirmed, unlimited } = tournament;
  const most = mostFalse(worlds);
  const rows: string[][] = [
    ["worlds", `${worlds}`, `a third with wrong priors; ${unlimited} without a limit of hours, all ended`],
    [
      "reached / budget spent / paused",
      `${ends.REACHED} / ${ends.BUDGET_SPENT} / ${ends.PAUSED}`,
      `${confirmed} reached are confirmed`,
    ],
    ["hours exceeded by more than a step", `${tournament.overBudget}`, "must be 0"],
    [
      "false REACHED",
      `${tournament.falseReached}`,
      `at most ${most}; ${tournament.reachedBelow} reached are below the target by less than could be seen, ${tournament.confirmedBelow} of them confirmed`,
    ],
    [
      "runs with a false regression alarm",
      `${tournament.falselyAlarmed}`,
      `at most ${most}; ${tournament.alarmed} runs confirm one; of ${tournament.large} phases that truly lost 10 points and more ${tournament.largeConfirmed} are confirmed`,
    ],
    ...[...tournament.standings]
      .sort((one, other) => one.regret - other.regret)
      .map(({ name, regret, regretRight, regretWrong, lead, error }) => [
        `regret: ${name}`,
        regret.toFixed(2),
        `priors right ${regretRight.toFixed(2)}, wrong ${regretWrong.toFixed(2)}${name === "planner" ? "" : `; ${lead.toFixed(2)} ± ${error.toFixed(2)} against the planner`}`,
      ]),
  ];
  return [["what", "value", "beside it"], ["---", "---", "---"], ...rows]
    .map((row) => `| ${row.join(" | ")} |`)
    .join("\n");
}
