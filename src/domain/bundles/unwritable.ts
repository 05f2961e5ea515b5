// The failure of a path at which a file cannot be written.
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";

/** Returns the failure usage if the error says that a file cannot be written at the path, otherwise the error itself. */
export const unwritable = (path: string, error: unknown): unknown =>
  isErrno(error, "ENOENT", "ENOTDIR", "EACCES", "EROFS")
    ? new Failure("usage", `${path} cannot be written: ${(error as NodeJS.ErrnoException).code}`)
    : error;
