// The only place that starts processes. A child runs without a shell. It inherits only the environment variables listed here, and this
// process holds its stdin open. Every worker exits when its stdin closes, so no worker outlives a parent that was killed. A detached
// process differs: see startDetached.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { finished, type Readable, type Writable } from "node:stream";

export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface Child {
  readonly pid: number;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the process has ended and its streams are closed; rejects when it could not be started. */
  readonly ended: Promise<Ended>;
  kill(signal?: NodeJS.Signals): void;
}

/** Environment variables that a child inherits. */
const inherited = [
  "PATH",
  "HOME",
  "TMPDIR",
  "LANG",
  "LC_ALL",
  // On some machines, the trainer finds NVIDIA's driver and libraries only through this variable.
  "LD_LIBRARY_PATH",
  "CUDA_VISIBLE_DEVICES",
  "PLUMBLINE_CUBLASLT",
  "OPENBLAS_NUM_THREADS",
  "NODE_COMPILE_CACHE",
];

function environment(extra: Record<string, string>): Record<string, string> {
  const env: Record<string, string> = {};
  for (const name of inherited) {
    const value = process.env[name];
    if (value !== undefined) env[name] = value;
  }
  return { ...env, ...extra };
}

/** A user of the machine. */
export interface Account {
  uid: number;
  gid: number;
}

/** The user and group to start a child with. Only root can start a child as another user; otherwise `as` has no effect. */
const identityOf = (as: Account | undefined): Partial<Account> =>
  as !== undefined && process.getuid?.() === 0 ? { uid: as.uid, gid: as.gid } : {};

export function startProcess(
  command: string,
  args: string[],
  options: { cwd?: string; env?: Record<string, string>; as?: Account } = {},
): Child {
  const child = spawn(command, args, {
    stdio: ["pipe", "pipe", "pipe"],
    env: environment(options.env ?? {}),
    ...identityOf(options.as),
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
  ended.catch(() => {});
  // Writing to a child that has died fails. The error is ignored, because `ended` reports the child's end.
  child.stdin.on("error", () => {});
  return {
    pid: child.pid ?? -1,
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    ended,
    kill: (signal = "SIGTERM") => void child.kill(signal),
  };
}

/**
 * Starts a process that outlives this one, such as an appliance on a machine without a service manager. Its environment is only `env`.
 * Its output goes to `log`, the descriptor of an open file.
 */
export function startDetached(
  command: string,
  args: string[],
  options: { cwd: string; env: Record<string, string>; log: number; as: Account },
): { pid: number; ended: Promise<Ended> } {
  const { cwd, env, log, as } = options;
  const child = spawn(command, args, { cwd, env, detached: true, stdio: ["ignore", log, log], ...identityOf(as) });
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  ended.catch(() => {});
  child.unref();
  return { pid: child.pid ?? -1, ended };
}

/** Runs one of the project's TypeScript or JavaScript files with this Node executable. `nodeFlags` come before the script. */
export function startNode(
  script: string,
  args: string[],
  options: { cwd?: string; env?: Record<string, string>; nodeFlags?: string[] } = {},
): Child {
  return startProcess(process.execPath, [...(options.nodeFlags ?? []), script, ...args], options);
}

export interface Finished extends Ended {
  stdout: string;
  stderr: string;
  /** Killed for exceeding timeoutMs or cpuMs. */
  timedOut: boolean;
  /** Killed for exceeding memoryBytes or maxBytes. */
  tooLarge: boolean;
}

/**
 * Waits until a child ends, and returns its output. The child's stdin is closed after `input`. The child is killed if stdout or stderr
 * exceeds maxBytes, or if it uses more than timeoutMs, cpuMs of CPU time or memoryBytes of resident memory.
 */
export async function finish(
  child: Child,
  limits: { timeoutMs: number; cpuMs?: number; maxBytes: number; memoryBytes?: number; input?: string | Uint8Array },
): Promise<Finished> {
  let timedOut = false;
  let tooLarge = false;
  const tooMuch = (): void => {
    tooLarge = true;
    child.kill("SIGKILL");
  };
  const tooLate = (): void => {
    timedOut = true;
    child.kill("SIGKILL");
  };
  const { memoryBytes = Number.POSITIVE_INFINITY, cpuMs = Number.POSITIVE_INFINITY } = limits;
  // The use of memory is polled, because a heap limit does not cover native memory.
  const watch = setInterval(() => {
    const used = usedBy(child.pid);
    if (used.residentBytes > memoryBytes) tooMuch();
    if (used.cpuMs > cpuMs) tooLate();
  }, 100);
  const timer = setTimeout(tooLate, limits.timeoutMs);
  const collect = (stream: Readable): Promise<string> =>
    new Promise((resolve) => {
      const parts: Buffer[] = [];
      let bytes = 0;
      stream.on("data", (part: Buffer) => {
        bytes += part.length;
        if (bytes > limits.maxBytes) tooMuch();
        else parts.push(part);
      });
      stream.on("close", () => resolve(Buffer.concat(parts).toString("utf8")));
    });
  const output = Promise.all([collect(child.stdout), collect(child.stderr)]);
  child.stdin.end(limits.input ?? "");
  try {
    const ended = await child.ended;
    const [stdout, stderr] = await output;
    return { ...ended, stdout, stderr, timedOut, tooLarge };
  } finally {
    clearTimeout(timer);
    clearInterval(watch);
  }
}

const pageBytes = 4096;
/** Linux reports CPU time in hundredths of a second, whatever the kernel's own clock rate. */
const tickMs = 10;

/** Resident memory and CPU time of a process (proc(5)). Both are 0 if the process is gone or this is not Linux. */
function usedBy(pid: number): { residentBytes: number; cpuMs: number } {
  let line = "";
  try {
    // Reading synchronously is fast, because the kernel makes the content from memory, and does not wait for other file operations.
    line = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return { residentBytes: 0, cpuMs: 0 };
  }
  // Takes the fields from the third on, because the second is the program's name, which may contain spaces.
  const fields = line
    .slice(line.lastIndexOf(")") + 2)
    .split(" ")
    .map(Number);
  const [user = 0, system = 0, pages = 0] = [fields[11], fields[12], fields[21]];
  return { residentBytes: pages * pageBytes, cpuMs: (user + system) * tickMs };
}

/** Lines of a stream, without their line ends. */
export function linesOf(stream: Readable): AsyncIterable<string> {
  return createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY });
}

/** Calls `callback` once when this process's stdin closes, which tells a worker that its parent is gone. */
export function onParentGone(callback: () => void): void {
  finished(process.stdin, { writable: false }, () => callback());
  process.stdin.resume();
}
