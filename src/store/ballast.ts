// Keeps a reserve file for a full disk, on which SQLite cannot even delete rows. Removing the file makes room for deletions and for
// running work to finish. New work is refused well before that, when free space falls below the low-water mark.
import { open, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { Failure } from "../base/errors.ts";
import { freeBytes, isErrno, syncFolder } from "../base/files.ts";
import type { Log } from "../base/log.ts";

export interface Ballast {
  /** Throws disk_full if free space is below the low-water mark. */
  check(): Promise<void>;
  /** Whether free space was below the low-water mark at the last look. */
  isLow(): boolean;
  /** Checks the disk at once, e.g. after a write was refused, and removes or creates the reserve file. */
  look(): Promise<void>;
  close(): Promise<void>;
}

export interface BallastParts {
  path: string;
  /** Size of the ballast file; 0 keeps none. */
  bytes: number;
  /** The low-water mark, in free bytes. */
  freeDisk: number;
  log: Log;
  /** Free bytes on the disk of a folder. */
  free?: (folder: string) => Promise<number>;
}

const lookMs = 5_000;
/** Bytes that SQLite and the log may need to finish their work. */
const needed = 16 << 20;

export function createBallast({ path, bytes, freeDisk, log, free: ask = freeBytes }: BallastParts): Ballast {
  const folder = dirname(path);
  let low = false;
  let looking: Promise<void> | null = null;

  async function inspect(): Promise<void> {
    const free = await ask(folder);
    if (low !== free < freeDisk) log(low ? "info" : "warn", low ? "disk.enough" : "disk.low", { free, freeDisk });
    low = free < freeDisk;
    if (free < needed) await giveUp();
    else if (bytes > 0 && free > freeDisk + needed + bytes) await take();
  }

  async function giveUp(): Promise<void> {
    if (!(await stat(path).catch(() => null))) return;
    log("warn", "disk.ballast_given_up");
    await rm(path, { force: true });
  }

  /** Creates the file unless it exists. Writes every byte, because a sparse file would reserve no space. */
  async function take(): Promise<void> {
    if ((await stat(path).catch(() => null))?.size === bytes) return;
    try {
      const handle = await open(path, "w", 0o600);
      try {
        const part = Buffer.alloc(Math.min(bytes, 1 << 20), 0x5a);
        for (let written = 0; written < bytes; written += part.length)
          await handle.write(part, 0, Math.min(part.length, bytes - written));
        await handle.sync();
      } finally {
        await handle.close();
      }
      await syncFolder(folder);
    } catch (error) {
      if (!isErrno(error, "ENOSPC", "EDQUOT")) throw error;
      await rm(path, { force: true });
    }
  }

  const look = (): Promise<void> => {
    looking ??= inspect()
      .catch((error) => log("error", "disk.look_failed", { error }))
      .finally(() => {
        looking = null;
      });
    return looking;
  };
  const timer = setInterval(look, lookMs);
  timer.unref();
  return {
    async check() {
      if ((await ask(folder)) < freeDisk) throw new Failure("disk_full");
    },
    isLow: () => low,
    look,
    async close() {
      clearInterval(timer);
      await looking;
    },
  };
}
