"""The journal of a run: movements, messages, calls. Each step of a movement is one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from engine.core.jobs import Counters, TurnState, Usage
from engine.core.lessons import Lesson
from engine.core.manifest import is_generated
from engine.core.records import (
    Comment,
    Event,
    Intent,
    Lease,
    Leaving,
    Message,
    Step,
    StepResult,
    canonical,
)
from engine.core.tooling import FileChange
from engine.store.base import StoreBase
from engine.store.jobs import as_json
from engine.store.rows import dump, message_of, step_of


class JournalPart(StoreBase):
    """What the loop writes, and what a restored movement reads back."""

    def set_enriched(self, lease: Lease, enriched: str, delivered: Sequence[str], now: float) -> None:
        """Store the run's enriched instruction: fixed for the run, so that its clock does not tick.

        ``delivered`` are the comments it carries.
        """
        with self.db.tx():
            self._fenced(lease, now)
            self.db.run("set_enriched", job_id=lease.job_id, run=lease.run, enriched=enriched)
            self.db.run("deliver_these", ids=as_json(delivered))

    def begin_movement(
        self,
        lease: Lease,
        now: float,
        *,
        name: str,
        visit: int,
        movement_seq: int,
        conversation: int,
        forced: bool,
        counters: Counters,
        turn: TurnState,
        messages: Sequence[Message],
    ) -> None:
        """Enter a movement with its opening messages; a new conversation number means a restart."""
        with self.db.tx():
            self._fenced(lease, now)
            self.db.run(
                "insert_movement",
                job_id=lease.job_id,
                movement_seq=movement_seq,
                name=name,
                visit=visit,
                run=lease.run,
                conversation=conversation,
                forced=int(forced),
                now=now,
            )
            self.db.run(
                "enter_movement",
                job_id=lease.job_id,
                name=name,
                movement_seq=movement_seq,
                conversation=conversation,
                counters=dump(counters),
                turn=dump(turn),
            )
            self._append(lease.job_id, conversation, messages)
            body = {"name": name, "visit": visit, **({"forced": True} if forced else {})}
            self._event(lease.job_id, now, Event("movement", body))

    def append(
        self,
        lease: Lease,
        now: float,
        conversation: int,
        messages: Sequence[Message],
        *,
        turn: TurnState,
        usage: Usage,
        counters: Counters,
        events: Sequence[Event] = (),
        delivered: Iterable[str] = (),
        first_reuse: tuple[int, float] | None = None,
    ) -> None:
        """Append messages with the counters that belong to them: one step of a movement.

        ``delivered`` are the comments these messages carry; ``first_reuse`` is (movement_seq, cached percent)
        of a movement's first call.
        """
        with self.db.tx():
            self._fenced(lease, now)
            self._append(lease.job_id, conversation, messages)
            self._count(lease.job_id, turn, usage, counters)
            if first_reuse is not None:
                self.db.run(
                    "set_reused", job_id=lease.job_id, movement_seq=first_reuse[0], pct=first_reuse[1]
                )
            if ids := list(delivered):
                self.db.run("deliver_these", ids=as_json(ids))
            self._events(lease.job_id, now, events)

    def replace_messages(
        self,
        lease: Lease,
        now: float,
        conversation: int,
        bodies: Mapping[int, bytes],
        *,
        turn: TurnState,
        usage: Usage,
        counters: Counters,
        events: Sequence[Event] = (),
    ) -> None:
        """Put other bytes (by their place in the conversation) in the place of messages that the model server
        has refused: the journal holds what is really sent.
        """
        with self.db.tx():
            self._fenced(lease, now)
            for seq, body in bodies.items():
                self.db.run(
                    "replace_message", job_id=lease.job_id, conversation=conversation, seq=seq, body=body
                )
            self._count(lease.job_id, turn, usage, counters)
            self._events(lease.job_id, now, events)

    def changed_files(self, job_id: str) -> list[str]:
        """The paths of the files that a job has changed and that were not put back."""
        rows = self.db.all("snapshot_paths", job_id=job_id)
        return [row["path"] for row in rows if not is_generated(row["path"])]

    def note_changes(
        self, job_id: str, changes: Sequence[FileChange], now: float, since: float | None = None
    ) -> None:
        """Keep what a job's commands changed since ``since`` (None: just now). It needs no lease: commands
        may end after it is gone, and the first state before a change stays whoever notes a later one. What
        was put back before ``since`` begins anew.
        """
        with self.db.tx():
            self._snapshots(job_id, changes, now, since)

    def mark_reverted(
        self, job_id: str, paths: Sequence[str], now: float, told: Mapping[str, object]
    ) -> None:
        """Note that paths are as they were before the job, with an event that tells it."""
        with self.db.tx(durable=True):
            for path in paths:
                self.db.run("mark_reverted", job_id=job_id, path=path, now=now)
            self._event(job_id, now, Event("reverted", dict(told)))

    def _count(self, job_id: str, turn: TurnState, usage: Usage, counters: Counters) -> None:
        self.db.run("set_turn", job_id=job_id, turn=dump(turn), usage=dump(usage), counters=dump(counters))

    def _append(self, job_id: str, conversation: int, messages: Sequence[Message]) -> None:
        if not messages:
            return
        row = self.db.one("next_message_seq", job_id=job_id, conversation=conversation)
        assert row is not None
        for seq, message in enumerate(messages, start=row["seq"]):
            self.db.run(
                "insert_message",
                job_id=job_id,
                conversation=conversation,
                seq=seq,
                role=message.role,
                call_id=message.call_id,
                body=message.body,
                thought=message.thought,
                problems=canonical(message.problems) if message.problems else "",
            )

    def messages(self, job_id: str, conversation: int) -> list[Message]:
        """A conversation, message for message."""
        rows = self.db.all("messages", job_id=job_id, conversation=conversation)
        return [message_of(row) for row in rows]

    def call_ids(self, job_id: str) -> list[str]:
        """The ids of all calls that the job has made, in whatever conversation."""
        return [row["call_id"] for row in self.db.all("call_ids", job_id=job_id)]

    def begin_step(
        self,
        lease: Lease,
        intent: Intent,
        now: float,
        events: Sequence[Event] = (),
        before: Sequence[FileChange] = (),
    ) -> None:
        """Commit what is about to be done, durably, before it is done; an approval it uses is spent in the
        same transaction. ``before`` are the files it is about to change, as they are now: a call that is cut
        off right after its effect can still be undone and is still listed.

        Raises ``LeaseLost``: then the effect must not happen.
        """
        with self.db.tx(durable=True):
            self._fenced(lease, now)
            self.db.run(
                "insert_step",
                job_id=lease.job_id,
                call_id=intent.call_id,
                conversation=intent.conversation,
                movement_seq=intent.movement_seq,
                tool=intent.tool,
                effect=intent.effect,
                arguments=intent.arguments,
                digest=intent.digest,
                request_id=intent.request_id,
                path=intent.path,
                pre_hash=intent.pre_hash,
                post_hash=intent.post_hash,
                fence=lease.fence,
                now=now,
            )
            if intent.request_id is not None:
                self.db.run("use_request", request_id=intent.request_id, now=now)
            self._snapshots(lease.job_id, before, now)
            self._events(lease.job_id, now, events)

    def finish_steps(
        self,
        lease: Lease,
        now: float,
        conversation: int,
        results: Sequence[StepResult],
        *,
        turn: TurnState,
        usage: Usage,
        counters: Counters,
        events: Sequence[Event] = (),
        read: Mapping[str, str] | None = None,
    ) -> None:
        """Commit results with their messages, snapshots and events; of calls without an intent there is no
        step to close. ``read`` is what the model now knows of files, (path, hash), that it did not before.
        """
        with self.db.tx():
            self._fenced(lease, now)
            self._append(lease.job_id, conversation, [result.message for result in results])
            for result in results:
                self.db.run(
                    "finish_step",
                    job_id=lease.job_id,
                    call_id=result.call_id,
                    ok=int(result.ok),
                    brief=result.brief,
                    now=now,
                )
                self._snapshots(lease.job_id, result.changes, now)
            for path, known in (read or {}).items():
                self.db.run(
                    "mark_read", job_id=lease.job_id, conversation=conversation, path=path, hash=known
                )
            self._count(lease.job_id, turn, usage, counters)
            self._events(lease.job_id, now, events)

    def _snapshots(
        self, job_id: str, changes: Sequence[FileChange], now: float, since: float | None = None
    ) -> None:
        for change in changes:
            self.db.run(
                "insert_snapshot",
                job_id=job_id,
                path=change.path,
                before=change.before,
                mode=change.before_mode,
                before_hash=change.before_hash or _hash_of(change.before),
                after_hash=change.after_hash,
                after_mode=_mode_after(change),
                why=change.why,
                now=now,
                since=now if since is None else since,
            )

    def read_marks(self, job_id: str, conversation: int) -> dict[str, str]:
        """What the model knows of files in a conversation: absolute path → hash of what it last saw."""
        rows = self.db.all("read_marks", job_id=job_id, conversation=conversation)
        return {row["path"]: row["hash"] for row in rows}

    def step(self, job_id: str, call_id: str) -> Step | None:
        """A journalled call, or None if it never began."""
        row = self.db.one("step", job_id=job_id, call_id=call_id)
        return None if row is None else step_of(row)

    def steps_of_visit(self, job_id: str, name: str, visit: int) -> list[Step]:
        """The calls of one visit to a movement, in order of their start; a visit may be several stays with
        parks between.
        """
        rows = self.db.all("steps_of_visit", job_id=job_id, name=name, visit=visit)
        return [step_of(row) for row in rows]

    def end_movement(self, lease: Lease, now: float, leaving: Leaving, counters: Counters) -> None:
        """Close a stay in a movement on the way to the next one, and keep its lesson with the task."""
        with self.db.tx():
            self._fenced(lease, now)
            self._leave(lease, leaving, counters, now)

    def stay_left(self, job_id: str, movement_seq: int) -> tuple[str, str] | None:
        """(name, where it went) of a stay in a movement that is over; None while it lasts."""
        row = self.db.one("stay_left", job_id=job_id, movement_seq=movement_seq)
        return None if row is None else (row["name"], row["next"])

    def came_from(self, job_id: str, movement: str) -> tuple[str, str, str] | None:
        """(name, summary, lessons) of the stay in a movement that last sent the job to ``movement``, be it by
        way of a wait for subtasks.
        """
        row = self.db.one("came_from", job_id=job_id, movement=movement)
        return None if row is None else (row["name"], row["summary"] or "", row["lessons"] or "")

    def lessons(self, task_id: str) -> list[Lesson]:
        """A task's lessons, oldest first."""
        rows = self.db.all("lessons", task_id=task_id)
        return [Lesson(row["movement"], row["text"], row["job_id"], row["at"]) for row in rows]

    def undelivered(self, task_id: str) -> list[Comment]:
        """The person's comments that no message has carried yet."""
        rows = self.db.all("undelivered", task_id=task_id)
        return [Comment("user", row["text"], row["at"], row["comment_id"]) for row in rows]

    def last_comments(self, task_id: str, limit: int = 5) -> list[Comment]:
        """The end of a task's thread, oldest first."""
        rows = self.db.all("last_comments", task_id=task_id, limit=limit)
        return [
            Comment(row["author"], row["text"], row["at"], row["comment_id"], row["job_id"]) for row in rows
        ]


def _hash_of(before: bytes | None) -> str | None:
    return None if before is None else hashlib.sha256(before).hexdigest()


def _mode_after(change: FileChange) -> int | None:
    """The mode a change leaves: a write keeps that of the file, and that of a new file nobody says."""
    if change.after_mode is not None or change.after_hash is None:
        return change.after_mode
    return change.before_mode if change.before is not None else None
