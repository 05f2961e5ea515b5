-- The name that inference answers to, and that points at a promoted model, is called a channel. The table of pointers is built again,
-- so that the schema's comments say it too.
ALTER TABLE promotion RENAME COLUMN line TO channel;
DROP INDEX promotion_line;
CREATE INDEX promotion_channel ON promotion(owner_id, base_model_id, channel, seq);

CREATE TABLE promoted_next(         -- the pointer: the act that says which model of a channel is promoted
  owner_id TEXT NOT NULL REFERENCES user(id),
  base_model_id TEXT NOT NULL REFERENCES base_model(id),
  channel TEXT NOT NULL,
  model_id TEXT NOT NULL REFERENCES aligned_model(id),
  promotion_seq INTEGER NOT NULL REFERENCES promotion(seq),   -- the promotion that first put it there
  PRIMARY KEY(owner_id, base_model_id, channel)
) STRICT, WITHOUT ROWID;
INSERT INTO promoted_next SELECT * FROM promoted;
DROP TABLE promoted;
ALTER TABLE promoted_next RENAME TO promoted;
CREATE INDEX promoted_model ON promoted(model_id);
