"""What all parts of the store share: the connection, events, fenced writes, moves."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from engine.core.errors import IllegalMove, LeaseLost, NotFound
from engine.core.jobs import ENDED, Counters, JobStatus, sources_of
from engine.core.model_choice import Wish
from engine.core.outcome import ABORT, UNSETTLED
from engine.core.records import Event, Lease, Leaving, NewRequest, canonical
from engine.core.views import iso
from engine.store.rows import dump
from engine.store.sqlite import Database


class StoreBase:
    """Base of the store's parts. Every public method of a part is one transaction."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def _event(self, job_id: str, now: float, event: Event) -> None:
        """Append an event inside the running transaction; ``seq`` has no gaps because a rollback takes the
        number back.
        """
        row = self.db.one("next_seq", job_id=job_id)
        assert row is not None
        self.db.run(
            "insert_event",
            job_id=job_id,
            seq=row["last_seq"],
            at=now,
            kind=event.kind,
            body=canonical(dict(event.body)),
        )

    def _events(self, job_id: str, now: float, events: Iterable[Event]) -> None:
        for event in events:
            self._event(job_id, now, event)

    def wishes(self, now: float) -> list[Wish]:
        """What the queued jobs that are due want of a worker, each wish once."""
        rows = self.db.all("wishes", now=now)
        return [Wish(row["model"], bool(row["child"]), row["worker"]) for row in rows]

    def _fenced(self, lease: Lease, now: float) -> None:
        """Prove ownership inside the running transaction. Raises ``LeaseLost``."""
        if not self.db.run("touch", job_id=lease.job_id, fence=lease.fence, now=now):
            raise LeaseLost("job.lease_lost", id=lease.job_id)

    def _job_row(self, job_id: str) -> sqlite3.Row:
        row = self.db.one("job", job_id=job_id)
        if row is None:
            raise NotFound("job.unknown", id=job_id, data={"id": job_id})
        return row

    def _move(
        self,
        job_id: str,
        target: JobStatus,
        now: float,
        *,
        reason: str | None = None,
        wait_reason: str | None = None,
        resumed_by: str | None = None,
        fence: int | None = None,
    ) -> None:
        """Move a job inside the running transaction, by compare-and-set. Raises ``IllegalMove``; then nothing
        changed.

        Whether the job goes on with its conversation, and what resumed it, stay as they are unless
        ``resumed_by`` says otherwise: an answer that no prompt has carried yet survives a death.
        """
        row = self._job_row(job_id)
        moved = self.db.run(
            "move_job",
            job_id=job_id,
            status=target.value,
            sources=json.dumps([status.value for status in sources_of(target)]),
            reason=reason,
            wait_reason=wait_reason,
            resumed_by=resumed_by,
            fence=fence,
            now=now,
        )
        if not moved:
            raise IllegalMove(
                "job.illegal_move",
                id=job_id,
                status=row["status"],
                target=target.value,
                data={"status": row["status"]},
            )
        self._status_event(job_id, now, row["status"], target.value, wait_reason=wait_reason, reason=reason)

    def _status_event(
        self,
        job_id: str,
        now: float,
        source: str | None,
        target: str,
        *,
        wait_reason: str | None,
        reason: str | None,
    ) -> None:
        body: dict[str, object] = {"from": source, "to": target}
        if wait_reason:
            body["waitReason"] = wait_reason
        if reason:
            body["reason"] = reason
        self._event(job_id, now, Event("status", body))

    def _wake_parent(self, parent_id: str | None, now: float) -> None:
        """Queue a parent in the transaction that settles its last child: so it wakes exactly once."""
        if parent_id is None:
            return
        parent = self.db.one("job", job_id=parent_id)
        if parent is None or parent["status"] != JobStatus.WAITING_SUBTASKS:
            return
        count = self.db.one("open_children", job_id=parent_id)
        if count is not None and count["n"] == 0:
            self._move(parent_id, JobStatus.QUEUED, now)

    def _comment(
        self,
        comment_id: str,
        task_id: str,
        job_id: str | None,
        author: str,
        text: str,
        now: float,
        *,
        delivered: bool,
    ) -> None:
        self.db.run(
            "insert_comment",
            comment_id=comment_id,
            task_id=task_id,
            job_id=job_id,
            author=author,
            text=text,
            delivered=int(delivered),
            now=now,
        )

    def _leave(self, lease: Lease, leaving: Leaving, counters: Counters, now: float) -> None:
        """Close a stay in a movement and keep its lesson with the task, once: a stay that is over already
        (its end was stored, its engine died, the same end came again) is left as it is.
        """
        self.db.run("set_counters", job_id=lease.job_id, counters=dump(counters))
        changed = self.db.run(
            "end_movement",
            job_id=lease.job_id,
            movement_seq=leaving.movement_seq,
            next=leaving.next_step,
            summary=leaving.summary or None,
            lessons=leaving.lessons or None,
            iterations=leaving.iterations,
            now=now,
        )
        if not changed:
            return
        if leaving.lesson:
            self.db.run(
                "insert_lesson",
                task_id=lease.task_id,
                job_id=lease.job_id,
                movement=leaving.movement,
                text=leaving.lesson,
                now=now,
            )
        self._events(lease.job_id, now, leaving.events)

    def _ended(self, status: str) -> bool:
        return JobStatus(status) in ENDED

    def _store_request(self, lease: Lease, request: NewRequest, now: float) -> None:
        if self.db.one("open_by_key", job_id=lease.job_id, key=request.key) is None:
            self.db.run(
                "insert_request",
                request_id=request.request_id,
                job_id=lease.job_id,
                task_id=lease.task_id,
                reason=request.reason,
                key=request.key,
                digest=request.digest,
                call_id=request.call_id,
                shown=canonical(dict(request.shown)),
                now=now,
            )
            public = {key: value for key, value in request.shown.items() if key != "ruleDraft"}
            about = {"requestId": request.request_id, "jobId": lease.job_id, "taskId": lease.task_id}
            shown = {**public, **about, "reason": request.reason, "createdAt": iso(now)}
            self._event(lease.job_id, now, Event("request", {"request": shown}))

    def _after_end(self, job_id: str, parent_id: str | None, status: JobStatus, now: float) -> None:
        """Close what an ended job leaves open, in the same transaction."""
        self.db.run("close_requests", job_id=job_id, decision="withdrawn", by="maestro", text=None, now=now)
        left = UNSETTLED if status is JobStatus.FAILED else ABORT
        self.db.run("close_movements", job_id=job_id, next=left, now=now)
        self._cancel_children(job_id, now)
        self._wake_parent(parent_id, now)

    def _cancel_children(self, job_id: str, now: float) -> None:
        """Nobody works on for a job that has ended, whatever the end: its open children are cancelled."""
        for child in self.db.all("children", job_id=job_id):
            if not self._ended(child["status"]):
                self._cancel_one(child["job_id"], now, "maestro")

    def _cancel_one(self, job_id: str, now: float, by: str) -> bool:
        row = self._job_row(job_id)
        if self.db.run("want_cancel", job_id=job_id):
            self._cancel_children(job_id, now)
            return False
        self._move(job_id, JobStatus.CANCELLED, now, reason="cancelled")
        self._after_end(job_id, row["parent_id"], JobStatus.CANCELLED, now)
        return True
