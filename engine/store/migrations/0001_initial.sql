-- Times are POSIX seconds; JSON columns hold canonical JSON. Statuses are checked; wait reasons are not: the settlement table is a value
-- in code and may grow by a row. There are no triggers and no views: a foreign database that has some is refused.

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
  task_id     TEXT PRIMARY KEY,
  title       TEXT NOT NULL,
  instruction TEXT NOT NULL,
  language    TEXT NOT NULL,
  brief       TEXT NOT NULL DEFAULT '{}',
  created_at  REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
  job_id           TEXT PRIMARY KEY,
  task_id          TEXT NOT NULL REFERENCES tasks (task_id),
  parent_id        TEXT REFERENCES jobs (job_id),
  retry_of         TEXT REFERENCES jobs (job_id),
  depth            INTEGER NOT NULL DEFAULT 0,
  instruction      TEXT NOT NULL,
  files            TEXT NOT NULL DEFAULT '[]',
  mode             TEXT NOT NULL,
  model            TEXT,
  piece_name       TEXT,
  piece            BLOB NOT NULL,
  piece_hash       TEXT NOT NULL,
  tools            BLOB NOT NULL DEFAULT x'',
  system           TEXT NOT NULL DEFAULT '',
  status           TEXT NOT NULL CHECK (status IN
    ('queued', 'running', 'waiting_human', 'waiting_subtasks', 'succeeded', 'failed', 'aborted', 'cancelled')),
  movement         TEXT,
  resume_movement  TEXT,
  wait_reason      TEXT,
  reason           TEXT,
  forced           INTEGER NOT NULL DEFAULT 0,
  screen_key       TEXT,
  restores         INTEGER NOT NULL DEFAULT 0,
  resumed_by       TEXT,
  run              INTEGER NOT NULL DEFAULT 0,
  movement_seq     INTEGER NOT NULL DEFAULT 0,
  conversation     INTEGER NOT NULL DEFAULT 0,
  counters         TEXT NOT NULL DEFAULT '{}',
  turn             TEXT NOT NULL DEFAULT '{}',
  usage            TEXT NOT NULL DEFAULT '{}',
  result           TEXT,
  owner            TEXT,
  owner_pid        INTEGER,
  owner_start      TEXT,
  owner_boot       TEXT,
  fence            INTEGER NOT NULL DEFAULT 0,
  lease_until      REAL,
  not_before       REAL,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  last_seq         INTEGER NOT NULL DEFAULT 0,
  queued_at        REAL NOT NULL,
  created_at       REAL NOT NULL,
  updated_at       REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX jobs_queued  ON jobs (queued_at, job_id) WHERE status = 'queued';
CREATE INDEX jobs_running ON jobs (lease_until) WHERE status = 'running';
CREATE INDEX jobs_task    ON jobs (task_id);
CREATE INDEX jobs_parent  ON jobs (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX jobs_screen  ON jobs (screen_key) WHERE screen_key IS NOT NULL;
CREATE INDEX jobs_created ON jobs (created_at);

CREATE TABLE runs (
  job_id     TEXT NOT NULL REFERENCES jobs (job_id),
  run        INTEGER NOT NULL,
  enriched   TEXT NOT NULL DEFAULT '',
  started_at REAL NOT NULL,
  ended_at   REAL,
  outcome    TEXT,
  PRIMARY KEY (job_id, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE movements (
  job_id       TEXT NOT NULL REFERENCES jobs (job_id),
  movement_seq INTEGER NOT NULL,
  name         TEXT NOT NULL,
  visit        INTEGER NOT NULL,
  run          INTEGER NOT NULL,
  conversation INTEGER NOT NULL,
  forced       INTEGER NOT NULL DEFAULT 0,
  started_at   REAL NOT NULL,
  ended_at     REAL,
  next         TEXT,
  summary      TEXT,
  lessons      TEXT,
  iterations   INTEGER NOT NULL DEFAULT 0,
  reused_pct   REAL,
  PRIMARY KEY (job_id, movement_seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
  job_id       TEXT NOT NULL REFERENCES jobs (job_id),
  conversation INTEGER NOT NULL,
  seq          INTEGER NOT NULL,
  role         TEXT NOT NULL,
  call_id      TEXT,
  body         BLOB NOT NULL,
  PRIMARY KEY (job_id, conversation, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (
  job_id       TEXT NOT NULL REFERENCES jobs (job_id),
  call_id      TEXT NOT NULL,
  conversation INTEGER NOT NULL,
  movement_seq INTEGER NOT NULL,
  tool         TEXT NOT NULL,
  effect       TEXT NOT NULL,
  arguments    TEXT NOT NULL,
  digest       TEXT NOT NULL,
  request_id   TEXT,
  path         TEXT,
  pre_hash     TEXT,
  post_hash    TEXT,
  fence        INTEGER NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('intent', 'done')),
  ok           INTEGER,
  brief        TEXT,
  started_at   REAL NOT NULL,
  ended_at     REAL,
  PRIMARY KEY (job_id, call_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
  request_id TEXT PRIMARY KEY,
  job_id     TEXT NOT NULL REFERENCES jobs (job_id),
  task_id    TEXT NOT NULL,
  reason     TEXT NOT NULL,
  key        TEXT NOT NULL,
  digest     TEXT NOT NULL DEFAULT '',
  call_id    TEXT,
  shown      TEXT NOT NULL,
  created_at REAL NOT NULL,
  decision   TEXT,
  scope      TEXT,
  network    INTEGER NOT NULL DEFAULT 0,
  text       TEXT,
  note       TEXT,
  by         TEXT,
  settled_at REAL,
  used_at    REAL
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_job  ON requests (job_id, key);
CREATE INDEX requests_open ON requests (created_at) WHERE decision IS NULL;

CREATE TABLE rules (
  rule_id    TEXT PRIMARY KEY,
  scope      TEXT NOT NULL CHECK (scope IN ('task', 'always')),
  task_id    TEXT,
  rule       TEXT NOT NULL,
  text       TEXT NOT NULL,
  created_at REAL NOT NULL,
  by         TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE comments (
  comment_id TEXT PRIMARY KEY,
  task_id    TEXT NOT NULL REFERENCES tasks (task_id),
  job_id     TEXT,
  author     TEXT NOT NULL,
  text       TEXT NOT NULL,
  at         REAL NOT NULL,
  delivered  INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX comments_task ON comments (task_id, at);

CREATE TABLE lessons (
  lesson_id INTEGER PRIMARY KEY,
  task_id   TEXT NOT NULL REFERENCES tasks (task_id),
  job_id    TEXT NOT NULL,
  movement  TEXT NOT NULL,
  text      TEXT NOT NULL,
  at        REAL NOT NULL
) STRICT;

CREATE INDEX lessons_task ON lessons (task_id);

CREATE TABLE events (
  event_id INTEGER PRIMARY KEY,
  job_id   TEXT NOT NULL REFERENCES jobs (job_id),
  seq      INTEGER NOT NULL,
  at       REAL NOT NULL,
  kind     TEXT NOT NULL,
  body     TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX events_job ON events (job_id, seq);

CREATE TABLE snapshots (
  job_id     TEXT NOT NULL REFERENCES jobs (job_id),
  path       TEXT NOT NULL,
  before     BLOB,
  mode       INTEGER,
  after_hash TEXT,
  at         REAL NOT NULL,
  PRIMARY KEY (job_id, path)
) STRICT, WITHOUT ROWID;
