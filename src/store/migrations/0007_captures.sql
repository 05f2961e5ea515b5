-- Served traffic that its owner wants kept: off until a row says so.
CREATE TABLE capture_setting(
  kind TEXT NOT NULL CHECK(kind IN('agent', 'key')),
  subject_id TEXT NOT NULL,         -- the agent or the key
  owner_id TEXT NOT NULL REFERENCES user(id),
  masking INTEGER NOT NULL CHECK(masking IN(0, 1)),
  created_at TEXT NOT NULL,
  PRIMARY KEY(kind, subject_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX capture_setting_owner ON capture_setting(owner_id);

CREATE TABLE capture(               -- a question and its answer, masked before it was written where the setting says so
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  kind TEXT NOT NULL CHECK(kind IN('agent', 'key')),
  subject_id TEXT NOT NULL,
  model_id TEXT NOT NULL,
  question TEXT NOT NULL,
  answer TEXT NOT NULL,
  confidence REAL CHECK(confidence BETWEEN 0 AND 100),
  masked INTEGER NOT NULL CHECK(masked >= 0),
  used_in TEXT,                     -- the document or benchmark that was made of it
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX capture_owner ON capture(owner_id, created_seq);
