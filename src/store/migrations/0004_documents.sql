ALTER TABLE document ADD COLUMN format TEXT;            -- of the original; null in rows older than this column: as media_type says
ALTER TABLE document ADD COLUMN structure_sha256 TEXT;  -- of blocks, chunks and the way back to the original; likewise null
ALTER TABLE document ADD COLUMN report_json TEXT;       -- what reading it found out; likewise null

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
