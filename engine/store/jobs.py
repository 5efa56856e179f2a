"""Jobs in the store: submit, claim, heartbeat, settle, cancel, retry, recover."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from engine.core.errors import BadArgument, IllegalMove, LeaseLost, NotFound
from engine.core.jobs import ENDED, PARKED, RETRYABLE, Counters, Job, JobStatus, Owner
from engine.core.model_choice import Wish
from engine.core.outcome import PieceRunResult
from engine.core.records import Event, Lease, Leaving, NewJob, NewRequest, canonical
from engine.store.base import StoreBase
from engine.store.rows import dump, job_of

_UNHEARD = PieceRunResult(status=JobStatus.QUEUED, reason="comment")
"""What becomes of a success that a comment crossed."""
MAX_DEPTH = 3
MAX_CHILDREN = 20


class JobsPart(StoreBase):
    """The life of a job's row."""

    def submit(self, new: NewJob, now: float, comment_id: str | None = None) -> tuple[str, str]:
        """Store a job (and its task, unless it joins one); (task id, job id). The commit is the
        acknowledgement, so it is durable. With a ``comment_id`` the instruction also joins the thread as the
        person's comment: a follow-up.

        Raises ``NotFound`` for an unknown task or parent, ``BadArgument`` when the parent's family is too
        deep or too large.
        """
        with self.db.tx(durable=True):
            task_id, job_id = self._submit(new, now)
            if comment_id is not None:
                self._comment(comment_id, task_id, job_id, "user", new.instruction, now, delivered=True)
                self._event(job_id, now, Event("comment", {"author": "user", "text": new.instruction}))
        return task_id, job_id

    def _submit(self, new: NewJob, now: float) -> tuple[str, str]:
        if (made := self._made(new.spawned_by, new.spawn_key)) is not None:
            return made
        task_id, depth = self._place(new, now)
        self.db.run(
            "insert_job",
            job_id=new.job_id,
            task_id=task_id,
            parent_id=new.parent_id,
            retry_of=new.retry_of,
            spawned_by=new.spawned_by,
            spawn_key=new.spawn_key,
            depth=depth,
            instruction=new.instruction,
            files=canonical(list(new.files)),
            mode=new.mode,
            model=new.model,
            piece_name=new.piece_name,
            piece=new.piece,
            piece_hash=new.piece_hash,
            movement=new.movement,
            now=now,
        )
        self._status_event(new.job_id, now, None, JobStatus.QUEUED.value, wait_reason=None, reason=None)
        return task_id, new.job_id

    def _made(self, by: str | None, key: str | None) -> tuple[str, str] | None:
        """(task id, job id) of what ``by`` made under a key, if it did."""
        row = None if by is None else self.db.one("spawned", by=by, key=key)
        return None if row is None else (row["task_id"], row["job_id"])

    def _place(self, new: NewJob, now: float) -> tuple[str, int]:
        depth = 0
        if (maker := new.parent_id or self._maker_here(new)) is not None:
            depth = self._job_row(maker)["depth"] + 1
            if depth > MAX_DEPTH:
                raise BadArgument("job.too_deep", limit=MAX_DEPTH)
            if len(self.db.all("made_by", job_id=maker)) >= MAX_CHILDREN:
                raise BadArgument("job.too_many_children", limit=MAX_CHILDREN)
        if new.task_id is not None:
            if self.db.one("task", task_id=new.task_id) is None:
                raise NotFound("task.unknown", id=new.task_id, data={"id": new.task_id})
            return new.task_id, depth
        self.db.run(
            "insert_task",
            task_id=new.new_task_id,
            title=new.title,
            instruction=new.instruction,
            language=new.language,
            now=now,
        )
        return new.new_task_id, depth

    def _maker_here(self, new: NewJob) -> str | None:
        """The job that makes a task beside its own; None if nobody did, or a job of another workspace."""
        found = None if new.spawned_by is None else self.db.one("job", job_id=new.spawned_by)
        return None if found is None else new.spawned_by

    def claim(
        self,
        owner: Owner,
        now: float,
        lease_s: float,
        only: str | None = None,
        full: Callable[[Sequence[Wish]], Sequence[Wish]] | None = None,
    ) -> Job | None:
        """Take the oldest queued job under a lease, or None. Starts its next run. An idle look at the queue
        takes no lock. ``only`` takes nothing but that job and its children; ``full`` tells which of the
        queued jobs' wishes must wait, and is asked in the same transaction.
        """
        if self.db.one("anything_queued", now=now) is None:
            return None
        with self.db.tx():
            waiting = full(self.wishes(now)) if full is not None else ()
            row = self.db.one(
                "claim",
                owner=owner.token,
                pid=owner.pid,
                start=owner.start,
                boot=owner.boot,
                lease_until=now + lease_s,
                only=only,
                full=json.dumps([[wish.model, int(wish.child), wish.had] for wish in waiting]),
                now=now,
            )
            if row is None:
                return None
            self.db.run("insert_run", job_id=row["job_id"], run=row["run"], now=now)
            self._status_event(
                row["job_id"],
                now,
                JobStatus.QUEUED.value,
                JobStatus.RUNNING.value,
                wait_reason=None,
                reason=None,
            )
            return job_of(self._job_row(row["job_id"]))

    def heartbeat(self, lease: Lease, now: float, lease_s: float) -> bool:
        """Renew a lease; False if it is no longer ours."""
        with self.db.tx():
            return bool(
                self.db.run("heartbeat", job_id=lease.job_id, fence=lease.fence, lease_until=now + lease_s)
            )

    def cancel_wanted(self, owner: Owner) -> list[str]:
        """Running jobs of this process that somebody wants cancelled."""
        return [row["job_id"] for row in self.db.all("cancel_wanted", owner=owner.token)]

    def choose_piece(self, lease: Lease, now: float, job: Job, events: Sequence[Event]) -> None:
        """Give a job that named no piece the one of ``job``, with what the choice cost. Raises
        ``LeaseLost``.
        """
        with self.db.tx():
            self._fenced(lease, now)
            self.db.run(
                "set_job_piece",
                job_id=lease.job_id,
                fence=lease.fence,
                piece_name=job.piece_name,
                piece=job.piece,
                piece_hash=job.piece_hash,
                movement=job.movement,
                model=job.model,
                usage=dump(job.usage),
                counters=dump(job.counters),
            )
            self._events(lease.job_id, now, events)

    def prepare_job(
        self,
        lease: Lease,
        now: float,
        *,
        piece_name: str,
        piece: bytes,
        piece_hash: str,
        movement: str,
        tools: bytes,
        system: str,
        project_hash: str | None = None,
    ) -> None:
        """Fix what must never change over the job: its piece, its tools' bytes, its system text (with the
        hash of the project's instructions in it).
        """
        with self.db.tx():
            self._fenced(lease, now)
            self.db.run(
                "set_job_prepared",
                job_id=lease.job_id,
                fence=lease.fence,
                tools=tools,
                system=system,
                project_hash=project_hash,
                piece_name=piece_name,
                piece=piece,
                piece_hash=piece_hash,
                movement=movement,
            )

    def settle(
        self,
        lease: Lease,
        end: PieceRunResult,
        now: float,
        *,
        counters: Counters,
        restores: bool = False,
        request: NewRequest | None = None,
        comment: tuple[str, str] | None = None,
        leaving: Leaving | None = None,
        events: Sequence[Event] = (),
    ) -> JobStatus:
        """End a run: park the job or end it, in one transaction with the end of its movement, its request,
        its events and its parent's wake-up.

        A cancel that was wanted meanwhile wins over a park; parking on children when none is open queues the
        job again at once; so does success while a comment of the person was not heard yet, and then the
        conversation goes on with it. One that was forced at the context limit cannot: there is no room.
        ``comment`` is (id, text) of the entry maestro adds to the thread. Returns the status the job really
        got. Raises ``LeaseLost``.
        """
        with self.db.tx(durable=True):
            self._fenced(lease, now)
            row = self._job_row(lease.job_id)
            crossed = end.status is JobStatus.SUCCEEDED and not end.forced
            if crossed and self.db.one("undelivered", task_id=lease.task_id):
                end, restores, leaving, comment = _UNHEARD, True, None, None
            planned, end = end, self._really(end, bool(row["cancel_requested"]), lease.job_id)
            if leaving is not None:
                self._leave(lease, leaving, counters, now)
            request = request if end.status in PARKED else None
            self._events(lease.job_id, now, events)
            self._end_run(lease, end, now, counters, restores, request)
            if request is not None:
                self._store_request(lease, request, now)
            if comment is not None and end is planned:
                self._comment(
                    comment[0], lease.task_id, lease.job_id, "maestro", comment[1], now, delivered=True
                )
            self._status_event(
                lease.job_id,
                now,
                JobStatus.RUNNING.value,
                end.status.value,
                wait_reason=end.wait_reason,
                reason=end.reason or None,
            )
            if end.status in ENDED:
                self._after_end(lease.job_id, row["parent_id"], end.status, now)
            return end.status

    def _end_run(
        self,
        lease: Lease,
        end: PieceRunResult,
        now: float,
        counters: Counters,
        restores: bool,
        request: NewRequest | None,
    ) -> None:
        self.db.run(
            "settle",
            job_id=lease.job_id,
            fence=lease.fence,
            status=end.status.value,
            resume_movement=end.resume_movement,
            wait_reason=end.wait_reason,
            reason=end.reason or None,
            forced=int(end.forced),
            result=end.result or None,
            screen_key=request.screen_key if request is not None else None,
            restores=int(restores and end.status not in ENDED),
            counters=dump(counters),
            now=now,
        )
        self.db.run("end_run", job_id=lease.job_id, run=lease.run, outcome=end.status.value, now=now)

    def _really(self, end: PieceRunResult, cancel_wanted: bool, job_id: str) -> PieceRunResult:
        if cancel_wanted and end.status not in ENDED:
            return PieceRunResult(status=JobStatus.CANCELLED, reason="cancelled")
        if end.status is JobStatus.WAITING_SUBTASKS:
            count = self.db.one("open_children", job_id=job_id)
            if count is None or count["n"] == 0:
                return replace(end, status=JobStatus.QUEUED, wait_reason=None)
        return end

    def cancel(self, job_id: str, by: str, now: float) -> bool:
        """Cancel a job and its children. True if it is cancelled now, False if its runner will see the wish.

        Raises ``NotFound``, and ``IllegalMove`` if it has ended.
        """
        with self.db.tx(durable=True):
            row = self._job_row(job_id)
            if self._ended(row["status"]):
                raise IllegalMove(
                    "job.ended", id=job_id, status=row["status"], data={"status": row["status"]}
                )
            return self._cancel_one(job_id, now, by)

    def retry(self, job_id: str, new_job_id: str, now: float) -> str:
        """A new job from a failed, aborted or cancelled one: same piece, last movement, fresh counters. Its
        id. The retry of a child is a child too: its parent waits for it, and is told of it in place of the
        first.

        Raises ``NotFound``; ``IllegalMove`` for any other status.
        """
        with self.db.tx(durable=True):
            row = self._job_row(job_id)
            if JobStatus(row["status"]) not in RETRYABLE:
                raise IllegalMove(
                    "job.not_retryable", id=job_id, status=row["status"], data={"status": row["status"]}
                )
            self.db.run(
                "insert_job",
                job_id=new_job_id,
                task_id=row["task_id"],
                parent_id=row["parent_id"],
                retry_of=job_id,
                spawned_by=None,
                spawn_key=None,
                depth=row["depth"],
                instruction=row["instruction"],
                files=row["files"],
                mode=row["mode"],
                model=row["model"],
                piece_name=row["piece_name"],
                piece=row["piece"],
                piece_hash=row["piece_hash"],
                movement=row["movement"],
                now=now,
            )
            self._status_event(new_job_id, now, None, JobStatus.QUEUED.value, wait_reason=None, reason=None)
        return new_job_id

    def requeue(self, lease: Lease, now: float) -> None:
        """Give a running job back to the queue (an orderly stop): nothing is lost, nothing counts as a crash.
        A cancel that was wanted meanwhile wins.
        """
        with self.db.tx(durable=True):
            row = self._job_row(lease.job_id)
            if row["fence"] != lease.fence or row["status"] != JobStatus.RUNNING:
                raise LeaseLost("job.lease_lost", id=lease.job_id)
            if row["cancel_requested"]:
                self._move(lease.job_id, JobStatus.CANCELLED, now, reason="cancelled", fence=lease.fence)
                self._after_end(lease.job_id, row["parent_id"], JobStatus.CANCELLED, now)
            else:
                self._move(lease.job_id, JobStatus.QUEUED, now, reason="stopped", fence=lease.fence)
            self.db.run("end_run", job_id=lease.job_id, run=lease.run, outcome="stopped", now=now)

    def data_version(self) -> int:
        """Changes whenever another connection committed."""
        return self.db.data_version()

    def counts(self) -> dict[str, int]:
        """Jobs per status."""
        return {row["status"]: row["n"] for row in self.db.all("counts")}

    def set_mode(self, job_id: str, mode: str) -> None:
        """The mode of a job from its next call on. Raises ``NotFound``."""
        with self.db.tx(durable=True):
            self._job_row(job_id)
            self.db.run("set_mode", job_id=job_id, mode=mode)

    def ended_among(self, job_ids: Sequence[str]) -> list[str]:
        """Those of these jobs that have ended."""
        return [row["job_id"] for row in self.db.all("ended_among", ids=as_json(job_ids))]

    def statuses_of_task(self, task_id: str) -> list[tuple[str, JobStatus]]:
        """(job id, status) of a task's jobs, oldest first."""
        return [
            (row["job_id"], JobStatus(row["status"])) for row in self.db.all("jobs_of_task", task_id=task_id)
        ]


def as_json(values: Iterable[str]) -> str:
    """A JSON array of strings, for ``json_each``."""
    return json.dumps(list(values))
