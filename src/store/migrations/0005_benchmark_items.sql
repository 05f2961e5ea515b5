-- What an item asks for, and where its answer stands.
ALTER TABLE benchmark_item ADD COLUMN type TEXT NOT NULL DEFAULT 'short'
  CHECK(type IN('short', 'numeric', 'choice', 'long', 'refusal'));
ALTER TABLE benchmark_item ADD COLUMN choices_json TEXT NOT NULL DEFAULT '[]';
ALTER TABLE benchmark_item ADD COLUMN rubric_json TEXT NOT NULL DEFAULT '[]';
ALTER TABLE benchmark_item ADD COLUMN citations_json TEXT NOT NULL DEFAULT '[]';
UPDATE benchmark_item SET type = 'numeric' WHERE tolerance IS NOT NULL AND response GLOB '*[0-9]*';
