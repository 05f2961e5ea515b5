// plumbline install: makes this program a service of the machine.
import type { Command } from "commander";
import { Failure } from "../base/errors.ts";
import { planInstall } from "./installation/install.ts";
import { defaults, layout, serviceCommand } from "./installation/layout.ts";
import { runSteps, type Told } from "./installation/steps.ts";
import { answers } from "./output.ts";

interface Options {
  user?: string;
  data?: string;
  prefix: string;
  dryRun?: boolean;
}

export function register(program: Command): void {
  const install = program
    .command("install")
    .description("install this program as a service of the machine: user, data folder, settings, systemd unit")
    .option("--user <name>", `the system user that it runs as (default: ${defaults.user})`)
    .option("--data <folder>", `the data folder (default: ${defaults.data})`)
    .option("--prefix <folder>", "the program is put into its lib/plumbline, with a link in its bin", defaults.prefix)
    .option("--dry-run", "print what would be done, with the content of every file, but change nothing")
    .addHelpText(
      "after",
      `
Only root may install. A second installation changes only what differs; the settings are kept.`,
    );
  answers<Options>(install, async ({ user, data, prefix, dryRun = false }) => {
    if (!dryRun) requireRoot();
    const at = layout(prefix);
    const wanted = { ...(user === undefined ? {} : { user }), ...(data === undefined ? {} : { data }) };
    const plan = await planInstall(wanted, at);
    const steps = await runSteps(plan.steps, { dryRun });
    const changed = steps.some(({ outcome }) => outcome !== "done already");
    const { user: who, data: where } = plan.installed;
    const asUser = serviceCommand(plan.installed, at);
    const next = [
      ...(plan.starts ? [] : [`systemd does not run here. Have this command started automatically: ${asUser} serve`]),
      `To create the first key: ${asUser} key create --user NAME`,
    ];
    const end = changed ? `plumbline ${plan.version} ${dryRun ? "would be" : "is"} installed` : "Nothing to do";
    return {
      json: { version: plan.version, changed, dry_run: dryRun, user: who, data: where, prefix, steps, next },
      text: [...steps.map(lineOf), end, ...(dryRun ? [] : next)].join("\n"),
    };
  });
}

export function requireRoot(): void {
  if (process.getuid?.() !== 0) throw new Failure("not_root");
}

export const lineOf = ({ what, outcome, content }: Told): string => {
  const line = `${outcome.padEnd(12)}  ${what}`;
  return content === undefined ? line : `${line}\n${content.replace(/^/gm, "  | ").replace(/ +$/gm, "").trimEnd()}`;
};
