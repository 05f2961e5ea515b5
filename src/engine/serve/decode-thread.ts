// Runs decode steps on their own thread, not on Node's pool, which files need: see native/inference/decode_thread.cpp.
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { installation, ownRepair } from "../../base/config.ts";
import type { Log } from "../../base/log.ts";

export const decodeThreadPath = join(installation, "build/plumbline-decode.node");
export const decodeThreadHint = `${ownRepair}. Until then, decoding uses the threads that file access also needs.`;

/** Call it before the inference library is loaded: the library binds to the llama_decode that is visible at that time. */
export function loadDecodeThread(log: Log): void {
  const problem = tryDecodeThread(decodeThreadPath);
  if (problem !== null) log("warn", "decode_thread_unusable", { problem, hint: decodeThreadHint });
}

/** Loads the file; returns what is wrong with it, or null. */
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
