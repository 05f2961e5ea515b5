ALTER TABLE base_model ADD COLUMN kind TEXT NOT NULL DEFAULT 'text' CHECK(kind IN('text', 'embedding', 'rerank'));

CREATE TABLE response(              -- what the Responses endpoint keeps, until its owner deletes it
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  response_json TEXT NOT NULL,      -- as it was answered
  messages_json TEXT NOT NULL,      -- the conversation with its answer, which a next response goes on from
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX response_owner ON response(owner_id);
