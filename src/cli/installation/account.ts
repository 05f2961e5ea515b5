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
 * How programs of the installation are run: as the service's user, to whom everything in the data folder belongs, and
 * with its data folder, where a program in one file unpacks itself. Throws install_failed.
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
