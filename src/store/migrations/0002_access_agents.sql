-- Who may do what, and how much; who did what; recorded auto-align requests; agents; where base models came from.

ALTER TABLE api_key ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE api_key ADD COLUMN scopes_json TEXT NOT NULL
  DEFAULT '["inference","documents","alignments","models","agents","keys"]';
ALTER TABLE api_key ADD COLUMN expires_at TEXT;
ALTER TABLE api_key ADD COLUMN requests_per_minute INTEGER CHECK(requests_per_minute > 0);
ALTER TABLE api_key ADD COLUMN tokens_per_minute INTEGER CHECK(tokens_per_minute > 0);
ALTER TABLE api_key ADD COLUMN tokens_per_day INTEGER CHECK(tokens_per_day > 0);
ALTER TABLE api_key ADD COLUMN previous_sha256 TEXT;      -- before the last rotation
ALTER TABLE api_key ADD COLUMN previous_until TEXT;       -- until then it still opens
CREATE INDEX api_key_user ON api_key(user_id);
CREATE UNIQUE INDEX api_key_previous ON api_key(previous_sha256) WHERE previous_sha256 IS NOT NULL;

ALTER TABLE usage ADD COLUMN ended_at TEXT;               -- when it was charged; null while it is open
UPDATE usage SET ended_at = created_at WHERE outcome <> 'open';
CREATE INDEX usage_key ON usage(key_id, ended_at, prompt_tokens, completion_tokens);
CREATE INDEX usage_owner ON usage(owner_id, created_at);
-- Whoever closes a row, it is charged at that moment: limits are read from these rows, so none can be passed by.
CREATE TRIGGER usage_charged AFTER UPDATE OF outcome ON usage WHEN OLD.outcome = 'open' AND NEW.outcome <> 'open'
  BEGIN UPDATE usage SET ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE request_id = NEW.request_id; END;

CREATE TABLE audit(                 -- administrative acts, each written in the transaction of the act
  seq INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  actor TEXT NOT NULL,              -- a user's name, or who sat at the machine
  key_id TEXT,                      -- null at the machine
  act TEXT NOT NULL,
  subject TEXT NOT NULL,
  detail_json TEXT NOT NULL,
  request_id TEXT
) STRICT;
CREATE TRIGGER audit_fixed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'audit: append-only'); END;
CREATE TRIGGER audit_kept BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'audit: append-only'); END;

CREATE TABLE auto_align(
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  alignment_id TEXT NOT NULL REFERENCES alignment(id),
  status TEXT NOT NULL DEFAULT 'RECORDED' CHECK(status IN('RECORDED')),
  request_json TEXT NOT NULL,       -- all but the configuration
  config_text TEXT NOT NULL,        -- the configuration as it was sent, byte for byte
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX auto_align_alignment ON auto_align(alignment_id, created_seq);

CREATE TABLE agent(
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  model_id TEXT NOT NULL,           -- base or aligned; may be gone
  model_name TEXT NOT NULL,
  system_prompt TEXT NOT NULL,
  temperature REAL NOT NULL CHECK(temperature BETWEEN 0 AND 2),
  saves_conversations INTEGER NOT NULL CHECK(saves_conversations IN(0, 1)),
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX agent_owner ON agent(owner_id, created_seq);

CREATE TABLE agent_run(             -- a row per answer; its tokens stand in usage under the same request
  request_id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agent(id),
  seconds REAL NOT NULL,
  confidence REAL,
  at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_run_agent ON agent_run(agent_id);

CREATE TABLE agent_turn(            -- conversations that are saved; an empty session holds single questions
  seq INTEGER PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agent(id),
  session TEXT NOT NULL,
  role TEXT NOT NULL CHECK(role IN('user', 'assistant')),
  content TEXT NOT NULL,
  at TEXT NOT NULL
) STRICT;
CREATE INDEX agent_turn_session ON agent_turn(agent_id, session, seq);

CREATE TABLE agent_feedback(
  seq INTEGER PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agent(id),
  rating REAL CHECK(rating BETWEEN 0 AND 100),
  intervention INTEGER NOT NULL CHECK(intervention IN(0, 1)),
  at TEXT NOT NULL
) STRICT;
CREATE INDEX agent_feedback_agent ON agent_feedback(agent_id);

CREATE TABLE base_model_source(     -- the hub's name of a base model, where it has one
  source TEXT PRIMARY KEY,          -- hf://organisation/name/file
  base_model_id TEXT NOT NULL REFERENCES base_model(id),
  revision TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
