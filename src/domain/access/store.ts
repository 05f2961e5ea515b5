// All SQL of users and keys.
import type { Store } from "../../store/open.ts";

export interface KeyRow {
  id: string;
  user_id: string;
  user_name: string;
  prefix: string;
  sha256: string;
  created_at: string;
  revoked_at: string | null;
}

const columns = "api_key.id, user_id, user.name AS user_name, prefix, sha256, api_key.created_at, revoked_at";

export function accessRows(store: Store) {
  return {
    userByName: store.prepare<[string], { id: string }>("SELECT id FROM user WHERE name = ?"),
    addUser: store.prepare<[string, string, string]>("INSERT INTO user(id, name, created_at) VALUES(?, ?, ?)"),
    addKey: store.prepare<[string, string, string, string, string]>(
      "INSERT INTO api_key(id, user_id, prefix, sha256, created_at) VALUES(?, ?, ?, ?, ?)",
    ),
    keyByDigest: store.prepare<[string], KeyRow>(
      `SELECT ${columns} FROM api_key JOIN user ON user.id = user_id WHERE sha256 = ? AND revoked_at IS NULL`,
    ),
    keys: store.prepare<[], KeyRow>(
      `SELECT ${columns} FROM api_key JOIN user ON user.id = user_id ORDER BY api_key.created_at, api_key.id`,
    ),
    revoke: store.prepare<[string, string]>("UPDATE api_key SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL"),
    anyKey: store.prepare<[], { any: number }>("SELECT EXISTS(SELECT 1 FROM api_key WHERE revoked_at IS NULL) AS any"),
  };
}
