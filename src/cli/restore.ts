// plumbline restore: restores a data folder from a backup.
import { resolve } from "node:path";
import type { Command } from "commander";
import { readConfig } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { isErrno } from "../base/files.ts";
import { answers, bytesText } from "./output.ts";
import { showBytes, startProgress } from "./progress.ts";

export function register(program: Command): void {
  const command = program
    .command("restore")
    .description("restore a backup into a data folder; nothing is ever overwritten")
    .argument("<backup>", "the folder or file made by `plumbline backup`")
    .option("--to <folder>", "an empty or new folder (default: PLUMBLINE_DATA)")
    .addHelpText(
      "after",
      `
Every file is checked as it is written. If the command is interrupted, run it again to continue. No appliance starts on the folder
before it is complete. The next \`plumbline serve\` resumes the work that was in progress. Run as root, the command gives every file to
the owner of the folder, so that a service that runs as this owner can open them.`,
    );
  answers<{ to?: string }>(command, async ({ to }, path = "") => {
    const data = to === undefined ? readConfig().data : resolve(to);
    const backups = await import("../domain/backups/index.ts");
    const backup = await backups.openBackup(resolve(path)).catch(refuse);
    const progress = startProgress();
    const show = showBytes(progress);
    try {
      const onProgress = (done: number, total: number): void => show("files", done, total);
      const report = await backups.restoreBackup(backup, data, onProgress).catch(refuse);
      const { created_at } = backup.manifest;
      return {
        json: { data, created_at, ...report },
        text: `${data} is restored as of ${created_at}: ${report.files} files, ${bytesText(report.bytes)}`,
      };
    } finally {
      progress.end();
      await backup.close();
    }
  });
}

/** Throws restore_denied if the error says that this user may not read the backup or write the folder, otherwise the error itself. */
function refuse(error: unknown): never {
  if (isErrno(error, "EACCES", "EPERM"))
    throw new Failure("restore_denied", `This user may not restore the backup: ${(error as Error).message}`, {
      cause: error,
    });
  throw error;
}
