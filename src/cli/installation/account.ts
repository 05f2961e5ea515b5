// The system user that the service runs as.
import { Failure } from "../../base/errors.ts";
import { type Account, finish, startProcess } from "../../base/processes.ts";
import type { Installation } from "./layout.ts";

/** Null if there is no such user. */
export async function findAccount(user: string): Promise<Account | null> {
  const done = await finish(startProcess("getent", ["passwd", user]), { timeoutMs: 10_000, maxBytes: 1 << 16 });
  const [, , uid, gid] = done.stdout.trim().split(":");
  return done.code === 0 ? { uid: Number(uid), gid: Number(gid) } : null;
}

/**
 * Returns the options for running the installation's programs: as the service's user, who owns everything in the data
 * folder, and with PLUMBLINE_DATA set, because a program in a single file unpacks itself there. Throws install_failed if
 * the user does not exist.
 */
export async function asService({ user, data }: Installation): Promise<AsService> {
  const as = await findAccount(user);
  if (!as) throw new Failure("install_failed", `The user ${user} does not exist`);
  return { as, cwd: "/", env: { PLUMBLINE_DATA: data } };
}

export interface AsService {
  as: Account;
  cwd: string;
  env: Record<string, string>;
}
