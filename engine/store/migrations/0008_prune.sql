-- A job is removed only after a look for those that retry it.

CREATE INDEX jobs_retry ON jobs (retry_of) WHERE retry_of IS NOT NULL;
