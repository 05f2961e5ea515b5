// Runs the steps of installing and uninstalling. Each step knows whether it is already done, so a plan can be shown, run and
// repeated.
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";
import { finish, startProcess } from "../../base/processes.ts";

export interface Step {
  /** What the step does, in the imperative. */
  what: string;
  /** The whole content of a file that the step writes. */
  content?: string;
  isDone(): Promise<boolean>;
  act(): Promise<unknown>;
}

export interface Told {
  what: string;
  /** `would` in a dry run. */
  outcome: "did" | "would" | "done already";
  content?: string;
}

export async function runSteps(steps: readonly Step[], { dryRun }: { dryRun: boolean }): Promise<Told[]> {
  const told: Told[] = [];
  for (const { what, content, isDone, act } of steps) {
    const file = content === undefined ? {} : { content };
    if (await isDone().catch(unreadable)) {
      told.push({ what, outcome: "done already" });
      continue;
    }
    if (!dryRun)
      await act().catch((error: Error) => {
        if (error instanceof Failure) throw error;
        throw new Failure("install_failed", `Could not ${what}: ${error.message}`, { cause: error });
      });
    told.push({ what, outcome: dryRun ? "would" : "did", ...(dryRun ? file : {}) });
  }
  return told;
}

/** A step whose state cannot be read counts as not done. This happens in a dry run by a user who is not root. */
function unreadable(error: unknown): boolean {
  if (isErrno(error, "EACCES", "EPERM")) return false;
  throw error;
}

/** Runs a command of the system, and returns its output. Throws install_failed if it fails or is missing. */
export async function command(name: string, ...args: string[]): Promise<string> {
  const done = await run(name, ...args);
  if (done.code === 0) return done.stdout;
  throw new Failure("install_failed", `${[name, ...args].join(" ")} ended with ${done.code}: ${done.stderr.trim()}`);
}

export async function succeeds(name: string, ...args: string[]): Promise<boolean> {
  return (await run(name, ...args)).code === 0;
}

async function run(name: string, ...args: string[]) {
  try {
    return await finish(startProcess(name, args), { timeoutMs: 120_000, maxBytes: 1 << 20 });
  } catch (error) {
    if (isErrno(error, "ENOENT")) throw new Failure("install_failed", `The command ${name} is missing`);
    throw error;
  }
}
