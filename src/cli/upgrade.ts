// plumbline upgrade: replaces the installed version by a newer one, or leaves the old one as it was.
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
    .description("replace the installed version by a newer program; on any failure the old one comes back by itself")
    .argument("[file]", "the newer program; not with --resume and --undo")
    .option("--prefix <folder>", "where it is installed", defaults.prefix)
    .option("--backup <folder>", "where the backup goes; otherwise beside the data folder, *.before-upgrade")
    .option("--timeout <seconds>", "how long a version may take until it answers", "300")
    .option("--resume", "go on with an upgrade that was cut off, from where it was")
    .option("--undo", "put the old version back after an upgrade that was cut off")
    .addHelpText(
      "after",
      `
A backup is made while it serves. Then the service is stopped, the new version started, and waited for until it answers and finds the
data in order. Alignments under way are interrupted, and go on from their last checkpoint. If the new version changed the database
and fails, the database comes back as it was when the old version stopped. What was cut off by a kill or a power cut is undone by
systemd before the service starts; without systemd no appliance starts on the data until --resume or --undo was run.`,
    );
  answers<Options, [string | undefined]>(upgrade, act);
}

async function act({ json, prefix, backup, timeout, resume, undo }: Options, file?: string): Promise<Answer> {
  if ([file !== undefined, resume === true, undo === true].filter(Boolean).length !== 1)
    throw new Failure("usage", "upgrade takes either the file of a newer program, or --resume, or --undo");
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
    upgraded: `Version ${to} runs in place of ${from}; the backup is in ${report.backup}`,
    undone: `Version ${from} is back`,
    "nothing to do": "There is no upgrade to undo",
  }[outcome];
  return { json: report, text };
}
