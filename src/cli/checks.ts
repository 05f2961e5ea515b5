// Checks that a machine has what plumbline needs. Each check reports what was found, whether it is enough, and what to do
// if it is not.
import { access, constants, open, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { freemem, totalmem } from "node:os";
import { dirname, join } from "node:path";
import { type Config, installation, ownCommand, ownExecutable, ownRepair, places } from "../base/config.ts";
import { freeBytes, isErrno } from "../base/files.ts";
import { isLocked } from "../base/lock.ts";
import { createLog } from "../base/log.ts";
import { isLibcEnough, leastGlibc, machineHere } from "../base/machine.ts";
import { addressHint } from "./connection.ts";
import { findGpus } from "./gpu.ts";
import { lackingIn, leftoversIn, openToOthers, whileNobodyServes } from "./mend.ts";
import { bytesText } from "./output.ts";

export interface Check {
  name: string;
  ok: boolean;
  /** False if plumbline can do without it. */
  needed: boolean;
  found: string;
  /** Empty when all is well. */
  hint: string;
}

const GiB = 1 << 30;

const verdict = (name: string, ok: boolean, found: string, hint: string, needed = true): Check => ({
  name,
  ok,
  needed,
  found,
  hint: ok ? "" : hint,
});

export async function checkMachine(config: Config): Promise<Check[]> {
  const trainer = await checkTrainer(config);
  return [
    checkNode(),
    checkGlibc(),
    trainer.check,
    await checkDecodeThread(),
    await checkModel(config),
    checkMemory(config),
    await checkDisk(config),
    await checkPermissions(config),
    await checkLeftovers(config),
    await checkParts(config),
    await checkPort(config),
    await checkClock(),
    await checkGpu(trainer.noGpu),
  ];
}

function checkNode(): Check {
  const bundled = process.execPath.startsWith(join(installation, "node_modules"));
  const found = `${process.version}${bundled ? ", the bundled one" : ` at ${process.execPath}`}`;
  return verdict(
    "node",
    /^v24\./.test(process.version),
    found,
    `Start plumbline with ${ownCommand}, which uses its own Node. If that is missing: ${ownRepair}.`,
  );
}

function checkGlibc(): Check {
  const { libc, libc_version: version } = machineHere();
  const ok = libc === "glibc" && isLibcEnough(version, leastGlibc);
  const hint = `Use a system with glibc ${leastGlibc} or newer: Debian 12, Ubuntu 22.04.`;
  return verdict("glibc", ok, version || "none", hint);
}

/** Checks that the trainer starts. `noGpu` is why it cannot use a GPU; null if it can, or if the trainer does not answer. */
async function checkTrainer(config: Config): Promise<{ check: Check; noGpu: string | null }> {
  const { startTrainer } = await import("../engine/train/trainer-process.ts");
  const hint = `${ownRepair}.`;
  try {
    await access(config.trainer, constants.X_OK);
  } catch {
    return {
      check: verdict("trainer", false, `${config.trainer} does not exist or cannot be executed`, hint),
      noGpu: null,
    };
  }
  try {
    const trainer = startTrainer({ executable: config.trainer, log: createLog("error") });
    try {
      const { version, devices, noGpu } = await trainer.hello();
      const what = devices.map((device) => `${device.kind} ${device.name}`).join(", ");
      return { check: verdict("trainer", true, `${version} on ${what}`, hint), noGpu };
    } finally {
      await trainer.close();
    }
  } catch (error) {
    return { check: verdict("trainer", false, (error as Error).message, hint), noGpu: null };
  }
}

/** Checks the decode thread by loading it, because a file that exists may have been built for another system. */
export async function checkDecodeThread(at?: string): Promise<Check> {
  const { decodeThreadHint, decodeThreadPath, tryDecodeThread } = await import("../engine/serve/decode-thread.ts");
  const path = at ?? decodeThreadPath;
  const problem = tryDecodeThread(path);
  return verdict("decode thread", problem === null, problem ?? path, decodeThreadHint, false);
}

async function checkModel(config: Config): Promise<Check> {
  const hint =
    ownExecutable() === null
      ? "Run ./install.sh, or import a model with `bin/plumbline model import FILE`."
      : "Import a model with `plumbline model import FILE`, apply a bundle that contains one, or use the release that ends in -full.";
  try {
    const file = await open(config.starterModel, "r");
    try {
      const magic = Buffer.alloc(4);
      await file.read(magic, 0, 4, 0);
      const { size } = await file.stat();
      const sound = magic.toString("latin1") === "GGUF";
      return verdict("starter model", sound, sound ? bytesText(size) : "not a GGUF file", hint);
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isErrno(error, "ENOENT")) return verdict("starter model", false, `${config.starterModel} does not exist`, hint);
    return verdict("starter model", false, (error as Error).message, hint);
  }
}

function checkMemory(config: Config): Check {
  const found = `${bytesText(totalmem())}, ${bytesText(freemem())} free; plumbline may use ${bytesText(config.memory)}`;
  const hint = "A 135M model needs 2 GiB; larger models need more. Raise PLUMBLINE_MEMORY if the machine has more.";
  return verdict("memory", config.memory >= 2 * GiB, found, hint);
}

async function checkDisk(config: Config): Promise<Check> {
  const free = await freeBytes(await nearestFolder(config.data));
  const least = config.freeDisk + GiB;
  const hint = `Free some space: below ${bytesText(config.freeDisk)} new work is refused, and a run needs about 1 GiB.`;
  return verdict("disk", free >= least, `${bytesText(free)} free under ${config.data}`, hint);
}

async function nearestFolder(folder: string): Promise<string> {
  try {
    await access(folder);
    return folder;
  } catch {
    return nearestFolder(dirname(folder));
  }
}

/** Whether this user may use a folder fully. The data folder of another user may not even be listed. */
const isUsable = (folder: string): Promise<boolean> =>
  access(folder, constants.R_OK | constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  );

const permissionsHint = ({ data }: Config): string =>
  `Make ${data} a folder that only this user can read and write: run plumbline doctor --fix as the owner of the folder.`;

async function checkPermissions(config: Config): Promise<Check> {
  const folder = await nearestFolder(config.data);
  const hint = permissionsHint(config);
  if (!(await isUsable(folder))) return verdict("permissions", false, `${folder} is not writable`, hint);
  if (folder !== config.data) return verdict("permissions", true, `${config.data} can be created`, hint);
  const open = await openToOthers(folder);
  const mode = (await stat(folder)).mode & 0o777;
  const found = `${folder} is ${mode.toString(8).padStart(4, "0")}`;
  const others = open.length === 0 ? "" : `; other users can open ${open.join(", ")}`;
  return verdict("permissions", open.length === 0, `${found}${others}`, hint);
}

/** Looks for files that only waste disk space, and that `plumbline serve` removes when it starts. */
async function checkLeftovers(config: Config): Promise<Check> {
  const hint = "They take up space until the next start; plumbline doctor --fix removes them.";
  if ((await nearestFolder(config.data)) !== config.data) return verdict("leftovers", true, "none", hint, false);
  if (!(await isUsable(config.data)))
    return verdict("leftovers", false, "not looked for, without permission", permissionsHint(config), false);
  const found = await whileNobodyServes(config.data, () => leftoversIn(config.data));
  if (found === null)
    return verdict("leftovers", true, "plumbline is serving, and clears its own leftovers", hint, false);
  return verdict("leftovers", found.length === 0, found.length === 0 ? "none" : found.join(", "), hint, false);
}

/** Checks that the data folder has all the folders and database indexes that it must have besides its content. */
async function checkParts(config: Config): Promise<Check> {
  const hint =
    "Stop plumbline and run plumbline doctor --fix, which creates them. The content of a folder can only be restored from a backup.";
  try {
    const { folders, indexes } = await lackingIn(config.data);
    const missing = [...folders, ...indexes.map((index) => `the index ${index}`)];
    return verdict(
      "parts",
      missing.length === 0,
      missing.length === 0 ? "nothing is missing" : `missing: ${missing.join(", ")}`,
      hint,
    );
  } catch (error) {
    const damaged = "Restore a backup; `plumbline verify` lists what is wrong.";
    return verdict("parts", false, `the database cannot be read: ${(error as Error).message}`, damaged);
  }
}

async function checkPort(config: Config): Promise<Check> {
  const address = `${config.host}:${config.port}`;
  const problem = await listenOnce(config.host, config.port);
  if (problem === null) return verdict("port", true, `${address} is free`, "");
  if (problem !== "EADDRINUSE") return verdict("port", false, `${address}: ${problem}`, `${addressHint}.`);
  if ((await isUsable(config.data)) && isLocked(places(config.data).lock))
    return verdict("port", true, `${address} is in use by plumbline, which is serving`, "");
  const hint = "Stop the program that listens there, or choose another PLUMBLINE_PORT.";
  return verdict("port", false, `${address} is in use`, hint);
}

/** Tries to listen, and returns the error code; null if it works. */
const listenOnce = (host: string, port: number): Promise<string | null> =>
  new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen(port, host, () => server.close(() => resolve(null)));
  });

/** A clock behind the installation's own files is certainly wrong; nothing more can be checked without a network. */
async function checkClock(): Promise<Check> {
  const { mtime } = await stat(join(installation, "package.json"));
  const hint = "Set the clock; otherwise the times in records and logs are wrong.";
  return verdict("clock", Date.now() >= mtime.getTime() - 60_000, new Date().toISOString(), hint);
}

async function checkGpu(noGpu: string | null): Promise<Check> {
  const gpus = await findGpus();
  const hint = "Everything works on the CPU, but more slowly. To use a GPU, install NVIDIA's driver.";
  if ("why" in gpus) return verdict("gpu", false, gpus.why, hint, false);
  const found = gpus.found
    .map((gpu) => `${gpu.name}, ${bytesText(gpu.freeBytes)} of ${bytesText(gpu.totalBytes)} free, driver ${gpu.driver}`)
    .join("; ");
  const refused =
    "Runs train on the CPU. Install what is missing; set PLUMBLINE_CUBLASLT to cuBLASLt's file, or LD_LIBRARY_PATH to its folder.";
  if (noGpu !== null) return verdict("gpu", false, `${found}; the trainer uses the CPU: ${noGpu}`, refused, false);
  return verdict("gpu", true, `${found}; the trainer uses the first one`, hint, false);
}
