// plumbline uninstall: removes the service and the program from the machine.
import type { Command } from "commander";
import { lineOf, requireRoot } from "./install.ts";
import { planUninstall, refuseStrangeData } from "./installation/install.ts";
import { defaults, layout } from "./installation/layout.ts";
import { runSteps } from "./installation/steps.ts";
import { answers } from "./output.ts";

interface Options {
  prefix: string;
  purge?: boolean;
  dryRun?: boolean;
}

export function register(program: Command): void {
  const uninstall = program
    .command("uninstall")
    .description("remove the service and the program; the data and the settings are kept unless --purge is given")
    .option("--prefix <folder>", "where it was installed", defaults.prefix)
    .option("--purge", "also remove the data, its backup of the last upgrade, the settings and the user, permanently")
    .option("--dry-run", "print what would be done, but change nothing");
  answers<Options>(uninstall, async ({ prefix, purge = false, dryRun = false }) => {
    if (!dryRun) requireRoot();
    const { version, installed, steps: planned } = await planUninstall(layout(prefix), { purge });
    if (purge) await refuseStrangeData(installed.data);
    const steps = await runSteps(planned, { dryRun });
    const { data, environment } = installed;
    const kept = purge ? [] : [data, environment];
    const end = purge ? [] : [`The data in ${data} and the settings in ${environment} are kept`];
    return {
      json: { version, dry_run: dryRun, steps, kept },
      text: [...steps.map(lineOf), ...end].join("\n"),
    };
  });
}
