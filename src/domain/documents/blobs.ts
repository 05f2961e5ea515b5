// Stores content under its own SHA-256. Content is written and synced before the row that refers to it is committed, and removed
// once no row refers to it.
//
// Between a file's arrival and its row's commit, only a hold protects the file. A removal checks holds and rows and unlinks the
// file in one synchronous step. A hold taken before that step keeps the file; whoever takes a hold after it writes the file anew.
import { rmSync } from "node:fs";
import { chmod, link, open, readdir, readFile, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { contentPaths } from "../../base/config.ts";
import { isErrno, isTemporary, makeFolder, sha256, syncFolder, temporaryName } from "../../base/files.ts";

export interface Blobs {
  /** Keeps contents with these digests from being removed until the returned function is called. */
  hold(digests: string[]): () => void;
  /** Stores a file by a hard link, so the caller's own path remains. Hold the digest first. */
  keepFile(path: string, digest: string): Promise<void>;
  keep(content: Uint8Array, digest: string): Promise<void>;
  read(digest: string): Promise<Buffer>;
  /** Removes the contents with these digests that are neither held nor referenced. */
  removeUnused(digests: string[]): void;
  /** Makes the folder, and removes half-written files of an earlier process. Must be called before anything is stored. */
  prepare(): Promise<void>;
  /**
   * Removes all contents that are neither held nor referenced, and lets only the files' owner read the rest. May run concurrently
   * with every other call except `prepare`.
   */
  sweep(): Promise<void>;
}

/**
 * Lets only the owner read a file. Older versions left the rows of generated benchmarks, sealed answers included, readable by
 * everybody on the machine.
 */
async function makePrivate(path: string): Promise<void> {
  try {
    const { mode } = await stat(path);
    if ((mode & 0o077) !== 0) await chmod(path, 0o600);
  } catch (error) {
    if (!isErrno(error, "ENOENT")) throw error;
  }
}

export function createBlobs(folder: string, isReferenced: (digest: string) => boolean): Blobs {
  const holds = new Map<string, number>();

  /** The path of the content with this digest. Digests are computed by the appliance and never taken from a client. */
  function pathOf(digest: string): string {
    if (!/^[0-9a-f]{64}$/.test(digest)) throw new Error("not a digest");
    return join(folder, contentPaths.blob(digest));
  }

  function removeUnused(digests: string[]): void {
    for (const digest of digests)
      if (!holds.has(digest) && !isReferenced(digest)) rmSync(pathOf(digest), { force: true });
  }

  async function linkAs(from: string, digest: string): Promise<void> {
    const path = pathOf(digest);
    const handle = await open(from, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
    await makeFolder(dirname(path));
    try {
      await link(from, path);
    } catch (error) {
      if (!isErrno(error, "EEXIST")) throw error;
    }
    await syncFolder(dirname(path));
    await syncFolder(folder);
  }

  return {
    hold(digests) {
      for (const digest of digests) holds.set(digest, (holds.get(digest) ?? 0) + 1);
      return () => {
        for (const digest of digests) {
          const left = (holds.get(digest) ?? 1) - 1;
          if (left === 0) holds.delete(digest);
          else holds.set(digest, left);
        }
      };
    },

    keepFile: linkAs,

    async keep(content, digest) {
      const temporary = temporaryName(join(folder, "text"));
      try {
        const handle = await open(temporary, "wx", 0o600);
        await handle.writeFile(content).finally(() => handle.close());
        await linkAs(temporary, digest);
      } finally {
        await rm(temporary, { force: true });
      }
    },

    async read(digest) {
      const content = await readFile(pathOf(digest));
      if (sha256(content) !== digest) throw new Error(`blob ${digest} does not match its hash`);
      return content;
    },

    removeUnused,

    async prepare() {
      await makeFolder(folder);
      for (const name of await readdir(folder)) if (isTemporary(name)) await rm(join(folder, name), { force: true });
    },

    async sweep() {
      for (const entry of await readdir(folder, { withFileTypes: true })) {
        if (!entry.isDirectory()) continue;
        const digests = await readdir(join(folder, entry.name));
        removeUnused(digests);
        for (const digest of digests) await makePrivate(join(folder, entry.name, digest));
      }
    },
  };
}
