// The command line as a user has it: bin/plumbline in a process of its own, with settings of its own.
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { installation } from "../../src/base/config.ts";
import { type Child, type Finished, finish, linesOf, startProcess } from "../../src/base/processes.ts";

export type Settings = Record<string, string>;

export const launcher = join(installation, "bin/plumbline");

/** Whether every user can enter the folders above a file, and run it. */
export const isOpen = (path: string): boolean =>
  path === "/" || ((statSync(path).mode & 0o001) !== 0 && isOpen(dirname(path)));

export async function plumbline(args: string[], settings: Settings = {}): Promise<Finished> {
  return finish(startProcess(launcher, args, { env: settings }), { timeoutMs: 60_000, maxBytes: 16 << 20 });
}

export interface Serving {
  child: Child;
  address: string;
  /** Where the first key is made; null once there is one. */
  claim: string | null;
  /** From the start of the process to its address. */
  seconds: number;
  /** What it has logged so far. */
  log(): string;
}

export async function startServing(settings: Settings): Promise<Serving> {
  const startedMs = performance.now();
  const child = startProcess(launcher, ["serve", "--json", "--attached"], {
    env: { PLUMBLINE_PORT: "0", ...settings },
  });
  let log = "";
  child.stderr.on("data", (part: Buffer) => {
    log += part.toString("utf8");
  });
  for await (const line of linesOf(child.stdout)) {
    child.stdout.resume();
    const { address, claim } = JSON.parse(line) as Pick<Serving, "address" | "claim">;
    return { child, address, claim, seconds: (performance.now() - startedMs) / 1000, log: () => log };
  }
  const ended = await child.ended;
  throw new Error(`serve ended ${JSON.stringify(ended)} before it listened:\n${log}`);
}

/** A folder that is gone with the test. */
export function temporaryFolder(context: { after(step: () => void): void }): string {
  const folder = mkdtempSync(join(tmpdir(), "plumbline-test-"));
  context.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}
