// A machine that has nothing but the executable of `npm run release`: a root folder with the libraries of a minimal Debian, from which
// no file of the source tree can be reached. Needs root, for chroot(2).
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Child, type Finished, finish, startProcess } from "../../src/base/processes.ts";

export const installation = join(import.meta.dirname, "../..");
export const starterModel = join(installation, ".cache/smollm2-135m-instruct-q4_1.gguf");
const { version } = JSON.parse(readFileSync(join(installation, "package.json"), "utf8")) as { version: string };
const release = join(installation, `build/release/plumbline-${version}-linux-x64`);
const executable = "/opt/plumbline/plumbline";

/** Of Debian's packages libc6, libstdc++6 and libgcc-s1, which every minimal installation has. */
const libraries = ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libstdc++.so.6", "libgcc_s.so.1"];

export interface Machine {
  version: string;
  /** Where the executable unpacks. */
  runtime: string;
  /** Path on this machine of a path on that one. */
  at(path: string): string;
  start(words: string[], settings?: Record<string, string>): Child;
  run(words: string[], settings?: Record<string, string>): Promise<Finished>;
  remove(): void;
}

export function makeMachine(): Machine {
  assert.ok(existsSync(release), `${release} is missing; run npm run release`);
  const root = mkdtempSync(join(tmpdir(), "plumbline-machine-"));
  const at = (path: string): string => join(root, path);
  const folders = ["lib/x86_64-linux-gnu", "lib64", "proc", "tmp", "dev", "opt/plumbline"];
  for (const folder of folders) mkdirSync(at(folder), { recursive: true });
  const known = execFileSync("ldconfig", ["-p"], { encoding: "utf8" });
  for (const name of libraries) {
    const line = known.split("\n").find((one) => one.trim().startsWith(`${name} (libc6,x86-64`));
    assert.ok(line, `${name} is missing`);
    copyFileSync(realpathSync(line.split(" => ")[1]!), at(`lib/x86_64-linux-gnu/${name}`));
  }
  copyFileSync(realpathSync("/lib64/ld-linux-x86-64.so.2"), at("lib64/ld-linux-x86-64.so.2"));
  writeFileSync(at("dev/null"), "");
  copyFileSync(release, at(executable));
  // With its own processes, so that nothing is left of it when it is killed.
  const isolated = ["--mount", "--pid", "--fork", "--kill-child", `--mount-proc=${at("proc")}`, "chroot", root];
  const start: Machine["start"] = (words, settings = {}) =>
    startProcess("unshare", [...isolated, executable, ...words], {
      env: { HOME: "/tmp", TMPDIR: "/tmp", ...settings },
    });
  return {
    ...{ version, at, start, runtime: at("opt/plumbline/data/runtime") },
    run: (words, settings) => finish(start(words, settings), { timeoutMs: 900_000, maxBytes: 1 << 20 }),
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}
