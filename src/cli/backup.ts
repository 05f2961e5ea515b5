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
    .description("back the data folder up; the appliance may serve meanwhile")
    .argument("<path>", "a folder, into which a later backup copies only what is new; or a file that ends in .tar")
    .addHelpText(
      "after",
      `
It holds the database as of its beginning, documents, models with their adapters, and the runs of alignments. Settings and their
secrets stand in the environment, not in the data folder: keep these elsewhere. A folder holds the latest backup alone, and what was
deleted since is cleared from it. It can be killed at any time: the backup that was there stays until the new one is whole.`,
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

/** Whether a backup is a single file, told by its name because nothing may be there yet. Throws usage. */
async function isArchive(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory()) return false;
  if (path.endsWith(".tar")) return true;
  if (found) throw new Failure("usage", `${path} is a file, and a backup in one file ends in .tar`);
  return false;
}
