// Reaches the appliance: by its address and the user's key, or on the machine itself by its admin socket, without a key.
import { readFile, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { type Config, readConfig } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { isErrno, makeFolder, writeFileDurably } from "../base/files.ts";
import { createLog } from "../base/log.ts";
import { type Client, createClient } from "./client.ts";

/** The file that keeps a user's key, so that the key appears on no command line and in no shell history. */
export const keyFile = (): string => join(homedir(), ".config/plumbline/key");

/** Returns a client of the configured appliance, with the user's key. Throws key_missing, config_invalid. */
export async function connect(config: Config = readConfig()): Promise<Client> {
  const key = config.key === "" ? await readKey(keyFile()) : config.key;
  if (key === null) throw new Failure("key_missing");
  // A key that was shortened when it was copied ends with «…», which no header can carry.
  if (!/^[\x20-\x7e]*$/.test(key.trim()))
    throw new Failure("config_invalid", "The API key contains characters that no key has: copy the whole key");
  return createClient(addressOf(config), key);
}

export function addressOf({ address, host, port }: Pick<Config, "address" | "host" | "port">): string {
  if (address !== "") return address;
  // An appliance that listens on all addresses is reached at the loopback address.
  const own = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${own.includes(":") ? `[${own}]` : own}:${port}`;
}

/** What to do if the system does not let a program listen at an address, although no other does. */
export const addressHint =
  "Set PLUMBLINE_HOST to an address of this machine, and PLUMBLINE_PORT to a port that this user may use";

/** Performs a verb that needs no key, with or without a running appliance. Throws what callAdmin throws. */
export async function admin(verb: string, args: unknown = {}): Promise<unknown> {
  // Loaded late, because it loads the whole appliance.
  const { callAdmin } = await import("./admin.ts");
  return callAdmin(readConfig(), createLog("warn"), verb, args);
}

async function readKey(path: string): Promise<string | null> {
  try {
    const { mode } = await stat(path);
    if ((mode & 0o077) !== 0)
      throw new Failure("config_invalid", `Other users can read the key in ${path}: run chmod 600 on it`);
    return (await readFile(path, "utf8")).trim();
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    throw error;
  }
}

/** Throws usage if a key is saved already. Call this before creating a key that is to be saved. */
export async function refuseSecondKey(path = keyFile()): Promise<void> {
  if (await stat(path).catch(() => null))
    throw new Failure("usage", `${path} already contains a key; remove the file, or leave out --save`);
}

/** Throws key_unsaved. A new key is shown only once, so the caller must print one that could not be saved. */
export async function saveKey(key: string, path = keyFile()): Promise<void> {
  try {
    await makeFolder(dirname(path));
    await writeFileDurably(path, `${key}\n`);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Failure("key_unsaved", `The key was created, but could not be saved: ${why}`, { cause: error });
  }
}
