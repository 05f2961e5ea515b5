-- Benchmarks that are made from documents, and later versions of any benchmark.
ALTER TABLE benchmark ADD COLUMN version INTEGER NOT NULL DEFAULT 1 CHECK(version >= 1);
ALTER TABLE benchmark ADD COLUMN previous_id TEXT REFERENCES benchmark(id);
ALTER TABLE benchmark ADD COLUMN struck_json TEXT;      -- the items of the previous version that were struck, and why
ALTER TABLE benchmark ADD COLUMN draft_id TEXT REFERENCES benchmark_draft(id);    -- what it was made by; null: uploaded

CREATE TABLE benchmark_draft(       -- the making of a benchmark, under the id that the benchmark will have
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  name TEXT NOT NULL,
  document_ids_json TEXT NOT NULL,
  settings_json TEXT NOT NULL,
  gates_json TEXT NOT NULL DEFAULT '{"gates":[],"categories":{}}',    -- how many came to each gate and how many passed
  phase TEXT NOT NULL DEFAULT 'queued' CHECK(phase IN('queued', 'reading', 'phrasing', 'checking', 'done')),
  seconds REAL NOT NULL DEFAULT 0,          -- spent in this phase
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
) STRICT;
CREATE INDEX benchmark_draft_owner ON benchmark_draft(owner_id, created_seq);

CREATE TABLE benchmark_candidate(   -- in the order they are checked, so that a restart checks none twice
  draft_id TEXT NOT NULL REFERENCES benchmark_draft(id),
  position INTEGER NOT NULL CHECK(position >= 0),
  draft_json TEXT NOT NULL,
  phrased_json TEXT,                -- what a model made of the question, or null where it was of no use
  verdict_json TEXT,
  PRIMARY KEY(draft_id, position)
) STRICT, WITHOUT ROWID;

-- A further kind of work; a CHECK cannot be altered, so the table and the one that refers to it are built again.
ALTER TABLE job RENAME TO job_before;
CREATE TABLE job(
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  kind TEXT NOT NULL CHECK(kind IN('align', 'evaluate', 'deploy', 'undeploy', 'generate')),
  subject_id TEXT NOT NULL,         -- alignment, evaluation, model or benchmark
  state TEXT NOT NULL CHECK(state IN('queued', 'running', 'stopping', 'succeeded', 'failed', 'stopped')),
  fence INTEGER NOT NULL DEFAULT 0,         -- +1 at each claim; every later write presents it
  epoch INTEGER,                            -- supervisor epoch of this attempt
  attempt INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL DEFAULT 5,
  error_code TEXT,
  error_text TEXT,
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  finished_at TEXT,
  CHECK((state IN('running', 'stopping')) = (epoch IS NOT NULL)),
  CHECK((state IN('succeeded', 'failed', 'stopped')) = (finished_at IS NOT NULL)),
  CHECK((state = 'failed') = (error_code IS NOT NULL))
) STRICT;
INSERT INTO job SELECT * FROM job_before;

CREATE TABLE job_history(           -- the history of moves: append-only, contiguous, legal
  job_id TEXT NOT NULL REFERENCES job(id),
  seq INTEGER NOT NULL CHECK(seq >= 1),
  fence INTEGER NOT NULL,
  from_state TEXT,
  to_state TEXT NOT NULL,
  at TEXT NOT NULL,
  detail TEXT,
  PRIMARY KEY(job_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO job_history SELECT * FROM job_event;
DROP TABLE job_event;
DROP TABLE job_before;
ALTER TABLE job_history RENAME TO job_event;

CREATE UNIQUE INDEX job_one_live ON job(
  subject_id, CASE WHEN kind IN('deploy', 'undeploy') THEN 'deployment' ELSE kind END
) WHERE state IN('queued', 'running', 'stopping');
CREATE INDEX job_state ON job(state, created_seq);
CREATE TRIGGER job_moves_legally BEFORE UPDATE OF state ON job WHEN NEW.state <> OLD.state
  AND NOT EXISTS(SELECT 1 FROM job_edge WHERE from_state = OLD.state AND to_state = NEW.state)
  BEGIN SELECT RAISE(ABORT, 'job: illegal move'); END;
CREATE TRIGGER job_event_contiguous BEFORE INSERT ON job_event
  WHEN NEW.seq <> 1 + (SELECT coalesce(max(seq), 0) FROM job_event WHERE job_id = NEW.job_id)
  BEGIN SELECT RAISE(ABORT, 'job_event: gap in seq'); END;
CREATE TRIGGER job_event_fixed BEFORE UPDATE ON job_event BEGIN SELECT RAISE(ABORT, 'job_event: append-only'); END;
CREATE TRIGGER job_event_kept BEFORE DELETE ON job_event BEGIN SELECT RAISE(ABORT, 'job_event: append-only'); END;
