-- The model worker that a job keeps: its prompt is in the cache there.

ALTER TABLE jobs ADD COLUMN worker TEXT;
