// The service of an installation: the systemd unit if systemd runs, otherwise the process that holds the data folder's lock.
import { closeSync, openSync, readdirSync, readFileSync, statSync } from "node:fs";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { type Config, places, readConfig, starterName } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";
import { isLocked } from "../../base/lock.ts";
import { startDetached } from "../../base/processes.ts";
import { sleep } from "../../base/time.ts";
import { asService } from "./account.ts";
import type { Installation, Layout } from "./layout.ts";
import { command, succeeds } from "./steps.ts";

export interface Service {
  isRunning(): Promise<boolean>;
  /** Stops the service, and waits until the data folder's lock is free. Throws data_locked if it stays held. */
  stop(): Promise<void>;
  /** Starts the service. Returns before it answers requests. */
  start(): Promise<Started>;
}

export interface Started {
  /** Why the service will never answer; null as long as it still may. */
  problem(): Promise<string | null>;
}

export const unitName = "plumbline.service";

/** Longer than the time that the service gives its own work to end. */
const stopMs = 45_000;

export async function serviceOf(installed: Installation, at: Layout): Promise<Service> {
  const isUnit = (await isSystemdRunning()) && (await stat(installed.unit).catch(() => null)) !== null;
  return isUnit ? systemdService(installed) : processService(installed, at);
}

export const isSystemdRunning = async (): Promise<boolean> =>
  (await stat("/run/systemd/system").catch(() => null)) !== null;

export function systemdService({ data }: Pick<Installation, "data">): Service {
  return {
    isRunning: () => succeeds("systemctl", "is-active", "--quiet", unitName),
    async stop() {
      // If the unit runs this process before it starts the service, nothing serves yet, and the stop would end this process too.
      if (!(await isControlProcess())) await command("systemctl", "stop", unitName);
      await lockFree(data, stopMs);
    },
    async start() {
      await command("systemctl", "start", unitName);
      return {
        async problem() {
          const state = await command("systemctl", "show", "--property=ActiveState,NRestarts", unitName);
          if (/ActiveState=failed/.test(state)) return "the service failed";
          // Three failed starts are unlikely to have a passing cause.
          return Number(/NRestarts=(\d+)/.exec(state)?.[1] ?? 0) >= 3 ? "the service keeps ending" : null;
        },
      };
    },
  };
}

/** Whether systemd runs this process for the unit, as its ExecStartPre. */
async function isControlProcess(): Promise<boolean> {
  const line = await command("systemctl", "show", "--property=ControlPID", unitName);
  return line.trim() === `ControlPID=${process.pid}`;
}

function processService(installed: Installation, at: Layout): Service {
  const { data } = installed;
  return {
    isRunning: async () => isHeld(data),
    async stop() {
      const pid = holderOf(places(data).lock);
      if (pid === null) {
        if (!isHeld(data)) return;
        throw new Failure("data_locked", `A process that cannot be seen from here holds ${data}`);
      }
      process.kill(pid, "SIGTERM");
      if (await lockFree(data, stopMs).catch(() => false)) return;
      process.kill(pid, "SIGKILL");
      await lockFree(data, 5_000);
    },
    async start() {
      if (isHeld(data)) return { problem: async () => null };
      const { as, cwd } = await asService(installed);
      const log = openSync(join(at.library, "serve.log"), "a", 0o600);
      try {
        // The new process gets this process's id, so that it ends itself if this process is killed right after the start. Until the
        // new process holds the data folder's lock, nobody else can find it to stop it.
        const env = { ...inheritedPath, ...settingsOf(installed), [starterName]: String(process.pid) };
        const child = startDetached(at.program, ["serve"], { as, cwd, env, log });
        let ended: string | null = null;
        child.ended.then(
          ({ code, signal }) => {
            ended = `serve ended with ${signal ?? `status ${code}`}; its log is ${join(at.library, "serve.log")}`;
          },
          (error: Error) => {
            ended = `serve could not be started: ${error.message}`;
          },
        );
        return { problem: async () => ended };
      } finally {
        closeSync(log);
      }
    },
  };
}

const inheritedPath = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" };

/** Reads the service's settings from its file. The data folder is that of the installation, unless the file sets another. */
function settingsOf({ environment, data }: Installation): Record<string, string> {
  let text = "";
  try {
    text = readFileSync(environment, "utf8");
  } catch (error) {
    if (!isErrno(error, "ENOENT")) throw error;
  }
  return { PLUMBLINE_DATA: data, ...(parseEnv(text) as Record<string, string>) };
}

/** The service's configuration. Throws config_invalid. */
export const configOf = (installed: Installation): Config => readConfig(settingsOf(installed));

/** Whether the data folder's lock is held, by an appliance or by a verb that needs the folder for itself. */
const isHeld = (data: string): boolean => isLocked(places(data).lock);

async function lockFree(data: string, withinMs: number): Promise<true> {
  for (let waited = 0; isHeld(data); waited += 100) {
    if (waited >= withinMs) throw new Failure("data_locked", `A process still holds ${data}`);
    await sleep(100);
  }
  return true;
}

/**
 * Returns the id of the process that holds a lock file, from the kernel's list /proc/locks (proc(5)); null if there is none.
 * The list is searched by inode alone, because some file systems report other device numbers there. So a process counts only
 * if it has that very file open.
 */
export function holderOf(path: string): number | null {
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file) return null;
  for (const line of readFileSync("/proc/locks", "latin1").split("\n")) {
    const [, , , mode, pid, place] = line.trim().split(/\s+/);
    if (mode !== "WRITE" || place?.split(":")[2] !== String(file.ino)) continue;
    if (hasOpen(Number(pid), file)) return Number(pid);
  }
  return null;
}

function hasOpen(pid: number, { dev, ino }: { dev: number; ino: number }): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((name) => {
      const found = statSync(`/proc/${pid}/fd/${name}`, { throwIfNoEntry: false });
      return found?.dev === dev && found.ino === ino;
    });
  } catch (error) {
    if (isErrno(error, "ENOENT", "EACCES")) return false;
    throw error;
  }
}
