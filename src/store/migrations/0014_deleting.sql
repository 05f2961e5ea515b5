-- What its owner deletes is gone. Histories stay and keep the ids of what is gone, so they refer to no row any more: the two tables
-- are built again without those references.
ALTER TABLE alignment ADD COLUMN deleted_at TEXT;             -- its model outlives it: what that was made of stays until the model goes
ALTER TABLE alignment ADD COLUMN deleted_benchmark_id TEXT;   -- the benchmark it had

CREATE TABLE sealed_touch_next(     -- each use of a benchmark's sealed split: whoever looks often enough finds what is not there
  seq INTEGER PRIMARY KEY,
  benchmark_id TEXT NOT NULL,       -- it, the evaluation and the model may be gone
  evaluation_id TEXT NOT NULL,
  model_id TEXT NOT NULL,           -- base or aligned
  purpose TEXT NOT NULL CHECK(purpose IN('evaluation', 'comparison', 'promotion')),
  at TEXT NOT NULL
) STRICT;
INSERT INTO sealed_touch_next SELECT * FROM sealed_touch;
DROP TABLE sealed_touch;
ALTER TABLE sealed_touch_next RENAME TO sealed_touch;
CREATE INDEX sealed_touch_benchmark ON sealed_touch(benchmark_id, seq);
CREATE UNIQUE INDEX sealed_touch_evaluation ON sealed_touch(evaluation_id) WHERE purpose = 'evaluation';
CREATE TRIGGER sealed_touch_fixed BEFORE UPDATE ON sealed_touch
  BEGIN SELECT RAISE(ABORT, 'sealed_touch: append-only'); END;
CREATE TRIGGER sealed_touch_kept BEFORE DELETE ON sealed_touch
  BEGIN SELECT RAISE(ABORT, 'sealed_touch: append-only'); END;

CREATE TABLE promotion_next(        -- append-only
  seq INTEGER PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  base_model_id TEXT NOT NULL,      -- it and the models may be gone
  line TEXT NOT NULL CHECK(length(line) BETWEEN 1 AND 200),
  act TEXT NOT NULL CHECK(act IN('promote', 'rollback')),
  model_id TEXT,                    -- promoted from now on; null: none, as before the first
  replaced_model_id TEXT,           -- promoted until now
  before_seq INTEGER REFERENCES promotion_next(seq),      -- the promotion that a rollback of this one goes back to
  overridden INTEGER NOT NULL CHECK(overridden IN(0, 1)), -- a refusal stood against it
  reason TEXT CHECK(length(trim(reason)) > 0),
  verdict_json TEXT NOT NULL,       -- what was compared, and what spoke against it
  key_id TEXT NOT NULL,
  at TEXT NOT NULL,
  CHECK(overridden = 0 OR reason IS NOT NULL),
  CHECK(act = 'rollback' OR model_id IS NOT NULL),
  CHECK(act = 'promote' OR (replaced_model_id IS NOT NULL AND overridden = 0)),
  CHECK(model_id IS NOT replaced_model_id),
  CHECK(before_seq < seq)
) STRICT;
INSERT INTO promotion_next SELECT * FROM promotion ORDER BY seq;

-- The pointer refers to the history: it is built again with it.
CREATE TABLE promoted_next(         -- the pointer: the act that says which model of a line is promoted
  owner_id TEXT NOT NULL REFERENCES user(id),
  base_model_id TEXT NOT NULL REFERENCES base_model(id),
  line TEXT NOT NULL,
  model_id TEXT NOT NULL REFERENCES aligned_model(id),
  promotion_seq INTEGER NOT NULL REFERENCES promotion_next(seq),   -- the promotion that first put it there
  PRIMARY KEY(owner_id, base_model_id, line)
) STRICT, WITHOUT ROWID;
INSERT INTO promoted_next SELECT * FROM promoted;
DROP TABLE promoted;
DROP TABLE promotion;
ALTER TABLE promotion_next RENAME TO promotion;
ALTER TABLE promoted_next RENAME TO promoted;
CREATE INDEX promotion_line ON promotion(owner_id, base_model_id, line, seq);
CREATE INDEX promotion_model ON promotion(model_id);
CREATE INDEX promoted_model ON promoted(model_id);
CREATE TRIGGER promotion_fixed BEFORE UPDATE ON promotion BEGIN SELECT RAISE(ABORT, 'promotion: append-only'); END;
CREATE TRIGGER promotion_kept BEFORE DELETE ON promotion BEGIN SELECT RAISE(ABORT, 'promotion: append-only'); END;
