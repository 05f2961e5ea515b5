-- Feedback may say which answer it is on, and captured answers say which they are: by the request that was answered.
ALTER TABLE agent_feedback ADD COLUMN request_id TEXT;        -- null: on the agent as a whole
CREATE INDEX agent_feedback_request ON agent_feedback(request_id) WHERE request_id IS NOT NULL;
ALTER TABLE capture ADD COLUMN request_id TEXT;               -- null of what an older version kept
CREATE INDEX capture_request ON capture(request_id) WHERE request_id IS NOT NULL;

CREATE TABLE auto_align_proposal(   -- an auto-align that captured answers speak for; nothing begins until its owner accepts it
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  alignment_id TEXT NOT NULL REFERENCES alignment(id) ON DELETE CASCADE,      -- the project
  status TEXT NOT NULL DEFAULT 'PROPOSED' CHECK(status IN('PROPOSED', 'ACCEPTED', 'DISMISSED')),
  auto_align_id TEXT,               -- that was begun; it may be gone
  captures_json TEXT,               -- ids of the captures that it was decided on; null while it is not: those that there are count
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  decided_seq INTEGER,              -- captures up to it are not proposed again
  decided_at TEXT,
  CHECK((status = 'PROPOSED') = (decided_at IS NULL)),
  CHECK((status = 'PROPOSED') = (decided_seq IS NULL)),
  CHECK((status = 'PROPOSED') = (captures_json IS NULL)),
  CHECK((status = 'ACCEPTED') = (auto_align_id IS NOT NULL))
) STRICT;
CREATE INDEX auto_align_proposal_alignment ON auto_align_proposal(alignment_id, created_seq);
-- One of a project waits at a time.
CREATE UNIQUE INDEX auto_align_proposal_open ON auto_align_proposal(alignment_id) WHERE status = 'PROPOSED';
CREATE TRIGGER auto_align_proposal_decided BEFORE UPDATE ON auto_align_proposal WHEN OLD.status <> 'PROPOSED'
  BEGIN SELECT RAISE(ABORT, 'auto_align_proposal: decided once'); END;
