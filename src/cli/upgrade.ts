// plumbline upgrade: replaces the installed version with a newer one. On any failure the old version is restored.
import { resolve } from "node:path";
import type { Command } from "commander";
import { Failure } from "../base/errors.ts";
import { defaults, layout } from "./installation/layout.ts";
import { whole } from "./options.ts";
import { type Answer, answers, note } from "./output.ts";

interface Options {
  json?: boolean;
  prefix: string;
  backup?: string;
  timeout: string;
  resume?: boolean;
  undo?: boolean;
}

export function register(program: Command): void {
  const upgrade = program
    .command("upgrade")
    .description(
      "replace the installed version with a newer program; if anything fails, the old version returns automatically",
    )
    .argument("[file]", "the newer program; not with --resume or --undo")
    .option("--prefix <folder>", "where it is installed", defaults.prefix)
    .option("--backup <folder>", "where to put the backup (default: beside the data folder, *.before-upgrade)")
    .option("--timeout <seconds>", "how long a version may take before it answers", "300")
    .option("--resume", "continue an upgrade that was cut off, from where it stopped")
    .option("--undo", "return to the old version after an upgrade that was cut off")
    .addHelpText(
      "after",
      `
The appliance keeps serving while a backup is made. Then the service is stopped, and the new version is started and must answer and
find the data in order. Running alignments are interrupted, and continue later from their last checkpoint. If the new version changed
the database and fails, the database is restored to its state when the old version stopped. If the upgrade is cut off by a kill or a
power cut, systemd undoes it before it starts the service; without systemd, no appliance starts on the data until you run --resume or
--undo.`,
    );
  answers<Options, [string | undefined]>(upgrade, act);
}

async function act({ json, prefix, backup, timeout, resume, undo }: Options, file?: string): Promise<Answer> {
  if ([file !== undefined, resume === true, undo === true].filter(Boolean).length !== 1)
    throw new Failure("usage", "upgrade needs either the file of a newer program, --resume or --undo");
  const { beginUpgrade, resumeUpgrade, undoUpgrade } = await import("./installation/upgrade.ts");
  const options = {
    prefix: layout(prefix),
    timeoutMs: whole("--timeout", timeout) * 1000,
    tell: (line: string) => (json ? undefined : note(`plumbline: ${line}`)),
  };
  const report = resume
    ? await resumeUpgrade(options)
    : undo
      ? await undoUpgrade(options)
      : await beginUpgrade(resolve(file!), backup === undefined ? undefined : resolve(backup), options);
  const { from, to, outcome } = report;
  const text = {
    upgraded: `Version ${to} runs instead of ${from}; the backup is in ${report.backup}`,
    undone: `Version ${from} is installed again`,
    "nothing to do": "There is no upgrade to undo",
  }[outcome];
  return { json: report, text };
}
