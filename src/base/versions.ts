// Installed versions: plumbline's, the inference library's and the trainer's.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { installation } from "./config.ts";
import { Failure } from "./errors.ts";
import { isErrno, sha256OfFile } from "./files.ts";

export async function versionsInstalled(): Promise<{ version: string; engine: string }> {
  const read = async (path: string): Promise<string> =>
    (JSON.parse(await readFile(join(installation, path), "utf8")) as { version: string }).version;
  const engine = await read("node_modules/node-llama-cpp/package.json");
  return { version: await read("package.json"), engine: `node-llama-cpp ${engine}` };
}

/**
 * Identifies the trainer's exact build by its hash, because a run resumes bit for bit only with the same build. Throws
 * trainer_missing.
 */
export async function trainerVersion(path: string): Promise<string> {
  try {
    return (await sha256OfFile(path)).slice(0, 16);
  } catch (error) {
    if (isErrno(error, "ENOENT")) throw new Failure("trainer_missing", undefined, { cause: error });
    throw error;
  }
}
