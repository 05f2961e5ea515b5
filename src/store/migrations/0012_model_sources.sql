-- The file that an aligned model's answers are looked for in; NULL in models made before there was one.
ALTER TABLE aligned_model ADD COLUMN sources_path TEXT;
