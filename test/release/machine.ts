// A machine that has nothing but an executable of `npm run release`: a root folder with a minimal Debian, or with its libraries alone,
// from which no file of the source tree can be reached. Needs root, for chroot(2).
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
import { readConfig } from "../../src/base/config.ts";
import { type Child, type Finished, finish, startProcess } from "../../src/base/processes.ts";

export const installation = join(import.meta.dirname, "../..");
export const { starterModel } = readConfig({});
const { version } = JSON.parse(readFileSync(join(installation, "package.json"), "utf8")) as { version: string };
const limits = { timeoutMs: 900_000, maxBytes: 1 << 20 };
const executable = "/opt/plumbline/plumbline";

/** Of Debian's packages libc6, libstdc++6 and libgcc-s1, which every minimal installation has. */
const libraries = ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libstdc++.so.6", "libgcc_s.so.1"];

export interface MachineOptions {
  /** The release that carries the starter model and the sentence encoder. */
  full?: boolean;
  /** Folder of a minimal Debian, which is copied. Without it, the machine has Debian's libraries and nothing else. */
  debian?: string;
}

export interface Start {
  /** The program's environment, besides HOME and TMPDIR. */
  settings?: Record<string, string>;
  /** `none`: a network namespace of its own, which has nothing but a loopback device. A child: the network that this one has. */
  network?: "none" | Child;
  /** Path on this machine: strace(1) writes every system call for the network to it. */
  trace?: string;
}

export interface Machine {
  version: string;
  /** Where the executable unpacks. */
  runtime: string;
  /** Path on this machine of a path on that one. */
  at(path: string): string;
  start(words: string[], how?: Start): Child;
  run(words: string[], settings?: Start["settings"], network?: Start["network"]): Promise<Finished>;
  remove(): void;
}

export function makeMachine({ full = false, debian }: MachineOptions = {}): Machine {
  const release = join(installation, `build/release/plumbline-${version}-linux-x64${full ? "-full" : ""}`);
  assert.ok(existsSync(release), `${release} is missing; run npm run release${full ? " -- --full" : ""}`);
  const root = mkdtempSync(join(tmpdir(), "plumbline-machine-"));
  const at = (path: string): string => join(root, path);
  if (debian === undefined) copyLibraries(at);
  else execFileSync("cp", ["-a", `${debian}/.`, root]);
  mkdirSync(at("opt/plumbline"), { recursive: true });
  copyFileSync(release, at(executable));
  const start: Machine["start"] = (words, { settings = {}, network, trace } = {}) => {
    // With its own processes, so that nothing is left of it when it is killed.
    const isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child", `--mount-proc=${at("proc")}`];
    // seccomp-bpf: only the calls that are written stop the program.
    const traced = trace === undefined ? [] : ["strace", "-f", "--seccomp-bpf", "-e", "trace=network", "-o", trace];
    const program = [...traced, "chroot", root, executable, ...words];
    const alone = ["--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"];
    const [command, ...args] =
      network === undefined
        ? [...isolated, ...program]
        : network === "none"
          ? [...isolated, ...alone, ...program]
          : ["nsenter", "--target", String(network.pid), "--net", ...isolated, ...program];
    return startProcess(command!, args, { env: { HOME: "/tmp", TMPDIR: "/tmp", ...settings } });
  };
  return {
    ...{ version, at, start, runtime: at("opt/plumbline/data/runtime") },
    run: (words, settings, network) =>
      finish(start(words, { ...(settings && { settings }), ...(network && { network }) }), limits),
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}

function copyLibraries(at: Machine["at"]): void {
  const folders = ["lib/x86_64-linux-gnu", "lib64", "proc", "tmp", "dev"];
  for (const folder of folders) mkdirSync(at(folder), { recursive: true });
  const known = execFileSync("ldconfig", ["-p"], { encoding: "utf8" });
  for (const name of libraries) {
    const line = known.split("\n").find((one) => one.trim().startsWith(`${name} (libc6,x86-64`));
    assert.ok(line, `${name} is missing`);
    copyFileSync(realpathSync(line.split(" => ")[1]!), at(`lib/x86_64-linux-gnu/${name}`));
  }
  copyFileSync(realpathSync("/lib64/ld-linux-x86-64.so.2"), at("lib64/ld-linux-x86-64.so.2"));
  writeFileSync(at("dev/null"), "");
}
