// Runs decode steps on a thread of their own and not in Node's thread pool, which file access needs. See
// native/inference/decode_thread.cpp.
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { installation, ownRepair } from "../../base/config.ts";
import type { Log } from "../../base/log.ts";

export const decodeThreadPath = join(installation, "build/plumbline-decode.node");
export const decodeThreadHint = `${ownRepair}. Until then, decoding uses the threads that file access also needs.`;

/**
 * Loads our llama_decode; logs a warning if that fails. Call it before the inference library is loaded, because the library binds to
 * the llama_decode that is visible at that time.
 */
export function loadDecodeThread(log: Log): void {
  const problem = tryDecodeThread(decodeThreadPath);
  if (problem !== null) log("warn", "decode_thread_unusable", { problem, hint: decodeThreadHint });
}

/** Loads the file. Returns the problem if that fails, and null otherwise. */
export function tryDecodeThread(path: string): string | null {
  if (!existsSync(path)) return `${path} does not exist`;
  const { RTLD_NOW, RTLD_GLOBAL } = constants.dlopen;
  try {
    process.dlopen({ exports: {} } as NodeJS.Module, path, RTLD_NOW | RTLD_GLOBAL);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}
