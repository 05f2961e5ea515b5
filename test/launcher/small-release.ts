// A small archive behind a few bytes that stand for the executable, and a process that unpacks it.
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { appendArchive } from "../../release/archive.ts";
import { startNode } from "../../src/base/processes.ts";
import { openArchive } from "../../src/launcher/archive.ts";
import { unpack } from "../../src/launcher/unpack.ts";

export interface SmallRelease {
  executable: string;
  contents: Record<string, Buffer>;
}

/** Some megabytes in `files` files, one of them empty, one of them executable, two alike. */
export function makeRelease(folder: string, files = 12, mark = "first"): SmallRelease {
  const contents: Record<string, Buffer> = {
    "empty.txt": Buffer.alloc(0),
    "bin/node": Buffer.from(`#!/bin/sh\necho ${mark}\n`),
    "twin.txt": Buffer.from(`#!/bin/sh\necho ${mark}\n`),
  };
  for (let at = 0; at < files; at++)
    contents[`parts/${at % 3}/${at}.bin`] = Buffer.from(`${mark} ${at} `.repeat(40_000 + 1000 * at));
  const sources = join(folder, `sources-${mark}`);
  for (const [path, content] of Object.entries(contents)) {
    mkdirSync(dirname(join(sources, path)), { recursive: true });
    writeFileSync(join(sources, path), content, { mode: path === "bin/node" ? 0o755 : 0o644 });
  }
  const executable = join(folder, `plumbline-${mark}`);
  writeFileSync(executable, "an executable");
  const paths = Object.keys(contents).sort();
  appendArchive(executable, {
    ...{ program: "parts/0/0.bin", node: "bin/node" },
    files: paths.map((path) => ({ path, from: join(sources, path) })),
  });
  return { executable, contents };
}

/** Content and mode of every file below a folder. The seal is not part of the archive. */
export const filesIn = (folder: string): Record<string, Buffer> =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name !== ".seal")
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [relative(folder, path), readFileSync(path)]),
  );

export const isExecutable = (path: string): boolean => (statSync(path).mode & 0o777) === 0o755;

export function unpackHere(release: SmallRelease, runtime: string): { folder: string; said: string[] } {
  const archive = openArchive(release.executable);
  const said: string[] = [];
  try {
    return { folder: unpack(archive, runtime, (text) => said.push(text)), said };
  } finally {
    archive.close();
  }
}

export const unpackInProcess = (release: SmallRelease, runtime: string) =>
  startNode(import.meta.filename, [release.executable, runtime]);

if (process.argv[1] === import.meta.filename) {
  const [executable, runtime] = process.argv.slice(2);
  process.stdout.write(unpackHere({ executable: executable!, contents: {} }, runtime!).folder);
}
