// Starts a temporary appliance: `plumbline serve` as a child process on a free loopback port, with a key made by
// `plumbline key create`. The demo calls its API as any other client would.
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import { type Child, finish, linesOf, startNode } from "../../base/processes.ts";

export interface Appliance {
  address: string;
  key: string;
  pid: number;
  /** Rejects when the process has ended. */
  readonly ended: Promise<never>;
  stop(): Promise<void>;
}

const main = join(import.meta.dirname, "../main.ts");
const startMs = 30_000;
/** Longer than the time that serve gives its own work to end. */
const stopMs = 40_000;

/**
 * Starts an appliance and creates a key. `env` has the settings, named as in config/plumbline.env; `log` is the file that the
 * appliance's log is appended to. Throws serve_failed.
 */
export async function startAppliance(env: Record<string, string>, log: string): Promise<Appliance> {
  const child = startNode(main, ["serve", "--json", "--attached"], { env });
  const logFile = createWriteStream(log, { flags: "a", mode: 0o600 });
  child.stderr.pipe(logFile);
  let stopping = false;
  const ended = child.ended.then(({ code, signal }): never => {
    throw new Failure("serve_failed", `serve ended (${signal ?? `status ${code}`}); its log is ${log}`);
  });
  ended.catch(() => {});
  const stop = async (): Promise<void> => {
    if (stopping) return;
    stopping = true;
    child.kill("SIGTERM");
    const kill = setTimeout(() => child.kill("SIGKILL"), stopMs);
    await child.ended.catch(() => {});
    clearTimeout(kill);
  };
  try {
    const address = await Promise.race([addressOf(child), ended]);
    const key = await makeKey(env);
    return { address, key, pid: child.pid, ended, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The address that serve prints on its first line. */
async function addressOf(child: Child): Promise<string> {
  const timer = setTimeout(() => child.kill("SIGKILL"), startMs);
  try {
    for await (const line of linesOf(child.stdout)) return (JSON.parse(line) as { address: string }).address;
  } finally {
    clearTimeout(timer);
    // Further output is discarded, because a full pipe would block the child.
    child.stdout.resume();
  }
  // The stream has closed without a line; `ended` rejects with the reason.
  return new Promise(() => {});
}

async function makeKey(env: Record<string, string>): Promise<string> {
  const child = startNode(main, ["key", "create", "--user", "demo", "--json"], { env });
  const done = await finish(child, { timeoutMs: startMs, maxBytes: 1 << 20 });
  if (done.code !== 0) throw new Failure("serve_failed", `key create: ${done.stderr || done.stdout}`.trim());
  return (JSON.parse(done.stdout) as { key: string }).key;
}
