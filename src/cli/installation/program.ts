// Handles files of plumbline's program: asks a file for its version, compares versions, and puts a file where it runs from.
import { chmod, copyFile, lstat, mkdir, open, readlink, realpath, rename, rm, stat, symlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { installation, ownExecutable } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import { isErrno, sha256OfFile, syncFolder, temporaryName } from "../../base/files.ts";
import { finish, startProcess } from "../../base/processes.ts";
import type { AsService } from "./account.ts";

/** Limits of a program that is asked. The time is long because a program in a single file may have to unpack itself first. */
const limits = { timeoutMs: 120_000, maxBytes: 1 << 20 };
const semantic = /^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$/;

/** The file of the program that is running now: a release's executable, or the launcher of this source tree. */
export const ownProgram = (): string => ownExecutable() ?? join(installation, "bin/plumbline");

/** Asks a program for its version. Throws program_invalid. */
export async function versionOf(file: string, by: AsService): Promise<string> {
  const version = (await answerOf(file, "--version", by)).trim();
  if (!semantic.test(version)) throw invalidProgram(file, `its --version says «${version.slice(0, 60)}»`);
  return version;
}

/**
 * Throws program_invalid unless the program is plumbline. This is decided by its --help, because many other programs answer
 * --version too.
 */
export async function refuseStranger(file: string, by: AsService): Promise<void> {
  if (!(await answerOf(file, "--help", by)).startsWith("Usage: plumbline "))
    throw invalidProgram(file, "it is a different program");
}

async function answerOf(file: string, option: string, by: AsService): Promise<string> {
  const done = await finish(startProcess(file, [option], by), limits).catch((error: Error) => {
    throw invalidProgram(file, error.message);
  });
  if (done.code === 0) return done.stdout;
  throw invalidProgram(file, done.timedOut ? "it does not answer" : `it ended with ${done.code ?? done.signal}`);
}

const invalidProgram = (file: string, why: string): Failure =>
  new Failure("program_invalid", `${file} is not a plumbline executable: ${why}`);

/**
 * Compares two versions by the rules of semantic versions. Returns a number below 0 if `a` is older than `b`, and 0 if neither
 * is older. Throws program_invalid if one is not a version.
 */
export function compareVersions(a: string, b: string): number {
  const [one, other] = [partsOf(a), partsOf(b)];
  for (let at = 0; at < 3; at++)
    if (one.numbers[at] !== other.numbers[at]) return one.numbers[at]! - other.numbers[at]!;
  return comparePrereleases(one.prerelease, other.prerelease);
}

function partsOf(version: string): { numbers: number[]; prerelease: string[] } {
  const match = semantic.exec(version);
  if (!match) throw new Failure("program_invalid", `${version} is not a version number`);
  return { numbers: match.slice(1, 4).map(Number), prerelease: match[4]?.split(".") ?? [] };
}

function comparePrereleases(one: string[], other: string[]): number {
  // A release is newer than its prereleases.
  if (one.length === 0 || other.length === 0) return other.length - one.length;
  for (let at = 0; at < Math.max(one.length, other.length); at++) {
    const [a, b] = [one[at], other[at]];
    if (a === undefined || b === undefined) return one.length - other.length;
    if (a === b) continue;
    const [numberA, numberB] = [/^\d+$/.test(a), /^\d+$/.test(b)];
    if (numberA && numberB) return Number(a) - Number(b);
    // A numeric identifier is older than an alphanumeric one.
    if (numberA !== numberB) return numberA ? -1 : 1;
    return a < b ? -1 : 1;
  }
  return 0;
}

/** Whether a program is the launcher of a source tree, which works only inside that tree. */
async function isOfTree(file: string): Promise<boolean> {
  const real = await realpath(file);
  if (basename(dirname(real)) !== "bin") return false;
  const tree = dirname(dirname(real));
  return (await stat(join(tree, "src/cli/main.ts")).catch(() => null)) !== null;
}

/** Returns the file that runs once the program is at `place`: a source tree's launcher, or `place` itself. */
export const targetOf = async (file: string, place: string): Promise<string> =>
  (await isOfTree(file)) ? realpath(file) : place;

/** Whether this program is already at `place`. */
export async function isPlaced(file: string, place: string): Promise<boolean> {
  try {
    if (await isOfTree(file)) return (await readlink(place)) === (await realpath(file));
    const [one, other] = await Promise.all([stat(file), lstat(place)]);
    return other.isFile() && one.size === other.size && (await sha256OfFile(file)) === (await sha256OfFile(place));
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR", "EINVAL", "EACCES")) return false;
    throw error;
  }
}

/**
 * Copies a program to its place. A source tree's launcher is linked instead, because it needs its tree. The name appears
 * only once everything is written. Throws file_missing, program_invalid.
 */
export async function placeProgram(file: string, place: string): Promise<void> {
  const found = await stat(file).catch(() => null);
  if (!found) throw new Failure("file_missing", `The file ${file} does not exist`);
  if (!found.isFile()) throw invalidProgram(file, "it is not a file");
  // The service's user runs the program.
  await makePublicFolder(dirname(place));
  if (await isOfTree(file)) return linkDurably(await realpath(file), place);
  const temporary = temporaryName(place);
  try {
    await copyFile(file, temporary);
    await chmod(temporary, 0o755);
    const copy = await open(temporary, "r");
    await copy.sync().finally(() => copy.close());
    await rename(temporary, place);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder(dirname(place));
}

/**
 * Makes a folder, and those above it, so that everyone may enter them, whatever the umask. The modes of existing folders are not
 * changed.
 */
export async function makePublicFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true });
  if (first === undefined) return;
  for (let made = folder; made.length >= first.length; made = dirname(made)) await chmod(made, 0o755);
}

/** Makes or replaces a symbolic link in one step, so that at any moment it leads to the old or to the new target. */
export async function linkDurably(target: string, link: string): Promise<void> {
  const temporary = temporaryName(link);
  await symlink(target, temporary);
  await rename(temporary, link);
  await syncFolder(dirname(link));
}
