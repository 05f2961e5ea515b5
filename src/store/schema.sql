-- Generated from migrations/ by schema.ts; do not edit.

CREATE TABLE supervisor(            -- one row; epoch rises at each start, after the lock: the death certificate of older work
  id INTEGER PRIMARY KEY CHECK(id = 1),
  epoch INTEGER NOT NULL,
  started_at TEXT NOT NULL
) STRICT;

CREATE TABLE user(
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL
) STRICT;

CREATE TABLE api_key(
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES user(id),
  prefix TEXT NOT NULL,             -- what a person recognises it by
  sha256 TEXT NOT NULL UNIQUE,      -- of the whole key; the key itself is never stored
  created_at TEXT NOT NULL,
  revoked_at TEXT
, name TEXT NOT NULL DEFAULT '', scopes_json TEXT NOT NULL
  DEFAULT '["inference","documents","alignments","models","agents","keys"]', expires_at TEXT, requests_per_minute INTEGER CHECK(requests_per_minute > 0), tokens_per_minute INTEGER CHECK(tokens_per_minute > 0), tokens_per_day INTEGER CHECK(tokens_per_day > 0), previous_sha256 TEXT, previous_until TEXT) STRICT;

CREATE TABLE document(
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  kind TEXT NOT NULL CHECK(kind IN('document', 'benchmark')),
  name TEXT NOT NULL,
  media_type TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  characters INTEGER NOT NULL,
  sha256 TEXT NOT NULL,             -- of the original, which lies in the blob store under this name
  text_sha256 TEXT NOT NULL,        -- of the clean text, likewise
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL
, format TEXT, structure_sha256 TEXT, report_json TEXT) STRICT;

CREATE INDEX document_owner ON document(owner_id, kind, created_seq);

CREATE TABLE benchmark(
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  document_id TEXT NOT NULL REFERENCES document(id),
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL,             -- of the items, canonical
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
, version INTEGER NOT NULL DEFAULT 1 CHECK(version >= 1), previous_id TEXT REFERENCES benchmark(id), struck_json TEXT, draft_id TEXT REFERENCES benchmark_draft(id)) STRICT;

CREATE INDEX benchmark_owner ON benchmark(owner_id, created_seq);

CREATE TABLE benchmark_item(
  benchmark_id TEXT NOT NULL REFERENCES benchmark(id),
  sample_num INTEGER NOT NULL CHECK(sample_num >= 1),
  instruction TEXT NOT NULL,
  response TEXT NOT NULL,
  aliases_json TEXT NOT NULL,
  cluster TEXT NOT NULL,
  split TEXT NOT NULL CHECK(split IN('dev', 'sealed', 'retention')),
  tolerance REAL, type TEXT NOT NULL DEFAULT 'short'
  CHECK(type IN('short', 'numeric', 'choice', 'long', 'refusal')), choices_json TEXT NOT NULL DEFAULT '[]', rubric_json TEXT NOT NULL DEFAULT '[]', citations_json TEXT NOT NULL DEFAULT '[]',
  PRIMARY KEY(benchmark_id, sample_num)
) STRICT, WITHOUT ROWID;

CREATE TABLE base_model(            -- belongs to the appliance: every user may use it
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  architecture TEXT NOT NULL,
  context_length INTEGER NOT NULL,
  parameters INTEGER NOT NULL,
  file_type TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL,
  can_be_aligned INTEGER NOT NULL CHECK(can_be_aligned IN(0, 1)),
  reason TEXT,
  license TEXT,
  sha256 TEXT NOT NULL UNIQUE,
  path TEXT NOT NULL,               -- made by the store, or the linked original
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL, kind TEXT NOT NULL DEFAULT 'text' CHECK(kind IN('text', 'embedding', 'rerank')), loads_begun INTEGER NOT NULL DEFAULT 0,
  CHECK((can_be_aligned = 0) = (reason IS NOT NULL))
) STRICT;

CREATE TABLE alignment(
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  name TEXT NOT NULL,
  description TEXT,
  workflow_id TEXT NOT NULL,
  base_model_id TEXT NOT NULL REFERENCES base_model(id),
  benchmark_id TEXT REFERENCES benchmark(id),
  document_ids_json TEXT NOT NULL,  -- the snapshot's; the documents may be gone
  document_names_json TEXT NOT NULL,
  document_sha256s_json TEXT NOT NULL,
  phase TEXT NOT NULL DEFAULT 'queued' CHECK(phase IN('queued', 'preparing', 'training', 'checking', 'repairing', 'packaging')),
  progress REAL NOT NULL DEFAULT 0 CHECK(progress BETWEEN 0 AND 100),
  progress_json TEXT,
  metrics_json TEXT,
  report_json TEXT,
  budget_json TEXT,
  events_seen INTEGER NOT NULL DEFAULT 0,   -- seq of the last event of the run taken in
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  started_at TEXT,
  completed_at TEXT
, teacher_json TEXT, organisation TEXT, deleted_at TEXT, deleted_benchmark_id TEXT, auto_align_of TEXT, reward_models_json TEXT) STRICT;

CREATE INDEX alignment_owner ON alignment(owner_id, created_seq);

CREATE TABLE aligned_model(
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  alignment_id TEXT NOT NULL UNIQUE REFERENCES alignment(id),
  base_model_id TEXT NOT NULL REFERENCES base_model(id),
  name TEXT NOT NULL,
  adapter_path TEXT NOT NULL,
  adapter_sha256 TEXT NOT NULL,
  calibration_json TEXT NOT NULL,
  deployment_status TEXT NOT NULL DEFAULT 'UNDEPLOYED'
    CHECK(deployment_status IN('UNDEPLOYED', 'DEPLOYING', 'DEPLOYED', 'UNDEPLOYING')),
  error TEXT,
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL
, calibration_version INTEGER NOT NULL DEFAULT 1, sources_path TEXT) STRICT;

CREATE INDEX aligned_model_owner ON aligned_model(owner_id, created_seq);

CREATE TABLE deployment(            -- a task; the model's latest one is what its status endpoint shows
  id TEXT PRIMARY KEY,
  model_id TEXT NOT NULL REFERENCES aligned_model(id),
  kind TEXT NOT NULL CHECK(kind IN('deploy', 'undeploy')),
  status TEXT NOT NULL CHECK(status IN('PROCESSING', 'READY', 'FAILED')),
  error TEXT,
  loads_begun INTEGER NOT NULL DEFAULT 0,   -- written before each native load: two that never ended break the loop
  created_seq INTEGER NOT NULL,
  started_at TEXT NOT NULL,
  ended_at TEXT,
  CHECK((status = 'PROCESSING') = (ended_at IS NULL)),
  CHECK((status = 'FAILED') = (error IS NOT NULL))
) STRICT;

CREATE INDEX deployment_model ON deployment(model_id, created_seq);

CREATE TABLE evaluation(
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  name TEXT NOT NULL,
  model_id TEXT NOT NULL,           -- base or aligned
  base_model_id TEXT NOT NULL REFERENCES base_model(id),
  benchmark_id TEXT NOT NULL REFERENCES benchmark(id),
  alignment_id TEXT REFERENCES alignment(id),   -- when it was queued by a run
  n_samples INTEGER NOT NULL,
  settings_json TEXT NOT NULL,
  result_json TEXT,
  seconds REAL NOT NULL DEFAULT 0,
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  completed_at TEXT
, splits_json TEXT NOT NULL DEFAULT '["dev","sealed","retention"]') STRICT;

CREATE INDEX evaluation_owner ON evaluation(owner_id, created_seq);

CREATE INDEX evaluation_model ON evaluation(model_id, benchmark_id);

CREATE TABLE evaluation_answer(     -- a row per answered item, so that a restart answers none twice
  evaluation_id TEXT NOT NULL REFERENCES evaluation(id),
  sample_num INTEGER NOT NULL,
  split TEXT NOT NULL,
  answer TEXT NOT NULL,
  correct INTEGER NOT NULL CHECK(correct IN(0, 1)),
  confidence REAL,
  features_json TEXT NOT NULL,
  prompt_sha256 TEXT NOT NULL, type TEXT NOT NULL DEFAULT 'short'
 CHECK(type IN('short', 'numeric', 'choice', 'long', 'refusal')), score REAL NOT NULL DEFAULT 0 CHECK(score BETWEEN 0 AND 1), method_json TEXT NOT NULL DEFAULT '{"by":"answer"}',
  PRIMARY KEY(evaluation_id, sample_num)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_edge(from_state TEXT NOT NULL, to_state TEXT NOT NULL, PRIMARY KEY(from_state, to_state)) STRICT, WITHOUT ROWID;

CREATE TABLE usage(                 -- exactly one row per inference request
  request_id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  key_id TEXT NOT NULL,
  model_id TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  outcome TEXT NOT NULL CHECK(outcome IN('open', 'done', 'aborted', 'failed', 'interrupted')),
  created_at TEXT NOT NULL
, ended_at TEXT) STRICT, WITHOUT ROWID;

CREATE INDEX usage_model ON usage(model_id);

CREATE TABLE sequence(              -- order of creation, whatever the wall clock does
  id INTEGER PRIMARY KEY CHECK(id = 1),
  value INTEGER NOT NULL
) STRICT;

CREATE INDEX api_key_user ON api_key(user_id);

CREATE UNIQUE INDEX api_key_previous ON api_key(previous_sha256) WHERE previous_sha256 IS NOT NULL;

CREATE INDEX usage_key ON usage(key_id, ended_at, prompt_tokens, completion_tokens);

CREATE INDEX usage_owner ON usage(owner_id, created_at);

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
, request_id TEXT) STRICT;

CREATE INDEX agent_feedback_agent ON agent_feedback(agent_id);

CREATE TABLE base_model_source(     -- the hub's name of a base model, where it has one
  source TEXT PRIMARY KEY,          -- hf://organisation/name/file
  base_model_id TEXT NOT NULL REFERENCES base_model(id),
  revision TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE response(              -- what the Responses endpoint keeps, until its owner deletes it
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  response_json TEXT NOT NULL,      -- as it was answered
  messages_json TEXT NOT NULL,      -- the conversation with its answer, which a next response goes on from
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX response_owner ON response(owner_id);

CREATE TABLE document_signature(    -- what its paragraphs are compared by
  document_id TEXT PRIMARY KEY REFERENCES document(id) ON DELETE CASCADE,
  signatures BLOB NOT NULL
) STRICT;

CREATE TABLE document_duplicate(    -- a paragraph and one like it in an older document of the same owner
  document_id TEXT NOT NULL REFERENCES document(id) ON DELETE CASCADE,
  start INTEGER NOT NULL,           -- in the clean text
  end INTEGER NOT NULL,
  other_id TEXT NOT NULL REFERENCES document(id) ON DELETE CASCADE,
  other_start INTEGER NOT NULL,
  other_end INTEGER NOT NULL,
  similarity REAL NOT NULL CHECK(similarity BETWEEN 0 AND 1),
  PRIMARY KEY(document_id, start, other_id, other_start)
) STRICT, WITHOUT ROWID;

CREATE INDEX document_duplicate_other ON document_duplicate(other_id);

CREATE TABLE mask_key(              -- one row: what makes the stand-ins for personal data, the same in all documents
  id INTEGER PRIMARY KEY CHECK(id = 1),
  key TEXT NOT NULL
) STRICT;

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
, request_id TEXT) STRICT, WITHOUT ROWID;

CREATE INDEX capture_owner ON capture(owner_id, created_seq);

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

CREATE TABLE "job_event"(           -- the history of moves: append-only, contiguous, legal
  job_id TEXT NOT NULL REFERENCES job(id),
  seq INTEGER NOT NULL CHECK(seq >= 1),
  fence INTEGER NOT NULL,
  from_state TEXT,
  to_state TEXT NOT NULL,
  at TEXT NOT NULL,
  detail TEXT,
  PRIMARY KEY(job_id, seq)
) STRICT, WITHOUT ROWID;

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

CREATE TRIGGER aligned_model_recalibrated AFTER UPDATE OF calibration_json ON aligned_model
  BEGIN UPDATE aligned_model SET calibration_version = calibration_version + 1 WHERE id = NEW.id; END;

CREATE TABLE "promotion"(        -- append-only
  seq INTEGER PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES user(id),
  base_model_id TEXT NOT NULL,      -- it and the models may be gone
  channel TEXT NOT NULL CHECK(length(channel) BETWEEN 1 AND 200),
  act TEXT NOT NULL CHECK(act IN('promote', 'rollback')),
  model_id TEXT,                    -- promoted from now on; null: none, as before the first
  replaced_model_id TEXT,           -- promoted until now
  before_seq INTEGER REFERENCES "promotion"(seq),      -- the promotion that a rollback of this one goes back to
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

CREATE INDEX promotion_model ON promotion(model_id);

CREATE TRIGGER promotion_fixed BEFORE UPDATE ON promotion BEGIN SELECT RAISE(ABORT, 'promotion: append-only'); END;

CREATE TRIGGER promotion_kept BEFORE DELETE ON promotion BEGIN SELECT RAISE(ABORT, 'promotion: append-only'); END;

CREATE TABLE webhook_delivery(      -- outbox: a row per event and target, written in the transaction of what it tells of
  seq INTEGER NOT NULL,             -- of the event; a subject's events go to a target in this order
  target TEXT NOT NULL,             -- its URL
  webhook_id TEXT NOT NULL,         -- of the event: the same at every target and every attempt
  owner_id TEXT NOT NULL REFERENCES user(id),
  kind TEXT NOT NULL,
  subject_id TEXT NOT NULL,         -- it may be gone
  payload TEXT,                     -- as it is sent; null once it is delivered
  state TEXT NOT NULL CHECK(state IN('pending', 'delivered', 'failed')),
  attempts INTEGER NOT NULL DEFAULT 0,      -- those with an outcome
  next_attempt_at TEXT,             -- not before then; null: at once
  last_error TEXT,
  created_at TEXT NOT NULL,
  ended_at TEXT,
  PRIMARY KEY(target, seq),
  CHECK((state = 'pending') = (ended_at IS NULL)),
  CHECK((state = 'delivered') = (payload IS NULL)),
  CHECK(state <> 'failed' OR last_error IS NOT NULL)
) STRICT;

CREATE INDEX webhook_delivery_pending ON webhook_delivery(target, subject_id, seq) WHERE state = 'pending';

CREATE INDEX webhook_delivery_delivered ON webhook_delivery(ended_at) WHERE state = 'delivered';

CREATE INDEX alignment_auto_align ON alignment(auto_align_of) WHERE auto_align_of IS NOT NULL;

CREATE INDEX job_subject ON job(subject_id, kind, created_seq);

CREATE TABLE "auto_align"(
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
  stopping INTEGER NOT NULL DEFAULT 0 CHECK(stopping IN(0, 1)),         -- no further phase begins
  error_code TEXT,
  error_text TEXT,
  created_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  ended_at TEXT, resumes_json TEXT NOT NULL DEFAULT '[]',
  CHECK((status IN('REACHED', 'BUDGET_SPENT', 'STOPPED', 'FAILED')) = (ended_at IS NOT NULL)),
  CHECK((status = 'FAILED') = (error_code IS NOT NULL)),
  CHECK((status = 'FAILED') = (error_text IS NOT NULL)),
  CHECK(phase IS NULL OR status = 'RUNNING'),
  CHECK(confirmed IS NULL OR status = 'REACHED')
) STRICT;

CREATE INDEX auto_align_alignment ON auto_align(alignment_id, created_seq);

CREATE TABLE auto_align_edge(from_status TEXT NOT NULL, to_status TEXT NOT NULL, PRIMARY KEY(from_status, to_status)) STRICT, WITHOUT ROWID;

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

CREATE TABLE "sealed_touch"(     -- each use of a benchmark's sealed split: whoever looks often enough finds what is not there
  seq INTEGER PRIMARY KEY,
  benchmark_id TEXT NOT NULL,       -- it, the evaluation and the model may be gone
  evaluation_id TEXT NOT NULL,
  model_id TEXT NOT NULL,           -- base or aligned
  purpose TEXT NOT NULL CHECK(purpose IN('evaluation', 'comparison', 'promotion', 'look')),
  at TEXT NOT NULL
) STRICT;

CREATE INDEX sealed_touch_benchmark ON sealed_touch(benchmark_id, seq);

CREATE UNIQUE INDEX sealed_touch_evaluation ON sealed_touch(evaluation_id) WHERE purpose = 'evaluation';

CREATE UNIQUE INDEX sealed_touch_look ON sealed_touch(evaluation_id, model_id) WHERE purpose = 'look';

CREATE TRIGGER sealed_touch_fixed BEFORE UPDATE ON sealed_touch
  BEGIN SELECT RAISE(ABORT, 'sealed_touch: append-only'); END;

CREATE TRIGGER sealed_touch_kept BEFORE DELETE ON sealed_touch
  BEGIN SELECT RAISE(ABORT, 'sealed_touch: append-only'); END;

CREATE INDEX agent_feedback_request ON agent_feedback(request_id) WHERE request_id IS NOT NULL;

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

CREATE UNIQUE INDEX auto_align_proposal_open ON auto_align_proposal(alignment_id) WHERE status = 'PROPOSED';

CREATE TRIGGER auto_align_proposal_decided BEFORE UPDATE ON auto_align_proposal WHEN OLD.status <> 'PROPOSED'
  BEGIN SELECT RAISE(ABORT, 'auto_align_proposal: decided once'); END;

CREATE INDEX promotion_channel ON promotion(owner_id, base_model_id, channel, seq);

CREATE TABLE "promoted"(         -- the pointer: the act that says which model of a channel is promoted
  owner_id TEXT NOT NULL REFERENCES user(id),
  base_model_id TEXT NOT NULL REFERENCES base_model(id),
  channel TEXT NOT NULL,
  model_id TEXT NOT NULL REFERENCES aligned_model(id),
  promotion_seq INTEGER NOT NULL REFERENCES promotion(seq),   -- the promotion that first put it there
  PRIMARY KEY(owner_id, base_model_id, channel)
) STRICT, WITHOUT ROWID;

CREATE INDEX promoted_model ON promoted(model_id);
