// plumbline verify: checks whether a backup or a data folder has everything that it should have. Changes nothing.
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { places, readConfig } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import type { VerifyReport } from "../domain/backups/index.ts";
import { answers } from "./output.ts";
import { startProgress } from "./progress.ts";

export function register(program: Command): void {
  const command = program
    .command("verify")
    .description("check a backup, or a data folder even while it is served: the database, and each file's hash")
    .argument("[path]", "a backup or a data folder (default: PLUMBLINE_DATA)")
    .option(
      "--quick",
      "for a data folder: read the database and the run folders; of other files, check only that they exist",
    )
    .addHelpText(
      "after",
      `
Missing or changed files are listed, and the exit status is 1. Files that no row names are listed too, but are not errors: an upload
in progress has such files, and the next start removes those that a crash left.`,
    );
  answers<{ quick?: boolean }>(command, async ({ quick = false }, path) => {
    const place = path === undefined ? readConfig().data : resolve(path);
    const progress = startProgress();
    const tell = (done: number, total: number): void => progress.show({ phase: "files", done, total, unit: "files" });
    try {
      const { kind, ...report } = await check(place, tell, quick);
      const ok = report.problems.length === 0;
      const lines = [
        `${place}: ${ok ? "no problems" : "problems found"}, a ${kind === "data" ? "data folder" : "backup"} of a database and ${report.files} files`,
        ...report.problems.map((problem) => `  wrong  ${problem}`),
        ...report.others.map((other) => `  other  ${other} is not named by any row`),
      ];
      return { json: { path: place, kind, ok, ...report }, text: lines.join("\n"), exit: ok ? "ok" : "failure" };
    } finally {
      progress.end();
    }
  });
}

type Checked = VerifyReport & { kind: "data" | "backup" };

async function check(place: string, tell: (done: number, total: number) => void, quick: boolean): Promise<Checked> {
  const backups = await import("../domain/backups/index.ts");
  const isData = await stat(places(place).database).catch(() => null);
  if (isData) return { kind: "data", ...(await backups.verifyData(place, tell, { quick })) };
  if (quick) throw new Failure("usage", "--quick is only for a data folder; for a backup every hash is checked");
  const backup = await backups.openBackup(place);
  try {
    return { kind: "backup", ...(await backups.verifyBackup(backup, tell)) };
  } finally {
    await backup.close();
  }
}
