// plumbline restore: a data folder from a backup.
import { resolve } from "node:path";
import type { Command } from "commander";
import { readConfig } from "../base/config.ts";
import { answers, bytesText } from "./output.ts";
import { showBytes, startProgress } from "./progress.ts";

export function register(program: Command): void {
  const command = program
    .command("restore")
    .description("make a data folder of a backup; nothing is ever overwritten")
    .argument("<backup>", "the folder or file that `plumbline backup` made")
    .option("--to <folder>", "an empty folder, or none yet; otherwise PLUMBLINE_DATA")
    .addHelpText(
      "after",
      `
Every file is checked as it is written. Where it was cut off the same command goes on, and no appliance starts on the folder before
it is whole. Work that was under way is taken up again by the next \`plumbline serve\`.`,
    );
  answers<{ to?: string }>(command, async ({ to }, path = "") => {
    const data = to === undefined ? readConfig().data : resolve(to);
    const backups = await import("../domain/backups/index.ts");
    const backup = await backups.openBackup(resolve(path));
    const progress = startProgress();
    const show = showBytes(progress);
    try {
      const report = await backups.restoreBackup(backup, data, (done, total) => show("files", done, total));
      const { created_at } = backup.manifest;
      return {
        json: { data, created_at, ...report },
        text: `${data} is as of ${created_at}: ${report.files} files, ${bytesText(report.bytes)}`,
      };
    } finally {
      progress.end();
      await backup.close();
    }
  });
}
