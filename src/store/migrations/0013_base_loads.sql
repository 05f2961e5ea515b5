-- Counted up before each native load of a base, and set to 0 when that ended: two that never did ended the appliance.
ALTER TABLE base_model ADD COLUMN loads_begun INTEGER NOT NULL DEFAULT 0;
