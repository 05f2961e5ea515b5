// Steps on a thread of their own, and not on those that files wait for: see native/inference/decode_thread.cpp.
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { installation } from "../base/config.ts";
import type { Log } from "../base/log.ts";

const path = join(installation, "build/plumbline-decode.node");

/** Before the inference library is loaded: it takes its llama_decode from what is in sight then. */
export function loadDecodeThread(log: Log): void {
  if (!existsSync(path)) {
    log("warn", "decode_thread_missing", {
      path,
      hint: "Run ./install.sh; until then steps are computed on threads that files wait for.",
    });
    return;
  }
  const { RTLD_NOW, RTLD_GLOBAL } = constants.dlopen;
  process.dlopen({ exports: {} } as NodeJS.Module, path, RTLD_NOW | RTLD_GLOBAL);
}
