-- What belongs to an assistant message and is not its body: its reasoning, sent only to servers that want it back, and what was wrong with
-- the arguments of its calls (a JSON object by call id), so that a restored conversation answers such a call as the first time.

ALTER TABLE messages ADD COLUMN thought BLOB NOT NULL DEFAULT x'';
ALTER TABLE messages ADD COLUMN problems TEXT NOT NULL DEFAULT '';
