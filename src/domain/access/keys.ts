// Creates, rotates and revokes API keys. A key is shown once; only its prefix and digest are stored. The digest is a plain SHA-256,
// because a secret of 256 random bits needs no slow hash.
//
// A key may create and manage keys of its own user that have no more scopes than itself. A key with limits or an expiry could escape
// them through a new key, so it may create none and manage only itself. A key with the scope admin is exempt from these rules.
import { randomBytes } from "node:crypto";
import { Failure, invalid } from "../../base/errors.ts";
import { sha256 } from "../../base/files.ts";
import { newId } from "../../base/ids.ts";
import type { Clock } from "../../base/time.ts";
import type { access } from "../../contract/access.ts";
import { type Input, type Reply, type Scope, scopes } from "../../contract/endpoint.ts";
import type { Store } from "../../store/open.ts";
import type { AccessRows, KeyRow } from "./store.ts";

export type KeyRecord = Reply<(typeof access)["keys.list"]>["keys"][number];
export type NewKey = Reply<(typeof access)["keys.create"]>;
/** Settings as in the contract, with defaults filled in. */
export type KeySettings = Input<(typeof access)["keys.create"]>["body"];

/** Who acts: a user through a key, or someone at the machine. */
export interface Actor {
  name: string;
  keyId: string | null;
  requestId: string | null;
}

export type Audit = (actor: Actor, act: string, subject: string, detail?: Record<string, unknown>) => void;

export interface Keys {
  make(actor: Actor, settings: KeySettings & { user: string }, act?: string): NewKey;
  rotate(actor: Actor, id: string, graceSeconds: number): NewKey;
  /** Revokes a key. The next request with it is refused. Throws not_found if the key does not exist or is already revoked. */
  revoke(actor: Actor, id: string): void;
}

export const keyForm = /^pl_[A-Za-z0-9_-]{43}$/;
const allButAdmin = scopes.filter((scope) => scope !== "admin");

interface KeysParts {
  store: Store;
  rows: AccessRows;
  clock: Clock;
  audit: Audit;
}

export function createKeys({ store, rows, clock, audit }: KeysParts): Keys {
  function userId(name: string): string {
    const known = rows.userByName.get(name);
    if (known) return known.id;
    const id = newId("user");
    rows.addUser.run(id, name, clock.now());
    return id;
  }
  const shown = (id: string, key: string): NewKey => ({ ...keyRecord(rows.keyById.get(id)!), key });

  return {
    make: (actor, settings, act = "key.create") =>
      store.transaction(() => {
        const { key, ...secret } = newSecret();
        const id = newId("key");
        const { user, name, expires_at, requests_per_minute, tokens_per_minute, tokens_per_day } = settings;
        const granted = settings.scopes ?? allButAdmin;
        checkExpiry(expires_at, clock);
        const limits = { requests_per_minute, tokens_per_minute, tokens_per_day };
        rows.addKey.run({
          id,
          user_id: userId(user),
          name,
          ...secret,
          scopes_json: JSON.stringify(granted),
          created_at: clock.now(),
          expires_at,
          ...limits,
        });
        audit(actor, act, id, { user, scopes: granted, expires_at, ...limits });
        return shown(id, key);
      }),

    rotate: (actor, id, graceSeconds) =>
      store.transaction(() => {
        const row = rows.keyById.get(id);
        if (!row) throw new Failure("not_found", "Key not found");
        if (row.revoked_at !== null || (row.expires_at !== null && row.expires_at <= clock.now()))
          throw new Failure("conflict", "A revoked or expired key cannot be rotated: create a new one");
        const { key, ...secret } = newSecret();
        const until = new Date(Date.parse(clock.now()) + graceSeconds * 1000).toISOString();
        rows.rotate.run({ id, ...secret, until });
        audit(actor, "key.rotate", id, { grace_seconds: graceSeconds });
        return shown(id, key);
      }),

    revoke: (actor, id) =>
      store.transaction(() => {
        if (rows.revoke.run(clock.now(), id).changes === 0)
          throw new Failure("not_found", "The key does not exist, or is already revoked");
        audit(actor, "key.revoke", id);
      }),
  };
}

function newSecret(): { key: string; prefix: string; sha256: string } {
  const key = `pl_${randomBytes(32).toString("base64url")}`;
  return { key, prefix: key.slice(0, 9), sha256: sha256(key) };
}

function checkExpiry(expiresAt: string | null, clock: Clock): void {
  if (expiresAt === null) return;
  // Date would accept 31 June as 1 July.
  if (new Date(expiresAt).toISOString().slice(0, 19) !== expiresAt.slice(0, 19))
    throw invalid(["body", "expires_at"], "is not a valid date");
  if (Date.parse(expiresAt) <= Date.parse(clock.now())) throw invalid(["body", "expires_at"], "is in the past");
}

export const scopesOf = (row: { scopes_json: string }): Scope[] => JSON.parse(row.scopes_json) as Scope[];

export const isAdmin = (row: { scopes_json: string }): boolean => scopesOf(row).includes("admin");

/**
 * Returns the settings of a new key with its user filled in. Missing scopes become those of the requesting key, unless that key has
 * the scope admin. Throws forbidden if the requesting key may not grant the settings.
 */
export function grantable(own: KeyRow, settings: KeySettings): KeySettings & { user: string } {
  const user = settings.user ?? own.user_name;
  if (isAdmin(own)) return { ...settings, user };
  if (user !== own.user_name) throw new Failure("forbidden", "Keys for another user require the scope admin");
  if (isLimited(own)) throw new Failure("forbidden", "A key with limits or an expiry cannot create other keys");
  const beyond = (settings.scopes ?? []).filter((scope) => !scopesOf(own).includes(scope));
  if (beyond.length > 0) throw new Failure("forbidden", `The requesting key lacks the scope ${beyond.join(", ")}`);
  return { ...settings, user, scopes: settings.scopes ?? scopesOf(own) };
}

/**
 * Returns the target key if the requesting key may manage it. Throws forbidden, or not_found if the target does not exist or belongs to
 * another user.
 */
export function manageable(own: KeyRow, target: KeyRow | undefined): KeyRow {
  if (!target || (target.user_id !== own.user_id && !isAdmin(own))) throw new Failure("not_found", "Key not found");
  const mayMore = scopesOf(target).some((scope) => !scopesOf(own).includes(scope));
  if (!isAdmin(own) && target.id !== own.id && (isLimited(own) || mayMore))
    throw new Failure("forbidden", "That key has more rights than the requesting key");
  return target;
}

const isLimited = (row: KeyRow): boolean =>
  [row.expires_at, row.requests_per_minute, row.tokens_per_minute, row.tokens_per_day].some((one) => one !== null);

export const keyRecord = (row: KeyRow): KeyRecord => ({
  id: row.id,
  prefix: row.prefix,
  user: row.user_name,
  name: row.name,
  scopes: scopesOf(row),
  requests_per_minute: row.requests_per_minute,
  tokens_per_minute: row.tokens_per_minute,
  tokens_per_day: row.tokens_per_day,
  created_at: row.created_at,
  expires_at: row.expires_at,
  revoked_at: row.revoked_at,
  last_used_at: row.last_used_at,
  previous_until: row.previous_until,
});
