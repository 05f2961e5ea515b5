// Who may call. A key is shown once, when it is made; kept is its digest. 256 random bits need no slow hash.
import { randomBytes, timingSafeEqual } from "node:crypto";
import { Failure } from "../../base/errors.ts";
import { sha256 } from "../../base/files.ts";
import { newId } from "../../base/ids.ts";
import type { Clock } from "../../base/time.ts";
import type { Caller } from "../../contract/endpoint.ts";
import type { Store } from "../../store/open.ts";
import { accessRows } from "./store.ts";

export interface NewKey {
  id: string;
  /** What a person recognises it by. */
  prefix: string;
  /** The whole key: nobody can show it a second time. */
  key: string;
  user: string;
}

export interface KeyRecord {
  id: string;
  prefix: string;
  user: string;
  created_at: string;
  revoked_at: string | null;
}

export interface Access {
  /** Makes the user where there is none of that name. */
  createKey(userName: string): NewKey;
  listKeys(): KeyRecord[];
  /** The next request with that key is refused. */
  revokeKey(id: string): void;
  authenticate(key: string): Caller | null;
  /** Without one, only this machine may call. */
  anyKey(): boolean;
}

const keyForm = /^pl_[A-Za-z0-9_-]{43}$/;
const noDigest = "0".repeat(64);

export function createAccess({ store, clock }: { store: Store; clock: Clock }): Access {
  const rows = accessRows(store);

  function userId(name: string): string {
    const known = rows.userByName.get(name);
    if (known) return known.id;
    const id = newId("user");
    rows.addUser.run(id, name, clock.now());
    return id;
  }

  return {
    createKey(userName) {
      if (!/^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$/.test(userName))
        throw new Failure(
          "bad_request",
          "A user's name is letters, digits and . _ @ -, at most 100, a letter or digit first",
        );
      const key = `pl_${randomBytes(32).toString("base64url")}`;
      const id = newId("key");
      const prefix = key.slice(0, 9);
      store.transaction(() => rows.addKey.run(id, userId(userName), prefix, sha256(key), clock.now()));
      return { id, prefix, key, user: userName };
    },

    listKeys: () =>
      rows.keys.all().map(({ id, prefix, user_name, created_at, revoked_at }) => ({
        id,
        prefix,
        user: user_name,
        created_at,
        revoked_at,
      })),

    revokeKey(id) {
      if (rows.revoke.run(clock.now(), id).changes === 0)
        throw new Failure("not_found", "No such key, or revoked already");
    },

    // A digest is looked up, so the time of the look-up says nothing about the key; it is compared once more all the same.
    authenticate(key) {
      const digest = sha256(key);
      const row = keyForm.test(key) ? rows.keyByDigest.get(digest) : undefined;
      const same = timingSafeEqual(Buffer.from(digest, "hex"), Buffer.from(row?.sha256 ?? noDigest, "hex"));
      return row && same ? { userId: row.user_id, userName: row.user_name, keyId: row.id } : null;
    },

    anyKey: () => rows.anyKey.get()?.any === 1,
  };
}
