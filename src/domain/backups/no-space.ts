// A full disk as the failure that a backup and a restore tell.
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";

export const noSpace = (error: unknown): unknown =>
  isErrno(error, "ENOSPC", "EDQUOT") ? new Failure("backup_no_space", undefined, { cause: error }) : error;
