-- The hash of the project's own instructions (AGENTS.md or CLAUDE.md) that a job's system text was made with.

ALTER TABLE jobs ADD COLUMN project_hash TEXT;
