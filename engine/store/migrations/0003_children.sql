-- What a tool made is found again by who made it (a job, or a request that was approved) and a key, so that a crash between the commit and
-- the tool's result cannot make it twice. An approval remembers what it made.

ALTER TABLE jobs ADD COLUMN spawned_by TEXT;
ALTER TABLE jobs ADD COLUMN spawn_key TEXT;
CREATE UNIQUE INDEX jobs_spawned ON jobs (spawned_by, spawn_key) WHERE spawned_by IS NOT NULL;
ALTER TABLE requests ADD COLUMN made TEXT;
