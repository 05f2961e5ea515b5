// Writes files of a bundle to disk. Each file has a temporary name until it is complete and its hash has been checked again, because
// the bundle may have changed since it was opened.
import { chmod, mkdir, readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Damaged, writeParts } from "../../base/content.ts";
import { Failure } from "../../base/errors.ts";
import { isErrno, isTemporary, ownerOfTemporary, sha256OfFile, syncFolder } from "../../base/files.ts";
import { type BundledFile, filesOf } from "./manifest.ts";
import type { Bundle } from "./open.ts";

/**
 * Writes one file to `place`, whose folder must exist, and sets its mode. A file there that already has the same content is kept.
 * Throws bundle_altered, bundle_no_space.
 */
export async function extractFile(bundle: Bundle, file: BundledFile, place: string, mode: number): Promise<void> {
  await removeCutOff(place);
  if ((await hashAt(place)) !== file.sha256)
    await writeParts(bundle.read(file), file.sha256, place, () => place).catch((error) => {
      if (error instanceof Damaged)
        throw new Failure(
          "bundle_altered",
          `The bundle was changed while it was being read: ${file.path} ${error.message}`,
        );
      if (isErrno(error, "ENOSPC", "EDQUOT")) throw new Failure("bundle_no_space", undefined, { cause: error });
      throw error;
    });
  await chmod(place, mode);
  await syncFolder(dirname(place));
}

/** Removes partial copies of the file at `place` that killed processes left behind. */
async function removeCutOff(place: string): Promise<void> {
  const folder = dirname(place);
  for (const name of await readdir(folder)) {
    if (!isTemporary(name) || !name.endsWith(`-${basename(place)}`)) continue;
    if (!isRunning(ownerOfTemporary(name))) await rm(join(folder, name), { force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // EPERM means that the process is running but belongs to another user.
    return isErrno(error, "EPERM");
  }
}

const hashAt = (path: string): Promise<string | null> =>
  sha256OfFile(path).catch((error) => {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    throw error;
  });

/** Writes a model below `folder`, readable by everyone, and returns the path of the model's file or folder. */
export async function extractModel(bundle: Bundle, model: string, folder: string): Promise<string> {
  for (const file of filesOf(bundle.manifest, model)) {
    const place = join(folder, file.path);
    await makeReadable(dirname(file.path), folder);
    await extractFile(bundle, file, place, 0o644);
  }
  return join(folder, model);
}

/** Makes each folder of `path` below `below`, with mode 755 whatever the umask is. */
async function makeReadable(path: string, below: string): Promise<void> {
  let folder = below;
  for (const name of path.split("/")) {
    folder = join(folder, name);
    await mkdir(folder, { recursive: true });
    await chmod(folder, 0o755);
  }
}
