"""Forgetting whole tasks: every row that is about them, in one transaction for each family of tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from engine.core.jobs import ENDED
from engine.core.prune import Known
from engine.store.base import StoreBase

EVENTS_FORGOTTEN = "events_forgotten"
"""In ``meta``: the highest event id that was ever given, so that none is given twice to those who follow."""

_ROWS = (
    *("forget_read_marks", "forget_events", "forget_messages", "forget_steps", "forget_movements"),
    *("forget_runs", "forget_requests", "forget_snapshots", "unlink_jobs", "forget_jobs"),
    *("forget_comments", "forget_lessons", "forget_rules", "forget_tasks"),
)
"""What removes the rows, those that refer to others first."""


class PruningPart(StoreBase):
    """What ``prune`` does to the database."""

    def known_jobs(self) -> list[Known]:
        """All jobs, as ``old_families`` judges them."""
        return [
            Known(
                job_id=row["job_id"],
                task_id=row["task_id"],
                parent_id=row["parent_id"],
                spawned_by=row["spawned_by"],
                ended=row["status"] in ENDED,
                updated_at=row["updated_at"],
            )
            for row in self.db.all("known_jobs")
        ]

    def weigh(self, tasks: Sequence[str]) -> int:
        """About how many bytes the rows of these tasks take."""
        row = self.db.one("weigh_tasks", tasks=json.dumps(tasks))
        return 0 if row is None else int(row["bytes"])

    def forget(self, tasks: Sequence[str], before: float, aside: Callable[[], None]) -> bool:
        """Remove a family of tasks, unless one of its jobs was taken up since it was looked at.

        ``aside`` is called once this is certain, before the commit: it moves the tasks' folders out of the
        way. True if the tasks are gone.
        """
        wanted = json.dumps(tasks)
        with self.db.tx(durable=True):
            if self.db.one("still_needed", tasks=wanted, before=before) is not None:
                return False
            row = self.db.one("last_event")
            highest = int(self._meta(EVENTS_FORGOTTEN) or 0)
            newest = max(highest, 0 if row is None else int(row["event_id"]))
            self.db.run("set_meta", key=EVENTS_FORGOTTEN, value=str(newest))
            for statement in _ROWS:
                self.db.run(statement, tasks=wanted)
            aside()
            return True

    def shrink(self) -> None:
        """Give unused room back to the disk; nothing happens while a job runs. Raises ``StoreLocked``."""
        if not self.db.all("running"):
            self.db.shrink()

    def _meta(self, key: str) -> str | None:
        row = self.db.one("get_meta", key=key)
        return None if row is None else str(row["value"])
