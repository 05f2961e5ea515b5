-- Tells whether a calibration is the one that was read before, without reading its quarter of a megabyte again.
ALTER TABLE aligned_model ADD COLUMN calibration_version INTEGER NOT NULL DEFAULT 1;
CREATE TRIGGER aligned_model_recalibrated AFTER UPDATE OF calibration_json ON aligned_model
  BEGIN UPDATE aligned_model SET calibration_version = calibration_version + 1 WHERE id = NEW.id; END;
