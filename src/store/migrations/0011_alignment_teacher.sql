-- Who writes questions from the documents before a run starts: {model, provider, key_id}; NULL where nobody is asked.
ALTER TABLE alignment ADD COLUMN teacher_json TEXT;
-- Whose documents they are, as the project says; NULL where only their titles tell.
ALTER TABLE alignment ADD COLUMN organisation TEXT;
