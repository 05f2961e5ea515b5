// Turns the error of a full disk into the failure that backups and restores report.
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";

export const noSpace = (error: unknown): unknown =>
  isErrno(error, "ENOSPC", "EDQUOT") ? new Failure("backup_no_space", undefined, { cause: error }) : error;
