// Lists the files of a run folder, which no rows name, and checks those whose hashes are recorded in the folder itself.
import { readdir, readFile, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { places } from "../../base/config.ts";
import { isErrno, isTemporary, sha256OfFile } from "../../base/files.ts";
import type { RunRequest, RunResult } from "../../contract/run-folder.ts";

/**
 * Lists a run's files, relative to the data folder. Leaves out locks and temporary files, which belong to a running
 * process.
 */
export async function listRun(data: string, id: string): Promise<string[]> {
  const folder = join(places(data).runs, id);
  for (;;)
    try {
      const entries = await readdir(folder, { recursive: true, withFileTypes: true });
      return entries
        .filter((entry) => entry.isFile() && !/^lock(-journal)?$/.test(entry.name))
        .map((entry) => relative(data, join(entry.parentPath, entry.name)))
        .filter((path) => !path.split(sep).some(isTemporary))
        .sort();
    } catch (error) {
      if (!isErrno(error, "ENOENT", "ENOTDIR")) throw error;
      // A run may remove folders while they are listed, so list them again unless the run folder itself is gone.
      if (!(await isThere(folder))) return [];
    }
}

export const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/**
 * Describes what is wrong with a run's snapshot and artefact. A missing file counts only if the run is live, because
 * documents can be removed from the snapshot of a run that has ended.
 */
export async function problemsOfRun(data: string, id: string, isLive: boolean): Promise<string[]> {
  const folder = join(places(data).runs, id);
  const order = await readJson<Pick<RunRequest, "documents" | "dev">>(join(folder, "order.json"));
  if (order === null)
    return isLive ? [`alignment ${id}: its run folder does not exist, but its work has not ended`] : [];
  const result = await readJson<RunResult>(join(folder, "result.json"));
  const expected = [
    ...order.documents.map(({ sha256 }, index) => ({ name: `snapshot/documents/${index}.json`, sha256 })),
    ...(order.dev ? [{ name: "snapshot/dev.jsonl", sha256: order.dev.sha256 }] : []),
    ...(result?.files ?? []).map(({ name, sha256 }) => ({ name: `artefact/${name}`, sha256 })),
  ];
  const problems: string[] = [];
  for (const { name, sha256 } of expected) {
    const found = await hashIfThere(join(folder, name));
    if (found === null ? isLive : found !== sha256)
      problems.push(
        `alignment ${id}: ${join(folder, name)} ${found === null ? "does not exist" : "was changed since it was made"}`,
      );
  }
  return problems;
}

async function hashIfThere(path: string): Promise<string | null> {
  return sha256OfFile(path).catch((error) => {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    throw error;
  });
}

async function readJson<T>(path: string): Promise<T | null> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as T;
  } catch (error) {
    if (error instanceof SyntaxError || isErrno(error, "ENOENT", "ENOTDIR")) return null;
    throw error;
  }
}
