-- Every statement of the store, by name. A name is used once.

-- name: insert_task
INSERT INTO tasks (task_id, title, instruction, language, created_at) VALUES (:task_id, :title, :instruction, :language, :now);

-- name: insert_job
INSERT INTO jobs (job_id, task_id, parent_id, retry_of, spawned_by, spawn_key, depth, instruction, files, mode, model, piece_name, piece,
                  piece_hash, status, movement, resume_movement, queued_at, created_at, updated_at)
VALUES (:job_id, :task_id, :parent_id, :retry_of, :spawned_by, :spawn_key, :depth, :instruction, :files, :mode, :model, :piece_name, :piece,
        :piece_hash, 'queued', :movement, :movement, :now, :now, :now);

-- name: anything_queued
SELECT 1 FROM jobs WHERE status = 'queued' AND (not_before IS NULL OR not_before <= :now) LIMIT 1;

-- name: claim
UPDATE jobs
SET status = 'running', owner = :owner, owner_pid = :pid, owner_start = :start, owner_boot = :boot, fence = fence + 1, run = run + 1,
    lease_until = :lease_until, not_before = NULL, updated_at = :now
WHERE job_id = (SELECT job_id FROM jobs WHERE status = 'queued' AND (not_before IS NULL OR not_before <= :now)
                  AND (:only IS NULL OR job_id IN (
                    WITH RECURSIVE family (job_id) AS (
                      SELECT :only UNION ALL SELECT j.job_id FROM jobs j JOIN family f ON j.parent_id = f.job_id)
                    SELECT job_id FROM family))
                  AND (:full = '[]' OR NOT EXISTS (
                    SELECT 1 FROM json_each(:full) f WHERE json_extract(f.value, '$[0]') IS model
                      AND json_extract(f.value, '$[1]') = (parent_id IS NOT NULL) AND json_extract(f.value, '$[2]') IS worker))
                ORDER BY queued_at, job_id LIMIT 1)
  AND status = 'queued'
RETURNING *;

-- name: wishes
SELECT DISTINCT model, parent_id IS NOT NULL AS child, worker FROM jobs
WHERE status = 'queued' AND (not_before IS NULL OR not_before <= :now);

-- name: set_worker
UPDATE jobs SET worker = :worker WHERE job_id = :job_id;

-- name: set_not_before
UPDATE jobs SET not_before = :not_before WHERE job_id = :job_id;

-- name: worked_s
SELECT sum(max(0, ended_at - started_at)) AS seconds FROM runs WHERE job_id = :job_id AND run < :run AND ended_at IS NOT NULL;

-- name: insert_run
INSERT INTO runs (job_id, run, started_at) VALUES (:job_id, :run, :now);

-- name: set_enriched
UPDATE runs SET enriched = :enriched WHERE job_id = :job_id AND run = :run;

-- name: last_enriched
SELECT enriched FROM runs WHERE job_id = :job_id AND enriched <> '' ORDER BY run DESC LIMIT 1;

-- name: end_run
UPDATE runs SET ended_at = :now, outcome = :outcome WHERE job_id = :job_id AND run = :run;

-- name: heartbeat
UPDATE jobs SET lease_until = :lease_until WHERE job_id = :job_id AND fence = :fence AND status = 'running';

-- name: touch
UPDATE jobs SET updated_at = :now WHERE job_id = :job_id AND fence = :fence AND status = 'running';

-- name: cancel_wanted
SELECT job_id FROM jobs WHERE status = 'running' AND owner = :owner AND cancel_requested = 1;

-- name: running
SELECT job_id, owner, owner_pid, owner_start, owner_boot, lease_until, fence, updated_at, counters FROM jobs WHERE status = 'running';

-- name: next_seq
UPDATE jobs SET last_seq = last_seq + 1 WHERE job_id = :job_id RETURNING last_seq;

-- name: insert_event
-- An id is given once, also after the newest events were pruned: those who follow ask for what is above the last one they saw.
INSERT INTO events (event_id, job_id, seq, at, kind, body)
VALUES (1 + max(coalesce((SELECT max(event_id) FROM events), 0),
                coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'events_forgotten'), 0)),
        :job_id, :seq, :at, :kind, :body);

-- name: job
SELECT j.*, t.title, t.language FROM jobs j JOIN tasks t USING (task_id) WHERE j.job_id = :job_id;

-- name: task
SELECT * FROM tasks WHERE task_id = :task_id;

-- name: jobs_of_task
SELECT job_id, status FROM jobs WHERE task_id = :task_id ORDER BY created_at, job_id;

-- name: list_jobs
SELECT j.*, t.title, t.language FROM jobs j JOIN tasks t USING (task_id)
WHERE :statuses IS NULL OR j.status IN (SELECT value FROM json_each(:statuses))
ORDER BY j.created_at DESC, j.job_id DESC LIMIT :limit;

-- name: open_requests_of
WITH RECURSIVE family (job_id) AS (
  SELECT :job_id UNION ALL SELECT j.job_id FROM jobs j JOIN family f ON j.parent_id = f.job_id
)
SELECT r.request_id FROM requests r JOIN family f USING (job_id) WHERE r.decision IS NULL ORDER BY r.created_at;

-- name: set_job_prepared
UPDATE jobs SET tools = :tools, system = :system, project_hash = :project_hash, piece_name = :piece_name, piece = :piece, piece_hash = :piece_hash, movement = :movement
WHERE job_id = :job_id AND fence = :fence AND status = 'running';

-- name: set_job_piece
UPDATE jobs SET piece_name = :piece_name, piece = :piece, piece_hash = :piece_hash, movement = :movement, resume_movement = :movement,
                model = :model, usage = :usage, counters = :counters
WHERE job_id = :job_id AND fence = :fence AND status = 'running';

-- name: insert_movement
INSERT INTO movements (job_id, movement_seq, name, visit, run, conversation, forced, started_at)
VALUES (:job_id, :movement_seq, :name, :visit, :run, :conversation, :forced, :now);

-- name: enter_movement
UPDATE jobs SET movement = :name, movement_seq = :movement_seq, conversation = :conversation, counters = :counters, turn = :turn, restores = 1
WHERE job_id = :job_id;

-- name: end_movement
UPDATE movements SET ended_at = :now, next = :next, summary = :summary, lessons = :lessons, iterations = :iterations
WHERE job_id = :job_id AND movement_seq = :movement_seq AND ended_at IS NULL;

-- name: stay_left
SELECT name, next FROM movements WHERE job_id = :job_id AND movement_seq = :movement_seq AND ended_at IS NOT NULL;

-- name: close_movements
UPDATE movements SET ended_at = :now, next = :next WHERE job_id = :job_id AND ended_at IS NULL;

-- name: set_reused
UPDATE movements SET reused_pct = :pct WHERE job_id = :job_id AND movement_seq = :movement_seq AND reused_pct IS NULL;

-- name: next_message_seq
SELECT coalesce(max(seq), -1) + 1 AS seq FROM messages WHERE job_id = :job_id AND conversation = :conversation;

-- name: insert_message
INSERT INTO messages (job_id, conversation, seq, role, call_id, body, thought, problems)
VALUES (:job_id, :conversation, :seq, :role, :call_id, :body, :thought, :problems);

-- name: replace_message
UPDATE messages SET body = :body WHERE job_id = :job_id AND conversation = :conversation AND seq = :seq;

-- name: messages
SELECT role, call_id, body, thought, problems FROM messages WHERE job_id = :job_id AND conversation = :conversation ORDER BY seq;

-- name: call_ids
SELECT call_id FROM messages WHERE job_id = :job_id AND call_id IS NOT NULL UNION SELECT call_id FROM steps WHERE job_id = :job_id;

-- name: set_turn
UPDATE jobs SET turn = :turn, usage = :usage, counters = :counters WHERE job_id = :job_id;

-- name: mark_read
INSERT INTO read_marks (job_id, conversation, path, hash) VALUES (:job_id, :conversation, :path, :hash)
ON CONFLICT (job_id, conversation, path) DO UPDATE SET hash = :hash;

-- name: read_marks
SELECT path, hash FROM read_marks WHERE job_id = :job_id AND conversation = :conversation;

-- name: set_counters
UPDATE jobs SET counters = :counters WHERE job_id = :job_id;

-- name: insert_step
INSERT INTO steps (job_id, call_id, conversation, movement_seq, tool, effect, arguments, digest, request_id, path, pre_hash, post_hash, fence,
                   state, started_at)
VALUES (:job_id, :call_id, :conversation, :movement_seq, :tool, :effect, :arguments, :digest, :request_id, :path, :pre_hash, :post_hash, :fence,
        'intent', :now)
ON CONFLICT (job_id, call_id) DO UPDATE SET fence = :fence, digest = :digest, request_id = :request_id, path = :path, pre_hash = :pre_hash,
  post_hash = :post_hash, started_at = :now WHERE state = 'intent';

-- name: finish_step
UPDATE steps SET state = 'done', ok = :ok, brief = :brief, ended_at = :now WHERE job_id = :job_id AND call_id = :call_id;

-- name: step
SELECT * FROM steps WHERE job_id = :job_id AND call_id = :call_id;

-- name: steps_of_visit
SELECT s.* FROM steps s JOIN movements m USING (job_id, movement_seq)
WHERE s.job_id = :job_id AND m.name = :name AND m.visit = :visit ORDER BY s.started_at;

-- name: use_request
UPDATE requests SET used_at = :now WHERE request_id = :request_id AND used_at IS NULL;

-- name: insert_snapshot
INSERT INTO snapshots (job_id, path, before, mode, before_hash, after_hash, after_mode, why, at)
VALUES (:job_id, :path, :before, :mode, :before_hash, :after_hash, :after_mode, :why, :now)
ON CONFLICT (job_id, path) DO UPDATE SET
  before      = iif(reverted_at < :since, :before, before),
  mode        = iif(reverted_at < :since, :mode, mode),
  before_hash = iif(reverted_at < :since, :before_hash, before_hash),
  why         = CASE WHEN reverted_at IS NOT NULL THEN :why
                     WHEN why <> '' THEN why
                     WHEN :before_hash IS NOT after_hash AND :after_hash IS NOT after_hash THEN 'unsure'
                     WHEN :before_hash IS after_hash AND :mode <> after_mode AND :after_mode IS NOT after_mode THEN 'unsure'
                     ELSE why END,
  after_hash = :after_hash, after_mode = :after_mode, at = :now, reverted_at = NULL
WHERE :why <> 'unsure';

-- name: snapshots
SELECT path, before, mode, before_hash, after_hash, after_mode, why, reverted_at FROM snapshots WHERE job_id = :job_id ORDER BY path;

-- name: snapshot_paths
SELECT path FROM snapshots
WHERE job_id = :job_id AND reverted_at IS NULL AND before_hash IS NOT 'dir' AND after_hash IS NOT 'dir'
  AND (before_hash IS NOT after_hash OR mode IS NOT after_mode) ORDER BY path;

-- name: changed_by_others
SELECT path, before_hash, after_hash, reverted_at FROM snapshots
WHERE job_id <> :job_id AND (at >= :since OR reverted_at >= :since);

-- name: put_back_since
SELECT path, before_hash FROM snapshots WHERE job_id = :job_id AND reverted_at >= :since;

-- name: snapshot_prints
SELECT DISTINCT before_hash FROM snapshots WHERE before_hash IS NOT NULL AND before IS NULL;

-- name: mark_reverted
UPDATE snapshots SET reverted_at = :now WHERE job_id = :job_id AND path = :path;

-- name: settle
UPDATE jobs
SET status = :status, resume_movement = :resume_movement, movement = coalesce(:resume_movement, movement), wait_reason = :wait_reason,
    reason = :reason, forced = :forced, result = :result, screen_key = :screen_key, restores = :restores, counters = :counters,
    owner = NULL, owner_pid = NULL, owner_start = NULL, owner_boot = NULL, lease_until = NULL, resumed_by = NULL,
    queued_at = CASE WHEN :status = 'queued' THEN :now ELSE queued_at END,
    updated_at = :now
WHERE job_id = :job_id AND fence = :fence AND status = 'running';

-- name: move_job
UPDATE jobs
SET status = :status, reason = :reason, wait_reason = :wait_reason, resumed_by = coalesce(:resumed_by, resumed_by),
    queued_at = :now, updated_at = :now, owner = NULL, owner_pid = NULL, owner_start = NULL, owner_boot = NULL, lease_until = NULL
WHERE job_id = :job_id AND status IN (SELECT value FROM json_each(:sources)) AND (:fence IS NULL OR fence = :fence);

-- name: want_cancel
UPDATE jobs SET cancel_requested = 1 WHERE job_id = :job_id AND status = 'running';

-- name: given_back
SELECT job_id, task_id, fence, run FROM jobs
WHERE status = 'queued' AND reason IN ('stopped', 'recovered', 'rate_limited') AND max(updated_at, coalesce(not_before, 0)) < :before;

-- name: ended_among
SELECT job_id FROM jobs WHERE job_id IN (SELECT value FROM json_each(:ids)) AND status IN ('succeeded', 'failed', 'aborted', 'cancelled');

-- name: open_children
SELECT count(*) AS n FROM jobs WHERE parent_id = :job_id AND status NOT IN ('succeeded', 'failed', 'aborted', 'cancelled');

-- name: children_told
SELECT j.job_id, j.task_id, t.title, j.status, j.result, j.reason FROM jobs j JOIN tasks t USING (task_id)
WHERE j.parent_id = :job_id AND NOT EXISTS (SELECT 1 FROM jobs r WHERE r.task_id = j.task_id AND r.retry_of = j.job_id)
ORDER BY j.created_at, j.job_id;

-- name: spawned
SELECT task_id, job_id FROM jobs WHERE spawned_by = :by AND spawn_key = :key;

-- name: retry_of
SELECT job_id FROM jobs WHERE task_id = :task_id AND retry_of = :job_id ORDER BY created_at DESC LIMIT 1;

-- name: in_family
WITH RECURSIVE up (job_id, parent_id) AS (
  SELECT job_id, parent_id FROM jobs WHERE job_id = :member
  UNION ALL SELECT j.job_id, j.parent_id FROM jobs j JOIN up ON j.job_id = up.parent_id)
SELECT 1 FROM up WHERE job_id = :job_id;

-- name: open_questions_below
WITH RECURSIVE family (job_id) AS (
  SELECT :job_id UNION ALL SELECT j.job_id FROM jobs j JOIN family f ON j.parent_id = f.job_id
)
SELECT r.request_id FROM requests r JOIN family f USING (job_id) WHERE r.reason = 'question' AND r.decision IS NULL ORDER BY r.created_at;

-- name: tool_requests
SELECT key, decision, scope, json_extract(shown, '$.movement') AS movement FROM requests
WHERE job_id = :job_id AND reason = 'tool_request' AND decision = 'allow';

-- name: rules_of_task
WITH RECURSIVE up (task_id) AS (
  SELECT :task_id
  UNION SELECT p.task_id FROM up JOIN jobs j ON j.task_id = up.task_id JOIN jobs p ON p.job_id = j.parent_id)
SELECT * FROM rules WHERE scope = 'always' OR task_id IN (SELECT task_id FROM up) ORDER BY created_at, rule_id;

-- name: set_tools
UPDATE jobs SET tools = :tools WHERE job_id = :job_id AND fence = :fence;

-- name: step_of_request
SELECT * FROM steps WHERE job_id = :job_id AND request_id = :request_id ORDER BY started_at DESC LIMIT 1;

-- name: record_made
UPDATE requests SET made = :made, used_at = coalesce(used_at, :now) WHERE request_id = :request_id;

-- name: children
SELECT job_id, status FROM jobs WHERE parent_id = :job_id ORDER BY created_at, job_id;

-- name: made_by
SELECT job_id FROM jobs WHERE parent_id = :job_id
UNION SELECT job_id FROM jobs WHERE spawned_by = :job_id;

-- name: close_requests
UPDATE requests SET decision = :decision, by = :by, settled_at = :now, text = :text WHERE job_id = :job_id AND decision IS NULL;

-- name: insert_request
INSERT INTO requests (request_id, job_id, task_id, reason, key, digest, call_id, shown, created_at)
VALUES (:request_id, :job_id, :task_id, :reason, :key, :digest, :call_id, :shown, :now);

-- name: request
SELECT * FROM requests WHERE request_id = :request_id;

-- name: requests_of_job
SELECT * FROM requests WHERE job_id = :job_id ORDER BY created_at, request_id;

-- name: open_requests
SELECT * FROM requests WHERE decision IS NULL ORDER BY created_at, request_id;

-- name: open_question
SELECT request_id FROM requests WHERE job_id = :job_id AND reason = 'question' AND decision IS NULL ORDER BY created_at DESC LIMIT 1;

-- name: approval_of_call
SELECT * FROM requests WHERE job_id = :job_id AND call_id = :call_id AND reason = 'approval' ORDER BY created_at DESC LIMIT 1;

-- name: decided
SELECT * FROM requests WHERE job_id = :job_id AND key = :key AND decision IS NOT NULL ORDER BY settled_at DESC LIMIT 1;

-- name: open_by_key
SELECT * FROM requests WHERE job_id = :job_id AND key = :key AND decision IS NULL ORDER BY created_at DESC LIMIT 1;

-- name: settle_request
UPDATE requests SET decision = :decision, scope = :scope, network = :network, text = :text, note = :note, by = :by, settled_at = :now
WHERE request_id = :request_id AND decision IS NULL;

-- name: jobs_on_screen
SELECT job_id FROM jobs WHERE screen_key = :key AND status = 'waiting_human' ORDER BY created_at;

-- name: insert_rule
INSERT INTO rules (rule_id, scope, task_id, rule, text, created_at, by) VALUES (:rule_id, :scope, :task_id, :rule, :text, :now, :by);

-- name: rules
SELECT * FROM rules WHERE :task_id IS NULL OR scope = 'always' OR task_id = :task_id ORDER BY created_at, rule_id;

-- name: delete_rule
DELETE FROM rules WHERE rule_id = :rule_id;

-- name: insert_comment
INSERT INTO comments (comment_id, task_id, job_id, author, text, at, delivered) VALUES (:comment_id, :task_id, :job_id, :author, :text, :now, :delivered);

-- name: last_comments
SELECT comment_id, author, text, at, job_id FROM (SELECT * FROM comments WHERE task_id = :task_id ORDER BY at DESC, comment_id DESC LIMIT :limit)
ORDER BY at, comment_id;

-- name: undelivered
SELECT comment_id, text, at FROM comments WHERE task_id = :task_id AND author <> 'maestro' AND delivered = 0 ORDER BY at, comment_id;

-- name: insert_lesson
INSERT INTO lessons (task_id, job_id, movement, text, at) VALUES (:task_id, :job_id, :movement, :text, :now);

-- name: came_from
SELECT name, summary, lessons FROM movements
WHERE job_id = :job_id AND ended_at IS NOT NULL AND (next = :movement OR (next = 'WAIT_SUBTASKS' AND name <> :movement))
ORDER BY movement_seq DESC LIMIT 1;

-- name: lessons
SELECT movement, text, job_id, at FROM lessons WHERE task_id = :task_id ORDER BY lesson_id;

-- name: movements
SELECT * FROM movements WHERE job_id = :job_id ORDER BY movement_seq;

-- name: job_events
SELECT job_id, seq, at, kind, body FROM events WHERE job_id = :job_id AND seq > :after ORDER BY seq LIMIT :limit;

-- name: events_after
SELECT event_id, job_id, seq, at, kind, body FROM events WHERE event_id > :after ORDER BY event_id LIMIT :limit;

-- name: last_event
SELECT coalesce(max(event_id), 0) AS event_id FROM events;

-- name: checklists
SELECT checklists FROM tasks WHERE task_id = :task_id;

-- name: set_checklists
UPDATE tasks SET checklists = :checklists WHERE task_id = :task_id;

-- name: set_brief
UPDATE tasks SET brief = :brief WHERE task_id = :task_id;

-- name: set_mode
UPDATE jobs SET mode = :mode WHERE job_id = :job_id;

-- name: get_meta
SELECT value FROM meta WHERE key = :key;

-- name: set_meta
INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = :value;

-- name: counts
SELECT status, count(*) AS n FROM jobs GROUP BY status;

-- name: deliver_these
UPDATE comments SET delivered = 1 WHERE comment_id IN (SELECT value FROM json_each(:ids));


-- name: run_times
SELECT started_at, ended_at FROM runs WHERE job_id = :job_id AND run = :run;

-- name: known_jobs
SELECT job_id, task_id, parent_id, spawned_by, status, updated_at FROM jobs;

-- name: still_needed
WITH wanted (task_id) AS (SELECT value FROM json_each(:tasks)), gone (job_id) AS (SELECT job_id FROM jobs WHERE task_id IN wanted)
SELECT 1 FROM jobs WHERE task_id IN wanted AND (status NOT IN ('succeeded', 'failed', 'aborted', 'cancelled') OR updated_at >= :before)
UNION ALL SELECT 1 FROM jobs WHERE parent_id IN gone AND task_id NOT IN wanted
LIMIT 1;

-- name: weigh_tasks
WITH wanted (task_id) AS (SELECT value FROM json_each(:tasks)), gone (job_id) AS (SELECT job_id FROM jobs WHERE task_id IN wanted)
SELECT (SELECT coalesce(sum(length(body)), 0) FROM events WHERE job_id IN gone)
     + (SELECT coalesce(sum(length(body) + length(thought)), 0) FROM messages WHERE job_id IN gone)
     + (SELECT coalesce(sum(length(arguments)), 0) FROM steps WHERE job_id IN gone)
     + (SELECT coalesce(sum(length(coalesce(before, ''))), 0) FROM snapshots WHERE job_id IN gone)
     + (SELECT coalesce(sum(length(piece) + length(tools) + length(system) + length(instruction)), 0) FROM jobs WHERE job_id IN gone) AS bytes;

-- name: forget_read_marks
DELETE FROM read_marks WHERE job_id IN (SELECT job_id FROM jobs WHERE task_id IN (SELECT value FROM json_each(:tasks)));

-- name: forget_events
DELETE FROM events WHERE job_id IN (SELECT job_id FROM jobs WHERE task_id IN (SELECT value FROM json_each(:tasks)));

-- name: forget_messages
DELETE FROM messages WHERE job_id IN (SELECT job_id FROM jobs WHERE task_id IN (SELECT value FROM json_each(:tasks)));

-- name: forget_steps
DELETE FROM steps WHERE job_id IN (SELECT job_id FROM jobs WHERE task_id IN (SELECT value FROM json_each(:tasks)));

-- name: forget_movements
DELETE FROM movements WHERE job_id IN (SELECT job_id FROM jobs WHERE task_id IN (SELECT value FROM json_each(:tasks)));

-- name: forget_runs
DELETE FROM runs WHERE job_id IN (SELECT job_id FROM jobs WHERE task_id IN (SELECT value FROM json_each(:tasks)));

-- name: forget_requests
DELETE FROM requests WHERE job_id IN (SELECT job_id FROM jobs WHERE task_id IN (SELECT value FROM json_each(:tasks)));

-- name: forget_snapshots
DELETE FROM snapshots WHERE job_id IN (SELECT job_id FROM jobs WHERE task_id IN (SELECT value FROM json_each(:tasks)));

-- name: unlink_jobs
UPDATE jobs SET parent_id = NULL, retry_of = NULL WHERE task_id IN (SELECT value FROM json_each(:tasks));

-- name: forget_jobs
DELETE FROM jobs WHERE task_id IN (SELECT value FROM json_each(:tasks));

-- name: forget_comments
DELETE FROM comments WHERE task_id IN (SELECT value FROM json_each(:tasks));

-- name: forget_lessons
DELETE FROM lessons WHERE task_id IN (SELECT value FROM json_each(:tasks));

-- name: forget_rules
DELETE FROM rules WHERE task_id IN (SELECT value FROM json_each(:tasks));

-- name: forget_tasks
DELETE FROM tasks WHERE task_id IN (SELECT value FROM json_each(:tasks));
