// The entry point of a release's executable. Unpacks the archive unless that was done before, and replaces this program with the unpacked
// Node in the same process. The unpacked folder is laid out like any installation, so the program runs there as it does elsewhere.
import { accessSync, constants } from "node:fs";
import { dirname, join } from "node:path";
import { environmentBeside, executableName, places } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { isErrno } from "../base/files.ts";
import { note, speakFailure } from "../cli/output.ts";
import { openArchive } from "./archive.ts";
import { unpack } from "./unpack.ts";

function launch(words: string[]): void {
  const environment = environmentBeside(dirname(process.execPath));
  const { runtime } = places(environment.PLUMBLINE_DATA!);
  const archive = openArchive(process.execPath);
  const folder = unpacked(archive, runtime);
  archive.close();
  const node = join(folder, archive.index.node);
  try {
    accessSync(node, constants.X_OK);
  } catch (cause) {
    throw new Failure("unpacking_failed", `${node} may not be executed`, { cause });
  }
  process.execve!(node, [node, join(folder, archive.index.program), ...words], {
    // As in bin/plumbline, which gives the reasons.
    UV_THREADPOOL_SIZE: "16",
    NODE_COMPILE_CACHE: join(folder, ".cache/compiled"),
    ...environment,
    [executableName]: process.execPath,
  });
}

/** Unpacks the archive and returns its folder. Throws unpacking_failed if the folder cannot be written. */
function unpacked(archive: ReturnType<typeof openArchive>, runtime: string): string {
  try {
    return unpack(archive, runtime, (text) => note(`plumbline: ${text}`));
  } catch (error) {
    if (isErrno(error, "EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "ENOTDIR"))
      throw new Failure("unpacking_failed", `${runtime} cannot be written: ${(error as Error).message}`, {
        cause: error,
      });
    throw error;
  }
}

try {
  launch(process.argv.slice(2));
} catch (error) {
  speakFailure(error, process.argv.includes("--json"));
}
