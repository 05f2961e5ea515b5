// Content under its own sha256: written and synced before the row that refers to it is committed, removed once no row does.
//
// Between a file's arrival and its row's commit only the hold keeps it: a removal checks holds and rows and unlinks without
// giving way, so whoever takes a hold first keeps the file, and whoever comes after makes it anew.
import { rmSync } from "node:fs";
import { chmod, link, open, readdir, readFile, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { contentPaths } from "../../base/config.ts";
import { isErrno, isTemporary, makeFolder, sha256, syncFolder, temporaryName } from "../../base/files.ts";

export interface Blobs {
  /** Until the function returned is called, what has these digests is not removed. */
  hold(digests: string[]): () => void;
  /** Takes a file in by a second link; the caller's own name for it stays the caller's. Hold its digest first. */
  keepFile(path: string, digest: string): Promise<void>;
  keep(content: Uint8Array, digest: string): Promise<void>;
  read(digest: string): Promise<Buffer>;
  /** Of these, removes what is neither held nor referenced. */
  removeUnused(digests: string[]): void;
  /** Before anything is taken in: removes half-written files of an earlier life. */
  prepare(): Promise<void>;
  /** Removes everything that is neither held nor referenced; what is left becomes its owner's alone. May run beside anything else. */
  sweep(): Promise<void>;
}

/** Rows of made benchmarks, sealed answers included, were once left to everybody on the machine to read. */
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

  /** Digests are ours, never a client's word. */
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
      if (sha256(content) !== digest) throw new Error(`blob ${digest} is not what was stored`);
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
