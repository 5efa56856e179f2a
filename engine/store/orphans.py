"""Jobs whose owner died: found, queued again or parked, each exactly once however many processes look."""

from __future__ import annotations

from dataclasses import replace

from engine.core.jobs import JobStatus
from engine.core.records import Lease, NewRequest, Running
from engine.store.base import StoreBase
from engine.store.rows import counters_of, dump


class OrphansPart(StoreBase):
    """What recovery does to running jobs."""

    def running(self) -> list[Running]:
        """All running jobs with their owners, for recovery."""
        return [
            Running(
                job_id=row["job_id"],
                owner=row["owner"] or "",
                pid=row["owner_pid"] or 0,
                start=row["owner_start"] or "",
                boot=row["owner_boot"] or "",
                lease_until=row["lease_until"] or 0.0,
                fence=row["fence"],
                updated_at=row["updated_at"],
                crashes=counters_of(row["counters"]).crashes,
            )
            for row in self.db.all("running")
        ]

    def requeue_orphan(self, orphan: Running, now: float) -> None:
        """Queue a job whose owner died; it goes on with its journalled messages. Nothing happens if somebody
        else was faster.
        """
        with self.db.tx(durable=True):
            if self._count_crash(orphan):
                self._move(orphan.job_id, JobStatus.QUEUED, now, reason="recovered", fence=orphan.fence)

    def park_orphan(self, orphan: Running, request: NewRequest, now: float) -> None:
        """Park a job whose owner died and that must not start by itself, with a request to the person."""
        with self.db.tx(durable=True):
            if self._count_crash(orphan):
                row = self._job_row(orphan.job_id)
                self._park(Lease(orphan.job_id, row["task_id"], orphan.fence, row["run"]), request, now)

    def given_back(self, before: float) -> list[Lease]:
        """Queued jobs that some engine gave back before a moment and that none has taken up since."""
        return [
            Lease(row["job_id"], row["task_id"], row["fence"], row["run"])
            for row in self.db.all("given_back", before=before)
        ]

    def park_given_back(self, left: Lease, request: NewRequest, before: float, now: float) -> None:
        """Park a job that was given back long ago and must not start by itself. Nothing happens if somebody
        else was faster.
        """
        with self.db.tx(durable=True):
            if left in self.given_back(before):
                self._park(left, request, now)

    def _park(self, left: Lease, request: NewRequest, now: float) -> None:
        self._move(left.job_id, JobStatus.WAITING_HUMAN, now, wait_reason=request.reason, fence=left.fence)
        self._store_request(left, request, now)

    def _count_crash(self, orphan: Running) -> bool:
        row = self._job_row(orphan.job_id)
        if row["fence"] != orphan.fence or row["status"] != JobStatus.RUNNING:
            return False
        self.db.run("end_run", job_id=orphan.job_id, run=row["run"], outcome="crashed", now=row["updated_at"])
        if row["cancel_requested"]:
            self._move(
                orphan.job_id, JobStatus.CANCELLED, row["updated_at"], reason="cancelled", fence=orphan.fence
            )
            self._after_end(orphan.job_id, row["parent_id"], JobStatus.CANCELLED, row["updated_at"])
            return False
        counters = replace(counters_of(row["counters"]), crashes=orphan.crashes + 1)
        self.db.run("set_counters", job_id=orphan.job_id, counters=dump(counters))
        return True
