// plumbline backup: copies the data folder, with or without a running appliance.
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { readConfig } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { versionsInstalled } from "../base/versions.ts";
import { answers, bytesText } from "./output.ts";
import { showBytes, startProgress } from "./progress.ts";

export function register(program: Command): void {
  const command = program
    .command("backup")
    .description("back up the data folder; the appliance may keep serving meanwhile")
    .argument("<path>", "a folder, to which later backups copy only new files, or a file that ends in .tar")
    .addHelpText(
      "after",
      `
The backup contains the database as it was when the backup began, the documents, the models with their adapters, and the runs of
alignments. It does not contain the settings and their secrets, which are in the environment and not in the data folder: keep these
separately. A folder contains only the latest backup; what has since been deleted is removed from it. You can kill a backup at any
time: the previous backup is kept until the new one is complete.`,
    );
  answers(command, async (_, path = "") => {
    const target = resolve(path);
    const { data } = readConfig();
    const { version } = await versionsInstalled();
    const backups = await import("../domain/backups/index.ts");
    await backups.checkPlaces(data, target);
    const place = (await isArchive(target))
      ? await backups.openArchiveTarget(target)
      : await backups.openFolderTarget(target);
    const progress = startProgress();
    try {
      const now = () => new Date().toISOString();
      const { manifest, copied } = await backups.makeBackup(place, {
        ...{ data, version, now },
        onProgress: showBytes(progress),
      });
      const files = manifest.files.length;
      const bytes = manifest.files.reduce((sum, file) => sum + file.bytes, manifest.database.bytes);
      return {
        json: { path: target, data, created_at: manifest.created_at, files, bytes, copied },
        text: `${target}: the database and ${files} files, ${bytesText(bytes)}, of which ${bytesText(copied.bytes)} are new`,
      };
    } finally {
      progress.end();
      await place.close();
    }
  });
}

/**
 * Whether the backup is a single file. Its name decides, because the path may not exist yet. Throws usage if the path is a
 * file whose name does not end in .tar.
 */
async function isArchive(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory()) return false;
  if (path.endsWith(".tar")) return true;
  if (found) throw new Failure("usage", `${path} is a file; the name of a backup in a single file must end in .tar`);
  return false;
}
