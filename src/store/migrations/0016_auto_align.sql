-- Auto-aligns are carried out. Each has a row of `alignment` under its own id, which no client sees: so the queue, budgets, progress and
-- the registration of models work for it as for any alignment.
ALTER TABLE alignment ADD COLUMN auto_align_of TEXT;          -- of such a row: the project, which may be gone where a model of it stays
CREATE INDEX alignment_auto_align ON alignment(auto_align_of) WHERE auto_align_of IS NOT NULL;
-- A subject may have had several jobs: the latest one counts.
CREATE INDEX job_subject ON job(subject_id, kind, created_seq);

CREATE TABLE auto_align_next(
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  alignment_id TEXT NOT NULL REFERENCES alignment(id),
  status TEXT NOT NULL DEFAULT 'RECORDED' CHECK(status IN(
    'RECORDED', 'PLANNING', 'RUNNING', 'PAUSED', 'REACHED', 'BUDGET_SPENT', 'STOPPED', 'FAILED')),
  request_json TEXT NOT NULL,       -- all but the configuration
  config_text TEXT NOT NULL,        -- the configuration as it was sent, byte for byte
  phase TEXT,                       -- the kind of phase under way, while one is
  phases INTEGER NOT NULL DEFAULT 0 CHECK(phases >= 0),     -- that have run
  dev_json TEXT,                    -- score of the best checkpoint, with its interval
  hours REAL NOT NULL DEFAULT 0 CHECK(hours >= 0),          -- of the device, so far
  confirmed INTEGER CHECK(confirmed IN(0, 1)),
  looks_json TEXT NOT NULL DEFAULT '[]',    -- what the sealed questions said so far
  help_json TEXT NOT NULL DEFAULT '[]',     -- what would help, the most helpful first
  resumed_after INTEGER NOT NULL DEFAULT 0 CHECK(resumed_after >= 0),   -- phases that had run when a pause was last ended
  stopping INTEGER NOT NULL DEFAULT 0 CHECK(stopping IN(0, 1)),         -- no further phase begins
  error_code TEXT,
  error_text TEXT,
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  ended_at TEXT,
  CHECK((status IN('REACHED', 'BUDGET_SPENT', 'STOPPED', 'FAILED')) = (ended_at IS NOT NULL)),
  CHECK((status = 'FAILED') = (error_code IS NOT NULL)),
  CHECK((status = 'FAILED') = (error_text IS NOT NULL)),
  CHECK(phase IS NULL OR status = 'RUNNING'),
  CHECK(confirmed IS NULL OR status = 'REACHED')
) STRICT;
INSERT INTO auto_align_next(id, owner_id, alignment_id, request_json, config_text, created_seq, created_at, updated_at)
  SELECT id, owner_id, alignment_id, request_json, config_text, created_seq, created_at, created_at FROM auto_align;
DROP TABLE auto_align;
ALTER TABLE auto_align_next RENAME TO auto_align;
CREATE INDEX auto_align_alignment ON auto_align(alignment_id, created_seq);

CREATE TABLE auto_align_edge(from_status TEXT NOT NULL, to_status TEXT NOT NULL, PRIMARY KEY(from_status, to_status)) STRICT, WITHOUT ROWID;
INSERT INTO auto_align_edge VALUES
  ('RECORDED', 'PLANNING'), ('RECORDED', 'STOPPED'),
  ('PLANNING', 'RUNNING'), ('PLANNING', 'STOPPED'), ('PLANNING', 'FAILED'),
  ('RUNNING', 'PAUSED'), ('RUNNING', 'REACHED'), ('RUNNING', 'BUDGET_SPENT'), ('RUNNING', 'STOPPED'), ('RUNNING', 'FAILED'),
  ('PAUSED', 'RUNNING');
CREATE TRIGGER auto_align_begins BEFORE INSERT ON auto_align WHEN NEW.status <> 'RECORDED'
  BEGIN SELECT RAISE(ABORT, 'auto_align: illegal beginning'); END;
CREATE TRIGGER auto_align_moves_legally BEFORE UPDATE OF status ON auto_align WHEN NEW.status <> OLD.status
  AND NOT EXISTS(SELECT 1 FROM auto_align_edge WHERE from_status = OLD.status AND to_status = NEW.status)
  BEGIN SELECT RAISE(ABORT, 'auto_align: illegal move'); END;

CREATE TABLE auto_align_card(       -- why this and nothing else; a run that was killed tells its last one again
  auto_align_id TEXT NOT NULL REFERENCES auto_align(id) ON DELETE CASCADE,
  step INTEGER NOT NULL CHECK(step >= 0),   -- decisions that were carried out before
  next TEXT NOT NULL CHECK(next IN('phase', 'look', 'end')),    -- a pause that was ended is followed by a decision of the same step
  card_json TEXT NOT NULL,
  created_seq INTEGER NOT NULL,
  at TEXT NOT NULL,
  PRIMARY KEY(auto_align_id, step, next)
) STRICT, WITHOUT ROWID;

CREATE TABLE auto_align_move(       -- the history of statuses, and of phases that began: append-only, contiguous
  auto_align_id TEXT NOT NULL REFERENCES auto_align(id) ON DELETE CASCADE,
  seq INTEGER NOT NULL CHECK(seq >= 1),
  from_status TEXT NOT NULL,
  to_status TEXT NOT NULL,
  phase TEXT,
  at TEXT NOT NULL,
  PRIMARY KEY(auto_align_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER auto_align_move_contiguous BEFORE INSERT ON auto_align_move
  WHEN NEW.seq <> 1 + (SELECT coalesce(max(seq), 0) FROM auto_align_move WHERE auto_align_id = NEW.auto_align_id)
  BEGIN SELECT RAISE(ABORT, 'auto_align_move: gap in seq'); END;
CREATE TRIGGER auto_align_move_fixed BEFORE UPDATE ON auto_align_move
  BEGIN SELECT RAISE(ABORT, 'auto_align_move: append-only'); END;

-- A look is a use of the sealed split too. evaluation_id is then the auto-align's, model_id its checkpoint's.
CREATE TABLE sealed_touch_next(     -- each use of a benchmark's sealed split: whoever looks often enough finds what is not there
  seq INTEGER PRIMARY KEY,
  benchmark_id TEXT NOT NULL,       -- it, the evaluation and the model may be gone
  evaluation_id TEXT NOT NULL,
  model_id TEXT NOT NULL,           -- base or aligned
  purpose TEXT NOT NULL CHECK(purpose IN('evaluation', 'comparison', 'promotion', 'look')),
  at TEXT NOT NULL
) STRICT;
INSERT INTO sealed_touch_next SELECT * FROM sealed_touch;
DROP TABLE sealed_touch;
ALTER TABLE sealed_touch_next RENAME TO sealed_touch;
CREATE INDEX sealed_touch_benchmark ON sealed_touch(benchmark_id, seq);
CREATE UNIQUE INDEX sealed_touch_evaluation ON sealed_touch(evaluation_id) WHERE purpose = 'evaluation';
CREATE UNIQUE INDEX sealed_touch_look ON sealed_touch(evaluation_id, model_id) WHERE purpose = 'look';
CREATE TRIGGER sealed_touch_fixed BEFORE UPDATE ON sealed_touch
  BEGIN SELECT RAISE(ABORT, 'sealed_touch: append-only'); END;
CREATE TRIGGER sealed_touch_kept BEFORE DELETE ON sealed_touch
  BEGIN SELECT RAISE(ABORT, 'sealed_touch: append-only'); END;
