// Stores model files in their permanent place: <folder>/<sha256>.gguf, <folder>/adapters/<sha256>.gguf and
// <folder>/sources/<sha256>.json. A base is probed in a child process before the engine loads it; the file that is probed
// is the one that is kept. The trainer then reports whether it can train the base. A sentence-transformers folder is
// converted to a file first.

import { constants } from "node:fs";
import { copyFile, link, open, realpath, rm, stat } from "node:fs/promises";
import { basename, dirname, extname, isAbsolute, join } from "node:path";
import { contentPaths } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import { isErrno, makeFolder, renameDurably, sha256OfFile, temporaryName } from "../../base/files.ts";
import { labelOf } from "../../base/visible.ts";
import type { BaseRow } from "../../catalog/store.ts";
import { name } from "../../contract/common.ts";
import { compile } from "../../contract/validate.ts";
import { convertSentenceTransformer } from "../../engine/gguf/sentence-transformers/convert.ts";
import { type ModelFacts, probeModel } from "../../engine/serve/probe.ts";
import { reasonNotToTrain } from "../../engine/train/trainable.ts";
import type { Trainer } from "../../engine/train/trainer.ts";

export interface ImportSource {
  /**
   * Absolute path. It comes from the command line or the settings, or is that of an uploaded or fetched temporary file; it
   * never comes from a request.
   */
  path: string;
  /** Default: the name in the file's metadata, or else the file name. */
  name?: string;
  /** The file's original name, if its path does not contain it. */
  fileName?: string;
  /** Expected SHA-256 of the file, in hex; for a folder, that of its model.safetensors. */
  sha256?: string;
  /**
   * link: makes a hard link or, if that is impossible (for example across file systems), uses the original itself. The
   * original must not be changed afterwards.
   */
  mode: "copy" | "link";
}

export type ImportedFile = Omit<BaseRow, "id" | "created_at" | "loads_begun">;

/**
 * Reserves memory for the first load of a new file, in addition to all that is loaded. Null if the machine has less memory
 * in total; the file is then probed without being loaded. Throws out_of_memory if not enough memory is free.
 */
export type TrialRoom = (bytes: number) => Promise<{ release(): void } | null>;

/** The pool of slots that memory is estimated for. */
export interface SlotPool {
  slots: number;
  slotContext: number;
}

const checkName = compile({ type: "object", properties: { name } } as const);

export async function importFile(
  source: ImportSource,
  folder: string,
  slotPool: SlotPool,
  roomFor: TrialRoom,
  startTrainer: () => Trainer,
): Promise<ImportedFile> {
  const named = checkName({ ...(source.name === undefined ? {} : { name: source.name }) });
  if (!named.ok) throw new Failure("bad_request", named.details.map(({ msg }) => `The name ${msg}`).join("; "));
  const { path: original, isFolder } = await checked(source.path, source.fileName);
  if (isFolder && source.mode === "link")
    throw new Failure("bad_request", "A folder is converted to a new file, so it cannot be linked; leave out --link");
  await checkHash(source, isFolder ? join(original, "model.safetensors") : original);
  await makeFolder(folder);
  const staged = temporaryName(join(folder, "import.gguf"));
  try {
    const held = isFolder ? await convert(original, staged) : await stage(original, staged, source.mode);
    const facts = await probe(held, slotPool, roomFor);
    const reason = await reasonNotToAlign(held, facts, startTrainer);
    const sha256 = await sha256OfFile(held);
    const path = held === original ? original : join(folder, contentPaths.base(sha256));
    if (path !== original) await renameDurably(staged, path);
    return {
      name: source.name ?? labelOf(facts.name ?? titleOf(source.fileName ?? original)),
      kind: facts.kind,
      architecture: facts.architecture,
      context_length: facts.contextLength,
      parameters: facts.parameters,
      file_type: facts.fileType,
      bytes: facts.bytes,
      memory_bytes: facts.memoryBytes,
      can_be_aligned: reason === null ? 1 : 0,
      reason,
      license: facts.license,
      sha256,
      path,
    };
  } catch (error) {
    throw isErrno(error, "ENOSPC", "EDQUOT") ? new Failure("disk_full", undefined, { cause: error }) : error;
  } finally {
    await rm(staged, { force: true });
  }
}

async function probe(path: string, slotPool: SlotPool, roomFor: TrialRoom): Promise<ModelFacts> {
  const room = await roomFor((await stat(path)).size);
  try {
    return await probeModel(path, { slotPool, trial: room !== null });
  } finally {
    room?.release();
  }
}

/** The reason why the model cannot be aligned, as a sentence without its full stop; null if it can be. */
async function reasonNotToAlign(
  path: string,
  { kind, templateProblem }: ModelFacts,
  startTrainer: () => Trainer,
): Promise<string | null> {
  if (kind !== "text") return `A model for ${kind} does not generate text, so it cannot be aligned`;
  return (await reasonNotToTrain(startTrainer(), path)) ?? templateProblem;
}

const titleOf = (path: string): string => basename(path, extname(path)) || "model";

/** Resolves links and checks that the path is a GGUF file or a model folder. `shown` names a file that is not GGUF. */
async function checked(path: string, shown = path): Promise<{ path: string; isFolder: boolean }> {
  if (!isAbsolute(path)) throw new Failure("bad_request", "The path of a model file must be absolute");
  try {
    const original = await realpath(path);
    const facts = await stat(original);
    if (!facts.isFile() && !facts.isDirectory()) throw new Failure("model_file_type", `${path} is not a file`);
    await (facts.isFile() ? checkBeginning(original, shown) : checkFolder(original));
    return { path: original, isFolder: facts.isDirectory() };
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR"))
      throw new Failure("file_missing", `The file ${path} does not exist`, { cause: error });
    if (isErrno(error, "EACCES"))
      throw new Failure("model_invalid", `plumbline's user may not read ${path}`, { cause: error });
    throw error;
  }
}

async function checkBeginning(path: string, shown: string): Promise<void> {
  const file = await open(path, "r");
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0);
    if (buffer.toString("latin1", 0, bytesRead) !== "GGUF")
      throw new Failure("model_file_type", `${shown} does not begin like a GGUF file`);
  } finally {
    await file.close();
  }
}

async function checkFolder(folder: string): Promise<void> {
  for (const name of ["config.json", "model.safetensors"])
    if (!(await stat(join(folder, name)).catch(() => null))?.isFile())
      throw new Failure("model_file_type", `${folder} is not a model: ${name} is missing`);
}

async function checkHash({ sha256: expected, path }: ImportSource, file: string): Promise<void> {
  if (expected === undefined) return;
  const found = await sha256OfFile(file);
  if (found !== expected.toLowerCase())
    throw new Failure("model_invalid", `${path} has the SHA-256 ${found}, not ${expected}`);
}

/** Converts a sentence-transformers folder to the file `staged`, and returns its path. */
async function convert(folder: string, staged: string): Promise<string> {
  const file = await open(staged, "wx", 0o600);
  try {
    await convertSentenceTransformer(folder, file);
    await file.sync();
  } finally {
    await file.close();
  }
  return staged;
}

/** Copies or links the original to `staged`, and returns the path to import: `staged`, or the original if it cannot be linked. */
async function stage(original: string, staged: string, mode: ImportSource["mode"]): Promise<string> {
  if (mode === "copy") {
    await copyDurably(original, staged);
    return staged;
  }
  try {
    await link(original, staged);
    return staged;
  } catch (error) {
    if (isErrno(error, "EXDEV", "EPERM", "EMLINK", "ENOTSUP")) return original;
    throw error;
  }
}

/** Copies and syncs a file. The copy shares the original's blocks if the file system supports that. */
async function copyDurably(from: string, to: string): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  const handle = await open(to, "r+");
  try {
    await handle.chmod(0o600);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export interface StoredFile {
  path: string;
  sha256: string;
}

export const storeAdapter = (file: string, folder: string) => storeByHash(file, folder, contentPaths.adapter);
export const storeSources = (file: string, folder: string) => storeByHash(file, folder, contentPaths.sources);

/** Stores a file under its hash, so that the same file is stored once. */
async function storeByHash(file: string, models: string, pathOf: (sha256: string) => string): Promise<StoredFile> {
  const folder = join(models, dirname(pathOf("")));
  await makeFolder(folder);
  const staged = temporaryName(join(folder, basename(file)));
  try {
    await copyDurably(file, staged);
    const sha256 = await sha256OfFile(staged);
    const path = join(models, pathOf(sha256));
    await renameDurably(staged, path);
    return { path, sha256 };
  } catch (error) {
    throw isErrno(error, "ENOSPC", "EDQUOT") ? new Failure("disk_full", undefined, { cause: error }) : error;
  } finally {
    await rm(staged, { force: true });
  }
}

/** Removes a file, unless it is a linked original outside our folders. */
export async function removeFile(path: string, folder: string): Promise<void> {
  if (isIn(folder, path)) await rm(path, { force: true });
}

const isIn = (folder: string, path: string): boolean =>
  [folder, join(folder, "adapters"), join(folder, "sources")].includes(dirname(path));
