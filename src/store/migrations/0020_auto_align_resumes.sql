-- Each resume of an auto-align is kept, not the latest alone: a run decides anew from the start, and every decision counts the resumes
-- before it. The cards of pauses say where earlier ones were.
ALTER TABLE auto_align ADD COLUMN resumes_json TEXT NOT NULL DEFAULT '[]';
UPDATE auto_align SET resumes_json = (
  SELECT json_group_array(json_object('phases', phases, 'looks', looks)) FROM (
    SELECT step - json_array_length(card_json, '$.looks') AS phases, json_array_length(card_json, '$.looks') AS looks
    FROM auto_align_card WHERE auto_align_id = auto_align.id AND json_extract(card_json, '$.next.status') = 'PAUSED' ORDER BY step)
  WHERE phases <= auto_align.resumed_after)
  WHERE resumed_after > 0;
ALTER TABLE auto_align DROP COLUMN resumed_after;
