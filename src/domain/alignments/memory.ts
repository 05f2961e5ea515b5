// Answers of models by what was asked, in a file of the run's folder: a run killed while it prepares asks nothing twice.
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { isErrno, openAppend, sha256, syncFolder } from "../../base/files.ts";

export interface Memory {
  get(key: string): string | undefined;
  put(key: string, answer: string): Promise<void>;
  close(): Promise<void>;
}

/** What is asked while rows are made. */
const answersFile = "answers.jsonl";

export async function openMemory(runFolder: string, fileName = answersFile): Promise<Memory> {
  const path = join(runFolder, fileName);
  const remembered = await readRemembered(path);
  const file = await openAppend(path);
  await syncFolder(runFolder);
  return {
    get: (key) => remembered.get(sha256(key)),
    async put(key, answer) {
      remembered.set(sha256(key), answer);
      await file.appendFile(`${JSON.stringify({ key: sha256(key), answer })}\n`);
    },
    close: () => file.close(),
  };
}

/** Once the rows are made nothing is asked any more. */
export const removeMemory = (runFolder: string): Promise<void> => rm(join(runFolder, answersFile), { force: true });

/** Whole lines only: the last one may be torn. */
async function readRemembered(path: string): Promise<Map<string, string>> {
  const remembered = new Map<string, string>();
  const text = await readFile(path, "utf8").catch((error) => {
    if (isErrno(error, "ENOENT")) return "";
    throw error;
  });
  for (const line of text.split("\n"))
    try {
      const { key, answer } = JSON.parse(line) as { key: string; answer: string };
      remembered.set(key, answer);
    } catch {}
  return remembered;
}
