// The system user that the service runs as.
import { finish, startProcess } from "../../base/processes.ts";

export interface Account {
  uid: number;
  gid: number;
}

/** Null if there is no such user. */
export async function findAccount(user: string): Promise<Account | null> {
  const done = await finish(startProcess("getent", ["passwd", user]), { timeoutMs: 10_000, maxBytes: 1 << 16 });
  const [, , uid, gid] = done.stdout.trim().split(":");
  return done.code === 0 ? { uid: Number(uid), gid: Number(gid) } : null;
}
