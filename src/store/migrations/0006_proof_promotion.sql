-- What an evaluation asks for and how each answer was graded.
ALTER TABLE evaluation ADD COLUMN splits_json TEXT NOT NULL DEFAULT '["dev","sealed","retention"]';
ALTER TABLE evaluation_answer ADD COLUMN type TEXT NOT NULL DEFAULT 'short'
 CHECK(type IN('short', 'numeric', 'choice', 'long', 'refusal'));
ALTER TABLE evaluation_answer ADD COLUMN score REAL NOT NULL DEFAULT 0 CHECK(score BETWEEN 0 AND 1);
ALTER TABLE evaluation_answer ADD COLUMN method_json TEXT NOT NULL DEFAULT '{"by":"answer"}';
UPDATE evaluation_answer SET score = correct;

CREATE TABLE sealed_touch(          -- each use of a benchmark's sealed split: whoever looks often enough finds what is not there
  seq INTEGER PRIMARY KEY,
  benchmark_id TEXT NOT NULL REFERENCES benchmark(id),
  evaluation_id TEXT NOT NULL REFERENCES evaluation(id),
  model_id TEXT NOT NULL,           -- base or aligned
  purpose TEXT NOT NULL CHECK(purpose IN('evaluation', 'comparison', 'promotion')),
  at TEXT NOT NULL
) STRICT;
CREATE INDEX sealed_touch_benchmark ON sealed_touch(benchmark_id, seq);
CREATE UNIQUE INDEX sealed_touch_evaluation ON sealed_touch(evaluation_id) WHERE purpose = 'evaluation';
CREATE TRIGGER sealed_touch_fixed BEFORE UPDATE ON sealed_touch
  BEGIN SELECT RAISE(ABORT, 'sealed_touch: append-only'); END;
CREATE TRIGGER sealed_touch_kept BEFORE DELETE ON sealed_touch
  BEGIN SELECT RAISE(ABORT, 'sealed_touch: append-only'); END;
INSERT INTO sealed_touch(benchmark_id, evaluation_id, model_id, purpose, at)
  SELECT benchmark_id, id, model_id, 'evaluation', created_at FROM evaluation AS e WHERE EXISTS(
    SELECT 1 FROM evaluation_answer WHERE evaluation_id = e.id AND split = 'sealed') ORDER BY created_seq;

CREATE TABLE guard_result(          -- what a run measured of its model beside its base: abilities that it must not lose
  model_id TEXT NOT NULL REFERENCES aligned_model(id),
  name TEXT NOT NULL,
  n INTEGER NOT NULL CHECK(n >= 0),
  base REAL NOT NULL,
  aligned REAL NOT NULL,
  most REAL,                        -- where less is better: the aligned model's value at most; else scores are compared by item
  items_json TEXT NOT NULL,         -- [{item, text, base, aligned}], scores in [0, 1]
  PRIMARY KEY(model_id, name)
) STRICT, WITHOUT ROWID;

-- Promotions. A line is what an application stands on: one name of one owner over one base. At most one model of a line is
-- promoted; each promotion knows the one before it, so that a rollback takes one step back, and the next one another.
CREATE TABLE promotion(             -- append-only
  seq INTEGER PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  base_model_id TEXT NOT NULL REFERENCES base_model(id),
  line TEXT NOT NULL CHECK(length(line) BETWEEN 1 AND 200),
  act TEXT NOT NULL CHECK(act IN('promote', 'rollback')),
  model_id TEXT REFERENCES aligned_model(id),             -- promoted from now on; null: none, as before the first
  replaced_model_id TEXT REFERENCES aligned_model(id),    -- promoted until now
  before_seq INTEGER REFERENCES promotion(seq),           -- the promotion that a rollback of this one goes back to
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
CREATE INDEX promotion_line ON promotion(owner_id, base_model_id, line, seq);
CREATE INDEX promotion_model ON promotion(model_id);
CREATE TRIGGER promotion_fixed BEFORE UPDATE ON promotion BEGIN SELECT RAISE(ABORT, 'promotion: append-only'); END;
CREATE TRIGGER promotion_kept BEFORE DELETE ON promotion BEGIN SELECT RAISE(ABORT, 'promotion: append-only'); END;

CREATE TABLE promoted(              -- the pointer: the act that says which model of a line is promoted
  owner_id TEXT NOT NULL REFERENCES user(id),
  base_model_id TEXT NOT NULL REFERENCES base_model(id),
  line TEXT NOT NULL,
  model_id TEXT NOT NULL REFERENCES aligned_model(id),
  promotion_seq INTEGER NOT NULL REFERENCES promotion(seq),   -- the promotion that first put it there
  PRIMARY KEY(owner_id, base_model_id, line)
) STRICT, WITHOUT ROWID;
CREATE INDEX promoted_model ON promoted(model_id);
