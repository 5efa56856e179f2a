-- Of a path that a job changed: what it was (a fingerprint, also for links, folders and files whose bytes are not kept here), the mode the
-- job left, why it cannot be put back (empty: it can), and when it was put back.

ALTER TABLE snapshots ADD COLUMN before_hash TEXT;
ALTER TABLE snapshots ADD COLUMN after_mode INTEGER;
ALTER TABLE snapshots ADD COLUMN why TEXT NOT NULL DEFAULT '';
ALTER TABLE snapshots ADD COLUMN reverted_at REAL;
CREATE INDEX snapshots_at ON snapshots (at);
CREATE INDEX snapshots_reverted ON snapshots (reverted_at) WHERE reverted_at IS NOT NULL;
