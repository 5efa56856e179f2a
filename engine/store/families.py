"""Parents and children, tasks made by tools, and what a job was granted."""

from __future__ import annotations

from engine.core.family import Child, Spawned
from engine.core.grants import Grants, ToolRequest
from engine.core.jobs import JobStatus
from engine.core.policy_rules import rule_from_json
from engine.core.records import Event, Lease, NewJob, SettledRequest, Step
from engine.store.jobs import JobsPart
from engine.store.rows import settled_request_of, step_of


class FamiliesPart(JobsPart):
    """What a job makes, waits for and was granted (``engine.md`` sections 4, 6 and 7)."""

    def spawn(self, lease: Lease, new: NewJob, now: float) -> tuple[str, str]:
        """``submit`` on behalf of a running job: fenced, and once per ``spawned_by`` and ``spawn_key``.

        Raises ``LeaseLost``, and ``BadArgument`` when the family is too deep or too large.
        """
        with self.db.tx(durable=True):
            self._fenced(lease, now)
            return self._submit(new, now)

    def spawned(self, by: str, key: str) -> Spawned | None:
        """The task that ``by`` made under a key, as it is now: a retried one by its newest retry."""
        found = self._made(by, key)
        if found is None:
            return None
        row = self._job_row(found[1])
        while (retry := self.db.one("retry_of", job_id=row["job_id"], task_id=row["task_id"])) is not None:
            row = self._job_row(retry["job_id"])
        return Spawned(
            task_id=row["task_id"],
            job_id=row["job_id"],
            title=row["title"],
            piece=row["piece_name"] or "",
            status=JobStatus(row["status"]),
            new=False,
        )

    def children(self, job_id: str) -> list[Child]:
        """A job's children, oldest first; of a retried one its newest retry."""
        return [
            Child(
                job_id=row["job_id"],
                task_id=row["task_id"],
                title=row["title"],
                status=JobStatus(row["status"]),
                result=row["result"] or "",
                reason=row["reason"] or "",
            )
            for row in self.db.all("children_told", job_id=job_id)
        ]

    def count_open_children(self, job_id: str) -> int:
        """How many children of a job have not ended."""
        row = self.db.one("open_children", job_id=job_id)
        return 0 if row is None else int(row["n"])

    def grants(self, job_id: str, task_id: str) -> Grants:
        """What RequestTool granted a job: its own settled requests, and the stored rules that apply to it."""
        requests = [
            ToolRequest(row["key"], row["decision"], row["scope"] or "once", row["movement"] or "")
            for row in self.db.all("tool_requests", job_id=job_id)
        ]
        drafts = [rule_from_json(row["rule"]) for row in self.db.all("rules_of_task", task_id=task_id)]
        return Grants(tuple(requests), tuple(draft for draft in drafts if draft is not None))

    def set_tools(self, lease: Lease, tools: bytes, events: list[Event], now: float) -> None:
        """Replace the bytes of a job's tools array, with the events that tell it. Raises ``LeaseLost``."""
        with self.db.tx():
            self._fenced(lease, now)
            self.db.run("set_tools", job_id=lease.job_id, fence=lease.fence, tools=tools)
            self._events(lease.job_id, now, events)

    def settled_request(self, request_id: str) -> SettledRequest | None:
        """A request by its id, settled or not."""
        row = self.db.one("request", request_id=request_id)
        return None if row is None else settled_request_of(row)

    def step_of_request(self, job_id: str, request_id: str) -> Step | None:
        """The call that spent an approval, or None."""
        row = self.db.one("step_of_request", job_id=job_id, request_id=request_id)
        return None if row is None else step_of(row)

    def record_made(self, lease: Lease, request_id: str, made: str, now: float) -> None:
        """Note what an approved request made, which spends it. Raises ``LeaseLost``."""
        with self.db.tx(durable=True):
            self._fenced(lease, now)
            self.db.run("record_made", request_id=request_id, made=made, now=now)
