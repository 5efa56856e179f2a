"""What lists, pages and the bridge read: views of jobs, events and settings of the workspace."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from engine.core import checklist
from engine.core.checklist import Checklist
from engine.core.errors import NotFound
from engine.core.jobs import Job
from engine.core.records import Lease, Snapshot
from engine.core.views import (
    Brief,
    ChildView,
    CommentView,
    DecisionView,
    JobDetail,
    JobSummary,
    MovementView,
    iso,
    to_wire,
)
from engine.store.base import StoreBase
from engine.store.jobs import as_json
from engine.store.rows import job_of, request_view, summary_of


class ReadsPart(StoreBase):
    """Reads only, and the small settings of a workspace."""

    def job(self, job_id: str) -> Job:
        """A job as its runner sees it. Raises ``NotFound``."""
        return job_of(self._job_row(job_id))

    def has_job(self, job_id: str) -> bool:
        """True if this store holds the job."""
        return self.db.one("job", job_id=job_id) is not None

    def has_task(self, task_id: str) -> bool:
        """True if this store holds the task."""
        return self.db.one("task", task_id=task_id) is not None

    def has_request(self, request_id: str) -> bool:
        """True if this store holds the request."""
        return self.db.one("request", request_id=request_id) is not None

    def _open_of(self, job_id: str) -> list[str]:
        return [row["request_id"] for row in self.db.all("open_requests_of", job_id=job_id)]

    def summary(self, job_id: str) -> JobSummary:
        """A job's summary; its open requests include its children's. Raises ``NotFound``."""
        return summary_of(self._job_row(job_id), self._open_of(job_id))

    def list_jobs(self, statuses: Sequence[str] | None = None, limit: int = 200) -> list[JobSummary]:
        """Summaries, newest first."""
        wanted = None if statuses is None else as_json(statuses)
        rows = self.db.all("list_jobs", statuses=wanted, limit=limit)
        return [summary_of(row, self._open_of(row["job_id"])) for row in rows]

    def detail(self, job_id: str) -> JobDetail:
        """Everything about a job but its events. Raises ``NotFound``."""
        row = self._job_row(job_id)
        requests = [request_view(r) for r in self.db.all("requests_of_job", job_id=job_id)]
        summary = {
            f: getattr(s, f) for s in [summary_of(row, self._open_of(job_id))] for f in s.__struct_fields__
        }
        return JobDetail(
            **summary,
            instruction=row["instruction"],
            mode=row["mode"],
            language=row["language"],
            result=row["result"],
            requests=requests,
            comments=[
                CommentView(author=c["author"], at=iso(c["at"]), text=c["text"], job_id=c["job_id"])
                for c in self.db.all("last_comments", task_id=row["task_id"], limit=1000)
            ],
            movements=self._movements(job_id),
            decisions=[
                DecisionView(key=r["key"], decision=r["decision"], scope=r["scope"], note=r["note"])
                for r in self.db.all("requests_of_job", job_id=job_id)
                if r["decision"] is not None
            ],
            brief=self.brief(row["task_id"]),
            children=[
                ChildView(
                    job_id=c["job_id"],
                    task_id=c["task_id"],
                    title=c["title"],
                    status=c["status"],
                    reason=c["reason"],
                )
                for c in self.db.all("children_told", job_id=job_id)
            ],
        )

    def _movements(self, job_id: str) -> list[MovementView]:
        return [
            MovementView(
                name=m["name"],
                visit=m["visit"],
                run=m["run"],
                started_at=iso(m["started_at"]),
                ended_at=None if m["ended_at"] is None else iso(m["ended_at"]),
                next=m["next"],
                summary=m["summary"],
                lessons=m["lessons"],
                iterations=m["iterations"],
                forced=bool(m["forced"]),
                reused_pct=m["reused_pct"],
            )
            for m in self.db.all("movements", job_id=job_id)
        ]

    def brief(self, task_id: str) -> Brief:
        """A task's Mission Brief. Raises ``NotFound``."""
        row = self.db.one("task", task_id=task_id)
        if row is None:
            raise NotFound("task.unknown", id=task_id, data={"id": task_id})
        return msgspec.json.decode(row["brief"], type=Brief)

    def set_brief(self, task_id: str, fields: dict[str, str]) -> Brief:
        """Replace the given fields of a Mission Brief, keep the others. Raises ``NotFound``."""
        with self.db.tx(durable=True):
            return self._set_brief(task_id, fields)

    def _set_brief(self, task_id: str, fields: dict[str, str]) -> Brief:
        brief = msgspec.structs.replace(self.brief(task_id), **fields)
        self.db.run("set_brief", task_id=task_id, brief=json.dumps(to_wire(brief), ensure_ascii=False))
        return brief

    def set_brief_fields(self, lease: Lease, now: float, fields: dict[str, str]) -> dict[str, str]:
        """``set_brief`` for the model: fenced, with a plain result. Raises ``LeaseLost``."""
        with self.db.tx():
            self._fenced(lease, now)
            return dict(to_wire(self._set_brief(lease.task_id, fields)))

    def brief_fields(self, task_id: str) -> dict[str, str]:
        """A task's Mission Brief as plain fields."""
        return dict(to_wire(self.brief(task_id)))

    def checklists(self, task_id: str) -> dict[str, Checklist]:
        """A task's checklists by name, in the order they were made."""
        row = self.db.one("checklists", task_id=task_id)
        return {} if row is None else checklist.from_json(row["checklists"])

    def set_checklist(self, lease: Lease, now: float, name: str, items: Checklist) -> None:
        """Make or replace one checklist of the leased job's task. Raises ``LeaseLost``."""
        with self.db.tx():
            self._fenced(lease, now)
            lists = {**self.checklists(lease.task_id), name: items}
            stored = {key: checklist.to_json(kept) for key, kept in lists.items()}
            text = json.dumps(stored, ensure_ascii=False)
            self.db.run("set_checklists", task_id=lease.task_id, checklists=text)

    def last_activity(self, job_id: str, before_run: int) -> float | None:
        """When the run before ``before_run`` ended or began, POSIX seconds."""
        row = self.db.one("run_times", job_id=job_id, run=before_run - 1)
        return None if row is None else float(row["ended_at"] or row["started_at"])

    def stance(self, job_id: str, task_id: str) -> tuple[str, list[tuple[str, str, str]]]:
        """A job's mode as it is now, and the stored rules that apply to it, (id, scope, canonical JSON).
        Rules for a task also hold for its children.
        """
        rows = self.db.all("rules_of_task", task_id=task_id)
        rules = [(row["rule_id"], row["scope"], row["rule"]) for row in rows]
        return str(self._job_row(job_id)["mode"]), rules

    def job_events(self, job_id: str, after: int = 0, limit: int = 100_000) -> list[dict[str, Any]]:
        """A job's stored events from ``after`` on, as on the wire. Raises ``NotFound``."""
        self._job_row(job_id)
        return [_event(row) for row in self.db.all("job_events", job_id=job_id, after=after, limit=limit)]

    def events_after(self, event_id: int, limit: int = 1000) -> list[tuple[int, dict[str, Any]]]:
        """(id, event) of all jobs' events after ``event_id``, in commit order: what the bridge tails."""
        return [
            (row["event_id"], _event(row)) for row in self.db.all("events_after", after=event_id, limit=limit)
        ]

    def last_event_id(self) -> int:
        """The id of the newest event, 0 if there is none."""
        row = self.db.one("last_event")
        return 0 if row is None else int(row["event_id"])

    def snapshots(self, job_id: str) -> list[Snapshot]:
        """What a job changed, by path."""
        return [
            Snapshot(
                path=row["path"],
                before=row["before"],
                before_mode=row["mode"],
                before_hash=row["before_hash"] or _hash_of(row["before"]),
                after_hash=row["after_hash"],
                after_mode=row["after_mode"],
                why=row["why"],
                reverted=row["reverted_at"] is not None,
            )
            for row in self.db.all("snapshots", job_id=job_id)
        ]

    def changed_by_others(self, job_id: str, since: float) -> dict[str, set[str | None]]:
        """What other jobs have left at paths since a moment, or what was put back there: fingerprints by
        path.
        """
        found: dict[str, set[str | None]] = {}
        for row in self.db.all("changed_by_others", job_id=job_id, since=since):
            left = row["before_hash"] if row["reverted_at"] is not None else row["after_hash"]
            found.setdefault(row["path"], set()).add(left)
        return found

    def put_back_since(self, job_id: str, since: float) -> dict[str, str | None]:
        """What of this job was put back since a moment: the fingerprints from before its changes, by path."""
        rows = self.db.all("put_back_since", job_id=job_id, since=since)
        return {row["path"]: row["before_hash"] for row in rows}

    def snapshot_prints(self) -> set[str]:
        """The fingerprints whose bytes some job's changes refer to."""
        return {row["before_hash"] for row in self.db.all("snapshot_prints")}

    def enriched(self, job_id: str) -> str:
        """The newest enriched instruction of a job, empty if no run had one."""
        row = self.db.one("last_enriched", job_id=job_id)
        return "" if row is None else str(row["enriched"])

    def meta(self, key: str) -> str | None:
        """A setting of the workspace."""
        row = self.db.one("get_meta", key=key)
        return None if row is None else str(row["value"])

    def set_meta(self, key: str, value: str) -> None:
        """Store a setting of the workspace."""
        with self.db.tx(durable=True):
            self.db.run("set_meta", key=key, value=value)


def _hash_of(before: bytes | None) -> str | None:
    """The fingerprint of a row that was stored without one."""
    return None if before is None else hashlib.sha256(before).hexdigest()


def _event(row: Any) -> dict[str, Any]:
    return {
        "jobId": row["job_id"],
        "seq": row["seq"],
        "at": iso(row["at"]),
        "kind": row["kind"],
        **json.loads(row["body"]),
    }
