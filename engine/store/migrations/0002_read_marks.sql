-- What the model has read of each file in a conversation: a restored one must still know it, or an approved Write would be refused.

CREATE TABLE read_marks (
  job_id       TEXT NOT NULL REFERENCES jobs (job_id),
  conversation INTEGER NOT NULL,
  path         TEXT NOT NULL,
  hash         TEXT NOT NULL,
  PRIMARY KEY (job_id, conversation, path)
) STRICT, WITHOUT ROWID;
