// The failure of a path at which a file cannot be written.
import { Failure } from "./errors.ts";
import { isErrno } from "./files.ts";

/** Returns the failure usage if the error says that a file cannot be written at the path, otherwise the error itself. */
export const unwritable = (path: string, error: unknown): unknown =>
  isErrno(error, "ENOENT", "ENOTDIR", "EISDIR", "EACCES", "EROFS")
    ? new Failure("usage", `${path} cannot be written: ${(error as NodeJS.ErrnoException).code}`)
    : error;
