"""Queued jobs that must wait: for a model worker with room, or for a server that had too many requests."""

from __future__ import annotations

from engine.core.jobs import Counters, JobStatus
from engine.core.records import Lease
from engine.store.base import StoreBase
from engine.store.rows import dump


class WaitingPart(StoreBase):
    """Which worker a job has, and when it may be claimed."""

    def set_worker(self, lease: Lease, worker: str, now: float) -> None:
        """Note the model worker that a job keeps. Raises ``LeaseLost``."""
        with self.db.tx():
            self._fenced(lease, now)
            self.db.run("set_worker", job_id=lease.job_id, worker=worker)

    def put_off(self, lease: Lease, now: float, not_before: float, counters: Counters) -> None:
        """Give a running job back to the queue until ``not_before``: the model server takes no more requests
        now. It goes on with its conversation. A cancel that was wanted meanwhile wins.

        Raises ``LeaseLost``.
        """
        with self.db.tx(durable=True):
            self._fenced(lease, now)
            row = self._job_row(lease.job_id)
            self.db.run("end_run", job_id=lease.job_id, run=lease.run, outcome="rate_limited", now=now)
            if row["cancel_requested"]:
                self._move(lease.job_id, JobStatus.CANCELLED, now, reason="cancelled", fence=lease.fence)
                self._after_end(lease.job_id, row["parent_id"], JobStatus.CANCELLED, now)
                return
            self.db.run("set_counters", job_id=lease.job_id, counters=dump(counters))
            self.db.run("set_not_before", job_id=lease.job_id, not_before=not_before)
            self._move(lease.job_id, JobStatus.QUEUED, now, reason="rate_limited", fence=lease.fence)

    def worked_s(self, job_id: str, before_run: int) -> float:
        """The seconds that workers were busy with a job in the runs before this one."""
        row = self.db.one("worked_s", job_id=job_id, run=before_run)
        return 0.0 if row is None else float(row["seconds"] or 0.0)
