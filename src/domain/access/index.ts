// Decides who may call what and how often, and keeps the audit log of changes to the appliance itself.
import { randomBytes, timingSafeEqual } from "node:crypto";
import { Failure } from "../../base/errors.ts";
import { sha256 } from "../../base/files.ts";
import type { Clock } from "../../base/time.ts";
import { type access, graceSeconds, keySettings } from "../../contract/access.ts";
import { textOf, type Verbs } from "../../contract/admin.ts";
import { type Caller, type Endpoint, type Handlers, scopeOfTag, scopes } from "../../contract/endpoint.ts";
import { compile } from "../../contract/validate.ts";
import type { Store } from "../../store/open.ts";
import {
  type Actor,
  type Audit,
  createKeys,
  grantable,
  isAdmin,
  keyForm,
  keyRecord,
  manageable,
  scopesOf,
} from "./keys.ts";
import { createLimits, type SetHeader } from "./limits.ts";
import { accessRows, type KeyRow } from "./store.ts";

export type { Actor, Audit, KeyRecord, NewKey } from "./keys.ts";

export interface Access {
  handlers: Handlers<typeof access>;
  /** Returns the caller that a key belongs to; null if the key is unknown or no longer valid. */
  authenticate(key: string): Caller | null;
  /**
   * Checks that the caller's key may make this request now, and sets headers with what is left of its limits. Throws
   * forbidden, too_many_requests.
   */
  admit(caller: Caller, endpoint: Endpoint, setHeader: SetHeader): void;
  /** Throws forbidden unless the caller's key has the scope admin; `what` names the action in the message. */
  requireAdmin(caller: Caller, what: string): void;
  /** Whether a key exists that is not revoked. If none does at start, the appliance listens on the loopback address only. */
  anyKey(): boolean;
  /** The token for POST /claim; null while a key exists. */
  claimToken(): string | null;
  /** Writes an administrative act to the audit log, in the current transaction. Without `by`, the act was done on the machine itself. */
  audit(act: string, subject: string, detail: Record<string, unknown>, by?: Caller): void;
  /** Commands of the machine itself that create, list, revoke and rotate keys. */
  verbs: Verbs;
}

const atTheMachine: Actor = { name: "(console)", keyId: null, requestId: null };
const claimMs = 30 * 60_000;
const noDigest = "0".repeat(64);
const isSame = (a: string, b: string): boolean => timingSafeEqual(Buffer.from(a, "hex"), Buffer.from(b, "hex"));

export interface AccessParts {
  store: Store;
  clock: Clock;
  /** Called after a key is created while none exists. */
  onFirstKey: () => void;
}

export function createAccess({ store, clock, onFirstKey }: AccessParts): Access {
  const rows = accessRows(store);
  const limits = createLimits({ rows, clock });
  const token = randomBytes(20).toString("hex");
  const tokenUntilMs = clock.monotonicMs() + claimMs;
  /** The key row of each caller whose request is under way. */
  const keyOf = new WeakMap<Caller, Omit<KeyRow, "last_used_at">>();
  const anyKey = (): boolean => rows.anyKey.get()!.any === 1;

  const audit: Audit = (actor, act, subject, detail = {}) =>
    rows.addAct.run({
      seq: store.nextSeq(),
      at: clock.now(),
      actor: actor.name,
      key_id: actor.keyId,
      act,
      subject,
      detail_json: JSON.stringify(detail),
      request_id: actor.requestId,
    });
  const keys = createKeys({ store, rows, clock, audit });
  const make: typeof keys.make = (...asked) => {
    const isFirst = !anyKey();
    const made = keys.make(...asked);
    if (isFirst) onFirstKey();
    return made;
  };

  const actorOf = ({ userName, keyId }: Caller, requestId: string): Actor => ({ name: userName, keyId, requestId });
  const ownKey = (caller: Caller): KeyRow => rows.keyById.get(caller.keyId)!;

  function requireAdmin(caller: Caller, what: string): void {
    if (!isAdmin(ownKey(caller))) throw new Failure("forbidden", `${what} requires the scope admin`);
  }

  /** Id of the user whose rows are requested. Throws forbidden, not_found. */
  function askedUser(caller: Caller, name: string | undefined): string {
    if (name === undefined || name === caller.userName) return caller.userId;
    requireAdmin(caller, "Seeing another user's rows");
    const user = rows.userByName.get(name);
    if (!user) throw new Failure("not_found", "User not found");
    return user.id;
  }

  const handlers: Handlers<typeof access> = {
    "access.claim": async ({ body, requestId }) => {
      if (anyKey()) throw new Failure("already_claimed");
      if (!isSame(sha256(body.token), sha256(token)))
        throw new Failure("unauthorized", "The token is wrong: each start of the appliance prints a new one");
      if (clock.monotonicMs() > tokenUntilMs) throw new Failure("claim_expired");
      const actor: Actor = { name: body.user, keyId: null, requestId };
      const settings = settingsOf({ name: "first key", scopes });
      return make(actor, { ...settings, user: body.user }, "claim");
    },
    "keys.create": async ({ body, requestId }, caller) =>
      keys.make(actorOf(caller, requestId), grantable(ownKey(caller), body)),
    "keys.list": async ({ query }, caller) => ({
      keys: rows.keysOf.all(askedUser(caller, query.user), query.limit, query.offset).map(keyRecord),
    }),
    "keys.current": async (_, caller) => keyRecord(ownKey(caller)),
    "keys.revoke": async ({ params, requestId }, caller) => {
      const own = ownKey(caller);
      const { id } = manageable(own, rows.keyById.get(params.key_id));
      // Otherwise the last admin key could revoke itself, and nobody could create another through the API.
      if (id === own.id && isAdmin(own))
        throw new Failure("conflict", "A key with the scope admin cannot revoke itself; use another key");
      keys.revoke(actorOf(caller, requestId), id);
      limits.forget(id);
      return { id, message: "The key has been revoked" };
    },
    "keys.rotate": async ({ params, body, requestId }, caller) => {
      const { id } = manageable(ownKey(caller), rows.keyById.get(params.key_id));
      return keys.rotate(actorOf(caller, requestId), id, body.grace_seconds);
    },
    "usage.list": async ({ query }, caller) => {
      const filter = { ownerId: askedUser(caller, query.user), from: query.from ?? null, to: query.to ?? null };
      return {
        usage: rows.usage.all({ ...filter, limit: query.limit, offset: query.offset }),
        total: rows.usageTotal.get(filter)!,
      };
    },
    "users.list": async ({ query }) => ({ users: rows.users.all({ now: clock.now(), ...query }) }),
    "audit.list": async ({ query }) => ({
      acts: rows.acts.all(query.limit, query.offset).map(({ detail_json, ...row }) => ({
        ...row,
        detail: JSON.parse(detail_json) as Record<string, unknown>,
      })),
    }),
  };

  return {
    handlers,
    audit: (act, subject, detail, by) =>
      audit(by ? { name: by.userName, keyId: by.keyId, requestId: null } : atTheMachine, act, subject, detail),
    requireAdmin,
    anyKey,
    claimToken: () => (anyKey() ? null : token),

    // The look-up is by digest, so its duration reveals nothing about the key; the constant-time comparison is an extra
    // safeguard.
    authenticate(given) {
      const digest = sha256(given);
      const row = keyForm.test(given) ? rows.keyByDigest.get({ digest, now: clock.now() }) : undefined;
      const [same, before] = [row?.sha256 ?? noDigest, row?.previous_sha256 ?? noDigest].map((one) =>
        isSame(digest, one),
      );
      if (!row || !(same || before)) return null;
      const caller = { userId: row.user_id, userName: row.user_name, keyId: row.id };
      keyOf.set(caller, same ? { ...row, previous_until: null } : row);
      return caller;
    },

    admit(caller, endpoint, setHeader) {
      const key = keyOf.get(caller)!;
      const scope = scopeOfTag[endpoint.tag];
      if (!endpoint.anyScope && (!scope || !scopesOf(key).includes(scope)))
        throw new Failure("forbidden", `The key lacks the scope ${scope}`);
      // The request used the secret from before the last rotation, so tell the client as RFC 9745 and RFC 8594 define.
      if (key.previous_until !== null) {
        setHeader("deprecation", `@${Math.floor(Date.parse(clock.now()) / 1000)}`);
        setHeader("sunset", new Date(key.previous_until).toUTCString());
      }
      limits.admit(key, endpoint.tag === "inference" || endpoint.generates === true, setHeader);
    },

    verbs: {
      "key.create": (args) => {
        const settings = settingsOf(args);
        if (settings.user === undefined) throw new Failure("bad_request", "user is missing");
        return make(atTheMachine, { ...settings, user: settings.user });
      },
      "key.list": () => rows.keys.all().map(keyRecord),
      "key.revoke": (args) => keys.revoke(atTheMachine, textOf(args, "id")),
      "key.rotate": (args) => {
        const { id, grace_seconds } = checkedArgs(rotation, args);
        return keys.rotate(atTheMachine, id, grace_seconds);
      },
    },
  };
}

const checkSettings = compile(keySettings);
const rotation = compile({
  type: "object",
  additionalProperties: false,
  required: ["id"],
  properties: { id: { type: "string" }, grace_seconds: graceSeconds },
} as const);

const settingsOf = (args: unknown) => checkedArgs(checkSettings, args);

/** Returns a copy of a command's arguments with defaults filled in. Throws bad_request if they do not fit the schema. */
function checkedArgs<T>(
  check: (value: unknown) => { ok: true; value: T } | { ok: false; details: { loc: unknown[]; msg: string }[] },
  args: unknown,
): T {
  const checked = check(structuredClone(args));
  if (checked.ok) return checked.value;
  throw new Failure("bad_request", checked.details.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; "));
}
