-- What requests with an Idempotency-Key were answered, kept for a day.
CREATE TABLE kept_reply(
  owner_id TEXT NOT NULL REFERENCES user(id),
  key TEXT NOT NULL,
  request_sha256 TEXT NOT NULL,     -- of everything that makes the request another one
  reply_json TEXT,                  -- null: what it told of was deleted since
  subjects_json TEXT NOT NULL,      -- ids of what it tells of that can be deleted
  created_at TEXT NOT NULL,
  PRIMARY KEY(owner_id, key)
) STRICT;
CREATE INDEX kept_reply_age ON kept_reply(created_at);
