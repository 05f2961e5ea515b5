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
